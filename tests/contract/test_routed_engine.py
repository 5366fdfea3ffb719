"""Two engines as one: one writes, the other predicts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from adjudge.engines.base import Engine
from adjudge.engines.routed import RoutedEngine
from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Generate, Message, Request, ScoreLabels
from adjudge.judges.ladder import LadderJudge
from adjudge.judges.ladder_work import LadderBuild
from adjudge.prompts.template import load_prompts
from adjudge.runs.plan import plan_run, planned
from adjudge.runs.runner import Runner
from adjudge.runs.start import check_needs
from adjudge.runs.store import Store
from adjudge.schema import Judgment, Status
from tests.scripted import Answer, ScriptedEngine, make_item

PROMPTS = load_prompts("ladder", "story")
JUDGE = LadderJudge(prompts=PROMPTS)
ITEMS = [make_item(f"response {i}", item_id=str(i)) for i in range(3)]
MESSAGES = (Message(role="user", content="?"),)
WRITE = Generate(messages=MESSAGES, max_tokens=7)
SCORE = ScoreLabels(messages=MESSAGES, labels=("Yes", "No"))


class Named(ScriptedEngine):
    """An engine with a name, which signs what it writes, and with some tokens per prompt."""

    def __init__(
        self,
        name: str,
        *,
        n_tokens: int | None = None,
        capabilities: frozenset[Capability] = frozenset(Capability),
    ) -> None:
        super().__init__(self._said, capabilities=capabilities)
        self._name, self._n_tokens = name, n_tokens
        self.closed = 0

    def _said(self, request: Request) -> Answer:
        if isinstance(request, Generate):
            return f"{self._name} wrote {request.id[:8]}"
        return (0.5, 0.25, 0.25)

    @property
    def signature(self) -> Mapping[str, str]:
        return {"engine": "scripted", "model": self._name}

    def prompt_tokens(self, request: Request) -> list[int] | None:
        return None if self._n_tokens is None else list(range(self._n_tokens))

    def check(self, request: Request) -> None:
        super().check(request)
        if len(request.messages[-1].content) > 100_000:
            raise ConfigError(f"too long for {self._name}")

    def close(self) -> None:
        self.closed += 1


def routed(writer: Engine | None = None, predictor: Engine | None = None) -> RoutedEngine:
    return RoutedEngine(
        writer=writer or Named("poet"),
        predictor=predictor or Named("critic"),
    )


def judged(engine: Engine, store: Store, judge: LadderJudge = JUDGE) -> list[Judgment]:
    events = Runner(judge, engine, store).run(ITEMS)
    made = {event.position: event.judgment for event in events if event.judgment is not None}
    return [made[position] for position in range(len(ITEMS))]


def kinds(engine: ScriptedEngine) -> tuple[int, int]:
    """Return how many texts and how many label scores an engine was asked for."""
    written = sum(isinstance(request, Generate) for request in engine.asked)
    return written, len(engine.asked) - written


def test_one_writes_and_the_other_predicts() -> None:
    poet, critic = Named("poet"), Named("critic")
    judgments = judged(routed(poet, critic), Store())
    assert kinds(poet) == (5, 0)
    assert kinds(critic) == (0, 15)
    assert [each.status for each in judgments] == [Status.OK] * 3
    assert all(rung.startswith("poet wrote ") for rung in judgments[0].evidence["rungs"])


def test_a_mixed_batch_is_dealt_out_and_every_request_is_answered_once() -> None:
    poet, critic = Named("poet"), Named("critic")
    other = Generate(messages=MESSAGES, max_tokens=8)
    replies = list(routed(poet, critic).run([SCORE, WRITE, other]))
    assert {reply.request_id for reply in replies} == {SCORE.id, WRITE.id, other.id}
    assert len(replies) == 3
    assert poet.asked == [WRITE, other]
    assert critic.asked == [SCORE]
    assert (poet.batches, critic.batches) == ([2], [1])


def test_an_engine_without_requests_is_not_run() -> None:
    poet, critic = Named("poet"), Named("critic")
    list(routed(poet, critic).run([SCORE]))
    list(routed(poet, critic).run([]))
    assert (poet.batches, critic.batches) == ([], [1])


def test_the_signature_names_both() -> None:
    assert routed().signature == {
        "engine": "scripted",
        "model": "critic",
        "ladder_engine": "scripted",
        "ladder_model": "poet",
    }


def test_replies_are_stored_under_the_engine_that_gave_them() -> None:
    engine, store = routed(), Store()
    assert engine.signature_of(WRITE) == {"engine": "scripted", "model": "poet"}
    assert engine.signature_of(SCORE) == {"engine": "scripted", "model": "critic"}
    judged(engine, store)
    written = [Named("poet"), Named("critic")]
    for each in written:
        list(Runner(LadderBuild(prompts=PROMPTS), each, store).run(ITEMS[:1]))
    assert [kinds(each) for each in written] == [(0, 0), (5, 0)]


def test_a_ladder_written_alone_is_reused_in_a_run_of_two() -> None:
    store = Store()
    alone = judged(Named("poet"), store)
    poet, critic = Named("poet"), Named("critic")
    together = judged(routed(poet, critic), store)
    assert kinds(poet) == (0, 0)
    assert kinds(critic) == (0, 15)
    assert together[0].evidence["rungs"] == alone[0].evidence["rungs"]


def test_a_ladder_written_in_a_run_of_two_is_reused_alone_and_by_another_predictor() -> None:
    store = Store()
    judged(routed(), store)
    alone = Named("poet")
    judged(alone, store)
    assert kinds(alone) == (0, 15)
    poet, other = Named("poet"), Named("another critic")
    judged(routed(poet, other), store)
    assert (kinds(poet), kinds(other)) == ((0, 0), (0, 15))
    poet, critic = Named("poet"), Named("critic")
    judged(routed(poet, critic), store)
    assert (kinds(poet), kinds(critic)) == ((0, 0), (0, 0))


def test_another_writer_writes_its_own_ladders() -> None:
    store = Store()
    judged(routed(), store)
    other, critic = Named("another poet"), Named("critic")
    judged(routed(other, critic), store)
    assert (kinds(other), kinds(critic)) == ((5, 0), (0, 15))


def test_the_plan_counts_what_either_engine_is_yet_to_do() -> None:
    store = Store()
    engine = routed(Named("poet", n_tokens=10), Named("critic", n_tokens=100))
    plan = plan_run(JUDGE, ITEMS, engine, store)
    assert (plan.n_stored, plan.n_generations, plan.n_label_scorings) == (0, 5, 15)
    assert plan.total_tokens == 5 * 10 + 15 * 100
    judged(Named("poet"), store)
    plan = plan_run(JUDGE, ITEMS, engine, store)
    assert (plan.n_stored, plan.n_generations, plan.n_label_scorings) == (5, 0, 15)
    assert plan.total_tokens == 15 * 100
    judged(engine, store)
    assert plan_run(JUDGE, ITEMS, engine, store).n_calls == 0


def test_without_the_tokens_of_one_engine_the_plan_takes_bytes_for_its_prompts() -> None:
    engine = routed(Named("poet"), Named("critic", n_tokens=100))
    assert engine.prompt_tokens(WRITE) is None
    assert engine.prompt_tokens(SCORE) == list(range(100))
    plan = plan_run(JUDGE, ITEMS, engine, Store())
    asked = [each.request for each in planned(JUDGE, ITEMS, engine, Store())]
    to_write = [each for each in asked if each.capability is Capability.GENERATE]
    n_bytes = sum(len(message.content.encode()) for each in to_write for message in each.messages)
    assert len(to_write) == 5
    assert plan.total_tokens == pytest.approx(15 * 100 + n_bytes / 4, rel=0.01)
    assert plan.by_bytes


def test_a_writer_that_cannot_write_is_refused() -> None:
    silent = Named("silent", capabilities=frozenset({Capability.SCORE_LABELS}))
    with pytest.raises(ConfigError, match="the model that is to write cannot"):
        routed(writer=silent)


def test_the_predictor_need_not_write() -> None:
    critic = Named("critic", capabilities=frozenset({Capability.SCORE_LABELS}))
    engine = routed(predictor=critic)
    assert engine.capabilities == {Capability.GENERATE, Capability.SCORE_LABELS}
    check_needs(JUDGE, engine)
    judged(engine, Store())
    assert kinds(critic) == (0, 15)


def test_the_writers_label_scores_are_no_help() -> None:
    writes_only = Named("critic", capabilities=frozenset({Capability.GENERATE}))
    engine = routed(predictor=writes_only)
    assert engine.capabilities == {Capability.GENERATE}
    with pytest.raises(ConfigError, match="the judge 'ladder' needs score_labels"):
        check_needs(JUDGE, engine)
    with pytest.raises(ConfigError, match="serves generate, not score_labels"):
        engine.check(SCORE)


def test_all_prompts_are_checked_by_their_engine_before_anything_runs() -> None:
    poet, critic = Named("poet"), Named("critic")
    long = (Message(role="user", content="x" * 100_001),)
    requests: list[tuple[Request, str]] = [
        (Generate(messages=long, max_tokens=1), "poet"),
        (ScoreLabels(messages=long, labels=("Yes",)), "critic"),
    ]
    for request, name in requests:
        with pytest.raises(ConfigError, match=f"too long for {name}"):
            list(routed(poet, critic).run([WRITE, SCORE, request]))
    assert poet.asked == critic.asked == []


def test_closing_closes_both() -> None:
    poet, critic = Named("poet"), Named("critic")
    routed(poet, critic).close()
    assert (poet.closed, critic.closed) == (1, 1)


def test_the_same_engine_may_do_both() -> None:
    both = Named("both")
    engine = RoutedEngine(writer=both, predictor=both)
    store = Store()
    judged(engine, store)
    assert kinds(both) == (5, 15)
    alone = Named("both")
    judged(alone, store)
    assert alone.asked == []
