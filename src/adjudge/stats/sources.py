"""Intervals by resampling whole sources: what is judged of one source belongs together."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CONFIDENCE = 0.95


def drawn_counts(n: int, *, rng: np.random.Generator, n_resamples: int) -> IntArray:
    """Return how often each of n sources is in each resample: ``(n_resamples, n)``."""
    return rng.multinomial(n, np.full(n, 1 / n), size=n_resamples)


def percentile_ends(values: FloatArray) -> tuple[float, float]:
    """Return the ends of the middle 95 % of values, NaN left out; NaN if none is there.

    Examples
    --------
    >>> low, high = percentile_ends(np.linspace(0, 1, 41))
    >>> round(low, 3), round(high, 3)
    (0.025, 0.975)
    """
    there = values[~np.isnan(values)]
    if not there.size:
        return math.nan, math.nan
    low, high = np.quantile(there, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def ratio_interval(
    tops: FloatArray, bottoms: FloatArray, *, rng: np.random.Generator, n_resamples: int
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of sum(tops) / sum(bottoms) over sources.

    Parameters
    ----------
    tops, bottoms
        Shape (n_sources,): what each source adds to the sums. One that adds nothing to the lower
        sum is not drawn.
    rng, n_resamples
        Draws the resamples, and how many.

    Returns
    -------
    tuple of float
        The ends; NaN with fewer than two sources.
    """
    tops, bottoms = tops[bottoms > 0], bottoms[bottoms > 0]
    if bottoms.size < 2:
        return math.nan, math.nan
    drawn = drawn_counts(bottoms.size, rng=rng, n_resamples=n_resamples)
    return percentile_ends((drawn @ tops) / (drawn @ bottoms))


def distance_ends(low: float, high: float) -> tuple[float, float]:
    """Return the ends of the absolute values of the numbers between two ends.

    So the interval of a difference becomes that of a distance; quantiles of the distances of
    resamples would hardly ever reach 0.

    Examples
    --------
    >>> distance_ends(-0.1, 0.3), distance_ends(-0.3, -0.1)
    ((0.0, 0.3), (0.1, 0.3))
    """
    far = max(abs(low), abs(high))
    return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), far
