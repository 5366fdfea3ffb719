"""Figures of a table by hand, and against scipy and numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from adjudge.benchmarks.base import RatedPair, RatedResponse
from adjudge.experiments.figures import Judged, figure, table_cells
from adjudge.experiments.tables import Job, TableColumn, TableJudge, TablePreset, TableRow
from adjudge.schema import Judgment, Source, Status

SCORES = TableColumn(name="scores", benchmark="ours", judges=("a",), gold="rubric")
PAIRS = TableColumn(name="pairs", benchmark="ours", judges=("a",))
BOTH = ("a", "b")


def responses(gold: Sequence[Sequence[float]]) -> list[RatedResponse]:
    """Return responses to as many sources as there are lists."""
    return [
        RatedResponse(
            id=f"{j}/{i}", source=Source(id=f"s{j}", text=f"question {j}"), system="",
            response=f"answer {i}", gold={"rubric": value},
        )
        for j, values in enumerate(gold)
        for i, value in enumerate(values)
    ]  # fmt: skip


def pairs(gold: Sequence[Sequence[float]]) -> list[RatedPair]:
    return [
        RatedPair(
            id=f"{j}/{i}", source=Source(id=f"s{j}", text=f"question {j}"), systems=("", ""),
            responses=("one", "other"), gold=value,
        )
        for j, values in enumerate(gold)
        for i, value in enumerate(values)
    ]  # fmt: skip


def judged(
    rows: Sequence[RatedResponse | RatedPair], values: Sequence[float | None]
) -> list[Judgment]:
    return [
        Judgment(
            item_id=row.id, source_id=row.source.id, system="", criterion="rubric", value=value,
            status=Status.PARSE_FAILED if value is None else Status.OK,
        )
        for row, value in zip(rows, values, strict=True)
    ]  # fmt: skip


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_pearson_is_pooled_over_all_items_with_both_numbers() -> None:
    rows = responses([[1, 2, 3], [5], [4, math.nan]])
    scores = [2, None, 3, 4, 5, 1]
    found = figure("pearson", SCORES, rows, [judged(rows, scores)], rng=rng())
    expected = stats.pearsonr([2, 3, 4, 5], [1, 3, 5, 4]).statistic
    assert found.value == pytest.approx(expected)
    assert (found.kept, found.total, found.parts) == (4, 6, ())
    assert found.low <= found.value <= found.high


def test_the_interval_is_over_whole_sources() -> None:
    # Two sources: a resample is the first twice, both, or the second twice (1/4, 1/2, 1/4).
    rows = responses([[1, 2, 3], [1, 2, 3]])
    scores = [1, 2, 4, 3, 2, 1]
    found = figure("pearson", SCORES, rows, [judged(rows, scores)], rng=rng())
    first = stats.pearsonr([1, 2, 4], [1, 2, 3]).statistic
    assert (found.low, found.high) == pytest.approx((-1, first))
    single = figure("pearson", SCORES, rows[:3], [judged(rows[:3], scores[:3])], rng=rng())
    assert single.value == pytest.approx(first)
    assert math.isnan(single.low)
    assert math.isnan(single.high)


def test_a_difference_is_of_the_items_that_both_scored() -> None:
    rows = responses([[1, 2], [3, 4], [5, 1]])
    one, other = [1, 3, 2, 5, None, 2], [1, 2, 3, None, 5, 1]
    column = replace(SCORES, judges=BOTH)
    found = figure("pearson", column, rows, [judged(rows, one), judged(rows, other)], rng=rng())
    a = stats.pearsonr([1, 3, 2, 2], [1, 2, 3, 1]).statistic
    assert found.parts == pytest.approx((a, 1.0))
    assert found.value == pytest.approx(1.0 - a)
    assert (found.kept, found.total) == (4, 6)


def test_resamples_are_shared_by_both() -> None:
    gold = np.random.default_rng(1).integers(1, 6, (30, 2)).astype(float)
    rows = responses(gold.tolist())
    scores = (gold + np.random.default_rng(2).normal(0, 2, gold.shape)).ravel().tolist()
    column = replace(SCORES, judges=BOTH)
    found = figure("pearson", column, rows, [judged(rows, scores)] * 2, rng=rng())
    assert (found.value, found.low, found.high) == (0, 0, 0)
    # Twice the same resamples by hand: of one judge, and of another that is worse.
    worse = (np.array(scores) + np.random.default_rng(3).normal(0, 2, gold.size)).tolist()
    both = [judged(rows, worse), judged(rows, scores)]
    found = figure("pearson", column, rows, both, rng=rng(), n_resamples=50)
    drawn = []
    for counts in rng().multinomial(30, np.full(30, 1 / 30), size=50):
        taken = np.repeat(np.arange(60).reshape(30, 2), counts, axis=0).ravel()
        values = [
            stats.pearsonr(np.array(each)[taken], gold.ravel()[taken]).statistic
            for each in (worse, scores)
        ]
        drawn.append(values[1] - values[0])
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))


def test_accuracy_in_percent_with_and_without_ties() -> None:
    rows = pairs([[1, -1, 0], [1, 0]])
    verdicts = judged(rows, [1, 1, 0, None, 0.3])
    counted = figure("accuracy", PAIRS, rows, [verdicts], rng=rng())
    # One of five is right: a gold tie never is, and an unreadable verdict stays.
    assert (counted.value, counted.kept, counted.total) == (20, 5, 5)
    without = figure("accuracy", replace(PAIRS, ties=False), rows, [verdicts], rng=rng())
    assert without.value == pytest.approx(100 / 3)
    assert (without.kept, without.total) == (3, 5)
    # The first source alone has 1 of 2, the second 0 of 1.
    assert (without.low, without.high) == pytest.approx((0, 50))


@pytest.mark.parametrize("swapped", [False, True])
def test_how_far_apart_two_accuracies_are(*, swapped: bool) -> None:
    rows = pairs([[1, 1], [1, 1], [1, 1]])
    column = replace(PAIRS, judges=BOTH, ties=False)
    one, other = judged(rows, [1, 1, 1, -1, 1, 1]), judged(rows, [1, -1, -1, -1, 1, -1])
    both = [other, one] if swapped else [one, other]
    found = figure("accuracy", column, rows, both, rng=rng())
    # 5 and 2 of 6. The sources differ by one pair each, and so does every resample.
    assert found[:3] == pytest.approx((50, 50, 50))
    assert sorted(found.parts) == pytest.approx([100 / 3, 500 / 6])


def test_the_interval_of_a_distance_begins_at_zero_where_the_sign_is_open() -> None:
    rows = pairs([[1.0]] * 8)
    one, other = (
        judged(rows, [1, 1, 1, 1, -1, -1, -1, 1]),
        judged(rows, [1, -1, -1, -1, 1, 1, 1, 1]),
    )
    column = replace(PAIRS, judges=BOTH)
    found = figure("accuracy", column, rows, [one, other], rng=rng())
    assert found.value == found.low == 0
    assert 25 < found.high <= 100


def test_a_judge_that_always_fails_is_no_distance_from_another() -> None:
    rows = pairs([[1, -1], [1, -1]])
    failing = judged(rows, [None] * 4)
    for other in ([None] * 4, [-1, 1, -1, 1]):
        found = figure(
            "accuracy", replace(PAIRS, judges=BOTH), rows, [failing, judged(rows, other)], rng=rng()
        )
        assert math.isnan(found.value)
        assert math.isnan(found.low)
        assert found.parts == (0, 0)


def test_no_figure_where_nothing_is_scored() -> None:
    rows = responses([[1, 2], [3, 4]])
    for scores in ([None] * 4, [2.0] * 4):
        found = figure("pearson", SCORES, rows, [judged(rows, scores)], rng=rng())
        assert math.isnan(found.value)
        assert math.isnan(found.low)
    ties = pairs([[0, 0], [0]])
    verdicts = judged(ties, [1, 1, 1])
    found = figure("accuracy", replace(PAIRS, ties=False), ties, [verdicts], rng=rng())
    assert (math.isnan(found.value), found.kept, found.total) == (True, 0, 3)


# --- cells --------------------------------------------------------------------------------------

PRESET = TablePreset(
    name="table",
    title="A table",
    source="Nobody 2000",
    measure="pearson",
    judges={name: TableJudge(judge="prometheus-absolute") for name in BOTH},
    columns=(
        SCORES,
        replace(SCORES, name="other"),
        replace(SCORES, name="difference", judges=BOTH),
        TableColumn(name="nothing", instead="not run", why="nobody can"),
        replace(SCORES, name="missing"),
    ),
    rows=(TableRow(label="Famous 1B", name="famous", printed=("0.1",) * 5),),
)


def test_cells_have_figures_or_say_why_not() -> None:
    rows = responses([[1, 2], [3, 4]])
    outcomes: dict[Job, Judged | str] = {
        Job("m", "ours", "a"): Judged("run1", judged(rows, [1, 2, 4, None])),
        Job("m", "ours", "b"): "the prompt does not fit",
    }
    first, second, difference, nothing, missing = table_cells(
        PRESET, "m", {"ours": rows}, {"missing": "fetch it"}, outcomes, n_resamples=20
    )
    assert first.figure
    assert first.figure.value == pytest.approx(stats.pearsonr([1, 2, 4], [1, 2, 3]).statistic)
    assert first.runs == {"run1": {"parse_failed": 1}}
    assert second == first._replace(column="other")
    assert (difference.instead, difference.why) == ("failed", "the prompt does not fit")
    assert (nothing.instead, nothing.why) == ("not run", "nobody can")
    assert (missing.instead, missing.why) == ("no data", "fetch it")
