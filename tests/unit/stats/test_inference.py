"""Bootstrap, permutation and Williams' tests against scipy, exhaustive counts and formulas."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from adjudge.stats.correlation import correlation
from adjudge.stats.inference import (
    WilliamsTest,
    bootstrap_interval,
    holm,
    mean_correlation_interval,
    mean_interval,
    paired_mean_test,
    permutation_test,
    williams_test,
)

Floats = npt.NDArray[np.float64]
NAN = np.nan
SCIPY: dict[str, Any] = {
    "pearson": scipy.stats.pearsonr,
    "spearman": scipy.stats.spearmanr,
    "kendall_tau_b": scipy.stats.kendalltau,
    "kendall_tau_c": lambda x, y: scipy.stats.kendalltau(x, y, variant="c"),
}


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def scores(*shape: int, seed: int = 0, noise: float = 1.0) -> tuple[Floats, Floats]:
    """Return gold on a scale of 1 to 5 and a prediction that follows it."""
    draw = np.random.default_rng(seed)
    gold = draw.integers(1, 6, shape).astype(float)
    return gold + noise * draw.normal(size=shape), gold


# Bootstrap


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
def test_one_source_has_scipys_bootstrap_interval(coefficient: Any) -> None:
    prediction, gold = scores(60, 1, noise=3.0)

    def statistic(x: Floats, y: Floats) -> float:
        return float(SCIPY[coefficient](x, y).statistic)

    expected = scipy.stats.bootstrap(
        (prediction[:, 0], gold[:, 0]),
        statistic,
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=2000,
        confidence_level=0.9,
        rng=np.random.default_rng(1),
    ).confidence_interval
    found = bootstrap_interval(
        prediction,
        gold,
        rng=rng(),
        n_resamples=4000,
        resample="systems",
        confidence=0.9,
        coefficient=coefficient,
    )
    # Ends of 2,000 resamples have a standard error of about 0.005.
    assert found.low == pytest.approx(expected.low, abs=0.02)
    assert found.high == pytest.approx(expected.high, abs=0.02)
    assert found.observed == pytest.approx(statistic(prediction[:, 0], gold[:, 0]), abs=1e-12)
    assert found.n_effective == found.n_resamples == 4000


def test_the_mean_of_one_criterion_has_its_interval() -> None:
    prediction, gold = scores(6, 20)
    alone = bootstrap_interval(prediction, gold, rng=rng(), n_resamples=200)
    assert mean_correlation_interval([prediction], [gold], rng=rng(), n_resamples=200) == alone


def test_criteria_are_resampled_together() -> None:
    prediction, gold = scores(6, 20)
    # Correlations of opposite scores cancel in every resample.
    found = mean_correlation_interval([prediction, -prediction], [gold, gold], rng=rng())
    assert (found.observed, found.low, found.high) == pytest.approx((0, 0, 0), abs=1e-12)
    alone = bootstrap_interval(prediction, gold, rng=rng(), n_resamples=1000)
    perfect = mean_correlation_interval([prediction, gold], [gold, gold], rng=rng())
    assert perfect.observed == pytest.approx((alone.observed + 1) / 2)
    assert (perfect.low, perfect.high) == pytest.approx(
        ((alone.low + 1) / 2, (alone.high + 1) / 2), abs=1e-9
    )


def test_criteria_must_be_laid_out_alike() -> None:
    prediction, gold = scores(6, 20)
    with pytest.raises(ValueError, match="matrices of 2 shapes"):
        mean_correlation_interval([prediction, prediction.T], [gold, gold.T], rng=rng())
    with pytest.raises(ValueError, match="matrices of 0 shapes"):
        mean_correlation_interval([], [], rng=rng())
    with pytest.raises(ValueError, match="confidence is 1"):
        mean_correlation_interval([prediction], [gold], rng=rng(), confidence=1)


def test_resampling_sources_is_the_bootstrap_of_a_mean() -> None:
    prediction, gold = scores(5, 40)
    per_source = [scipy.stats.spearmanr(prediction[:, n], gold[:, n])[0] for n in range(40)]
    draws = np.random.default_rng(1).choice(per_source, (4000, 40)).mean(axis=1)
    found = bootstrap_interval(prediction, gold, rng=rng(), n_resamples=4000, resample="sources")
    assert found.low == pytest.approx(np.quantile(draws, 0.025), abs=0.02)
    assert found.high == pytest.approx(np.quantile(draws, 0.975), abs=0.02)


def test_only_what_is_resampled_varies() -> None:
    prediction, gold = scores(12, 1)
    alike = np.tile(prediction, 6), np.tile(gold, 6)
    widths = {}
    for resample in ("sources", "systems", "both"):
        found = bootstrap_interval(*alike, rng=rng(), n_resamples=200, resample=resample)
        widths[resample] = found.high - found.low
    assert widths["sources"] == pytest.approx(0, abs=1e-12)
    assert min(widths["systems"], widths["both"]) > 0.1


@pytest.mark.parametrize("level", ["sample", "system", "pooled", "by_source"])
def test_bootstrap_of_every_level_surrounds_what_is_observed(level: Any) -> None:
    prediction, gold = scores(15, 12, noise=2.0)
    found = bootstrap_interval(prediction, gold, rng=rng(), n_resamples=300, level=level)
    assert found.observed == correlation(prediction, gold, level=level).value
    assert found.low < found.observed < found.high
    again = bootstrap_interval(prediction, gold, rng=rng(), n_resamples=300, level=level)
    assert found == again


def test_undefined_resamples_are_counted() -> None:
    # Half of all draws from two systems take the same one twice.
    found = bootstrap_interval([[1], [2]], [[1], [2]], rng=rng(), n_resamples=1000)
    assert found[:3] == (1, 1, 1)
    assert found.n_resamples == 1000
    assert abs(found.n_effective - 500) < 5 * np.sqrt(250)
    zero = bootstrap_interval([[1], [2]], [[1], [2]], rng=rng(), constant="zero")
    assert zero[:4] == (1, 0, 1, 1000)


@pytest.mark.parametrize("shape", [(1, 3), (0, 2), (2, 0)])
def test_nothing_to_bootstrap_is_nan(shape: tuple[int, int]) -> None:
    found = bootstrap_interval(np.ones(shape), np.ones(shape), rng=rng(), n_resamples=10)
    assert np.isnan(found[:3]).all()
    assert found[3:] == (0, 10)


def test_bootstrap_refuses() -> None:
    x, y = scores(4, 3)
    with pytest.raises(ValueError, match="n_resamples is 0; it must be 1 or more"):
        bootstrap_interval(x, y, rng=rng(), n_resamples=0)
    with pytest.raises(ValueError, match="confidence is 95; it must be between 0 and 1"):
        bootstrap_interval(x, y, rng=rng(), confidence=95)
    with pytest.raises(ValueError, match="resample is 'inputs'; it must be one of sources"):
        bootstrap_interval(x, y, rng=rng(), resample="inputs")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="coefficient is 'rho'"):
        bootstrap_interval(x, y, rng=rng(), coefficient="rho")  # type: ignore[arg-type]


# Permutation test


def zscores(x: Floats, level: str) -> Floats:
    axis = 0 if level == "sample" else None
    return np.asarray((x - x.mean(axis=axis)) / x.std(axis=axis))


def statistic(x: Floats, gold: Floats, coefficient: str, level: str) -> float:
    of = SCIPY[coefficient]
    if level == "system":
        return float(of(x.mean(axis=1).round(9), gold.mean(axis=1).round(9)).statistic)
    if level == "pooled":
        return float(of(x.ravel(), gold.ravel()).statistic)
    return float(np.mean([of(x[:, n], gold[:, n]).statistic for n in range(x.shape[1])]))


@pytest.mark.parametrize(
    ("coefficient", "level"),
    [
        ("pearson", "sample"),
        ("spearman", "sample"),
        ("kendall_tau_b", "sample"),
        ("kendall_tau_c", "sample"),
        ("pearson", "system"),
        ("spearman", "pooled"),
    ],
)
@pytest.mark.parametrize(
    ("permute", "flips"), [("inputs", (1, 2)), ("systems", (4, 1)), ("cells", (4, 2))]
)
def test_p_value_is_the_share_of_all_swaps(
    permute: Any, flips: tuple[int, int], coefficient: Any, level: Any
) -> None:
    draw = np.random.default_rng(8)
    gold = draw.permuted(np.tile([1.0, 2, 3, 4], (2, 1)), axis=1).T
    a = 10 * gold + draw.normal(scale=8, size=gold.shape)
    b = gold + draw.normal(scale=3, size=gold.shape)
    x, y = zscores(a, level), zscores(b, level)
    differences = []
    for flip in itertools.product([False, True], repeat=int(np.prod(flips))):
        swap = np.broadcast_to(np.reshape(flip, flips), gold.shape)
        differences.append(
            statistic(np.where(swap, y, x), gold, coefficient, level)
            - statistic(np.where(swap, x, y), gold, coefficient, level)
        )
    observed = differences[0]
    exact = np.mean(np.abs(differences) >= abs(observed) - 1e-12)
    n = 1000
    found = permutation_test(
        a, b, gold, rng=rng(), n_resamples=n, permute=permute, coefficient=coefficient, level=level
    )
    assert found.observed == pytest.approx(observed, abs=1e-9)
    assert found.n_effective == found.n_resamples == n
    expected = (1 + n * exact) / (1 + n)
    assert abs(found.p_value - expected) <= 4.5 * np.sqrt(exact * (1 - exact) / n)


@pytest.mark.parametrize("permute", ["inputs", "systems", "both", "cells"])
@pytest.mark.parametrize("level", ["sample", "system"])
def test_a_judge_and_its_affine_copy_do_not_differ(permute: Any, level: Any) -> None:
    a, gold = scores(6, 5)
    for b in (a, 7 * a - 3):
        found = permutation_test(
            a, b, gold, rng=rng(), n_resamples=50, permute=permute, level=level
        )
        assert found.observed == pytest.approx(0, abs=1e-12)
        assert found.p_value == 1


@pytest.mark.parametrize("coefficient", list(SCIPY))
def test_exchanging_the_judges_turns_the_sign_alone(coefficient: Any) -> None:
    a, gold = scores(6, 5)
    b = np.random.default_rng(5).normal(size=gold.shape)
    options = {"n_resamples": 200, "coefficient": coefficient}
    one = permutation_test(a, b, gold, rng=rng(), **options)
    other = permutation_test(b, a, gold, rng=rng(), **options)
    assert one.observed == pytest.approx(-other.observed, abs=1e-12)
    assert one.p_value == other.p_value


def test_a_clear_difference_has_the_smallest_p_value() -> None:
    a, gold = scores(10, 20, noise=0.3)
    b = np.random.default_rng(5).normal(size=gold.shape)
    inputs, systems, both = (
        permutation_test(a, b, gold, rng=rng(), n_resamples=499, permute=each).p_value
        for each in ("inputs", "systems", "both")
    )
    assert inputs == pytest.approx(1 / 500, abs=1e-12)
    assert inputs <= systems < 0.02
    assert both >= inputs


@pytest.mark.parametrize(
    ("structure", "right", "wrong"), [("source", "inputs", "cells"), ("system", "systems", "cells")]
)
def test_structure_in_a_judge_is_no_difference_between_judges(
    structure: str, right: Any, wrong: Any
) -> None:
    """Two judges of one kind, whose skill varies by source or who favour some systems."""
    rejected = {right: 0, wrong: 0, "both": 0}
    for seed in range(60):
        draw = np.random.default_rng(seed)
        gold = draw.normal(size=(12, 30)) + draw.normal(size=(12, 1))
        judges: list[Floats] = []
        for _ in range(2):
            noise = draw.normal(size=gold.shape)
            if structure == "source":
                skill = 0.5 + 0.5 * draw.normal(size=(1, 30))
                judges.append(skill * gold + noise)
            else:
                judges.append(0.6 * gold + noise + draw.normal(size=(12, 1)))
        for permute in rejected:
            a, b = judges
            found = permutation_test(a, b, gold, rng=draw, n_resamples=59, permute=permute)
            rejected[permute] += found.p_value <= 0.1
    # 6 of 60 expected at most: standard deviation 2.3.
    assert rejected[right] <= 13
    assert rejected["both"] <= rejected[right] + 2
    assert rejected[wrong] > 13


def test_equal_judges_are_rejected_as_often_as_alpha_says() -> None:
    rejected = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        quality = draw.normal(size=(6, 8))
        a, b, gold = (quality + draw.normal(size=quality.shape) for _ in range(3))
        rejected += permutation_test(a, b, gold, rng=draw, n_resamples=99).p_value <= 0.2
    # 40 expected, standard deviation 5.7.
    assert 17 <= rejected <= 63


def test_only_common_cells_count() -> None:
    a, gold = scores(6, 4)
    b, _ = scores(6, 4, seed=1)
    a[0, 0] = b[1, 0] = gold[2, 3] = NAN
    found = permutation_test(a, b, gold, rng=rng(), n_resamples=50)
    keep = [[2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0, 1, 3, 4, 5]]
    expected = np.mean(
        [
            scipy.stats.spearmanr(a[rows, n], gold[rows, n]).statistic
            - scipy.stats.spearmanr(b[rows, n], gold[rows, n]).statistic
            for n, rows in enumerate(keep)
        ]
    )
    assert found.observed == pytest.approx(expected, abs=1e-12)
    assert 0 < found.p_value <= 1


def test_undefined_differences() -> None:
    a, gold = scores(5, 3)
    constant = np.ones_like(a)
    found = permutation_test(a, constant, gold, rng=rng(), n_resamples=20)
    assert np.isnan(found.observed)
    assert np.isnan(found.p_value)
    assert found.n_resamples == 20
    zero = permutation_test(a, constant, gold, rng=rng(), n_resamples=20, constant="zero")
    assert zero.observed == pytest.approx(correlation(a, gold).value, abs=1e-12)
    nothing = permutation_test(a * NAN, a, gold, rng=rng(), n_resamples=20)
    assert np.isnan(nothing.observed)
    assert nothing.n_effective == 0


def test_undefined_permutations_are_counted() -> None:
    # Swapping one system of two makes both judges constant: half of all swaps.
    a, b, gold = [[1.0], [2.0]], [[2.0], [1.0]], [[1.0], [2.0]]
    found = permutation_test(a, b, gold, rng=rng(), n_resamples=1000, permute="cells")
    assert (found.observed, found.p_value, found.n_resamples) == (2, 1, 1000)
    assert abs(found.n_effective - 500) < 5 * np.sqrt(250)


def test_permutation_test_refuses() -> None:
    x, y = scores(4, 3)
    with pytest.raises(ValueError, match="permute is 'sources'; it must be one of both, inputs"):
        permutation_test(x, x, y, rng=rng(), permute="sources")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a has the shape \(4, 3\) and b \(3, 3\)"):
        permutation_test(x, x[1:], y, rng=rng())
    with pytest.raises(ValueError, match=r"b\[0, 0\] is inf"):
        permutation_test(x, np.full((4, 3), np.inf), y, rng=rng())
    with pytest.raises(ValueError, match="n_resamples is -1"):
        permutation_test(x, x, y, rng=rng(), n_resamples=-1)


# Williams' test


def test_williams_test_by_hand() -> None:
    # r_ag = .4, r_bg = .5, r_ab = .1, n = 103. K = 1 - .16 - .25 - .01 + 2 * .4 * .5 * .1 = .62;
    # t = -.1 sqrt(102 * 1.1 / (2 * .62 * 102 / 100 + .9**2 / 4 * .9**3)) = -.1 sqrt(112.2 /
    # 1.4124225).
    found = williams_test(0.4, 0.5, 0.1, 103)
    expected = -0.1 * (112.2 / 1.4124225) ** 0.5
    assert found.t == pytest.approx(expected, abs=1e-12)
    assert found.p_value == pytest.approx(2 * scipy.stats.t.cdf(expected, 100), abs=1e-12)
    assert found.df == 100


def test_williams_test_equals_another_tool() -> None:
    # The README of github.com/inmoonlight/nlp-williams prints, one-sided, for
    # `williams.py --r12 0.65 --r13 0.55 --r23 0.3 --n 50`: P-value: 0.20928617286753592.
    found = williams_test(0.65, 0.55, 0.3, 50)
    assert found.t > 0
    assert found.p_value == pytest.approx(2 * 0.20928617286753592, abs=1e-12)


@given(
    r_ag=st.floats(-0.5, 0.5), r_bg=st.floats(-0.5, 0.5), r_ab=st.floats(-0.4, 0.9), n=st.just(30)
)
def test_williams_test_turns_its_sign(r_ag: float, r_bg: float, r_ab: float, n: int) -> None:
    one, other = williams_test(r_ag, r_bg, r_ab, n), williams_test(r_bg, r_ag, r_ab, n)
    assert one.t == pytest.approx(-other.t, abs=1e-9, nan_ok=True)
    assert one.p_value == pytest.approx(other.p_value, abs=1e-9, nan_ok=True)
    assert np.isnan(one.t) or np.sign(one.t) == np.sign(r_ag - r_bg)


def test_williams_test_holds_its_level() -> None:
    draw = np.random.default_rng(0)
    rejected = 0
    for _ in range(500):
        quality = draw.normal(size=25)
        a, b, gold = (quality + draw.normal(size=25) for _ in range(3))
        r = np.corrcoef([a, b, gold])
        rejected += williams_test(r[0, 2], r[1, 2], r[0, 1], 25).p_value <= 0.1
    # 50 expected, standard deviation 6.7.
    assert 23 <= rejected <= 77


def test_williams_test_at_its_edges() -> None:
    assert williams_test(0.3, 0.3, 1.0, 10) == WilliamsTest(0, 1, 7)
    for arguments in [(0.5, 0.4, 0.3, 3), (NAN, 0.4, 0.3, 20), (0.9, -0.9, 1.0, 20)]:
        assert np.isnan(williams_test(*arguments)[:2]).all()
    with pytest.raises(ValueError, match=r"r_ab is 1\.5; a correlation is between -1 and 1"):
        williams_test(0.1, 0.2, 1.5, 9)


# Holm


def test_holm_by_hand() -> None:
    # Sorted: .005 * 4, .01 * 3, .03 * 2, .04 * 1, the last raised to the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02], abs=1e-12)
    assert holm([0.01, NAN, 0.02]) == pytest.approx([0.02, NAN, 0.02], abs=1e-12, nan_ok=True)
    assert holm([0.6, 0.7]) == pytest.approx([1, 1], abs=1e-12)
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.999))
def test_holm_rejects_what_stepping_down_rejects(p_values: list[float], alpha: float) -> None:
    order = np.argsort(p_values, kind="stable")
    rejected = np.zeros(len(p_values), dtype=bool)
    for step, place in enumerate(order):
        if p_values[place] * (len(p_values) - step) > alpha:
            break
        rejected[place] = True
    adjusted = holm(p_values)
    assert ((adjusted <= alpha) == rejected).all()
    assert (np.diff(adjusted[order]) >= 0).all()
    assert (adjusted >= p_values).all()
    assert (adjusted <= 1).all()


def test_holm_refuses() -> None:
    with pytest.raises(ValueError, match=r"p_values\[1\] is 1.2; it must be from 0 to 1"):
        holm([0.1, 1.2])
    with pytest.raises(ValueError, match=r"p_values has the shape \(1, 1\)"):
        holm([[0.1]])


# Means


def test_a_mean_has_scipys_bootstrap_interval() -> None:
    marks = np.random.default_rng(2).choice([0.0, 0.5, 1.0], 300)
    expected = scipy.stats.bootstrap(
        (marks,), np.mean, method="percentile", n_resamples=4000, rng=np.random.default_rng(1)
    ).confidence_interval
    found = mean_interval(np.append(marks, [NAN, NAN]), rng=rng(), n_resamples=4000)
    assert found.observed == pytest.approx(marks.mean(), abs=1e-12)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.01)
    assert (found.n_effective, found.n_resamples) == (4000, 4000)


def test_a_mean_of_nothing_is_undefined() -> None:
    found = mean_interval([NAN], rng=rng(), n_resamples=7)
    assert np.isnan(found.observed)
    assert (found.n_effective, found.n_resamples) == (0, 7)
    for options in ({"n_resamples": 0}, {"confidence": 1.0}):
        with pytest.raises(ValueError, match="must be"):
            mean_interval([1.0], rng=rng(), **options)


def test_two_means_differ_by_chance_as_often_as_scipy_says() -> None:
    draw = np.random.default_rng(4)
    a, b = draw.choice([0.0, 1.0], 40, p=[0.3, 0.7]), draw.choice([0.0, 1.0], 40)
    expected = scipy.stats.permutation_test(
        (a, b),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    )
    found = paired_mean_test(np.append(a, NAN), np.append(b, 1.0), rng=rng(), n_resamples=20_000)
    assert found.observed == pytest.approx(expected.statistic, abs=1e-12)
    assert found.p_value == pytest.approx(expected.pvalue, abs=0.01)
    swapped = paired_mean_test(b, a, rng=rng(), n_resamples=20_000)
    assert (swapped.observed, swapped.p_value) == pytest.approx(
        (-found.observed, found.p_value), abs=0.01
    )


def test_means_of_nothing_and_of_unlike_shapes() -> None:
    assert np.isnan(paired_mean_test([NAN], [1.0], rng=rng()).p_value)
    with pytest.raises(ValueError, match=r"a has shape \(1,\), b \(2,\); they must be the same"):
        paired_mean_test([1.0], [1.0, 2.0], rng=rng())
