"""Published data: figures that were computed independently, with the tolerance of their digits."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from adjudge.stats.correlation import Coefficient, Constant, Level, correlation

Floats = npt.NDArray[np.float64]
Axes = dict[str, Floats]


@pytest.fixture(scope="module")
def summeval(adjudge_data: Path) -> Axes:
    return bartscore(adjudge_data / "summeval" / "summeval_bartscore.json")


@pytest.fixture(scope="module")
def newsroom(adjudge_data: Path) -> Axes:
    return bartscore(adjudge_data / "newsroom" / "newsroom_bartscore.json")


def bartscore(path: Path) -> Axes:
    """Return gold matrices, systems x sources, by criterion."""
    sources = json.loads(path.read_text("utf-8")).values()
    systems = sorted({system for source in sources for system in source["sys_summs"]})
    scores = [[source["sys_summs"][name]["scores"] for source in sources] for name in systems]
    return {
        criterion: np.array([[cell[criterion] for cell in row] for row in scores])
        for criterion in scores[0][0]
    }


@pytest.mark.parametrize(
    ("criterion", "n_constant"),
    [("consistency", 4), ("fluency", 2), ("coherence", 0), ("relevance", 0)],
)
def test_constant_groups_of_summeval(summeval: Axes, criterion: str, n_constant: int) -> None:
    gold = summeval[criterion]
    assert gold.shape == (16, 100)
    judge = np.random.default_rng(0).normal(size=gold.shape)
    values = {}
    for constant in get_args(Constant):
        found = correlation(judge, gold, constant=constant)
        values[constant] = found.value
        kept = 100 - n_constant if constant == "skip" else 100
        assert found[1:] == (kept, 100)
    # The same kept groups under every policy, so that the policies differ by arithmetic alone.
    total = values["skip"] * (100 - n_constant)
    assert values["zero"] == pytest.approx(total / 100, abs=1e-12)
    assert values["one"] == pytest.approx((total + n_constant) / 100, abs=1e-12)


@pytest.mark.parametrize(
    ("level", "figures"),
    [
        ("by_source", [0.198, 0.393, 0.786, 0.332, 0.279, 0.465]),
        ("sample", [0.359, 0.299, 0.591, 0.438, 0.290, 0.339]),
    ],
)
def test_axes_of_summeval(summeval: Axes, level: Level, figures: list[float]) -> None:
    names = ["coherence", "fluency", "consistency", "relevance"]
    assert axes(summeval, names, level) == pytest.approx(figures, abs=5.1e-4)


@pytest.mark.parametrize(
    ("level", "figures"),
    [
        ("by_source", [0.789, 0.748, 0.560, 0.671, 0.548, 0.635]),
        ("sample", [0.809, 0.770, 0.664, 0.694, 0.645, 0.778]),
    ],
)
def test_axes_of_newsroom(newsroom: Axes, level: Level, figures: list[float]) -> None:
    names = ["coherence", "fluency", "informativeness", "relevance"]
    assert axes(newsroom, names, level) == pytest.approx(figures, abs=5.1e-4)


def axes(gold: Axes, names: list[str], level: Level) -> list[float]:
    return [
        correlation(gold[one], gold[other], level=level).value
        for place, one in enumerate(names)
        for other in names[place + 1 :]
    ]


@pytest.fixture(scope="module")
def topical_chat(adjudge_data: Path) -> dict[str, tuple[Floats, Floats]]:
    """UniEval's scores and gold, systems x contexts, by criterion."""
    path = adjudge_data / "topicalchat" / "unieval_topical_chat_result.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    contexts = list(dict.fromkeys(row["source"] for row in rows))
    systems = list(dict.fromkeys(row["system_id"] for row in rows))
    cells = {(row["system_id"], row["source"]): row for row in rows}
    assert len(cells) == len(rows) == len(systems) * len(contexts) == 360

    def scores(field: str, criterion: str) -> Floats:
        return np.array([[cells[s, c][field][criterion] for c in contexts] for s in systems])

    return {
        criterion: (scores("predict_scores", criterion), scores("scores", criterion))
        for criterion in rows[0]["scores"]
    }


