"""Correlations: values by scipy, by hand and by definition; resampling by counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from adjudge.stats import resampling
from adjudge.stats.correlation import (
    Coefficient,
    Correlation,
    Level,
    correlation,
    kendall_tau_b,
    kendall_tau_c,
    pearson_r,
    spearman_rho,
)
from adjudge.stats.resampling import resampled_correlations

Floats = npt.NDArray[np.float64]
NAN = np.nan
COEFFICIENTS: tuple[Coefficient, ...] = ("pearson", "spearman", "kendall_tau_b", "kendall_tau_c")
LEVELS: tuple[Level, ...] = ("sample", "system", "pooled", "by_source")
VECTORS: dict[Coefficient, Callable[..., float]] = {
    "pearson": pearson_r,
    "spearman": spearman_rho,
    "kendall_tau_b": kendall_tau_b,
    "kendall_tau_c": kendall_tau_c,
}
SCIPY: dict[Coefficient, Callable[[Any, Any], float]] = {
    "pearson": lambda x, y: float(scipy.stats.pearsonr(x, y).statistic),
    "spearman": lambda x, y: float(scipy.stats.spearmanr(x, y).statistic),
    "kendall_tau_b": lambda x, y: float(scipy.stats.kendalltau(x, y, variant="b").statistic),
    "kendall_tau_c": lambda x, y: float(scipy.stats.kendalltau(x, y, variant="c").statistic),
}
coefficients = st.sampled_from(COEFFICIENTS)
levels = st.sampled_from(LEVELS)
policies = st.sampled_from(["skip", "zero", "one"])


def vector(n: int) -> st.SearchStrategy[Floats]:
    return arrays(np.float64, n, elements=st.integers(-4, 4).map(float))


def matrix(shape: tuple[int, int], *, missing: bool = False) -> st.SearchStrategy[Floats]:
    scores = st.integers(0, 3).map(float)
    return arrays(np.float64, shape, elements=scores | st.just(NAN) if missing else scores)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Floats, Floats]:
    n = draw(st.integers(2, 12))
    x, y = draw(vector(n)), draw(vector(n))
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    return x, y


@st.composite
def matrices(draw: st.DrawFn, *, missing: bool = True) -> tuple[Floats, Floats]:
    shape = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    return draw(matrix(shape, missing=missing)), draw(matrix(shape, missing=missing))


# Vectors


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@given(pair=pairs())
def test_vectors_equal_scipy(coefficient: Coefficient, pair: tuple[Floats, Floats]) -> None:
    expected = SCIPY[coefficient](*pair)
    assert VECTORS[coefficient](*pair) == pytest.approx(expected, abs=1e-12)


def test_kendall_by_counting_pairs() -> None:
    # 10 pairs: one tied in x, another in y, 7 concordant, 1 discordant.
    x, y = [1, 2, 2, 3, 4], [2, 1, 3, 3, 5]
    signs = [np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i in range(5) for j in range(i + 1, 5)]
    assert (signs.count(1), signs.count(-1)) == (7, 1)
    assert kendall_tau_b(x, y) == pytest.approx((7 - 1) / np.sqrt((10 - 1) * (10 - 1)), abs=1e-12)
    # Four distinct values on both sides.
    assert kendall_tau_c(x, y) == pytest.approx(2 * 4 * (7 - 1) / (5**2 * (4 - 1)), abs=1e-12)


def test_spearman_without_ties_by_its_formula() -> None:
    # Squared differences of ranks 1, 1, 4, 1, 1: 1 - 6 * 8 / (5 * 24).
    assert spearman_rho([1, 2, 3, 4, 5], [2, 1, 5, 3, 4]) == pytest.approx(0.6, abs=1e-12)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@given(pair=pairs(), slope=st.integers(1, 7), shift=st.integers(-9, 9))
def test_vectors_are_symmetric_and_blind_to_scale(
    coefficient: Coefficient, pair: tuple[Floats, Floats], slope: int, shift: int
) -> None:
    x, y = pair
    value = VECTORS[coefficient](x, y)
    assert VECTORS[coefficient](y, x) == pytest.approx(value, abs=1e-12)
    assert VECTORS[coefficient](slope * x + shift, y) == pytest.approx(value, abs=1e-12)
    assert VECTORS[coefficient](-slope * x, y) == pytest.approx(-value, abs=1e-12)
    assert VECTORS[coefficient](x[::-1], y[::-1]) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_vectors_drop_unjudged_pairs(coefficient: Coefficient) -> None:
    x, y = [1, NAN, 3, 4, 2, 9], [2, 8, 3, 5, 1, NAN]
    expected = SCIPY[coefficient]([1, 3, 4, 2], [2, 3, 5, 1])
    assert VECTORS[coefficient](x, y) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([], []),
        ([1], [2]),
        ([1, NAN], [2, 3]),
        ([0.1, 0.1, 0.1], [1, 2, 3]),
        ([1, 2, 3], [0.7, 0.7, 0.7]),
        ([1, 1, 5], [1, 2, NAN]),
    ],
)
def test_vectors_undefined_is_nan(coefficient: Coefficient, x: Any, y: Any) -> None:
    assert np.isnan(VECTORS[coefficient](x, y))


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_two_pairs_and_extreme_magnitudes(coefficient: Coefficient) -> None:
    assert VECTORS[coefficient]([1, 2], [7, 3]) == -1
    assert VECTORS[coefficient]([1e300, 2e300, 3e300], [1e-300, 2e-300, 3e-300]) == 1
    close = [1.0, float(np.nextafter(1, 2))]
    assert VECTORS[coefficient](close, close) == 1


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_vectors_refuse_infinity_and_unequal_lengths(coefficient: Coefficient) -> None:
    with pytest.raises(ValueError, match=r"y\[1\] is -inf"):
        VECTORS[coefficient]([1, 2], [0, -np.inf])
    with pytest.raises(ValueError, match=r"x has the shape \(2,\) and y \(3,\)"):
        VECTORS[coefficient]([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"x has the shape \(1, 2\); it must be \(n,\)"):
        VECTORS[coefficient]([[1, 2]], [[1, 2]])


@pytest.mark.parametrize("tau", [kendall_tau_b, kendall_tau_c])
def test_kendall_of_100_000_pairs_takes_under_a_second(tau: Callable[..., float]) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 50, 100_000)
    y = x + rng.integers(0, 50, 100_000)
    tau(x[:100], y[:100])  # loads scipy
    started = time.perf_counter()
    value = tau(x, y)
    assert time.perf_counter() - started < 1
    assert 0.3 < value < 0.7


# Levels

GOLD = np.array([[1, 4, 2, 2], [2, 3, 1, 2], [3, 1, 4, 2], [5, 2, 3, 2.0]])
PREDICTION = np.array([[2, 3, 1, 1], [1, 4, 2, 2], [4, 2, 3, 3], [3, 1, 5, 4.0]])


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_levels_equal_scipy_by_definition(coefficient: Coefficient) -> None:
    of = SCIPY[coefficient]
    expected = {
        "sample": np.mean([of(PREDICTION[:, n], GOLD[:, n]) for n in range(3)]),
        "system": of(PREDICTION.mean(axis=1), GOLD.mean(axis=1)),
        "pooled": of(PREDICTION.ravel(), GOLD.ravel()),
        "by_source": of(PREDICTION.mean(axis=0), GOLD.mean(axis=0)),
    }
    for level in LEVELS:
        found = correlation(PREDICTION, GOLD, coefficient=coefficient, level=level)
        assert found.value == pytest.approx(expected[level], abs=1e-9)
        assert found[1:] == ((3, 4) if level == "sample" else (1, 1))


def test_means_are_of_the_cells_judged_on_both_sides() -> None:
    prediction = np.array([[1, NAN, 9], [2, 4, 5], [3, 3, NAN], [NAN, 7, NAN]])
    gold = np.array([[2, 9, 4], [NAN, 1, 2], [4, 5, 9], [8, NAN, 8]])
    # System 3 has no pair; the others keep the cells (0, 2), (1, 2) and (0, 1).
    expected = SCIPY["pearson"]([5, 4.5, 3], [3, 1.5, 4.5])
    found = correlation(prediction, gold, coefficient="pearson", level="system")
    assert found.value == pytest.approx(expected, abs=1e-9)


def test_summation_noise_breaks_no_ties() -> None:
    # Rows 0 and 1 have the same mean, summed in another order: 0.6 and 0.6000000000000001.
    prediction = np.array([[0.3, 0.2, 0.1], [0.1, 0.2, 0.3], [0.9, 0.9, 0.9]])
    assert prediction[0].sum() != prediction[1].sum()
    gold = np.array([[1, 1, 1], [2, 2, 2], [3, 3, 3]])
    for scale in (1, 1e-12, 1e12):
        found = correlation(prediction * scale, gold, level="system")
        assert found.value == pytest.approx(SCIPY["spearman"]([1, 1, 2], [1, 2, 3]), abs=1e-12)


def test_constant_policies() -> None:
    # Sources: perfect; gold constant; prediction constant; both constant; one pair.
    prediction = [[1.0, 1, 5, 5, 1], [2, 2, 5, 5, NAN], [3, 3, 5, 5, NAN]]
    gold = [[1, 4, 1, 4, 1], [2, 4, 2, 4, 2], [3, 4, 3, 4, 3]]
    assert correlation(prediction, gold, constant="skip") == Correlation(1, 1, 5)
    assert correlation(prediction, gold, constant="zero") == Correlation(1 / 4, 4, 5)
    assert correlation(prediction, gold, constant="one") == Correlation(3 / 4, 4, 5)


@pytest.mark.parametrize("level", ["system", "pooled", "by_source"])
def test_constant_policies_of_one_group(level: Level) -> None:
    varied, same = [[1, 5], [2, 7]], [[3, 3], [3, 3]]
    skipped = correlation(varied, same, level=level)
    assert np.isnan(skipped.value)
    assert skipped[1:] == (0, 1)
    assert correlation(varied, same, level=level, constant="zero") == Correlation(0, 1, 1)
    assert correlation(varied, same, level=level, constant="one") == Correlation(1, 1, 1)
    assert correlation(same, varied, level=level, constant="one") == Correlation(0, 1, 1)


@pytest.mark.parametrize("constant", ["skip", "zero", "one"])
@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (3, 0)])
def test_too_few_systems_or_sources(shape: tuple[int, int], constant: Any) -> None:
    found = correlation(np.ones(shape), np.ones(shape), constant=constant)
    assert np.isnan(found.value)
    assert found[1:] == (0, shape[1])


def test_correlation_refuses() -> None:
    infinite = GOLD.copy()
    infinite[2, 3] = np.inf
    with pytest.raises(ValueError, match=r"gold\[2, 3\] is inf; scores must be finite"):
        correlation(PREDICTION, infinite)
    with pytest.raises(ValueError, match=r"prediction has the shape \(4, 4\) and gold \(3, 4\)"):
        correlation(PREDICTION, GOLD[1:])
    with pytest.raises(ValueError, match=r"\(4,\); it must be \(n_systems, n_sources\)"):
        correlation(PREDICTION[0], GOLD[0])
    with pytest.raises(ValueError, match="coefficient is 'kendall'; it must be one of pearson"):
        correlation(PREDICTION, GOLD, coefficient="kendall")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="level is 'input'"):
        correlation(PREDICTION, GOLD, level="input")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="constant is 'nan'"):
        correlation(PREDICTION, GOLD, constant="nan")  # type: ignore[arg-type]


def same(one: Correlation, other: Correlation) -> bool:
    return one[1:] == other[1:] and one.value == pytest.approx(other.value, abs=1e-9, nan_ok=True)


@given(pair=matrices(), coefficient=coefficients, level=levels, constant=policies, data=st.data())
def test_order_of_systems_and_sources_is_irrelevant(
    pair: tuple[Floats, Floats], coefficient: Any, level: Any, constant: Any, data: st.DataObject
) -> None:
    options = {"coefficient": coefficient, "level": level, "constant": constant}
    rows = data.draw(st.permutations(range(pair[0].shape[0])))
    columns = data.draw(st.permutations(range(pair[0].shape[1])))
    moved = [scores[np.ix_(rows, columns)] for scores in pair]
    assert same(correlation(*pair, **options), correlation(*moved, **options))


@given(pair=matrices(), coefficient=coefficients, level=levels, slope=st.integers(1, 9))
def test_swap_and_affine_maps_are_irrelevant(
    pair: tuple[Floats, Floats], coefficient: Any, level: Any, slope: int
) -> None:
    x, y = pair
    found = correlation(x, y, coefficient=coefficient, level=level)
    assert same(found, correlation(y, x, coefficient=coefficient, level=level))
    assert same(found, correlation(slope * x - 2, y, coefficient=coefficient, level=level))


@given(pair=matrices(), coefficient=coefficients)
def test_kept_and_skipped_make_the_total(pair: tuple[Floats, Floats], coefficient: Any) -> None:
    x, y = pair
    usable = skipped = small = 0
    for n in range(x.shape[1]):
        judged = ~np.isnan(x[:, n]) & ~np.isnan(y[:, n])
        distinct = len(set(x[judged, n])), len(set(y[judged, n]))
        small += judged.sum() < 2
        skipped += judged.sum() >= 2 and min(distinct) == 1
        usable += min(distinct) > 1
    skip = correlation(x, y, coefficient=coefficient, constant="skip")
    zero = correlation(x, y, coefficient=coefficient, constant="zero")
    assert skip.kept == usable
    assert zero.kept == usable + skipped
    assert skip.total == zero.total == usable + skipped + small == x.shape[1]


# Resampling by counts


@st.composite
def resamples(draw: st.DrawFn) -> tuple[Floats, Floats, Any, Any]:
    prediction, gold = draw(matrices())
    n_systems, n_sources = prediction.shape
    counts = st.integers(0, 3)
    return (
        prediction,
        gold,
        draw(arrays(np.int64, (3, n_systems), elements=counts)),
        draw(arrays(np.int64, (3, n_sources), elements=counts)),
    )


@pytest.mark.parametrize("limit", [0, 2000])
@given(case=resamples(), coefficient=coefficients, level=levels, constant=policies)
def test_counts_equal_repetition(
    limit: int, case: tuple[Floats, Floats, Any, Any], coefficient: Any, level: Any, constant: Any
) -> None:
    prediction, gold, systems, sources = case
    options = {"coefficient": coefficient, "level": level, "constant": constant}
    expected = [
        correlation(
            np.repeat(np.repeat(prediction, rows, axis=0), columns, axis=1),
            np.repeat(np.repeat(gold, rows, axis=0), columns, axis=1),
            **options,
        ).value
        for rows, columns in zip(systems, sources, strict=True)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resampling, "MATRIX_LIMIT", limit)
        patch.setattr(resampling, "CHUNK_CELLS", 2 * prediction.size)
        found = resampled_correlations(*case, **options)
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize(
    ("constant", "expected"),
    [("skip", [1, NAN, NAN, NAN, NAN]), ("zero", [1, 0, 0, 0, NAN]), ("one", [1, 0, 1, 1, NAN])],
)
def test_policies_hold_for_resampled_groups(
    coefficient: Coefficient, constant: Any, expected: list[float]
) -> None:
    prediction, gold = [[1], [1], [2], [3]], [[1], [2], [3], [3]]
    # All; prediction constant; gold constant; one system twice; one system once.
    systems = np.array([[1, 0, 1, 0], [1, 2, 0, 0], [0, 0, 1, 1], [0, 0, 0, 2], [1, 0, 0, 0]])
    found = resampled_correlations(
        prediction, gold, systems, np.ones((5, 1), int), coefficient=coefficient, constant=constant
    )
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_resampling_equals_a_scipy_loop(coefficient: Coefficient) -> None:
    rng = np.random.default_rng(7)
    gold = rng.integers(1, 6, (9, 6)).astype(float)
    prediction = gold + rng.normal(size=gold.shape).round(1)
    rows, columns = rng.integers(0, 9, (40, 9)), rng.integers(0, 6, (40, 6))
    expected = [
        np.mean([SCIPY[coefficient](prediction[row, n], gold[row, n]) for n in column])
        for row, column in zip(rows, columns, strict=True)
    ]
    assert not np.isnan(expected).any()
    found = resampled_correlations(
        prediction,
        gold,
        np.array([np.bincount(row, minlength=9) for row in rows]),
        np.array([np.bincount(column, minlength=6) for column in columns]),
        coefficient=coefficient,
    )
    assert found == pytest.approx(expected, abs=1e-12)


def test_resampling_refuses() -> None:
    ones = np.ones((2, 4), dtype=int)
    with pytest.raises(ValueError, match=r"system_counts has the shape \(2, 3\)"):
        resampled_correlations(PREDICTION, GOLD, ones[:, 1:], ones)
    with pytest.raises(ValueError, match="source_counts must hold whole numbers from 0"):
        resampled_correlations(PREDICTION, GOLD, ones, -ones)
    with pytest.raises(ValueError, match="system_counts must hold whole numbers from 0"):
        resampled_correlations(PREDICTION, GOLD, ones / 2, ones)
    with pytest.raises(ValueError, match="system_counts has 2 resamples and source_counts 1"):
        resampled_correlations(PREDICTION, GOLD, ones, ones[:1])
    with pytest.raises(ValueError, match=r"gold\[0, 0\] is inf"):
        resampled_correlations(PREDICTION, GOLD * np.inf, ones, ones)
