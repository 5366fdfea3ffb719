"""Sorts of lists against those of the original code of PairS, on the same probabilities."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adjudge.exchange import Request
from adjudge.judges.base import derived_seed
from adjudge.judges.pairs import PairsJudge
from adjudge.prompts.template import load_prompts
from adjudge.runs.runner import Runner
from adjudge.runs.store import Store
from adjudge.schema import Status
from tests.scripted import Answer, ScriptedEngine, make_item, words

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("pairs.json").read_text("utf-8"))
RUNS = [(case["matrix"], run) for case in GOLDEN["cases"] for run in case["runs"]]


def named(value: Any) -> str:
    return f"{len(value)}" if isinstance(value, list) else "-".join(map(str, [*value.values()][:4]))


def test_every_recorded_run_is_here() -> None:
    assert [case["n"] for case in GOLDEN["cases"]] == [4, 4, 5, 5, 7, 7, 16, 16]
    assert len(RUNS) == 48


@pytest.mark.parametrize(("matrix", "run"), RUNS, ids=named)
def test_rankings_and_calls_are_those_of_the_original(
    matrix: list[list[float]], run: dict[str, Any]
) -> None:
    n = len(matrix)
    item = replace(
        make_item(), responses=tuple(f"text {i}" for i in range(n)), systems=tuple("m" * n)
    )
    # The judge draws the order that a sort begins with: the k-th of it plays the candidate k.
    drawn = sorted(item.responses, key=lambda text: derived_seed(0, item.source.hash, text))

    def answer(request: Request) -> Answer:
        first, second = map(drawn.index, re.findall(r"text \d+", words(request)))
        return matrix[first][second], 0, 1 - matrix[first][second], 0

    options = {
        name: run[name] for name in ("method", "beam_size", "gap", "calibrate") if name in run
    }
    judge = PairsJudge(prompts=load_prompts("pairs", "summarization"), **options)
    engine = ScriptedEngine(answer)
    (made,) = (
        each.judgment for each in Runner(judge, engine, Store()).run([item]) if each.judgment
    )
    assert made.status is Status.OK
    worst_first = [item.responses[i - 1] for i in reversed(made.evidence["ranking"])]
    assert [drawn.index(text) for text in worst_first] == run["worst_first"]
    assert made.evidence["comparisons"] == run["comparisons"]
    assert made.n_calls == len(engine.asked) == run["model_calls"]