@pytest.mark.parametrize(
    ("criterion", "pearson", "spearman"),
    [
        ("naturalness", 0.444, 0.514),
        ("coherence", 0.595, 0.613),
        ("engagingness", 0.557, 0.605),
        ("groundedness", 0.536, 0.575),
        ("understandability", 0.380, 0.468),
        ("overall", 0.633, 0.663),
    ],
)
def test_unieval_pooled(
    topical_chat: dict[str, tuple[Floats, Floats]],
    criterion: str,
    pearson: float,
    spearman: float,
) -> None:
    expected: dict[Coefficient, float] = {"pearson": pearson, "spearman": spearman}
    for coefficient, value in expected.items():
        found = correlation(*topical_chat[criterion], coefficient=coefficient, level="pooled")
        assert found.value == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize(
    ("criterion", "constant", "value", "kept"),
    [
        ("naturalness", "skip", 0.515, None),
        ("coherence", "skip", 0.560, None),
        ("engagingness", "skip", 0.575, None),
        ("groundedness", "skip", 0.614, 54),
        ("groundedness", "zero", 0.552, 60),
    ],
)
def test_unieval_per_context(
    topical_chat: dict[str, tuple[Floats, Floats]],
    criterion: str,
    constant: Constant,
    value: float,
    kept: int | None,
) -> None:
    found = correlation(*topical_chat[criterion], constant=constant)
    assert found.value == pytest.approx(value, abs=1e-3)
    assert found.total == 60
    assert kept is None or found.kept == kept


@pytest.mark.parametrize(
    ("criterion", "column", "value"),
    [
        ("relevance", "RE", 0.383),
        ("coherence", "CH", 0.454),
        ("empathy", "EM", 0.439),
        ("surprise", "SU", 0.300),
        ("engagement", "EG", 0.444),
        ("complexity", "CX", 0.496),
    ],
)
def test_beluga_on_hanna(adjudge_data: Path, criterion: str, column: str, value: float) -> None:
    lines = (adjudge_data / "hanna" / "hanna_stories.jsonl").read_text("utf-8").splitlines()
    stories = [json.loads(line) for line in lines]
    with (adjudge_data / "hanna" / "hanna_llm_judges.csv").open(newline="") as file:
        judged = {
            int(row["story_id"]): float(row[f"Beluga-13B_p1_{column}"] or "nan")
            for row in csv.DictReader(file)
        }
    systems = list(dict.fromkeys(story["system"] for story in stories))
    gold = np.full((len(systems), 96), np.nan)
    prediction = gold.copy()
    for story in stories:
        cell = systems.index(story["system"]), story["prompt_id"]
        gold[cell] = np.mean(story["ratings"][criterion])
        prediction[cell] = judged[story["story_id"]]
    assert np.isfinite(gold).sum() == len(stories) == 1056
    found = correlation(prediction, gold, level="pooled")
    assert found.value == pytest.approx(value, abs=1e-3)


def test_the_worked_example_of_the_documentation(summeval: Axes, adjudge_data: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text("utf-8")
    path = adjudge_data / "summeval" / "summeval_bartscore.json"
    sources = json.loads(path.read_text("utf-8")).values()
    systems = sorted({system for source in sources for system in source["sys_summs"]})
    lengths = np.array(
        [[len(source["sys_summs"][name]["sys_summ"].split()) for source in sources]
         for name in systems], dtype=float,
    )  # fmt: skip
    gold = summeval["consistency"]
    assert f"{100 * np.mean(np.isclose(gold, 5)):.1f} %" == "81.6 %"
    for name, stand_in in (
        ("length in words", lengths),
        ("relevance, rated by people", summeval["relevance"]),
    ):
        groups = [
            stats.spearmanr(stand_in[:, i], gold[:, i]).statistic
            for i in range(100)
            if np.ptp(gold[:, i]) > 1e-9
        ]
        skip, zero = np.mean(groups), np.sum(groups) / 100
        one = (np.sum(groups) + 4) / 100
        assert f"| {name} | {skip:.3f} | {zero:.3f} | {one:.3f} |" in text
        levels = [correlation(stand_in, gold, level=level).value for level in get_args(Level)]
        assert f"| {name} | {' | '.join(f'{value:.3f}' for value in levels)} |" in text
        assert levels[0] == pytest.approx(skip)
        pooled = stats.spearmanr(stand_in.ravel(), gold.round(9).ravel()).statistic
        assert levels[2] == pytest.approx(pooled, abs=1e-3)
