"""The runner, the store and the plan on scripted engines and judges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from adjudge.errors import EngineError
from adjudge.exchange import Capability, Failure, Generate, Message, Reply, Request, ScoreLabels
from adjudge.judges.base import Judge, Steps, judgment
from adjudge.judges.ladder import LadderJudge
from adjudge.prompts.template import load_prompts
from adjudge.runs import runner as runner_module
from adjudge.runs.plan import plan_run, planned
from adjudge.runs.runner import Runner
from adjudge.runs.store import Store
from adjudge.schema import Item, Status
from tests.scripted import Answer, ScriptedEngine, make_item, words

LADDER = LadderJudge(prompts=load_prompts("ladder", "story"))


def plausible(request: Request) -> Answer:
    if isinstance(request, Generate):
        return f"rung {request.id[:8]}"
    share = int(request.id[:4], 16) / 0x10000
    return (share / 2, share / 2, 1 - share)


@dataclass(frozen=True, kw_only=True)
class Chatty(Judge):
    """Asks one question after another, `turns` times."""

    name: ClassVar[str] = "chatty"

    turns: int

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset({Capability.GENERATE})

    def judge(self, item: Item) -> Steps:
        said = []
        for turn in range(self.turns):
            message = Message(role="user", content=f"{item.id}: {turn}")
            (reply,) = yield [Generate(messages=(message,), max_tokens=1)]
            said.append(reply.completions[0].text)  # type: ignore[union-attr]
        return judgment(item, Status.OK, value=0.0, evidence={"said": said})


def test_requests_of_many_items_come_in_one_batch() -> None:
    engine = ScriptedEngine(words)
    items = [make_item(item_id=str(i)) for i in range(7)]
    events = list(Runner(Chatty(prompts=LADDER.prompts, turns=3), engine, Store()).run(items))
    assert engine.batches == [7, 7, 7]
    judged = [event.judgment for event in events if event.judgment]
    assert {each.item_id: each.evidence["said"] for each in judged} == {
        str(i): [f"{i}: {turn}" for turn in range(3)] for i in range(7)
    }


def test_no_more_items_are_in_flight_than_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "WINDOW", 4)
    taken = 0

    def items() -> Iterator[Item]:
        nonlocal taken
        for i in range(10):
            taken += 1
            yield make_item(item_id=str(i))

    judged = 0
    for event in Runner(
        Chatty(prompts=LADDER.prompts, turns=2), ScriptedEngine(words), Store()
    ).run(items()):
        judged += event.judgment is not None
        assert taken - judged <= 4
    assert judged == 10


def test_judges_without_questions_end_at_once() -> None:
    engine = ScriptedEngine(words)
    items = [make_item(item_id=str(i)) for i in range(1000)]
    events = list(Runner(Chatty(prompts=LADDER.prompts, turns=0), engine, Store()).run(items))
    assert [event.position for event in events] == list(range(1000))
    assert engine.batches == []


def test_a_second_run_on_the_same_store_asks_nothing() -> None:
    store, items = Store(), [make_item(f"r{i}", item_id=str(i)) for i in range(3)]
    first = ScriptedEngine(plausible)
    again = ScriptedEngine(plausible)
    one = [event.judgment for event in Runner(LADDER, first, store).run(items)]
    runner = Runner(LADDER, again, store)
    two = [event.judgment for event in runner.run(items)]
    assert len(first.asked) == 5 + 3 * 5
    assert again.asked == []
    assert runner.counters.calls == 0
    assert runner.counters.reused == 3 * 10
    assert [each for each in one if each] == [each for each in two if each]


def test_another_engine_has_other_replies() -> None:
    class Other(ScriptedEngine):
        @property
        def signature(self) -> Mapping[str, str]:
            return {"engine": "scripted", "model": "another"}

    store = Store()
    list(Runner(LADDER, ScriptedEngine(plausible), store).run([make_item()]))
    other = Other(plausible)
    list(Runner(LADDER, other, store).run([make_item()]))
    assert len(other.asked) == 10


@pytest.mark.parametrize("stop_after", range(1, 20))
def test_a_stopped_run_goes_on_without_asking_twice(stop_after: int, tmp_path: Path) -> None:
    items = [make_item(f"r{i}", item_id=str(i)) for i in range(3)]
    unbroken = Runner(LADDER, ScriptedEngine(plausible), Store()).run(items)
    expected = {event.position: event.judgment for event in unbroken if event.judgment}

    first = ScriptedEngine(plausible)
    with Store(tmp_path / "run.db") as store:
        runner = Runner(LADDER, first, store, stopped=lambda: len(first.asked) >= stop_after)
        list(runner.run(items))
        assert store.n_replies() == len(first.asked) == stop_after
    second = ScriptedEngine(plausible)
    with Store(tmp_path / "run.db") as store:
        resumed = list(Runner(LADDER, second, store).run(items))
    assert {event.position: event.judgment for event in resumed if event.judgment} == expected
    asked = [request.id for request in first.asked + second.asked]
    assert len(asked) == len(set(asked)) == 20


def test_failures_are_not_stored_and_are_asked_again() -> None:
    failing = ScriptedEngine(lambda request: Failure(request_id=request.id, message="no"))
    store = Store()
    judged = [
        e.judgment
        for e in Runner(Chatty(prompts=LADDER.prompts, turns=1), failing, store).run([make_item()])
    ]
    assert [each.status for each in judged if each] == [Status.ENGINE_ERROR]
    assert store.n_replies() == 0
    judged = [
        e.judgment
        for e in Runner(Chatty(prompts=LADDER.prompts, turns=1), ScriptedEngine(words), store).run(
            [make_item()]
        )
    ]
    assert [each.status for each in judged if each] == [Status.OK]


def test_a_failure_reaches_every_item_that_shares_the_request() -> None:
    def answer(request: Request) -> Answer | Reply:
        if isinstance(request, Generate):
            return Failure(request_id=request.id, message="no")
        return plausible(request)

    items = [make_item(f"r{i}", item_id=str(i)) for i in range(4)]
    runner = Runner(LADDER, ScriptedEngine(answer), Store())
    judged = [event.judgment for event in runner.run(items) if event.judgment]
    assert [each.status for each in judged] == [Status.ENGINE_ERROR] * 4
    assert runner.counters.failed == 4


def test_an_engine_that_forgets_a_request_is_an_error() -> None:
    class Forgetful(ScriptedEngine):
        def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
            yield from super().run(requests[1:])

    with pytest.raises(EngineError, match="left 1 of its requests without a reply"):
        list(Runner(LADDER, Forgetful(plausible), Store()).run([make_item()]))


def test_the_plan_counts_what_a_run_then_does() -> None:
    items = [
        make_item(f"r{i}", item_id=f"{source}/{i}", source=source)
        for source in ("one", "two")
        for i in range(3)
    ]
    engine, store = ScriptedEngine(plausible), Store()
    plan = plan_run(LADDER, items, engine, store)
    assert (plan.n_items, plan.n_stored) == (6, 0)
    assert (plan.n_generations, plan.n_label_scorings) == (10, 30)
    assert plan.written_tokens == 10 * 120
    asked = [each.request for each in planned(LADDER, items, engine, store)]
    n_bytes = sum(len(message.content.encode()) for each in asked for message in each.messages)
    assert plan.by_bytes, "this engine does not tell its tokens"
    assert plan.total_tokens == pytest.approx(n_bytes / 4, rel=0.01)
    assert plan.unique_tokens < 0.7 * plan.total_tokens
    assert plan.estimated
    assert engine.asked == []
    list(Runner(LADDER, engine, store).run(items[:3]))
    plan = plan_run(LADDER, items, engine, store)
    assert (plan.n_stored, plan.n_generations, plan.n_label_scorings) == (20, 5, 15)
    list(Runner(LADDER, engine, store).run(items))
    plan = plan_run(LADDER, items, engine, store)
    assert (plan.n_stored, plan.n_calls, plan.estimated) == (40, 0, False)


def test_the_plan_with_stored_ladders_names_the_very_requests_of_the_run() -> None:
    engine, store = ScriptedEngine(plausible), Store()
    list(Runner(LADDER, engine, store).run([make_item("first")]))
    new = make_item("second", item_id="2")
    to_ask = [each for each in planned(LADDER, [new], engine, store) if not each.stored]
    assert not any(each.estimated for each in to_ask)
    before = len(engine.asked)
    list(Runner(LADDER, engine, store).run([new]))
    assert {each.request.id for each in to_ask} == {each.id for each in engine.asked[before:]}
    assert all(isinstance(each.request, ScoreLabels) for each in to_ask)
