"""Published numbers on pairs and repeated scores, from the files they were made of.

The data are not part of the project: these tests run where ADJUDGE_DATA names their folder.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adjudge.stats.agreement import cohen_kappa, krippendorff_alpha
from adjudge.stats.consistency import order_flip_rate, run_to_run_alpha
from adjudge.stats.pairwise import pairwise_accuracy

SIDE = {"1": 1.0, "2": -1.0}
#: Stored runs of LLMBar: subset, judge.
RUNS = [
    (subset, judge)
    for subset in ("Natural", "Adversarial/Neighbor")
    for judge in (
        "ChatGPT/Vanilla",
        "GPT-4/CoT",
        "GPT-4/Vanilla",
        "GPT-4/Vanilla_NoRules",
        "LLaMA2/Vanilla",
    )
]


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def share(text: str) -> tuple[int, int]:
    """Read "95 / 100 = 95.0%"."""
    right, n = text.partition("=")[0].split("/")
    return int(right), int(n)


@pytest.mark.parametrize(("subset", "judge"), RUNS)
def test_llmbar_runs_equal_their_stored_statistics(
    adjudge_data: Path, subset: str, judge: str
) -> None:
    folder = adjudge_data / "llmbar/LLMBar" / subset / "evaluators" / judge
    rows, stored = read(folder / "result.json"), read(folder / "statistics.json")
    gold = np.array([SIDE[str(row["label"])] for row in rows])
    # The stored winner of the swapped run is already that of the original order.
    first, second = (
        np.array([SIDE.get(row["results"][0][f"swap = {swap}"]["winner"], np.nan) for row in rows])
        for swap in (False, True)
    )
    n = len(rows)
    for verdict, key in ((first, "correct_False"), (second, "correct_True")):
        accuracy = pairwise_accuracy(verdict, gold, convention="plain")
        assert (round(accuracy.value * n), accuracy.kept) == share(stored[key])
    mean = pairwise_accuracy(first, gold, convention="llmbar", swapped=second)
    assert mean.value * 100 == pytest.approx(float(stored["correct_average"].rstrip("%")))
    assert (round(mean.consistency * n), mean.total) == share(stored["equal"])
    both = pairwise_accuracy(first, gold, convention="autoj", swapped=second)
    assert (round(both.value * n), both.kept) == share(stored["correct_both"])
    flips = order_flip_rate(first, second)
    assert (flips.kept - flips.n_flips, flips.total) == share(stored["equal"])
    assert cohen_kappa(first, second).value == pytest.approx(stored["kappa_agreement"], abs=1e-12)
    # The stored kappas against gold call a verdict for the second response 0 and gold's 2.
    for verdict, key in ((first, "kappa_False"), (second, "kappa_True")):
        kappa = cohen_kappa(np.where(verdict == 1, 1, 0), np.where(gold == 1, 1, 2))
        assert kappa.value == pytest.approx(stored[key], abs=1e-12)


@pytest.mark.parametrize(
    ("subset", "accuracy", "agreement"),
    [("Natural", 95.5, 95.0), ("Adversarial/Neighbor", 78.7, 93.3)],
)
def test_llmbar_gpt4_equals_its_published_table(
    adjudge_data: Path, subset: str, accuracy: float, agreement: float
) -> None:
    # LLMBar, arXiv 2310.07641: GPT-4 with the Vanilla prompt
    rows = read(
        adjudge_data / "llmbar/LLMBar" / subset / "evaluators/GPT-4/Vanilla" / "result.json"
    )
    gold = [SIDE[str(row["label"])] for row in rows]
    runs = [row["results"][0] for row in rows]
    result = pairwise_accuracy(
        [SIDE[run["swap = False"]["winner"]] for run in runs],
        gold,
        convention="llmbar",
        swapped=[SIDE[run["swap = True"]["winner"]] for run in runs],
    )
    assert round(result.value * 100, 1) == accuracy
    assert round(result.consistency * 100, 1) == agreement
    assert (result.n_gold_ties, result.n_unreadable) == (0, 0)


def test_auto_j_in_one_order_agrees_with_gold_on_835_of_1392(adjudge_data: Path) -> None:
    side = {0: 1.0, 1: -1.0, 2: 0.0}
    folder = adjudge_data / "prometheus"
    gold = [side[row["label"]] for row in read_lines(folder / "p2_autoj_pairwise.json")]
    said = [
        side.get(row["output"], np.nan)
        for row in read_lines(folder / "pairwise_example_output.jsonl")
    ]
    assert Counter(gold) == {1: 520, -1: 499, 0: 373}
    result = pairwise_accuracy(said, gold, convention="plain")
    assert (round(result.value * 1392), result.kept) == (835, 1392)
    assert round(result.value * 100, 2) == 59.99
    assert (result.n_gold_ties, result.n_verdict_ties, result.n_unreadable) == (373, 57, 0)
    # What the judge got right on ties is lost where a tie of gold is always wrong.
    strict = pairwise_accuracy(said, gold, convention="prometheus", ties=False)
    counted = pairwise_accuracy(said, gold, convention="prometheus")
    assert strict.kept == 1019
    assert counted.value == pytest.approx(strict.value * 1019 / 1392)
    assert counted.value < result.value


def test_gpt4_scores_of_vicuna_correlate_as_known(adjudge_data: Path) -> None:
    rows = read(adjudge_data / "prometheus/p2_vicuna_eval.json")
    scores = np.array([row["gpt4_score"] for row in rows], dtype=float).T
    correlations = [float(np.corrcoef(a, b)[0, 1]) for a, b in combinations(scores, 2)]
    assert correlations == pytest.approx([0.799, 0.804, 0.822], abs=5e-4)
    # krippendorff 0.9.0: alpha(scores, level_of_measurement=...)
    assert run_to_run_alpha(scores).value == pytest.approx(0.7234421508159365, abs=1e-12)
    for level, expected in (("nominal", 0.5821574614739022), ("interval", 0.8075435594275047)):
        alpha = krippendorff_alpha(scores, level=level)  # type: ignore[arg-type]
        assert alpha.value == pytest.approx(expected, abs=1e-12)
        assert (alpha.kept, alpha.total) == (320, 320)


def test_fair_eval_has_its_human_verdicts(adjudge_data: Path) -> None:
    text = (adjudge_data / "faireval/review/review_gpt35_vicuna-13b_human.txt").read_text("utf-8")
    side = {"CHATGPT": 1.0, "VICUNA13B": -1.0, "TIE": 0.0}
    gold = [side[line] for line in text.split()]
    assert Counter(gold) == {1: 41, -1: 25, 0: 14}
    always_first = pairwise_accuracy(np.ones(80), gold, convention="plain")
    assert always_first.value == 41 / 80
    assert always_first.n_gold_ties == 14
