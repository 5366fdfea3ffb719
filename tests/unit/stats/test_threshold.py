"""Precision and recall at a threshold, and the Wilson interval, against written-out formulas."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.errors import DataError
from adjudge.stats.threshold import at_threshold, threshold_curve, wilson_interval

NAN = math.nan
marks = st.sampled_from([0.0, 1.0, NAN])
values = st.one_of(st.just(NAN), st.integers(1, 6).map(float))
rated = st.lists(st.tuples(values, marks), max_size=30)


def wilson(k: int, n: int, confidence: float) -> tuple[float, float]:
    """Return the ends as Wilson (1927) has them."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p = k / n
    centre = p + z**2 / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return (centre - half) / (1 + z**2 / n), (centre + half) / (1 + z**2 / n)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 10), (8, 10), (10, 10), (37, 1000)])
def test_wilson_interval_is_the_closed_formula(k: int, n: int, confidence: float) -> None:
    share = wilson_interval(k, n, confidence=confidence)
    assert share.value == k / n
    assert (share.low, share.high) == pytest.approx(wilson(k, n, confidence), abs=1e-12)


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        # proportion_confint(k, n, method="wilson") of statsmodels
        (8, 10, 0.490162, 0.943318),
        (0, 10, 0.0, 0.277533),
        (10, 10, 0.722467, 1.0),
        (5, 10, 0.236593, 0.763407),
    ],
)
def test_wilson_interval_is_what_other_tools_say(k: int, n: int, low: float, high: float) -> None:
    share = wilson_interval(k, n)
    assert (share.low, share.high) == pytest.approx((low, high), abs=1e-6)
    assert 0 <= share.low <= share.value <= share.high <= 1


def test_nothing_to_count_has_no_share() -> None:
    assert all(math.isnan(each) for each in wilson_interval(0, 0))


def test_a_threshold_by_hand() -> None:
    # kept: 3 (good), 3 (bad), 4 (good), 5 (good); the good 2 is lost
    result = at_threshold([1, 2, 3, 3, 4, 5], [0, 1, 1, 0, 1, 1], 3)
    assert (result.threshold, result.n_kept, result.n_dropped, result.n_good) == (3.0, 4, 2, 4)
    assert result.precision == wilson_interval(3, 4)
    assert result.recall == wilson_interval(3, 4)
    assert result.precision.value == 0.75


def test_the_threshold_itself_is_kept() -> None:
    assert at_threshold([2.5, 2.4999], [1, 1], 2.5).n_kept == 1


def test_an_item_without_a_score_is_dropped() -> None:
    result = at_threshold([NAN, NAN, 4], [1, 0, 1], 1)
    assert (result.n_kept, result.n_dropped, result.n_good) == (1, 2, 2)
    assert (result.precision.value, result.recall.value) == (1.0, 0.5)
    assert at_threshold([NAN, NAN], [1, 0], -math.inf).n_dropped == 2


def test_an_item_without_gold_does_not_count() -> None:
    result = at_threshold([1, 5, 5, 5], [1, NAN, 0, 1], 3)
    assert (result.n_kept, result.n_dropped, result.n_good) == (2, 1, 2)
    assert (result.precision.value, result.recall.value) == (0.5, 0.5)


def test_without_kept_or_good_items_there_is_no_share() -> None:
    none_kept = at_threshold([1, 2], [1, 0], 9)
    assert (none_kept.n_kept, none_kept.recall.value) == (0, 0.0)
    assert math.isnan(none_kept.precision.value)
    none_good = at_threshold([1, 2], [0, 0], 2)
    assert (none_good.n_good, none_good.precision.value) == (0, 0.0)
    assert math.isnan(none_good.recall.value)
    nothing = at_threshold([], [], 1)
    assert (nothing.n_kept, nothing.n_dropped, nothing.n_good) == (0, 0, 0)


def test_booleans_are_marks_too() -> None:
    assert at_threshold([1, 2], np.array([False, True]), 2).precision.value == 1.0


def test_the_curve_has_a_point_per_score_of_an_item_with_gold() -> None:
    curve = threshold_curve([3, 1, NAN, 2, 2, 7], [1, 0, 1, 0, 1, NAN])
    assert [point.threshold for point in curve] == [1, 2, 3]
    assert [(point.n_kept, point.n_dropped) for point in curve] == [(4, 1), (3, 2), (1, 4)]
    assert [point.precision.value for point in curve] == pytest.approx([2 / 4, 2 / 3, 1])
    assert [point.recall.value for point in curve] == pytest.approx([2 / 3, 2 / 3, 1 / 3])
    assert threshold_curve([NAN], [1]) == []
    assert threshold_curve([], []) == []


@given(rated)
def test_along_the_curve_fewer_are_kept_and_recall_falls(pairs: list[tuple[float, float]]) -> None:
    scores, good = [score for score, _ in pairs], [mark for _, mark in pairs]
    curve = threshold_curve(scores, good)
    counted = [pair for pair in pairs if not math.isnan(pair[1])]
    for point in curve:
        # Texts, since a share that is NaN equals none.
        assert str(point) == str(at_threshold(scores, good, point.threshold))
        assert point.n_kept + point.n_dropped == len(counted)
        assert point.n_kept == sum(score >= point.threshold for score, _ in counted)
    for point, later in pairwise(curve):
        assert point.threshold < later.threshold
        assert point.n_kept > later.n_kept
        assert point.n_good == later.n_good
        if point.n_good:
            assert point.recall.value >= later.recall.value


@pytest.mark.parametrize(
    ("scores", "good", "message"),
    [
        ([1, 2], [1], r"scores have shape \(2,\), good \(1,\): give two vectors"),
        ([[1, 2]], [[1, 0]], r"scores have shape \(1, 2\), good \(1, 2\): give two vectors"),
        (1, 1, r"scores have shape \(\), good \(\): give two vectors"),
        ([1, 2], [1, 3], "good is 1, 0 or NaN"),
        ([1, 2], [0.5, 0], "good is 1, 0 or NaN"),
        ([NAN, 2], [math.inf, 0], "good is 1, 0 or NaN"),
    ],
)
def test_what_is_no_marked_scores_is_refused(scores: object, good: object, message: str) -> None:
    for refused in (
        lambda: at_threshold(scores, good, 1),  # type: ignore[arg-type]
        lambda: threshold_curve(scores, good),  # type: ignore[arg-type]
    ):
        with pytest.raises(DataError, match=message):
            refused()
