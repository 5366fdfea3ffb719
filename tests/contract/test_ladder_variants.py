"""Every variant of the ladder judge, against scores computed by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.errors import ConfigError
from adjudge.exchange import Generate, LabelScores, Reply, Request, ScoreLabels
from adjudge.judges.ladder import LadderJudge, ladder_score
from adjudge.judges.rungs import is_refusal, subset
from adjudge.prompts.template import load_prompts
from adjudge.runs.runner import Runner
from adjudge.runs.store import Store
from adjudge.schema import Item, Judgment, Ladder, Status
from tests.scripted import Answer, ScriptedEngine, make_item, words

PROMPTS = load_prompts("ladder", "summarization")
ITEM = make_item("the response")


def ladder_of(n: int, item: Item = ITEM, **changes: Any) -> Mapping[tuple[str, str], Ladder]:
    """Return one ladder whose rungs say their number."""
    made = Ladder(
        source_id=item.source.id,
        source_hash=item.source.hash,
        criterion=item.criterion.name,
        criterion_hash=item.criterion.hash,
        rungs=tuple(f"rung {i}" for i in range(1, n + 1)),
        writer="human",
    )
    made = replace(made, **changes)
    return {(made.source_hash, made.criterion): made}


def judged(
    answer: Any, item: Item = ITEM, **options: Any
) -> tuple[Judgment, list[ScoreLabels], LadderJudge]:
    judge = LadderJudge(prompts=PROMPTS, **options)
    engine = ScriptedEngine(answer)
    events = Runner(judge, engine, Store()).run([item])
    (judgment,) = [event.judgment for event in events if event.judgment is not None]
    return judgment, [each for each in engine.asked if isinstance(each, ScoreLabels)], judge


def between(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]


def rung_of(request: Request) -> int:
    """Return the number of the rung that a question is about, wherever it stands."""
    texts = between(words(request), "reference"), between(words(request), "target")
    (rung,) = [text for text in texts if text.startswith("rung ")]
    return int(rung.split()[1])


def is_swapped(request: Request) -> bool:
    return between(words(request), "target").startswith("rung ")


# --- values and numbers of rungs ----------------------------------------------------------------

P = {
    2: [(0.8, 0.1, 0.1), (0.3, 0.5, 0.2)],
    3: [(0.8, 0.1, 0.1), (0.4, 0.4, 0.2), (0.1, 0.7, 0.2)],
    5: [(0.7, 0.2, 0.1), (0.5, 0.3, 0.2), (0.2, 0.2, 0.6), (0.1, 0.6, 0.3), (0.0, 0.9, 0.1)],
    9: [(0.9, 0.0, 0.1)] * 4 + [(0.2, 0.3, 0.5)] + [(0.0, 0.8, 0.2)] * 4,
}
# By hand: values times (better - worse).
RAW = {
    (2, "linear15"): 1 * 0.7 + 5 * -0.2,
    (3, "linear15"): 1 * 0.7 + 3 * 0.0 + 5 * -0.6,
    (5, "linear15"): 1 * 0.5 + 2 * 0.2 + 3 * 0.0 + 4 * -0.5 + 5 * -0.9,
    (9, "linear15"): 0.9 * (1 + 1.5 + 2 + 2.5) + 3 * -0.1 - 0.8 * (3.5 + 4 + 4.5 + 5),
    (2, "index"): 1 * 0.7 + 2 * -0.2,
    (3, "index"): 1 * 0.7 + 2 * 0.0 + 3 * -0.6,
    (5, "index"): 1 * 0.5 + 2 * 0.2 + 3 * 0.0 + 4 * -0.5 + 5 * -0.9,
    (9, "index"): 0.9 * (1 + 2 + 3 + 4) + 5 * -0.1 - 0.8 * (6 + 7 + 8 + 9),
}
SUM = {
    "linear15": {2: 6, 3: 9, 5: 15, 9: 27},
    "index": {2: 3, 3: 6, 5: 15, 9: 45},
}


@pytest.mark.parametrize(("n", "values"), RAW)
def test_the_raw_score_for_every_number_of_rungs(n: int, values: Any) -> None:
    score = ladder_score(np.array(P[n]), values)
    assert score.raw == pytest.approx(RAW[n, values])
    assert score.rescaled == pytest.approx(
        1 + 4 * (RAW[n, values] + SUM[values][n]) / (2 * SUM[values][n])
    )
    beaten = sum(better + similar / 2 for better, _, similar in P[n])
    assert score.position == pytest.approx(1 + 4 * beaten / n)
    judgment, _, _ = judged(
        lambda request: P[n][rung_of(request) - 1],
        ladders=ladder_of(n),
        rungs=n,
        rung_values=values,
    )
    assert judgment.raw == pytest.approx(RAW[n, values])
    assert judgment.n_calls == n


@pytest.mark.parametrize("value", ["raw", "rescaled", "position"])
def test_the_value_is_the_score_that_is_asked_for(value: Any) -> None:
    judgment, _, _ = judged(
        lambda request: P[5][rung_of(request) - 1], ladders=ladder_of(5), value=value
    )
    assert judgment.value == pytest.approx(getattr(ladder_score(np.array(P[5])), value))
    assert judgment.raw == pytest.approx(RAW[5, "linear15"])


@pytest.mark.parametrize("n", [2, 3, 5, 9])
@pytest.mark.parametrize("values", ["linear15", "index"])
def test_an_ideal_judge_is_ordered_and_its_position_is_even(n: int, values: Any) -> None:
    won, lost = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
    scores = [ladder_score(np.array([won] * k + [lost] * (n - k)), values) for k in range(n + 1)]
    assert (scores[0].rescaled, scores[-1].rescaled) == (1, 5)
    assert np.all(np.diff([score.raw for score in scores]) > 0)
    assert [score.position for score in scores] == pytest.approx(
        [1 + 4 * k / n for k in range(n + 1)]
    )


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=5, max_size=5))
def test_a_score_stays_on_its_scale(pairs: Sequence[tuple[float, float]]) -> None:
    rows = np.array([(a * b, a * (1 - b), 1 - a) for a, b in pairs])
    score = ladder_score(rows)
    assert -15 - 1e-9 <= score.raw <= 15 + 1e-9
    assert 1 - 1e-9 <= score.rescaled <= 5 + 1e-9
    assert 1 - 1e-9 <= score.position <= 5 + 1e-9
    turned = ladder_score(rows[:, [1, 0, 2]])
    assert turned.raw == pytest.approx(-score.raw)
    assert turned.position == pytest.approx(6 - score.position)


# --- questions ----------------------------------------------------------------------------------


def test_yes_counts_as_better_and_no_as_worse() -> None:
    yes = [0.9, 0.8, 0.5, 0.3, 0.2]

    def answer(request: Request) -> Answer:
        assert "Is the target better than the reference (Yes or No)?" in words(request)
        p = yes[rung_of(request) - 1]
        return (p / 2, (1 - p) / 2)

    judgment, asked, _ = judged(answer, ladders=ladder_of(5), prediction="yes_no")
    assert {each.labels for each in asked} == {("Yes", "No")}
    assert len(asked) == 5
    assert judgment.raw == pytest.approx(sum(i * (2 * p - 1) for i, p in enumerate(yes, start=1)))
    assert judgment.distribution == pytest.approx(np.array([(p, 1 - p, 0) for p in yes]))
    assert judgment.coverage == pytest.approx(0.5)


def test_two_questions_count_yes_to_better_less_yes_to_worse() -> None:
    better, worse = [0.9, 0.8, 0.5, 0.3, 0.2], [0.3, 0.1, 0.5, 0.6, 0.9]

    def answer(request: Request) -> Answer:
        asks_worse = "Is the target worse than" in words(request)
        p = (worse if asks_worse else better)[rung_of(request) - 1]
        return (p, 1 - p)

    judgment, asked, _ = judged(answer, ladders=ladder_of(5), prediction="yes_no_double")
    assert len(asked) == 10
    # Table 2 of the paper with two questions: sum of i (p(yes, better) - p(yes, worse)).
    expected = sum(i * (b - w) for i, (b, w) in enumerate(zip(better, worse, strict=True), start=1))
    assert judgment.raw == pytest.approx(expected)
    assert np.sum(judgment.distribution, axis=1) == pytest.approx(np.ones(5))


@pytest.mark.parametrize("prediction", ["better_worse_similar", "yes_no", "yes_no_double"])
def test_both_orders_cancel_a_bias_for_what_stands_last(prediction: Any) -> None:
    def answer(request: Request) -> Answer:
        if len(request.labels) == 3:  # type: ignore[attr-defined]
            return (0.7, 0.2, 0.1)
        return (0.2, 0.8) if "worse than" in words(request) else (0.8, 0.2)

    one, asked, _ = judged(answer, ladders=ladder_of(5), prediction=prediction)
    assert one.raw != pytest.approx(0)
    both, asked_both, _ = judged(answer, ladders=ladder_of(5), prediction=prediction, orders="both")
    assert both.raw == pytest.approx(0)
    assert len(asked_both) == 2 * len(asked)
    assert sum(map(is_swapped, asked_both)) == len(asked)


def test_both_orders_are_averaged() -> None:
    def answer(request: Request) -> Answer:
        return (0.1, 0.6, 0.3) if is_swapped(request) else (0.5, 0.4, 0.1)

    judgment, _, _ = judged(answer, ladders=ladder_of(2), rungs=2, orders="both")
    # Swapped, better means that the rung is better.
    expected = [(0.5 + 0.6) / 2, (0.4 + 0.1) / 2, (0.1 + 0.3) / 2]
    assert judgment.distribution == pytest.approx(np.array([expected] * 2))


def test_labels_may_be_other_words_with_a_space_before_them() -> None:
    judgment, asked, judge = judged(
        lambda request: (0.5, 0.3, 0.2),
        ladders=ladder_of(2),
        rungs=2,
        labels="more/less/same",
        leading_space=True,
    )
    assert asked[0].labels == (" more", " less", " same")
    assert judge.signature["labels"] == " more/ less/ same"
    assert judgment.raw == pytest.approx(6 * 0.2)


def test_the_mean_over_tokens_takes_long_labels_at_par() -> None:
    def answer(request: Request) -> Reply:
        return LabelScores(
            request_id=request.id,
            logprobs=(-1.0, -4.0, -2.0),
            masses=(math.exp(-1), math.exp(-4), math.exp(-2)),
            n_tokens=(1, 2, 1),
            coverage=0.5,
        )

    judgment, _, _ = judged(answer, ladders=ladder_of(2), rungs=2, label_score="mean")
    weights = np.exp([-1.0, -2.0, -2.0])
    assert judgment.distribution[0] == pytest.approx(weights / weights.sum())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"labels": "a/b"},
            "takes 3 different labels in the order Better/Worse/Similar, not 'a/b'",
        ),
        ({"labels": "a/a/b"}, "takes 3 different labels"),
        ({"labels": "a//b"}, "takes 3 different labels"),
        ({"prediction": "yes_no", "labels": "a/b/c"}, "takes 2 different labels"),
        ({"samples": -1}, "samples must be from 0"),
        ({"temperature": 11.0}, "temperature must be from 0 to 10"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LadderJudge(prompts=PROMPTS, **options)


# --- sampled estimates --------------------------------------------------------------------------


def sampled(n: int, trial: int = 0) -> Judgment:
    return judged(
        lambda request: P[5][rung_of(request) - 1], ladders=ladder_of(5), samples=n, trial=trial
    )[0]


def test_the_sampled_estimate_converges_to_the_exact_one() -> None:
    values = np.arange(1, 6)
    p = np.array(P[5])
    # Of the mean of n draws of v (better - worse): variance v^2 (b + w - (b - w)^2) / n.
    variance = float(values**2 @ (p[:, 0] + p[:, 1] - (p[:, 0] - p[:, 1]) ** 2))
    exact = RAW[5, "linear15"]
    for n in (10, 1000):
        error = 3 * math.sqrt(variance / n)
        raws = [sampled(n, trial).raw or 0.0 for trial in range(40)]
        inside = sum(abs(raw - exact) <= error for raw in raws)
        assert inside >= 38
        assert np.std(raws) == pytest.approx(math.sqrt(variance / n), rel=0.35)


def test_samples_are_shares_of_draws_and_repeat_with_their_trial() -> None:
    three = sampled(3)
    counts = 3 * np.array(three.distribution)
    assert counts == pytest.approx(np.round(counts))
    assert sampled(3).raw == three.raw
    assert len({sampled(100, trial).raw for trial in range(5)}) == 5


# --- ladders ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_subset_of_a_longer_ladder_scores_as_a_fresh_one_with_the_same_texts(n: int) -> None:
    nine = ladder_of(9)
    (whole,) = nine.values()
    texts = subset(whole.rungs, n)
    assert texts == {2: ("rung 1", "rung 9"), 3: ("rung 1", "rung 5", "rung 9"),
                     5: ("rung 1", "rung 3", "rung 5", "rung 7", "rung 9")}[n]  # fmt: skip

    def answer(request: Request) -> Answer:
        return P[9][rung_of(request) - 1]

    nested, _, _ = judged(answer, ladders=nine, rungs=n)
    fresh, _, _ = judged(answer, ladders=ladder_of(n, rungs=texts), rungs=n)
    assert (nested.raw, nested.distribution) == (fresh.raw, fresh.distribution)


def written(n: int, **options: Any) -> list[str]:
    """Return the rungs of a ladder that a model writes."""

    def answer(request: Request) -> Answer:
        return f"text {request.id[:12]}" if isinstance(request, Generate) else (0.4, 0.3, 0.3)

    judgment, _, _ = judged(answer, rungs=n, **options)
    return list(judgment.evidence["rungs"])


def test_ladders_of_every_length_are_nested_unless_they_are_to_be_fresh() -> None:
    nine = written(9)
    for n in (2, 3, 5):
        assert tuple(written(n)) == subset(nine, n)
        fresh = written(n, fresh=True)
        assert not set(fresh) & set(written(9, fresh=True))


def test_the_order_of_the_rungs_in_the_file_of_replies_changes_nothing() -> None:
    def answer(request: Request) -> Answer:
        return P[5][rung_of(request) - 1]

    judge = LadderJudge(prompts=PROMPTS, ladders=ladder_of(5))
    raws = []
    for backwards in (False, True):
        engine = ScriptedEngine(answer, backwards=backwards)
        (event,) = [e for e in Runner(judge, engine, Store()).run([ITEM]) if e.judgment]
        raws.append(event.judgment.raw if event.judgment else None)
    assert raws[0] == raws[1]


@pytest.mark.parametrize(
    ("ladders", "message"),
    [
        (ladder_of(5, source_hash="0" * 64), "was written for another text of this id"),
        (ladder_of(5, criterion_hash="0" * 64), "was written for another meaning of 'coherence'"),
        (ladder_of(5, criterion="fluency"), r"no ladder for .* 'coherence'; there are 1 ladders"),
        (ladder_of(3), "a ladder of 3 rungs has none of 5 in it"),
    ],
)
def test_a_ladder_of_something_else_is_an_error(ladders: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        judged(lambda request: (0.4, 0.3, 0.3), ladders=ladders)


def test_given_ladders_need_no_writer_and_are_in_the_signature() -> None:
    judge = LadderJudge(prompts=PROMPTS, ladders=ladder_of(5))
    assert sorted(judge.needs) == ["score_labels"]
    assert judge.signature["ladders"].startswith("1#")
    other = LadderJudge(prompts=PROMPTS, ladders=ladder_of(5, rungs=("a", "b", "c", "d", "e")))
    assert judge.signature["ladders"] != other.signature["ladders"]
    assert "ladders" not in LadderJudge(prompts=PROMPTS).signature


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I'm sorry, but I can't write a deliberately bad summary.", True),
        ("I cannot create a worst possible text.", True),
        ("Sorry, I won't write that.", True),
        ("As an AI language model, I do not have opinions.", True),
        ("I\u2019m unable to provide that.", True),
        ("I can't wait to see you there!", False),
        ("I cannot believe that he left.", False),
        ("I'm sorry to hear that. Did you call them?", False),
        ("Sorry seems to be the hardest word.", False),
        ("The council cannot help the town, it said.", False),
    ],
)
def test_what_counts_as_a_refusal(text: str, refused: bool) -> None:  # noqa: FBT001
    assert is_refusal(text) is refused


def test_a_refused_rung_is_drawn_again_and_then_refuses_the_ladder() -> None:
    def answer(request: Request) -> Answer:
        if isinstance(request, Generate) and "worst possible" in words(request):
            return "I'm sorry, but I cannot write that."
        return f"text {request.id[:8]}"

    engine = ScriptedEngine(answer)
    judge = LadderJudge(prompts=PROMPTS)
    events = [e for e in Runner(judge, engine, Store()).run([ITEM]) if e.judgment]
    judgment = events[0].judgment
    assert judgment is not None
    assert judgment.status is Status.REFUSED
    assert judgment.evidence["problems"] == {"1": "refused"}
    draws = [r for r in engine.asked if isinstance(r, Generate) and "worst" in words(r)]
    assert len({each.sampling.seed for each in draws}) == 3
    assert [each.sampling.temperature for each in draws] == pytest.approx([0.7, 1.0, 1.3])


# --- prompt order -------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["summarization", "dialogue", "story", "instruction"])
def test_in_the_shared_order_all_criteria_begin_with_the_source(task: str) -> None:
    prompts = load_prompts("ladder", task)
    orders: tuple[Any, ...] = ("paper", "shared")
    for order in orders:
        judge = LadderJudge(
            prompts=prompts,
            prompt_order=order,
            ladders=ladder_of(5),
            prediction="yes_no",
        )
        engine = ScriptedEngine(lambda request: (0.6, 0.4))
        list(Runner(judge, engine, Store()).run([ITEM]))
        for request in engine.asked:
            text = words(request)
            source_first = text.index(ITEM.source.text) < text.index(ITEM.criterion.description)
            assert source_first == (order == "shared")
        assert judge.signature["prompt_order"] == order


@pytest.mark.parametrize(
    ("writers", "named"),
    [
        (["judge:ladder-build|engine:llama|model:big|ctx:8"], "big"),
        (["judge:x|model:big|quant:Q4", "human"], "big,human"),
        ([""], "unknown"),
    ],
)
def test_the_signature_names_who_wrote_given_ladders(writers: list[str], named: str) -> None:
    ladders = {
        (str(i), "c"): Ladder(
            source_id=str(i), source_hash=str(i), criterion="c", criterion_hash="c",
            rungs=("a", "b"), writer=writer,
        )
        for i, writer in enumerate(writers)
    }  # fmt: skip
    judge = LadderJudge(prompts=load_prompts("ladder", "summarization"), ladders=ladders)
    mark = judge.signature["ladders"]
    assert re.fullmatch(rf"{len(writers)}#[0-9a-f]{{8}}@{named}", mark)
