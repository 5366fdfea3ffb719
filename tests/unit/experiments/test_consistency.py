"""Consistency of a judge whose every verdict is scripted: expected values are by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from adjudge import api
from adjudge.benchmarks.base import RatedPair, RatedResponse
from adjudge.errors import ConfigError
from adjudge.exchange import Failure, Generate, Request
from adjudge.experiments.consistency import (
    ConsistencyItems,
    Measure,
    consistency_measures,
    preferred_items,
    scored_items,
    text_statuses,
    verdicts_by_scores,
    written_scores,
)
from adjudge.runs.runner import Runner
from adjudge.runs.start import fit
from adjudge.runs.store import Store
from adjudge.schema import Criterion, Item, Judgment, Source
from adjudge.stats.inference import mean_interval
from tests.scripted import CRITERION, ScriptedEngine, words

NAN = math.nan
#: What is said of a response in a run, and which of two is better: names, in the order shown.
Score = Callable[[str, int], object]
Choice = Callable[[str, str], str]


def responses(*golds: Sequence[float], criterion: Criterion | None = None) -> list[RatedResponse]:
    """Return rows whose texts are a0, a1, ... for the first source, b0, ... for the second."""
    return [
        RatedResponse(
            id=f"{j}/{i}",
            source=Source(id=f"s{j}", text=f"question {j}"),
            system=f"m{i}",
            response=f"{'abcdefghijklmno'[j]}{i}",
            gold={"coherence": gold},
            criterion=criterion,
        )
        for j, row in enumerate(golds)
        for i, gold in enumerate(row)
    ]


def pair(name: str, source: str, first: str, second: str, gold: float = NAN) -> RatedPair:
    return RatedPair(
        id=name,
        source=Source(id=source, text=source),
        systems=("x", "y"),
        responses=(first, second),
        gold=gold,
    )


def engine(score: Score, choice: Choice) -> ScriptedEngine:
    """Return an engine that writes what two functions say."""

    def answer(request: Request) -> str:
        assert isinstance(request, Generate)
        text = words(request)
        if both := re.search(r"###Response A:\n(.*)\n\n###Response B:\n(.*)\n", text):
            return f"Well. [RESULT] {choice(both[1], both[2])}"
        one = re.search(r"###Response to evaluate:\n(.*)\n", text)
        assert one is not None
        return f"Well. [RESULT] {score(one[1], request.first_sample)}"

    return ScriptedEngine(answer)


def judged(name: str, items: Sequence[Item], scripted: ScriptedEngine, **options: Any) -> Any:
    given = {"score_mode": "text", "retries": "0", **options}
    method = fit(api.judge_method(name, task="instruction", options=given), scripted)
    found: dict[int, Judgment] = {}
    for event in Runner(method, scripted, Store()).run(items):
        if event.judgment is not None:
            found[event.position] = event.judgment
    return [found[i] for i in range(len(items))]


def measured(
    items: ConsistencyItems,
    score: Score = lambda name, run: 3,
    choice: Choice = lambda first, second: "A",
    runs: int = 3,
    **options: Any,
) -> dict[str, Measure]:
    scripted = engine(score, choice)
    graded = judged("prometheus-absolute", items.responses, scripted, runs=str(runs))
    compared = judged("prometheus-relative", items.pairs, scripted, orders="both", **options)
    rng = np.random.default_rng(0)
    found = consistency_measures(items, graded, compared, runs=runs, rng=rng, n_resamples=200)
    return {each.name: each for each in found}


def better(worth: Mapping[str, float] | Callable[[str], float]) -> Choice:
    """Prefer what is worth more, wherever it stands."""
    value = worth if callable(worth) else worth.__getitem__
    return lambda first, second: "A" if value(first) > value(second) else "B"


def number(name: str) -> float:
    return float(name[1:])


# --- orders and triples -------------------------------------------------------------------------


def test_a_judge_that_always_says_a_flips_every_pair_to_the_first_shown() -> None:
    items = scored_items(responses([1, 2, 3], [1, 2, 3]), CRITERION)
    found = measured(items)
    flips = found["order flips"]
    assert (flips.value, flips.low, flips.high, flips.kept, flips.total) == (1, 1, 1, 6, 6)
    assert flips.note == "6 of 6 flips to the response shown first"
    # It is right where the better one happens to stand first.
    n_first = sum(gold == 1 for gold in items.gold)
    assert 0 < n_first < 6
    assert found["pairwise accuracy"].value == pytest.approx(n_first / 6)
    # All scores are equal: every pair is a tie by scores, which is never right.
    assert found["accuracy by two scores"].value == 0
    assert (found["accuracy by two scores"].n_ties, found["cross-format gap"].n_ties) == (6, 6)
    assert found["cross-format gap"].value == pytest.approx(n_first / 6)
    assert found["run-to-run alpha"].why_not.startswith("all scores are equal")


def test_a_total_order_has_no_flip_and_no_cycle() -> None:
    items = scored_items(responses([1, 2, 3, 4], [5, 1, 2, 2]), CRITERION)
    found = measured(items, lambda name, run: number(name) + 1, better(number))
    assert (found["order flips"].value, found["order flips"].kept) == (0, 12)
    cycles = found["cycles"]
    assert (cycles.value, cycles.low, cycles.high, cycles.kept, cycles.total) == (0, 0, 0, 8, 8)
    assert found["run-to-run alpha"].value == 1
    # Right on all six pairs of the first source; of the second (5, 1, 2, 2) on two of six, one of
    # which is a gold tie.
    accuracy = found["pairwise accuracy"]
    assert accuracy.value == pytest.approx((6 + 2) / 11)
    assert (accuracy.kept, accuracy.total) == (11, 12)
    assert accuracy.note == "left out: 1 gold ties, 0 without gold"
    gap = found["cross-format gap"]
    assert (gap.value, gap.low, gap.high) == (0, 0, 0)


def test_of_rock_paper_and_scissors_every_triple_is_a_cycle() -> None:
    items = scored_items(responses([1, 2, 3], [1, 2, 3], [1, 2]), CRITERION)
    wins = lambda first, second: "A" if (number(first) - number(second)) % 3 == 1 else "B"  # noqa: E731
    found = measured(items, choice=wins)
    cycles = found["cycles"]
    assert (cycles.value, cycles.low, cycles.high, cycles.kept, cycles.total) == (1, 1, 1, 2, 2)
    assert cycles.note.startswith("chance 0.25; left out: 0")
    assert found["order flips"].value == 0


def test_a_triple_without_three_winners_is_left_out_and_counted() -> None:
    items = scored_items(responses([1, 2, 3], [1, 2, 3]), CRITERION)

    def choice(first: str, second: str) -> str:
        if {first, second} == {"a0", "a1"}:
            return "neither"
        return "tie" if {first, second} == {"b0", "b1"} else better(number)(first, second)

    found = measured(items, choice=choice, ties="true")
    cycles = found["cycles"]
    assert (cycles.kept, cycles.total) == (0, 2)
    assert cycles.why_not == "each triple has a tie or an unreadable verdict"
    flips = found["order flips"]
    assert (flips.kept, flips.total, flips.n_ties, flips.n_unreadable) == (4, 6, 1, 1)
    # Gold is no tie: a tie and an unreadable verdict are wrong, and stay in the denominator.
    accuracy = found["pairwise accuracy"]
    assert accuracy.value == pytest.approx(4 / 6)
    assert accuracy.kept == 6
    assert (accuracy.n_ties, accuracy.n_unreadable) == (1, 1)


def test_pairs_that_share_a_source_make_triples() -> None:
    rows = [
        pair("p0", "s", "a0", "a1", 1), pair("p1", "s", "a1", "a2", 1),
        pair("p2", "s", "a2", "a0", 0), pair("p3", "s", "a0", "a3"),
        pair("p4", "t", "b0", "b1", -1), pair("p5", "s", "a1", "a0", -1),
    ]  # fmt: skip
    items = preferred_items(rows, CRITERION)
    assert [item.response for item in items.responses] == ["a0", "a1", "a2", "a3", "b0", "b1"]
    assert items.places.tolist() == [[0, 1], [1, 2], [2, 0], [0, 3], [4, 5], [1, 0]]
    found = measured(items)
    # Said A: a0 > a1, a1 > a2, a2 > a0. That a1 > a0 in p5 came later; a3 has no triple.
    assert (found["cycles"].value, found["cycles"].kept, found["cycles"].total) == (1, 1, 1)
    assert found["pairwise accuracy"].value == pytest.approx(2 / 4)
    assert found["pairwise accuracy"].note == "left out: 1 gold ties, 1 without gold"
    assert found["gold pairs (paper_compat)"].why_not == "there are no gold scores"


# --- formats ------------------------------------------------------------------------------------


def test_the_gap_between_formats_by_hand() -> None:
    scores = {"a": 4, "b": 2, "c": 5, "d": 5, "e": 1, "f": 3}
    rows = [
        pair("p0", "s0", "a", "b", 1), pair("p1", "s1", "c", "d", 1), pair("p2", "s2", "e", "f", 1),
        pair("p3", "s3", "a", "b", 0), pair("p4", "s4", "c", "none", 1),
    ]  # fmt: skip
    found = measured(
        preferred_items(rows, CRITERION), lambda name, run: scores.get(name, "-"), runs=1
    )
    # As pairs: A everywhere, 4 of 4. By scores: 4 > 2 right, 5 = 5 wrong, 1 < 3 wrong, none wrong.
    assert found["pairwise accuracy"].value == 1
    by_scores = found["accuracy by two scores"]
    assert (by_scores.value, by_scores.kept, by_scores.total) == (0.25, 4, 5)
    assert (by_scores.n_ties, by_scores.n_unreadable) == (1, 1)
    gap = found["cross-format gap"]
    assert (gap.value, gap.kept, gap.n_ties, gap.n_unreadable) == (0.75, 4, 1, 1)
    # The marks differ by -1, -1, -1 and 0, one a source: as the mean of these.
    low, high = (abs(each) for each in mean_ends([0, -1, -1, -1], after=2))
    assert (gap.low, gap.high) == pytest.approx((high, low))
    assert gap.note.startswith("by scores less pairwise: -0.750 [-1.000, ")


def mean_ends(values: Sequence[float], *, after: int) -> tuple[float, float]:
    """Return the interval of a mean, with a generator as so many intervals before left it."""
    rng = np.random.default_rng(0)
    for _ in range(after + 1):
        found = mean_interval(values, rng=rng, n_resamples=200)
    return found.low, found.high


def test_the_gap_reaches_zero_where_the_difference_does() -> None:
    rows = [pair(f"p{i}", f"s{i}", "a", "b" if i % 2 else "c", 1 - 2 * (i % 2)) for i in range(8)]
    # By scores a > b and a > c, as pairs A: both are right on the same half.
    found = measured(preferred_items(rows, CRITERION), lambda name, run: 5 if name == "a" else 1)
    assert found["cross-format gap"].value == 0
    other = measured(
        preferred_items(rows, CRITERION),
        lambda name, run: {"a": 3, "b": 5, "c": 4}[name],
        better({"a": 3, "b": 2, "c": 1}.__getitem__),
    )
    # By scores b > a (right) and c > a (wrong); as pairs a > b (wrong), a > c (right): the
    # difference is +1 on four sources and -1 on four.
    gap = other["cross-format gap"]
    assert (gap.value, gap.low) == (0, 0)
    assert 0 < gap.high < 1
    assert re.search(r"\+0\.000 \[-0\.\d+, \+0\.\d+\]", gap.note)


def test_pairs_are_decided_by_the_scores_of_the_first_run() -> None:
    items = preferred_items([pair("p", "s", "a", "b", 1)], CRITERION)
    found = measured(items, lambda name, run: 4 if (name == "a") == (run == 0) else 2)
    # First a 4 and b 2, then twice the reverse.
    assert found["accuracy by two scores"].value == 1


def test_a_format_that_cannot_be_read_has_no_gap() -> None:
    items = preferred_items([pair("p", "s", "a", "b", 1)], CRITERION)
    found = measured(items, lambda name, run: "?")
    assert found["cross-format gap"].why_not == "no verdict of one of the formats can be read"
    assert math.isnan(found["cross-format gap"].value)
    assert (found["accuracy by two scores"].value, found["pairwise accuracy"].value) == (0, 1)


def test_an_engine_that_fails_leaves_nothing_but_counts() -> None:
    down = ScriptedEngine(lambda request: Failure(request_id=request.id, message="down"))
    items = scored_items(responses([1, 2, 3]), CRITERION)
    graded = judged("prometheus-absolute", items.responses, down, runs="2")
    compared = judged("prometheus-relative", items.pairs, down, orders="both")
    rng = np.random.default_rng(0)
    found = consistency_measures(items, graded, compared, runs=2, rng=rng)
    alpha, flips, *_ = found
    assert (alpha.n_unreadable, alpha.kept, alpha.total) == (6, 0, 3)
    assert (flips.n_unreadable, flips.kept, flips.total) == (3, 0, 3)
    assert flips.why_not == "no pair has a winner in both orders"
    assert text_statuses("j", compared, 2) == ("j", {"engine_error": 6}, 6, 0)


def test_an_empty_response_loses_by_scores_to_one_with_a_score() -> None:
    rows = [pair("p0", "s", "a", " "), pair("p1", "s", "b", " "), pair("p2", "s", " ", "  ")]
    items = preferred_items(rows, CRITERION)
    scripted = engine(lambda name, run: 1 if name == "a" else "?", lambda first, second: "A")
    graded = judged("prometheus-absolute", items.responses, scripted)
    scores = written_scores(graded, 1)
    verdicts = verdicts_by_scores(scores[0], graded, items.places)
    assert verdicts.tolist() == pytest.approx([1, NAN, NAN], nan_ok=True)
    # As the judge of pairs has it that compares two scores.
    method = api.judge_method(
        "prometheus-absolute", task="instruction", pairs=True, options={"score_mode": "text"}
    )
    events = Runner(fit(method, scripted), scripted, Store()).run(items.pairs)
    values = {each.judgment.item_id: each.judgment.value for each in events if each.judgment}
    assert values == {"p0": 1, "p1": None, "p2": None}


# --- runs ---------------------------------------------------------------------------------------


def test_runs_are_compared_by_a_published_alpha() -> None:
    runs = [
        [NAN, NAN, NAN, NAN, NAN, 3, 4, 1, 2, 1, 1, 3, 3, NAN, 3],
        [1, NAN, 2, 1, 3, 3, 4, 3, NAN, NAN, NAN, NAN, NAN, NAN, NAN],
        [NAN, NAN, 2, 1, 3, 4, 4, NAN, 2, 1, 1, 3, 3, NAN, 4],
    ]
    items = scored_items(responses(*([1.0] for _ in range(15))), CRITERION)

    def score(name: str, run: int) -> object:
        value = runs[run]["abcdefghijklmno".index(name[0])]
        return "none" if math.isnan(value) else int(value)

    found = measured(items, score)
    alpha = found["run-to-run alpha"]
    # krippendorff 0.9.0: alpha(runs, level_of_measurement="ordinal")
    assert alpha.value == pytest.approx(0.8067214199413153, abs=1e-12)
    assert (alpha.kept, alpha.total) == (12, 15)
    assert alpha.n_unreadable == 6 + 8 + 4
    assert alpha.note == "18 of 45 runs without a score"
    assert alpha.low < alpha.value < alpha.high <= 1
    others = [each for name, each in found.items() if name != "run-to-run alpha"]
    assert {each.why_not for each in others} == {"no source has two different responses"}
    assert len(others) == 6
    graded = judged(
        "prometheus-absolute", items.responses, engine(score, lambda a, b: "A"), runs="3"
    )
    statuses = text_statuses("j", graded, 3)
    assert statuses == ("j", {"ok": 27, "parse_failed": 18}, 45, 0)


def test_texts_that_were_never_written_count_and_those_drawn_again_are_said() -> None:
    items = preferred_items([pair("p", "s", "a", " ")], CRITERION)
    scripted = engine(lambda name, run: 4 if run >= 2 else "?", lambda first, second: "A")
    graded = judged("prometheus-absolute", items.responses, scripted, runs="2", retries="1")
    assert written_scores(graded, 2) == pytest.approx(np.array([[4, NAN], [4, NAN]]), nan_ok=True)
    assert text_statuses("j", graded, 2) == ("j", {"ok": 2, "empty_response": 2}, 4, 2)


def test_one_run_has_no_alpha_and_all_else_is_measured() -> None:
    items = scored_items(responses([1, 2, 3], [2, 1, 3]), CRITERION)
    found = measured(items, lambda name, run: number(name) + 1, better(number), runs=1)
    alpha = found.pop("run-to-run alpha")
    assert alpha.why_not == "one run of each response; it takes two or more"
    assert (alpha.kept, alpha.total) == (0, 6)
    assert not any(each.why_not for each in found.values())


def test_unreadable_runs_leave_no_alpha() -> None:
    items = scored_items(responses([1, 2], [1, 2]), CRITERION)
    alpha = measured(items, lambda name, run: 3 if run == 0 else "?")["run-to-run alpha"]
    assert (alpha.why_not, alpha.n_unreadable) == ("no response has a score in two runs", 8)


# --- gold scores --------------------------------------------------------------------------------


def test_the_papers_transitivity_is_accuracy_weighted_by_the_scores_in_between() -> None:
    items = scored_items(responses([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]), CRITERION)

    def choice(first: str, second: str) -> str:
        # Wrong on the pair of scores 1 and 5 of the first source: weight 3 of 10.
        wrong = {first, second} == {"a0", "a4"}
        return better(number)(*((second, first) if wrong else (first, second)))

    found = measured(items, choice=choice)["gold pairs (paper_compat)"]
    assert found.value == pytest.approx(17 / 20)
    assert (found.kept, found.total) == (12, 20)
    assert found.note == "weight 20"
    # Of two sources, 0.7 and 1, either may be drawn twice.
    assert (found.low, found.high) == pytest.approx((0.7, 1))


@pytest.mark.parametrize(
    ("golds", "why"),
    [
        ([1.5, 3, 5], "gold scores are not whole, as means of raters are not"),
        ([1, 2, 2], "no two gold scores of a source differ by 2 or more"),
    ],
)
def test_gold_that_the_paper_could_not_use(golds: list[float], why: str) -> None:
    found = measured(scored_items(responses(golds), CRITERION), choice=better(number))
    assert found["gold pairs (paper_compat)"].why_not == why
    assert math.isnan(found["gold pairs (paper_compat)"].value)


def test_without_gold_the_judge_is_still_measured_against_itself() -> None:
    found = measured(scored_items(responses([NAN, NAN, NAN]), CRITERION), choice=better(number))
    for name in ("pairwise accuracy", "accuracy by two scores", "cross-format gap"):
        assert found[name].why_not == "no pair has a gold preference for one of its responses"
    assert found["gold pairs (paper_compat)"].why_not == "there are no gold scores"
    assert (found["order flips"].value, found["cycles"].value) == (0, 0)


# --- intervals ----------------------------------------------------------------------------------


def test_sources_are_drawn_whole() -> None:
    # One source all right, one all wrong: drawn whole, a resample is 0, 1/2 or 1.
    rows = responses([1, 2, 3, 4, 5], [5, 4, 3, 2, 1])
    found = measured(scored_items(rows, CRITERION), choice=better(number))["pairwise accuracy"]
    assert (found.value, found.low, found.high) == (0.5, 0, 1)


def test_one_source_has_no_interval() -> None:
    found = measured(
        scored_items(responses([1, 2, 3]), CRITERION),
        lambda name, run: number(name) + 1,
        better(number),
    )
    for each in found.values():
        assert not math.isnan(each.value)
        assert math.isnan(each.low)
        assert math.isnan(each.high)


# --- what is judged -----------------------------------------------------------------------------


def test_all_pairs_of_a_source_are_formed_in_an_order_that_the_seed_draws() -> None:
    rows = responses([1, 2, 3, 4, 5], [3, 1])
    items = scored_items(rows, CRITERION)
    assert len(items.responses) == 7
    assert len(items.pairs) == 10 + 1
    for item, (first, second), gold in zip(items.pairs, items.places, items.gold, strict=True):
        assert item.responses == (rows[first].response, rows[second].response)
        assert item.systems == (rows[first].system, rows[second].system)
        assert rows[first].source == rows[second].source == item.source
        lead = rows[first].gold["coherence"] - rows[second].gold["coherence"]
        assert gold == np.sign(lead)
    # Not always the earlier one first, and the same for fewer sources.
    assert {1.0, -1.0} == set(items.gold.tolist())
    fewer = scored_items(rows[:5], CRITERION)
    assert [each.id for each in fewer.pairs] == [each.id for each in items.pairs[:10]]
    assert scored_items(rows, CRITERION, seed=1).gold.tolist() != items.gold.tolist()


def test_equal_texts_are_not_compared_and_counted() -> None:
    rows = responses([1, 2, 3])
    twice = [rows[0], rows[1], RatedResponse(**{**vars(rows[2]), "response": "a0"})]
    items = scored_items(twice, CRITERION)
    assert (len(items.responses), len(items.pairs), items.n_equal) == (3, 2, 1)
    assert measured(items)["cycles"].why_not.startswith("no three responses")
    pairs = preferred_items([pair("p", "s", "a", "a", 0), pair("q", "s", "a", "b", 1)], CRITERION)
    assert (len(pairs.responses), len(pairs.pairs), pairs.n_equal) == (2, 1, 1)
    assert pairs.gold.tolist() == [1]


def test_responses_are_paired_by_their_criterion_and_share_a_reference() -> None:
    wit = Criterion(name="coherence", title="Wit", description="fun")
    one, two = responses([1, 2], criterion=CRITERION), responses([1, 2], criterion=wit)
    rows = [
        RatedResponse(**{**vars(row), "id": f"{k}{row.id}", "reference_answers": (answer,)})
        for k, (row, answer) in enumerate(zip([*one, *two], "rrrs", strict=True))
    ]
    items = scored_items(rows, None)
    assert [item.criterion.title for item in items.pairs] == ["Coherence", "Wit"]
    assert [item.reference_answer for item in items.pairs] == ["r", ""]
    assert [item.reference_answer for item in items.responses] == ["r", "r", "r", "s"]


def test_pairs_without_a_criterion_are_refused() -> None:
    with pytest.raises(ConfigError, match="the pair 'p' has no criterion of its own"):
        preferred_items([pair("p", "s", "a", "b")], None)
