"""Writing, comparing and mending ladders on a scripted engine."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np
import pytest

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Generate, LabelScores, Request
from adjudge.experiments.ladders import built_ladders
from adjudge.judges.ladder import LadderJudge
from adjudge.judges.ladder_work import LadderBuild, LadderCheck
from adjudge.prompts.template import load_prompts
from adjudge.runs.plan import plan_run
from adjudge.runs.runner import Runner
from adjudge.runs.start import check_needs
from adjudge.runs.store import Store
from adjudge.schema import Item, Judgment, Ladder, Status
from tests.scripted import Answer, ScriptedEngine, make_item, words

PROMPTS = load_prompts("ladder", "summarization")
ITEM = make_item("", item_id="ladder")
KEY = ITEM.source.hash, ITEM.criterion.name
NINE = tuple(f"text of rung {i}" for i in range(1, 10))
REFUSAL = "I'm sorry, but I can't write that."


def judged(engine: ScriptedEngine, judge: LadderJudge, item: Item = ITEM) -> Judgment:
    events = Runner(judge, engine, Store()).run([item])
    (made,) = [event.judgment for event in events if event.judgment is not None]
    return made


def ladders(
    rungs: Sequence[str | None] = NINE, problems: dict[int, str] | None = None
) -> dict[tuple[str, str], Ladder]:
    """Return a ladder for the item."""
    made = Ladder(
        source_id=ITEM.source.id,
        source_hash=ITEM.source.hash,
        criterion=ITEM.criterion.name,
        criterion_hash=ITEM.criterion.hash,
        rungs=tuple(rungs),
        problems=problems or {},
    )
    return {KEY: made}


def numbered(request: Request) -> str:
    """Write a rung that is unlike every other."""
    return f"new {request.id[:8]}"


def kind(request: Request) -> str:
    """Return which rung is asked for: worst, best or between."""
    text = words(request).partition("<article>")[0]
    return next(word for word in ("worst possible", "best possible", "between") if word in text)


def between(request: Request) -> tuple[str, str]:
    """Return the two rungs that a rung is to lie between."""
    text = words(request)
    low = text.partition("<weak>\n")[2].partition("\n</weak>")[0]
    return low, text.partition("<strong>\n")[2].partition("\n</strong>")[0]


def compared(request: Request) -> tuple[str, str]:
    """Return the target and the reference of a comparison."""
    text = words(request)
    target = text.partition("<target>\n")[2].partition("\n</target>")[0]
    return target, text.partition("<reference>\n")[2].partition("\n</reference>")[0]


# --- building -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rungs", [2, 3, 5, 9])
def test_building_writes_every_rung_and_compares_nothing(rungs: int) -> None:
    engine = ScriptedEngine(numbered, capabilities=frozenset({Capability.GENERATE}))
    made = judged(engine, LadderBuild(prompts=PROMPTS, rungs=rungs))
    assert made.status is Status.OK
    assert made.value is None
    assert len(engine.asked) == made.n_calls == rungs
    assert sorted(made.evidence["rungs"]) == sorted(map(numbered, engine.asked))
    assert made.evidence["problems"] == {}
    worst, best = engine.asked[:2]
    assert (kind(worst), kind(best)) == ("worst possible", "best possible")
    assert made.evidence["rungs"][0] == numbered(worst)
    assert made.evidence["rungs"][-1] == numbered(best)


def test_what_is_built_is_what_the_judge_writes() -> None:
    built = judged(ScriptedEngine(numbered), LadderBuild(prompts=PROMPTS))
    engine = ScriptedEngine(lambda r: numbered(r) if isinstance(r, Generate) else (0.4, 0.3, 0.3))
    scored = judged(engine, LadderJudge(prompts=PROMPTS), make_item("a response"))
    assert built.evidence["rungs"] == scored.evidence["rungs"]


@pytest.mark.parametrize(
    ("said", "status", "why"),
    [(REFUSAL, Status.REFUSED, "refused"), (" \n", Status.LADDER_FAILED, "empty")],
)
def test_a_rung_that_fails_thrice_ends_the_ladder_with_what_is_there(
    said: str, status: Status, why: str
) -> None:
    def answer(request: Request) -> str:
        if kind(request) == "between" and between(request)[1] == "best possible":
            return said
        return kind(request) if kind(request) != "between" else numbered(request)

    engine = ScriptedEngine(answer)
    made = judged(engine, LadderBuild(prompts=PROMPTS))
    assert made.status is status
    assert made.evidence["problems"] == {"3": why}
    assert made.evidence["rungs"] == ["worst possible", None, None, None, "best possible"]
    assert len(engine.asked) == 2 + 3
    (ladder,) = built_ladders([ITEM], [made], "writer")
    assert (ladder.rungs, ladder.problems) == (
        ("worst possible", None, None, None, "best possible"),
        {3: why},
    )


def test_building_needs_an_engine_that_writes_and_no_more() -> None:
    build, check = LadderBuild(prompts=PROMPTS), LadderCheck(prompts=PROMPTS, ladders=ladders())
    assert build.needs == {Capability.GENERATE}
    assert check.needs == {Capability.SCORE_LABELS}
    scores_only = ScriptedEngine(numbered, capabilities=frozenset({Capability.SCORE_LABELS}))
    with pytest.raises(ConfigError, match="'ladder-build' needs generate"):
        check_needs(build, scores_only)
    check_needs(check, scores_only)


def test_the_plan_counts_rungs_and_comparisons() -> None:
    engine = ScriptedEngine(numbered)
    plan = plan_run(LadderBuild(prompts=PROMPTS, rungs=9), [ITEM], engine, Store())
    assert (plan.n_generations, plan.n_label_scorings) == (9, 0)
    plan = plan_run(LadderCheck(prompts=PROMPTS, ladders=ladders()), [ITEM], engine, Store())
    assert (plan.n_generations, plan.n_label_scorings) == (0, 16)


# --- checking -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rungs", [2, 3, 5, 9])
def test_checking_asks_about_all_neighbours_in_both_orders_whatever_rungs_says(rungs: int) -> None:
    engine = ScriptedEngine(lambda request: (0.5, 0.3, 0.2))
    judge = LadderCheck(prompts=PROMPTS, ladders=ladders(), rungs=rungs)
    made = judged(engine, judge)
    assert made.status is Status.OK
    assert len(engine.asked) == made.n_calls == 2 * 8
    pairs = [(upper, lower) for lower, upper in pairwise(NINE)]
    asked = {compared(request) for request in engine.asked}
    assert asked == {*pairs, *((lower, upper) for upper, lower in pairs)}
    assert len(made.distribution) == 8


@pytest.mark.parametrize("orders", ["one", "both"])
def test_the_probabilities_are_averaged_over_both_orders(orders: str) -> None:
    ahead, behind = (0.6, 0.3, 0.1), (0.2, 0.7, 0.1)

    def answer(request: Request) -> Answer:
        target, reference = compared(request)
        return ahead if target > reference else behind

    judge = LadderCheck(prompts=PROMPTS, ladders=ladders(), orders=orders)  # type: ignore[arg-type]
    made = judged(ScriptedEngine(answer), judge)
    # Better of the upper one: asked so .6; asked the other way round, worse of the lower one .7.
    assert made.distribution == pytest.approx(np.full((8, 3), [0.65, 0.25, 0.1]))
    assert made.coverage == pytest.approx(1)


def test_a_judge_that_only_likes_the_first_text_sees_no_order() -> None:
    made = judged(
        ScriptedEngine(lambda request: (0.9, 0.1, 0.0)),
        LadderCheck(prompts=PROMPTS, ladders=ladders()),
    )
    assert made.distribution == pytest.approx(np.full((8, 3), [0.5, 0.5, 0.0]))


@pytest.mark.parametrize(("prediction", "n"), [("yes_no", 2), ("yes_no_double", 4)])
def test_yes_and_no_say_nothing_of_similar(prediction: str, n: int) -> None:
    def answer(request: Request) -> Answer:
        target, reference = compared(request)
        better = words(request).rpartition("Is the target ")[2].startswith("better")
        return (0.8, 0.2) if better == (target > reference) else (0.3, 0.7)

    judge = LadderCheck(
        prompts=PROMPTS,
        ladders=ladders(NINE[:3]),
        prediction=prediction,  # type: ignore[arg-type]
    )
    engine = ScriptedEngine(answer)
    made = judged(engine, judge)
    assert len(engine.asked) == n * 2
    # In favour of the upper one: a yes .8 where it is so, a no .7 where it is not.
    assert made.distribution == pytest.approx(np.full((2, 3), [0.75, 0.25, 0.0]))


def test_checking_an_unwritten_ladder_asks_nothing() -> None:
    engine = ScriptedEngine(lambda request: (0.5, 0.3, 0.2))
    given = ladders(("a", None, "c"), {2: "refused"})
    made = judged(engine, LadderCheck(prompts=PROMPTS, ladders=given))
    assert made.status is Status.REFUSED
    assert made.distribution == ()
    assert engine.asked == []


def test_checking_without_mass_on_the_labels_is_a_status() -> None:
    said = LabelScores(
        request_id="",
        logprobs=(-20.0, -21.0, -22.0),
        masses=(2e-9, 0.0, 0.0),
        n_tokens=(1, 1, 1),
        coverage=2e-9,
        top_tokens=(("Well", -0.1),),
    )

    def answer(request: Request) -> LabelScores:
        return LabelScores(**{**vars(said), "request_id": request.id})

    made = judged(ScriptedEngine(answer), LadderCheck(prompts=PROMPTS, ladders=ladders()))
    assert made.status is Status.NO_LABEL_MASS
    assert made.distribution == ()
    assert made.coverage == pytest.approx(2e-9)
    assert made.evidence["top_tokens"][0] == [("Well", -0.1)]


@pytest.mark.parametrize("logprobs", [(math.nan, -1.0, -1.0), (-math.inf,) * 3])
def test_checking_with_log_probs_that_are_no_numbers_is_a_status(
    logprobs: tuple[float, ...],
) -> None:
    def answer(request: Request) -> LabelScores:
        return LabelScores(
            request_id=request.id,
            logprobs=logprobs,
            masses=(0.3, 0.3, 0.3),
            n_tokens=(1, 1, 1),
            coverage=0.9,
        )

    made = judged(ScriptedEngine(answer), LadderCheck(prompts=PROMPTS, ladders=ladders()))
    assert made.status is Status.NO_LABEL_MASS
    assert made.distribution == ()


def test_checking_a_source_without_a_ladder_or_of_another_meaning_is_refused() -> None:
    engine = ScriptedEngine(lambda request: (0.5, 0.3, 0.2))
    with pytest.raises(ConfigError, match="there is no ladder for the source 'source of other'"):
        judged(engine, LadderCheck(prompts=PROMPTS, ladders=ladders()), make_item(source="other"))
    (one,) = ladders().values()
    other = {KEY: Ladder(**{**vars(one), "criterion_hash": "0"})}
    with pytest.raises(ConfigError, match="was written for another meaning of 'coherence'"):
        judged(engine, LadderCheck(prompts=PROMPTS, ladders=other))


# --- mending ------------------------------------------------------------------------------------


def mend(rungs: Sequence[str | None], failed: Collection[int]) -> LadderBuild:
    return LadderBuild(
        prompts=PROMPTS,
        ladders=ladders(rungs),
        failed={KEY: failed},
        rungs=len(rungs),
    )


def test_only_the_failed_rungs_are_written_anew_between_their_neighbours() -> None:
    engine = ScriptedEngine(numbered)
    made = judged(engine, mend(NINE, {5, 6}))
    assert made.status is Status.OK
    rungs = made.evidence["rungs"]
    assert [rung for i, rung in enumerate(rungs, start=1) if i not in (5, 6)] == [
        text for i, text in enumerate(NINE, start=1) if i not in (5, 6)
    ]
    assert [between(request) for request in engine.asked] == [
        (NINE[0], NINE[8]),
        (rungs[4], NINE[6]),
    ]
    assert rungs[4:6] == [numbered(request) for request in engine.asked]


def test_an_end_can_be_written_anew() -> None:
    engine = ScriptedEngine(numbered)
    made = judged(engine, mend(NINE, {9}))
    assert [kind(request) for request in engine.asked] == ["best possible"]
    assert made.evidence["rungs"] == [*NINE[:8], numbered(engine.asked[0])]


def test_rungs_that_were_never_written_are_written_now() -> None:
    rungs = ("worst", None, None, None, "best")
    engine = ScriptedEngine(numbered)
    made = judged(engine, mend(rungs, {3}))
    assert made.status is Status.OK
    assert len(engine.asked) == 3
    assert (made.evidence["rungs"][0], made.evidence["rungs"][4]) == ("worst", "best")
    assert all(made.evidence["rungs"])


@pytest.mark.parametrize("before", [NINE[1], NINE[6], f" {NINE[1].upper()}\n"])
def test_a_text_that_was_there_before_is_drawn_again(before: str) -> None:
    first: list[Request] = []

    def answer(request: Request) -> str:
        if not first:
            first.append(request)
            return before
        return numbered(request)

    engine = ScriptedEngine(answer)
    made = judged(engine, mend(NINE, {2}))
    assert made.status is Status.OK
    assert len(engine.asked) == 2
    assert made.evidence["rungs"] == [NINE[0], numbered(engine.asked[1]), *NINE[2:]]


def test_a_rung_that_only_repeats_itself_fails_and_the_others_stay() -> None:
    made = judged(ScriptedEngine(lambda request: NINE[1]), mend(NINE, {2}))
    assert made.status is Status.LADDER_FAILED
    assert made.evidence["problems"] == {"2": "the same as before"}
    assert made.evidence["rungs"] == [NINE[0], None, *NINE[2:]]


def test_each_repair_draws_anew() -> None:
    seeds: list[int] = []
    for text in (NINE[4], "what the first repair wrote", "what the second wrote"):
        engine = ScriptedEngine(lambda request: "")
        made = judged(engine, mend((*NINE[:4], text, *NINE[5:]), {5}))
        assert made.evidence["problems"] == {"5": "empty"}
        asked = [request.sampling for request in engine.asked if isinstance(request, Generate)]
        assert [each.temperature for each in asked] == pytest.approx([0.7, 1.0, 1.3])
        seeds += [each.seed for each in asked]
    assert len(set(seeds)) == 9


def test_nothing_that_fails_is_nothing_to_write() -> None:
    engine = ScriptedEngine(numbered)
    made = judged(engine, mend(NINE, ()))
    assert engine.asked == []
    assert made.evidence["rungs"] == list(NINE)


def test_the_signature_tells_the_work_apart() -> None:
    names = [
        kind_of(prompts=PROMPTS, ladders=ladders()).signature["judge"]
        for kind_of in (LadderJudge, LadderBuild, LadderCheck)
    ]
    assert names == ["ladder", "ladder-build", "ladder-check"]
    one, two = (mend(NINE, failed).signature for failed in ({5}, {6}))
    assert one["failed"] != two["failed"]
    assert "labels" not in one
    assert one["ladders"].startswith("1#")
    other = mend((*NINE[:8], "another best"), {5}).signature
    assert other["ladders"] != one["ladders"]
