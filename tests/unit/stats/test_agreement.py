"""Agreement of raters, against other tools and by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.errors import ConfigError, DataError
from adjudge.stats.agreement import (
    cohen_kappa,
    confusion_matrix,
    exact_match,
    human_ceiling,
    krippendorff_alpha,
    mean_absolute_error,
    midranks,
)

NAN = math.nan
A = [1, 2, 3, 4, 5, 3, 2, 4, 1, 5]
B = [1, 3, 3, 4, 4, 2, 2, 5, 1, 3]
#: Three raters, fifteen units, gaps; the first and the tenth to thirteenth have too few.
GAPS = [
    [NAN, NAN, NAN, NAN, NAN, 3, 4, 1, 2, 1, 1, 3, 3, NAN, 3],
    [1, NAN, 2, 1, 3, 3, 4, 3, NAN, NAN, NAN, NAN, NAN, NAN, NAN],
    [NAN, NAN, 2, 1, 3, 4, 4, NAN, 2, 1, 1, 3, 3, NAN, 4],
]
RATERS: list[list[float]] = [
    [1, 2, 3, 4, 5, 4, 2, 3],
    [2, 2, 3, 5, 4, 4, 1, 3],
    [1, 3, 2, 4, 5, 5, 2, NAN],
]

scores = st.integers(1, 5)
rated = st.lists(st.tuples(scores, scores), min_size=2, max_size=30)
matrices = st.integers(2, 12).flatmap(
    lambda n: st.lists(
        st.lists(st.one_of(st.none(), scores), min_size=n, max_size=n), min_size=2, max_size=4
    )
)


def as_matrix(rows: Any) -> Any:
    return np.array(rows, dtype=float)


def close(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or a == pytest.approx(b, abs=1e-9)


def test_exact_match_and_error_leave_out_what_was_not_rated() -> None:
    assert exact_match([1, 2, NAN, 4], [1, 3, 3, NAN]) == (0.5, 2, 4)
    assert mean_absolute_error([1, 2, NAN, 4], [1, 5, 3, NAN]) == (1.5, 2, 4)


def test_nothing_rated_is_undefined() -> None:
    for result in (exact_match([NAN], [1]), mean_absolute_error([], []), cohen_kappa([NAN], [1])):
        assert math.isnan(result.value)
        assert result.kept == 0


def test_error_and_confusion_equal_those_of_scikit_learn() -> None:
    # scikit-learn 1.9.1: mean_absolute_error(A, B), confusion_matrix(A, B)
    assert mean_absolute_error(A, B).value == pytest.approx(0.6, abs=1e-12)
    assert confusion_matrix(A, B, [1, 2, 3, 4, 5]).counts.tolist() == [
        [2, 0, 0, 0, 0],
        [0, 1, 1, 0, 0],
        [0, 1, 1, 0, 0],
        [0, 0, 0, 1, 1],
        [0, 0, 1, 1, 0],
    ]


def test_a_confusion_matrix_follows_the_order_of_its_labels() -> None:
    result = confusion_matrix([1, 2, NAN], [2, 2, 1], [3, 2, 1])
    assert result.counts.tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 0]]
    assert result.labels.tolist() == [3, 2, 1]
    assert (result.kept, result.total) == (2, 3)


@pytest.mark.parametrize(
    ("weights", "expected"),
    # scikit-learn 1.9.1: cohen_kappa_score(A, B, weights=weights)
    [(None, 0.375), ("linear", 0.605263157894737), ("quadratic", 0.7777777777777778)],
)
def test_kappa_equals_that_of_scikit_learn(weights: Any, expected: float) -> None:
    assert cohen_kappa(A, B, weights=weights).value == pytest.approx(expected, abs=1e-12)


def test_weighted_kappa_needs_the_whole_scale_where_scores_do_not_occur() -> None:
    a, b = [1, 1, 2, 5, 5, 2], [1, 2, 2, 5, 2, 5]
    # scikit-learn 1.9.1: cohen_kappa_score(a, b, weights="quadratic"), and with labels 1 to 5
    assert cohen_kappa(a, b, weights="quadratic").value == pytest.approx(0.5714285714285714)
    whole = cohen_kappa(a, b, weights="quadratic", labels=[1, 2, 3, 4, 5])
    assert whole.value == pytest.approx(0.41237113402061865)


def test_kappa_of_one_label_is_undefined() -> None:
    result = cohen_kappa([2, 2, NAN], [2, 2, 2])
    assert math.isnan(result.value)
    assert (result.kept, result.total) == (2, 3)


@given(rated)
def test_kappa_is_symmetric_and_blind_to_names(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    renamed = np.array([0, 30, 10, 50, 20, 40.0])
    plain = cohen_kappa(a, b).value
    assert close(plain, cohen_kappa(b, a).value)
    assert close(plain, cohen_kappa(renamed[a.astype(int)], renamed[b.astype(int)]).value)
    quadratic = cohen_kappa(a, b, weights="quadratic").value
    assert close(quadratic, cohen_kappa(-a, -b, weights="quadratic").value)


@pytest.mark.parametrize(
    ("level", "expected"),
    # krippendorff 0.9.0: alpha(GAPS, level_of_measurement=level)
    [
        ("nominal", 0.691358024691358),
        ("ordinal", 0.8067214199413153),
        ("interval", 0.8108448928121059),
    ],
)
def test_alpha_equals_that_of_krippendorff(level: Any, expected: float) -> None:
    result = krippendorff_alpha(GAPS, level=level)
    assert result.value == pytest.approx(expected, abs=1e-12)
    assert (result.kept, result.total) == (12, 15)


def test_alpha_of_equal_or_single_ratings_is_undefined() -> None:
    assert math.isnan(krippendorff_alpha([[2, 2], [2, 2]], level="ordinal").value)
    alone = krippendorff_alpha([[1, NAN], [NAN, 2]], level="nominal")
    assert math.isnan(alone.value)
    assert (alone.kept, alone.total) == (0, 2)


@given(matrices, st.randoms(use_true_random=False))
def test_alpha_does_not_see_the_order_of_raters_and_units(rows: Any, random: Any) -> None:
    matrix = as_matrix(rows)
    raters = random.sample(range(len(matrix)), len(matrix))
    units = random.sample(range(matrix.shape[1]), matrix.shape[1])
    for level in ("nominal", "ordinal", "interval"):
        expected = krippendorff_alpha(matrix, level=level)
        mixed = krippendorff_alpha(matrix[raters][:, units], level=level)
        assert close(expected.value, mixed.value)


@given(matrices)
def test_alpha_keeps_what_its_level_says(rows: Any) -> None:
    matrix = as_matrix(rows)
    shuffled = np.array([0, 3, 1, 5, 2, 4.0, NAN])[np.nan_to_num(matrix, nan=6).astype(int)]
    for level, changed in (
        ("nominal", shuffled),
        ("ordinal", matrix**3),
        ("interval", 7 - 0.5 * matrix),
    ):
        assert close(
            krippendorff_alpha(matrix, level=level).value,  # type: ignore[arg-type]
            krippendorff_alpha(changed, level=level).value,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize(
    ("measure", "per_rater", "pairwise"),
    # scipy 1.17.1: pearsonr and spearmanr of each row and np.nanmean of the others, over units
    # with both; and of each pair of rows
    [
        ("pearson", [0.927601446982725, 0.809444658516353, 0.8604560508152727], 0.8269937431667828),
        (
            "spearman",
            [0.9372737671530265, 0.8537220221420361, 0.8333333333333335],
            0.8333333333333334,
        ),
    ],
)
def test_ceiling_equals_correlations_of_scipy(
    measure: Any, per_rater: list[float], pairwise: float
) -> None:
    result = human_ceiling(RATERS, measure=measure)
    assert result.per_rater.tolist() == pytest.approx(per_rater, abs=1e-12)
    assert result.leave_one_out == pytest.approx(sum(per_rater) / 3, abs=1e-12)
    assert result.pairwise == pytest.approx(pairwise, abs=1e-12)
    assert (result.n_pairs, result.kept, result.total) == (3, 8, 8)


def test_ceiling_of_kappa_moves_the_mean_of_the_others_to_a_label() -> None:
    # Means of the others, by rater: 3, 1.5, 2; 2, 1.5, 1.5; 2, 1, 2.5. Halves go down.
    rows = np.array([[1, 1, 2], [3, 2, 2], [3, 1, 1]])
    moved = [[3, 1, 1], [2, 1, 1], [2, 1, 2]]
    result = human_ceiling(rows, measure="kappa")
    assert result.per_rater.tolist() == pytest.approx(
        [
            cohen_kappa(row, other, weights="quadratic", labels=[1, 2, 3]).value
            for row, other in zip(rows, moved, strict=True)
        ]
    )


def test_a_ceiling_may_use_any_function_and_any_shape() -> None:
    rows = np.array(RATERS).reshape(3, 2, 4)
    result = human_ceiling(rows, measure=lambda a, b: float(np.abs(a - b).max()))
    assert result.pairwise == 1.0
    assert result.per_rater.tolist() == [0.5, 1.0, 1.0]
    assert result.total == 8


def test_a_unit_with_one_rating_does_not_enter_the_ceiling() -> None:
    result = human_ceiling([[1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 3.0, NAN]], measure="pearson")
    assert result.per_rater.tolist() == pytest.approx([1, 1])
    assert (result.kept, result.total) == (3, 4)


def test_a_constant_rater_is_left_out_of_the_ceiling() -> None:
    result = human_ceiling([[3, 3, 3], [1, 2, 3], [1, 2, 3]], measure="pearson")
    assert math.isnan(result.per_rater[0])
    assert result.leave_one_out == pytest.approx(1.0)
    assert result.pairwise == pytest.approx(1.0)
    assert result.n_pairs == 1


@given(st.lists(scores, min_size=1, max_size=20))
def test_midranks_order_and_sum(values: list[int]) -> None:
    ranks = midranks(values)
    for value, rank in zip(values, ranks, strict=True):
        below = sum(other < value for other in values)
        assert rank == below + (values.count(value) + 1) / 2


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: exact_match([1], [1, 2]), DataError, "shapes"),
        (lambda: exact_match([math.inf], [1]), DataError, "infinite"),
        (lambda: confusion_matrix([1, 7], [1, 1], [1, 2]), DataError, "a rating is 7"),
        (lambda: confusion_matrix([1], [1], [1, 1]), ConfigError, "distinct"),
        (lambda: confusion_matrix([1], [1], []), ConfigError, "distinct"),
        (lambda: cohen_kappa([1], [1], weights="cubic"), ConfigError, "'cubic'"),  # type: ignore[arg-type]
        (lambda: krippendorff_alpha([1, 2], level="nominal"), DataError, "n_raters, n_units"),
        (lambda: krippendorff_alpha([[1, math.inf]], level="nominal"), DataError, "infinite"),
        (lambda: krippendorff_alpha([[1]], level="ratio"), ConfigError, "'ratio'"),  # type: ignore[arg-type]
        (lambda: human_ceiling([[1, 2]]), DataError, "at least two"),
        (lambda: human_ceiling([1, 2]), DataError, "n_raters, n_units"),
        (lambda: human_ceiling(RATERS, measure="tau"), ConfigError, "'tau'"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_used_is_said(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()
