"""How sure a correlation is, and whether two judges differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from adjudge.stats.correlation import (
    Coefficient,
    Constant,
    Floats,
    Level,
    check_options,
    checked_matrices,
    level_correlation,
    scaled,
)
from adjudge.stats.resampling import (
    Bools,
    chunk_size,
    resampled_correlations,
    swapped_differences,
)

Resample = Literal["sources", "systems", "both"]
Permute = Literal["both", "inputs", "systems", "cells"]
#: Differences this close count as equal: permutations sum the same numbers in another order.
_SLACK = 1e-12


class Interval(NamedTuple):
    """A correlation with its confidence interval.

    Attributes
    ----------
    observed
        The correlation of the data, -1 to 1; NaN where undefined.
    low, high
        The interval's ends; NaN where no resample has a correlation.
    n_effective
        Resamples that have a correlation: what the interval rests on.
    n_resamples
        Resamples drawn.
    """

    observed: float
    low: float
    high: float
    n_effective: int
    n_resamples: int


class PermutationTest(NamedTuple):
    """The difference of two judges' correlations with gold, and how likely chance gives it.

    Attributes
    ----------
    observed
        Correlation of a minus that of b, -2 to 2; NaN where undefined.
    p_value
        Two-sided, above 0 and at most 1; NaN where the observed difference is undefined.
    n_effective
        Permutations that have a difference: what the p-value rests on.
    n_resamples
        Permutations drawn.
    """

    observed: float
    p_value: float
    n_effective: int
    n_resamples: int


class WilliamsTest(NamedTuple):
    """Williams' test of two dependent correlations.

    Attributes
    ----------
    t
        The statistic, positive where a correlates more; NaN where undefined.
    p_value
        Two-sided, 0 to 1; NaN where undefined.
    df
        Degrees of freedom, n - 3.
    """

    t: float
    p_value: float
    df: int


def bootstrap_interval(
    prediction: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    n_resamples: int = 1000,
    resample: Resample = "both",
    confidence: float = 0.95,
    coefficient: Coefficient = "spearman",
    level: Level = "sample",
    constant: Constant = "skip",
) -> Interval:
    """Return a correlation with its percentile bootstrap confidence interval.

    Sources, systems or both are drawn with replacement, as many as there are, and the interval
    lies between the quantiles of the resamples' correlations (Efron 1979; for judges, Deutsch,
    Dror and Roth 2021, Boot-Inputs, Boot-Systems, Boot-Both). What is resampled is what the
    interval generalises over. No null hypothesis is tested. A resample without a correlation is
    left out of the quantiles but stays in ``n_resamples``.

    Parameters
    ----------
    prediction, gold
        Shape (n_systems, n_sources), any unit; NaN = not judged.
    rng
        Draws the resamples.
    n_resamples
        How many, from 1.
    resample
        What is drawn anew.
    confidence
        Probability of the interval, between 0 and 1 exclusive.
    coefficient, level, constant
        As in `correlation`. A drawn group can be constant although the whole one is not: the
        policy holds for it too.

    Returns
    -------
    Interval
        Observed correlation, ends, effective and drawn resamples.

    Raises
    ------
    ValueError
        As `correlation`, and for options out of range.

    Examples
    --------
    >>> gold = [[1, 2], [2, 1], [3, 3], [4, 4]]
    >>> found = bootstrap_interval(gold, gold, rng=np.random.default_rng(0), n_resamples=50)
    >>> found.observed, round(found.low, 6), round(found.high, 6), found.n_resamples
    (1.0, 1.0, 1.0, 50)
    """
    prediction, gold = checked_matrices(prediction=prediction, gold=gold)
    check_options(coefficient=coefficient, level=level, constant=constant)
    _check_resamples(n_resamples, "resample", resample, get_args(Resample))
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must be between 0 and 1")
    n_systems, n_sources = prediction.shape
    systems = _counts(n_systems, n_resamples, rng if resample != "sources" else None)
    sources = _counts(n_sources, n_resamples, rng if resample != "systems" else None)
    observed = level_correlation(prediction, gold, coefficient, level, constant).value
    values = resampled_correlations(
        prediction,
        gold,
        systems,
        sources,
        coefficient=coefficient,
        level=level,
        constant=constant,
    )
    return _between(values, observed, confidence)


def mean_correlation_interval(
    predictions: Sequence[npt.ArrayLike],
    golds: Sequence[npt.ArrayLike],
    *,
    rng: np.random.Generator,
    n_resamples: int = 1000,
    confidence: float = 0.95,
    coefficient: Coefficient = "spearman",
    level: Level = "sample",
    constant: Constant = "skip",
) -> Interval:
    """Return the mean of several criteria's correlations with its bootstrap interval.

    Every resample draws the same systems and sources for all criteria, which are ratings of the
    same responses: intervals of the single correlations say nothing of how these move together.

    Parameters
    ----------
    predictions, golds
        One matrix per criterion, each of shape (n_systems, n_sources), all laid out alike.
    rng, n_resamples, confidence, coefficient, level, constant
        As in `bootstrap_interval`, with systems and sources drawn.

    Returns
    -------
    Interval
        As of `bootstrap_interval`; a resample without one of the correlations has no mean.

    Raises
    ------
    ValueError
        As `bootstrap_interval`, and if there is no criterion or their matrices differ in shape.

    Examples
    --------
    >>> gold = [[1, 2], [2, 1], [3, 3], [4, 4]]
    >>> found = mean_correlation_interval([gold], [gold], rng=np.random.default_rng(0))
    >>> found.observed, round(found.low, 6)
    (1.0, 1.0)
    """
    pairs = [
        tuple(checked_matrices(prediction=prediction, gold=gold))
        for prediction, gold in zip(predictions, golds, strict=True)
    ]
    shapes = {prediction.shape for prediction, _ in pairs}
    if len(shapes) != 1:
        raise ValueError(f"the criteria have matrices of {len(shapes)} shapes; use one")
    check_options(coefficient=coefficient, level=level, constant=constant)
    _check_resamples(n_resamples)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must be between 0 and 1")
    (shape,) = shapes
    systems, sources = (_counts(n, n_resamples, rng) for n in shape)
    observed = [
        level_correlation(prediction, gold, coefficient, level, constant).value
        for prediction, gold in pairs
    ]
    values = [
        resampled_correlations(
            prediction,
            gold,
            systems,
            sources,
            coefficient=coefficient,
            level=level,
            constant=constant,
        )
        for prediction, gold in pairs
    ]
    return _between(np.mean(values, axis=0), float(np.mean(observed)), confidence)


def permutation_test(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    n_resamples: int = 10_000,
    permute: Permute = "both",
    coefficient: Coefficient = "spearman",
    level: Level = "sample",
    constant: Constant = "skip",
) -> PermutationTest:
    """Return a paired permutation test of whether two judges correlate equally with gold.

    Null hypothesis: a and b correlate equally with gold, so that their scores, brought to one
    scale, may be swapped. Both are z-scored (at the level "sample" within each source, which its
    correlations do not see; else over all cells) over the cells that a, b and gold have in
    common, then swapped by coin flips; two-sided p = (1 + permutations at least as far from 0) /
    (1 + permutations). What is swapped as a whole says what may vary by chance: "inputs" (the
    column of a source) holds for other sources and these systems, "systems" (the row of a
    system) for other systems and these sources; "both" is the larger of these two p-values.
    Deutsch, Dror and Roth (2021), Perm-Inputs and Perm-Systems. Their Perm-Both swaps within
    rows and columns at once, as "cells" does here: it rejects too often where a judge's skill
    varies by source or it favours some systems, since that structure is swapped away.

    Parameters
    ----------
    a, b, gold
        Shape (n_systems, n_sources), any unit; NaN = not judged: the cell is left out of all
        three.
    rng
        Draws the swaps.
    n_resamples
        How many, from 1.
    permute
        "both", "inputs", "systems" or "cells"; see above.
    coefficient, level, constant
        As in `correlation`.

    Returns
    -------
    PermutationTest
        Observed difference a - b, p-value, effective and drawn permutations.

    Raises
    ------
    ValueError
        As `correlation`, and for options out of range.

    Examples
    --------
    >>> gold = np.arange(96.0).reshape(8, 12)
    >>> permutation_test(gold, -gold, gold, rng=np.random.default_rng(0), n_resamples=99)
    PermutationTest(observed=2.0, p_value=0.02, n_effective=99, n_resamples=99)
    """
    a, b, gold = checked_matrices(a=a, b=b, gold=gold)
    check_options(coefficient=coefficient, level=level, constant=constant)
    _check_resamples(n_resamples, "permute", permute, get_args(Permute))
    common = np.isfinite(a) & np.isfinite(b) & np.isfinite(gold)
    gold = np.where(common, gold, np.nan)
    judges = np.stack([_standardised(each, common, level) for each in (a, b)])
    designs = ("inputs", "systems") if permute == "both" else (permute,)
    options = coefficient, level, constant
    tests = [_permuted(judges, gold, rng, n_resamples, each, options) for each in designs]
    return max(tests, key=lambda test: (np.isnan(test.p_value), test.p_value))


def _permuted(
    judges: Floats,
    gold: Floats,
    rng: np.random.Generator,
    n_resamples: int,
    permute: str,
    options: tuple[Coefficient, Level, Constant],
) -> PermutationTest:
    """Return the test of one design."""
    n_systems, n_sources = gold.shape
    flips = (1 if permute == "inputs" else n_systems, 1 if permute == "systems" else n_sources)
    observed = float(
        swapped_differences(judges, gold, np.zeros((1, 1, 1), dtype=bool), *options)[0]
    )
    step = chunk_size(gold)
    values = np.concatenate(
        [
            swapped_differences(
                judges,
                gold,
                rng.integers(0, 2, (min(step, n_resamples - start), *flips), dtype=bool),
                *options,
            )
            for start in range(0, n_resamples, step)
        ]
    )
    values = values[~np.isnan(values)]
    if np.isnan(observed):
        return PermutationTest(observed, np.nan, values.size, n_resamples)
    as_far = int(np.count_nonzero(np.abs(values) >= abs(observed) - _SLACK))
    return PermutationTest(observed, (1 + as_far) / (1 + values.size), values.size, n_resamples)


def williams_test(r_ag: float, r_bg: float, r_ab: float, n: int) -> WilliamsTest:
    """Return Williams' test of two correlations that share one variable.

    Null hypothesis: in the population, a and b correlate equally with gold. With
    ``K = 1 - r_ag**2 - r_bg**2 - r_ab**2 + 2 r_ag r_bg r_ab``, t is ``(r_ag - r_bg) sqrt((n - 1)
    (1 + r_ab) / (2 K (n - 1) / (n - 3) + (r_ag + r_bg)**2 / 4 (1 - r_ab)**3))`` with n - 3
    degrees of freedom. Williams (1959); for judges, Graham and Baldwin (2014). It assumes normal
    scores and Pearson's correlation; signs are kept, so orient both judges alike.

    Parameters
    ----------
    r_ag, r_bg
        Correlations of a and of b with gold, -1 to 1; NaN = undefined.
    r_ab
        Correlation of a with b, -1 to 1; NaN = undefined.
    n
        Observations that each correlation rests on.

    Returns
    -------
    WilliamsTest
        t, two-sided p-value and degrees of freedom; t = 0 and p = 1 where r_ag equals r_bg; NaN
        with fewer than 4 observations, an undefined correlation, or three that cannot go
        together.

    Raises
    ------
    ValueError
        For a correlation outside -1 to 1.

    Examples
    --------
    >>> found = williams_test(0.4, 0.5, 0.1, 103)
    >>> round(found.t, 4), round(found.p_value, 4), found.df
    (-0.8913, 0.3749, 100)
    """
    for name, r in {"r_ag": r_ag, "r_bg": r_bg, "r_ab": r_ab}.items():
        if abs(r) > 1:
            raise ValueError(f"{name} is {r}; a correlation is between -1 and 1")
    df = n - 3
    if df < 1 or np.isnan([r_ag, r_bg, r_ab]).any():
        return WilliamsTest(np.nan, np.nan, df)
    if r_ag == r_bg:
        return WilliamsTest(0.0, 1.0, df)
    determinant = 1 - r_ag**2 - r_bg**2 - r_ab**2 + 2 * r_ag * r_bg * r_ab
    spread = 2 * determinant * (n - 1) / df + (r_ag + r_bg) ** 2 / 4 * (1 - r_ab) ** 3
    if spread <= 0:
        return WilliamsTest(np.nan, np.nan, df)
    from scipy.special import stdtr

    t = (r_ag - r_bg) * float(np.sqrt((n - 1) * (1 + r_ab) / spread))
    return WilliamsTest(t, 2 * float(stdtr(df, -abs(t))), df)


def holm(p_values: npt.ArrayLike) -> Floats:
    """Return p-values adjusted for testing several hypotheses.

    Null hypothesis of each: its own. The k-th smallest of m is multiplied by m - k + 1, and made
    no smaller than the one before; rejecting below alpha then keeps the chance of any false
    rejection below alpha, whatever the dependence. Holm (1979).

    Parameters
    ----------
    p_values
        Shape (n,), 0 to 1; NaN = not tested: passed through and not counted in m.

    Returns
    -------
    numpy.ndarray
        Shape (n,), 0 to 1, in the order given.

    Raises
    ------
    ValueError
        For values outside 0 to 1, or that are not a vector.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03, 0.005])
    array([0.03, 0.06, 0.06, 0.02])
    """
    adjusted = np.array(p_values, dtype=np.float64)
    if adjusted.ndim != 1:
        raise ValueError(f"p_values has the shape {adjusted.shape}; it must be (n,)")
    tested = np.flatnonzero(~np.isnan(adjusted))
    wrong = tested[(adjusted[tested] < 0) | (adjusted[tested] > 1)]
    if wrong.size:
        raise ValueError(f"p_values[{wrong[0]}] is {adjusted[wrong[0]]}; it must be from 0 to 1")
    order = tested[np.argsort(adjusted[tested], kind="stable")]
    steps = adjusted[order] * np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def mean_interval(
    values: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    n_resamples: int = 1000,
    confidence: float = 0.95,
) -> Interval:
    """Return a mean, as of the marks of an accuracy, with its percentile bootstrap interval.

    Parameters
    ----------
    values
        Shape (n,), any unit; NaN = left out, of the resampling too.
    rng
        Draws the resamples.
    n_resamples
        How many, from 1.
    confidence
        Probability between the ends, in (0, 1).

    Raises
    ------
    ValueError
        For options out of range.

    Examples
    --------
    >>> mean_interval([1, 1, 1, np.nan], rng=np.random.default_rng(0)).high
    1.0
    """
    _check_resamples(n_resamples)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must be between 0 and 1")
    array = np.asarray(values, dtype=np.float64).ravel()
    kept = array[~np.isnan(array)]
    if not kept.size:
        return Interval(np.nan, np.nan, np.nan, 0, n_resamples)
    means = _counts(kept.size, n_resamples, rng) @ kept / kept.size
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(kept.mean()), float(low), float(high), n_resamples, n_resamples)


def paired_mean_test(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    n_resamples: int = 10_000,
) -> PermutationTest:
    """Return a paired permutation test of whether two means over the same items are equal.

    Null hypothesis: on every item, the two values may be swapped. Each permutation flips the
    sign of the items' differences by coin; two-sided p as in `permutation_test`. For the marks
    of two judges of pairs: Fisher's randomisation test (Fisher 1935; Dror et al. 2018).

    Parameters
    ----------
    a, b
        Shape (n,), any unit; NaN = left out, of both.
    rng
        Draws the flips.
    n_resamples
        How many, from 1.

    Returns
    -------
    PermutationTest
        Mean of a - b, p-value, effective and drawn permutations.

    Raises
    ------
    ValueError
        For different shapes or options out of range.

    Examples
    --------
    >>> paired_mean_test(np.ones(12), np.zeros(12), rng=np.random.default_rng(0)).observed
    1.0
    """
    _check_resamples(n_resamples)
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"a has shape {first.shape}, b {second.shape}; they must be the same")
    gaps = (first - second)[~np.isnan(first - second)]
    if not gaps.size:
        return PermutationTest(np.nan, np.nan, n_resamples, n_resamples)
    step = max(1, (1 << 22) // gaps.size)
    values = np.concatenate(
        [
            (2 * rng.integers(0, 2, (min(step, n_resamples - start), gaps.size)) - 1) @ gaps
            for start in range(0, n_resamples, step)
        ]
    )
    as_far = int(np.count_nonzero(np.abs(values) >= abs(gaps.sum()) - _SLACK * gaps.size))
    p_value = (1 + as_far) / (1 + n_resamples)
    return PermutationTest(float(gaps.mean()), p_value, n_resamples, n_resamples)


def _between(values: Floats, observed: float, confidence: float) -> Interval:
    """Return the interval between the quantiles of resamples, NaN = none."""
    there = values[~np.isnan(values)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(there, [tail, 1 - tail]) if there.size else (np.nan, np.nan)
    return Interval(observed, float(low), float(high), there.size, values.size)


def _check_resamples(
    n_resamples: int, name: str = "", value: str = "", allowed: tuple[str, ...] = ("",)
) -> None:
    if n_resamples < 1:
        raise ValueError(f"n_resamples is {n_resamples}; it must be 1 or more")
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")


def _counts(n: int, n_resamples: int, rng: np.random.Generator | None) -> npt.NDArray[np.int64]:
    """Return how often each of n occurs in each resample; once where nothing is drawn."""
    if rng is None or n == 0:
        return np.ones((n_resamples, n), dtype=np.int64)
    return rng.multinomial(n, np.full(n, 1 / n), size=n_resamples)


def _standardised(scores: Floats, common: Bools, level: Level) -> Floats:
    """Return z-scores over the common cells, of each source at the level "sample".

    NaN elsewhere; 0 where all are equal.
    """
    cells = np.where(common, scores, np.nan)
    if level != "sample":
        return _z(cells)
    return np.stack([_z(cells[:, source]) for source in range(scores.shape[1])], axis=1)


def _z(values: Floats) -> Floats:
    z = np.full(values.shape, np.nan)
    there = np.isfinite(values)
    cells = scaled(values[there])
    if cells.size and (cells == cells[0]).all():
        z[there] = 0
    elif cells.size:
        # Rounded, so that judges that differ by an affine map stay tied cell by cell.
        z[there] = np.round((cells - cells.mean()) / cells.std(), 12)
    return z
