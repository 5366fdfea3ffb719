"""The Python API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjudge
from adjudge.api import judge_method
from adjudge.exchange import Capability, Generate, Request
from adjudge.schema import Status
from tests.scripted import CRITERION, ScriptedEngine


def answer(request: Request) -> str | tuple[float, float, float]:
    if isinstance(request, Generate):
        return f"rung {request.id[:8]}"
    return (0.8, 0.1, 0.1) if "good" in request.messages[-1].content else (0.1, 0.8, 0.1)


def test_scores_come_in_the_order_of_the_responses() -> None:
    engine = ScriptedEngine(answer)
    judge = adjudge.judge("ladder", criterion="coherence", task="summarization", engine=engine)
    scores = judge.score(sources=["a", "a", "b"], responses=["bad", "good", ""])
    assert scores.values[:2] == pytest.approx([3 - 2 * 0.7, 3 + 2 * 0.7])
    assert np.isnan(scores.values[2])
    assert [each.status for each in scores.judgments][2] is Status.EMPTY_RESPONSE
    assert scores.counters.calls == 5 + 2 * 5
    assert str(scores.signature).startswith("judge:ladder|rungs:5|")


def test_it_works_inside_a_running_event_loop() -> None:
    async def notebook() -> adjudge.Scores:
        judge = adjudge.judge(
            "ladder", criterion="coherence", task="story", engine=ScriptedEngine(answer)
        )
        return judge.score(sources=["a"], responses=["good"])

    assert asyncio.run(notebook()).values == pytest.approx([4.4])


def test_several_criteria_are_judged_in_one_run() -> None:
    judge = adjudge.judge(
        "ladder",
        criterion=["coherence", CRITERION.__class__(name="mine", title="Mine", description="so")],
        task="story",
        engine=ScriptedEngine(answer),
    )
    scores = judge.score(sources=["a", "b"], responses=["good", "bad"])
    assert [(each.item_id, each.criterion) for each in scores.judgments] == [
        ("1", "coherence"), ("1", "mine"), ("2", "coherence"), ("2", "mine"),
    ]  # fmt: skip


def test_a_store_keeps_replies_between_calls(tmp_path: Path) -> None:
    engine = ScriptedEngine(answer)
    judge = adjudge.judge("ladder", criterion="coherence", task="story", engine=engine)
    for _ in range(2):
        judge.score(sources=["a"], responses=["good"], store=tmp_path / "s.db")
    assert len(engine.asked) == 10
    with adjudge.Store(tmp_path / "s.db") as store:
        judge.score(sources=["a"], responses=["bad"], systems=["x"], store=store)
        assert [run.n_judged for run in store.runs()] == [1, 1]
    assert len(engine.asked) == 15


def test_the_signature_changes_with_what_changes_the_numbers() -> None:
    engine = ScriptedEngine(answer)

    def signature(name: str = "ladder", **options: object) -> str:
        given = {"criterion": "coherence", "task": "story", **options}
        return str(adjudge.judge(name, engine=engine, **given).signature)  # type: ignore[arg-type]

    own = CRITERION.__class__(name="coherence", title="Coherence", description="another meaning")
    different = [
        signature(),
        signature("direct"),
        signature(seed=1),
        signature(task="dialogue"),
        signature(criterion="surprise"),
        signature(criterion=own),
        signature(rungs=9),
        signature(temperature=1.0),
        signature(top_p=1.0),
        signature(min_coverage=0.5),
    ]
    assert len(set(different)) == len(different)
    assert signature() == signature()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": ["coherence", "coherence"]}, "'coherence' is given more than once"),
        ({"task": "poetry"}, "unknown task 'poetry'"),
        ({"rungs": "many"}, "option of ladder 'rungs': Input should be a valid integer"),
        ({"wrungs": 5}, "unknown option of ladder 'wrungs': did you mean 'rungs'"),
    ],
)
def test_what_is_wrong_is_found_when_the_judge_is_built(
    options: dict[str, object], message: str
) -> None:
    given = {"criterion": "coherence", "task": "story", **options}
    with pytest.raises(adjudge.ConfigError, match=message):
        adjudge.judge("ladder", engine=ScriptedEngine(answer), **given)  # type: ignore[arg-type]


def test_a_judge_without_a_criterion_judges_rows_with_rubrics_alone() -> None:
    judge = adjudge.judge("ladder", task="story", engine=ScriptedEngine(answer))
    with pytest.raises(adjudge.ConfigError, match="name a criterion: not every row has a rubric"):
        judge.score(sources=["a"], responses=["b"])


def test_an_engine_that_cannot_serve_the_judge_is_refused_with_those_that_can() -> None:
    engine = ScriptedEngine(answer, capabilities=frozenset({Capability.GENERATE}))
    with pytest.raises(adjudge.ConfigError, match=r"needs score_labels, .* do: hf, llama"):
        adjudge.judge("ladder", criterion="coherence", task="story", engine=engine)
    judge = adjudge.judge(
        "direct", criterion="coherence", task="story", engine=engine, mode="sampled"
    )
    assert judge.method.needs == {Capability.GENERATE}


def test_lengths_must_agree() -> None:
    judge = adjudge.judge(
        "ladder", criterion="coherence", task="story", engine=ScriptedEngine(answer)
    )
    with pytest.raises(adjudge.ConfigError, match=r"got 2 sources, 1 responses$"):
        judge.score(sources=["a", "b"], responses=["c"])


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("smollm", "unknown model 'smollm': did you mean 'smollm2-135m'"),
        ("lama:smollm2-135m", "unknown engine 'lama': did you mean 'llama'"),
        ("./a:b/model.gguf", "there is no model file"),
        ("C:/models/model.gguf", "there is no model file"),
        ("replay:none.jsonl", "there is no file 'none.jsonl' with recorded replies"),
    ],
)
def test_engine_references(reference: str, message: str) -> None:
    with pytest.raises(adjudge.ConfigError, match=message):
        adjudge.load_engine(reference)


def test_items_of_one_source_are_judged_together_whatever_the_order_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("adjudge.runs.runner.WINDOW", 4)
    engine = ScriptedEngine(answer)
    judge = adjudge.judge("ladder", criterion="coherence", task="story", engine=engine)
    sources = ["a", "b", "c"] * 4
    responses = [f"good {i}" for i in range(12)]
    scores = judge.score(sources=sources, responses=responses)
    assert [each.item_id for each in scores.judgments] == [str(i) for i in range(1, 13)]
    assert [each.source_id for each in scores.judgments[:3]] == ["source-1", "source-2", "source-3"]
    asked = [request.messages[-1].content for request in engine.asked]
    seen = [text.partition("<idea>\n")[2][0] for text in asked]
    assert "".join(sorted(seen)) == "".join(seen)


def test_nine_rungs_contain_the_ladder_of_five() -> None:
    engine = ScriptedEngine(answer)
    rungs = []
    for n in (5, 9):
        judge = adjudge.judge("ladder", criterion="coherence", task="story", engine=engine, rungs=n)
        (judgment,) = judge.score(sources=["a"], responses=["good"]).judgments
        rungs.append(judgment.evidence["rungs"])
    assert rungs[0] == rungs[1][::2]


@pytest.mark.parametrize(
    ("sources", "responses", "message"),
    [
        ("one", ["a"], "sources is one text; give a list"),
        (["one"], "a", "responses is one text; give a list"),
        (["one"], [5], "response 1 must be text, not 5"),
        (["one", None], ["a", "b"], "source 2 must be text, not None"),
        ([" "], ["a"], "source 1 is empty"),
        (["one"], ["\ud800"], "response 1 holds half of a surrogate pair"),
    ],
)
def test_what_is_no_text_is_refused(sources: Any, responses: Any, message: str) -> None:
    judge = adjudge.judge(
        "ladder", criterion="coherence", task="story", engine=ScriptedEngine(answer)
    )
    with pytest.raises(adjudge.ConfigError, match=message):
        judge.score(sources=sources, responses=responses)


def test_no_response_is_an_empty_one_and_rows_are_those_of_files() -> None:
    judge = adjudge.judge(
        "ladder", criterion="coherence", task="story", engine=ScriptedEngine(answer)
    )
    scores = judge.score(sources=["a", "a"], responses=[None, "good"])
    rows = scores.rows()
    assert [row["status"] for row in rows] == ["empty_response", "ok"]
    assert rows[1]["score"] == pytest.approx(4.4)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ladder", {"min_coverage": float("nan")}, "min_coverage must be from 0 to 1, not nan"),
        ("ladder", {"min_coverage": 2}, "min_coverage must be from 0 to 1"),
        ("ladder", {"temperature": -1.0}, "temperature must be from 0 to 10"),
        ("ladder", {"temperature": float("inf")}, "temperature must be from 0 to 10"),
        ("ladder", {"top_p": 0.0}, "top_p must be from 0.001 to 1"),
        ("ladder", {"rungs": 1048577}, "rungs must be from 2 to 129"),
        ("direct", {"samples": 10**9}, "samples must be from 1 to 10000"),
        ("direct", {"high": 10**9}, "high must be from -1000 to 1000"),
        ("ladder", {"name": "x"}, "unknown option of ladder 'name'"),
    ],
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(adjudge.ConfigError, match=message):
        judge_method(name, task="story", options=options)


def test_reserved_names_are_no_options() -> None:
    for option in ("prompts", "seed", "task"):
        with pytest.raises(adjudge.ConfigError, match=f"unknown option of ladder '{option}'"):
            judge_method("ladder", task="story", options={option: "x"})


def test_close_options_have_different_signatures() -> None:
    one = judge_method("ladder", task="story", options={"temperature": 2.0})
    two = judge_method("ladder", task="story", options={"temperature": 2.000004})
    assert one.signature != two.signature


def test_single_responses_are_no_lists() -> None:
    judge = adjudge.judge(
        "pairs", criterion="coherence", task="story", engine=ScriptedEngine(answer)
    )
    with pytest.raises(adjudge.ConfigError, match="make them one row with a list `responses`"):
        judge.score(sources=["a", "a"], responses=["b", "c"])
    alone = judge.score(sources=["a", "other"], responses=["b", "c"])
    assert [each.ranks for each in alone.judgments] == [(1.0,), (1.0,)]
