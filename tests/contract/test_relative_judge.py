"""The judge of pairs, and pairs decided by two scores, on a scripted engine."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from adjudge.errors import ConfigError
from adjudge.exchange import Generate, Request, ScoreLabels
from adjudge.formats.scores import score_rows
from adjudge.judges.absolute import PrometheusAbsoluteJudge
from adjudge.judges.base import Judge
from adjudge.judges.by_scores import PairsByScores
from adjudge.judges.direct import DirectJudge
from adjudge.judges.relative import PrometheusRelativeJudge
from adjudge.prompts.template import load_prompts
from adjudge.runs.runner import Runner
from adjudge.runs.start import fit
from adjudge.runs.store import Store
from adjudge.runs.summary import summarize
from adjudge.schema import Item, Judgment, Status
from tests.scripted import Answer, ScriptedEngine, make_item, words

PROMPTS = load_prompts("prometheus-relative", "instruction")
PAIR = replace(make_item(), responses=("the first", "the second"), systems=("m", "n"))


def make(**options: Any) -> PrometheusRelativeJudge:
    return PrometheusRelativeJudge(prompts=PROMPTS, **{"score_mode": "text", **options})


def judged(engine: ScriptedEngine, method: Judge, item: Item = PAIR) -> Judgment:
    events = Runner(fit(method, engine), engine, Store()).run([item])
    (judgment,) = [event.judgment for event in events if event.judgment is not None]
    return judgment


def blocks(request: Request) -> tuple[str, str]:
    """Return the responses of a prompt as A and B."""
    found = re.search(
        r"###Response A:\n(.*?)\n\n###Response B:\n(.*?)\n\n###", words(request), re.S
    )
    assert found is not None
    return found[1], found[2]


def prefers(text: str) -> ScriptedEngine:
    """Return an engine that prefers a text wherever it stands."""

    def answer(request: Request) -> Answer:
        where = "AB"[blocks(request).index(text)]
        return f"One is better. [RESULT] {where}"

    return ScriptedEngine(answer)


def always(verdict: str) -> ScriptedEngine:
    return ScriptedEngine(lambda request: f"Hm. [RESULT] {verdict}")


# --- one order and both -------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "value"), [("the first", 1), ("the second", -1)])
@pytest.mark.parametrize("orders", ["one", "both"])
def test_the_value_is_the_preference_for_the_first(orders: str, text: str, value: float) -> None:
    engine = prefers(text)
    judgment = judged(engine, make(orders=orders))
    assert (judgment.status, judgment.value) == (Status.OK, value)
    assert judgment.evidence.get("consistent") is (None if orders == "one" else True)
    assert judgment.evidence["orders"] == [value] * (1 if orders == "one" else 2)
    assert judgment.feedback == "One is better."
    assert judgment.system == "m | n"
    asked = [blocks(each) for each in engine.asked]
    assert asked == [("the first", "the second"), ("the second", "the first")][: len(asked)]


@pytest.mark.parametrize(("resolve", "value"), [("tie", 0), ("first", 1), ("mean", 0)])
def test_orders_that_disagree_are_said_and_resolved(resolve: str, value: float) -> None:
    judgment = judged(always("A"), make(orders="both", resolve=resolve))
    assert (judgment.status, judgment.value) == (Status.OK, value)
    assert judgment.evidence["orders"] == [1, -1]
    assert judgment.evidence["consistent"] is False


def test_an_order_that_cannot_be_read_fails_the_pair_and_the_other_is_kept() -> None:
    def answer(request: Request) -> Answer:
        return "[RESULT] A" if blocks(request)[0] == "the first" else "Both are fine."

    judgment = judged(ScriptedEngine(answer), make(orders="both", retries=0))
    assert (judgment.status, judgment.value) == (Status.PARSE_FAILED, None)
    assert judgment.evidence["orders"] == [1, None]
    assert judgment.evidence["texts"] == ["[RESULT] A", "Both are fine."]


def test_swapping_the_pair_turns_the_preference() -> None:
    swapped = replace(PAIR, responses=PAIR.responses[::-1])
    shares = {"the first": (0.6, 0.2), "the second": (0.3, 0.5)}

    def answer(request: Request) -> Answer:
        return "Hm. [RESULT] A" if isinstance(request, Generate) else shares[blocks_of(request)]

    def blocks_of(request: Request) -> str:
        found = re.search(r"###Response A:\n(.*?)\n", request.messages[-2].content)
        assert found is not None
        return found[1]

    method = make(orders="both", resolve="mean", score_mode="logprobs")
    one, other = (judged(ScriptedEngine(answer), method, item) for item in (PAIR, swapped))
    assert one.value == pytest.approx(((0.6 - 0.2) / 0.8 + (0.5 - 0.3) / 0.8) / 2)
    assert one.value is not None
    assert other.value == pytest.approx(-one.value)


def test_log_probs_give_the_difference_of_the_probabilities() -> None:
    engine = ScriptedEngine(
        lambda request: "Hm. [RESULT] B" if isinstance(request, Generate) else (0.3, 0.1)
    )
    judgment = judged(engine, make(score_mode="auto"))
    assert judgment.value == pytest.approx(0.5)
    assert judgment.distribution[0] == pytest.approx((0.75, 0.25))
    assert judgment.evidence["written"] == ["B"]
    scored = engine.asked[1]
    assert isinstance(scored, ScoreLabels)
    assert scored.labels == (" A", " B")
    assert scored.messages[-1].content == "Hm. [RESULT]"


def test_runs_are_averaged() -> None:
    texts = iter(["[RESULT] A", "[RESULT] B", "[RESULT] A", "[RESULT] A"])
    judgment = judged(ScriptedEngine(lambda request: next(texts)), make(runs=4))
    assert judgment.value == 0.5
    assert judgment.sd == pytest.approx((3 * 0.5**2 + 1.5**2) ** 0.5 / 3**0.5)


def test_the_spread_is_that_of_the_mean_of_both_orders() -> None:
    said = {"the first": iter("AAB"), "the second": iter("ABB")}

    def answer(request: Request) -> Answer:
        return f"Hm. [RESULT] {next(said[blocks(request)[0]])}"

    judgment = judged(ScriptedEngine(answer), make(orders="both", runs=3, resolve="mean"))
    # For the item's first response: 1, 1, -1 as A and -1, 1, 1 as B; the runs' means: 0, 1, 0.
    assert judgment.value == pytest.approx(1 / 3)
    assert judgment.sd == pytest.approx((1 / 3) ** 0.5)


def test_a_failed_pair_keeps_its_feedback_and_a_repeated_heading_goes() -> None:
    judgment = judged(ScriptedEngine(lambda request: "Feedback: Both will do."), make(retries=0))
    assert (judgment.status, judgment.feedback) == (Status.PARSE_FAILED, "Both will do.")
    good = judged(ScriptedEngine(lambda request: "**Feedback:** A. [RESULT] A"), make())
    assert good.feedback == "A."


def test_a_tie_counts_only_where_it_may_be_called() -> None:
    assert judged(always("tie"), make()).status is Status.PARSE_FAILED
    judgment = judged(always("tie"), make(ties=True))
    assert (judgment.value, judgment.distribution) == (0, ((0, 0, 1),))


def test_the_criterion_is_shown_without_descriptions_of_scores() -> None:
    described = replace(PAIR.criterion, rubric=tuple("abcde"))
    engine = always("A")
    judged(engine, make(), replace(PAIR, criterion=described, reference_answers=("Good.",)))
    ask = words(engine.asked[0])
    assert f"[Coherence: {PAIR.criterion.description}]" in ask
    assert "Score 1" not in ask
    assert "###Reference Answer:\nGood." in ask


def test_one_response_may_be_empty_but_not_both() -> None:
    judgment = judged(always("A"), make(), replace(PAIR, responses=("x", " ")))
    assert judgment.value == 1
    engine = always("A")
    empty = judged(engine, make(), replace(PAIR, responses=("", " ")))
    assert (empty.status, engine.asked) == (Status.EMPTY_RESPONSE, [])
    assert [row["verdict"] for row in score_rows([empty])] == [None]


def test_single_responses_and_lists_are_refused() -> None:
    with pytest.raises(ConfigError, match="has 1 responses where pairs are judged"):
        judged(always("A"), make(), make_item())


# --- by scores ----------------------------------------------------------------------------------


def by_scores(**options: Any) -> PairsByScores:
    scorer = PrometheusAbsoluteJudge(
        prompts=load_prompts("prometheus-absolute", "instruction"), score_mode="text"
    )
    return PairsByScores(prompts=scorer.prompts, scorer=scorer, **options)


def scores(first: str, second: str) -> ScriptedEngine:
    def answer(request: Request) -> Answer:
        return f"x [RESULT] {first if 'the first' in words(request) else second}"

    return ScriptedEngine(answer)


@pytest.mark.parametrize(
    ("first", "second", "margin", "value"),
    [("4", "2", 0, 1), ("1", "2", 0, -1), ("3", "3", 0, 0), ("3", "4", 1, 0), ("3", "5", 1, -1)],
)
def test_the_higher_score_wins(first: str, second: str, margin: float, value: float) -> None:
    engine = scores(first, second)
    judgment = judged(engine, by_scores(tie_margin=margin))
    assert (judgment.status, judgment.value) == (Status.OK, value)
    assert judgment.raw == int(first) - int(second)
    assert judgment.evidence["scores"] == [int(first), int(second)]
    assert len(engine.asked) == 2
    assert engine.batches == [2]


def test_equal_scores_are_not_drawn_again() -> None:
    engine = scores("3", "3")
    assert judged(engine, by_scores()).value == 0
    assert len(engine.asked) == 2


def test_a_response_without_a_score_fails_the_pair() -> None:
    judgment = judged(scores("3", "nothing"), by_scores())
    assert judgment.status is Status.PARSE_FAILED
    assert judgment.evidence["scores"] == [3, None]
    assert judgment.evidence["statuses"] == ["ok", "parse_failed"]
    assert judgment.evidence["resampled"] == 2
    assert judgment.evidence["score_mode"] == "text"
    summary = summarize([judgment])
    assert (
        "has no [RESULT]" in summary.no_scores[0].reason or "stands" in summary.no_scores[0].reason
    )
    assert summary.n_resampled == 2


def test_an_empty_response_loses_to_one_with_a_score() -> None:
    engine = scores("1", "1")
    judgment = judged(engine, by_scores(), replace(PAIR, responses=(" ", "the second")))
    assert (judgment.value, judgment.raw) == (-1, None)
    empty = judged(engine, by_scores(), replace(PAIR, responses=("", "")))
    assert empty.status is Status.EMPTY_RESPONSE
    assert score_rows([empty])[0]["verdict"] is None
    for pair in (("", "the second"), ("the first", "")):
        unread = judged(scores("x", "x"), by_scores(), replace(PAIR, responses=pair))
        assert unread.status is Status.PARSE_FAILED


def test_any_judge_of_responses_can_decide_pairs() -> None:
    scorer = DirectJudge(prompts=load_prompts("direct", "instruction"))
    engine = ScriptedEngine(
        lambda request: (0, 0, 0, 0.5, 0.5) if "the first" in words(request) else (0, 0, 1, 0, 0)
    )
    judgment = judged(engine, PairsByScores(prompts=scorer.prompts, scorer=scorer))
    assert judgment.value == 1
    assert judgment.raw == pytest.approx(1.5)
    with pytest.raises(ConfigError, match="'prometheus-relative' scores no single responses"):
        PairsByScores(prompts=PROMPTS, scorer=make())


def test_the_signature_says_how_pairs_are_decided() -> None:
    signature = by_scores(tie_margin=0.5).signature
    assert signature["judge"] == "prometheus-absolute"
    assert (signature["pairs"], signature["tie_margin"]) == ("by_scores", "0.5")
