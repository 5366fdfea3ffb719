"""How a threshold on scores does: precision and recall with their intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from adjudge.errors import DataError

Floats = npt.NDArray[np.float64]


class Proportion(NamedTuple):
    """A share with its 95 % Wilson interval; NaN where there is nothing to count."""

    value: float
    low: float
    high: float


class ThresholdResult(NamedTuple):
    """What keeping the items with at least some score does.

    Attributes
    ----------
    threshold
        The score.
    n_kept, n_dropped
        Items with gold on either side; one without a score is dropped.
    n_good
        Items with gold that are good.
    precision
        Share of the kept ones that are good.
    recall
        Share of the good ones that are kept.
    """

    threshold: float
    n_kept: int
    n_dropped: int
    n_good: int
    precision: Proportion
    recall: Proportion


def wilson_interval(k: int, n: int, *, confidence: float = 0.95) -> Proportion:
    """Return a share with its Wilson score interval (Wilson 1927), without correction.

    Parameters
    ----------
    k, n
        Successes and trials.
    confidence
        Probability between the ends, in (0, 1).

    Examples
    --------
    >>> share = wilson_interval(8, 10)
    >>> round(share.low, 3), round(share.high, 3)
    (0.49, 0.943)
    """
    if n == 0:
        return Proportion(np.nan, np.nan, np.nan)
    from scipy.stats import binomtest

    found = binomtest(k, n).proportion_ci(confidence_level=confidence, method="wilson")
    return Proportion(k / n, float(found.low), float(found.high))


def at_threshold(scores: npt.ArrayLike, good: npt.ArrayLike, threshold: float) -> ThresholdResult:
    """Return precision and recall of keeping the items with a score of at least `threshold`.

    Parameters
    ----------
    scores
        Shape (n,), higher is better; NaN = no score: the item is dropped.
    good
        Shape (n,): 1 = good, 0 = not, NaN = unknown: the item does not count.
    threshold
        The least score that is kept.

    Raises
    ------
    DataError
        If the shapes differ or `good` has another value.

    Examples
    --------
    >>> result = at_threshold([1, 2, 3, 4], [0, 0, 1, 1], 2)
    >>> round(result.precision.value, 3), result.recall.value
    (0.667, 1.0)
    """
    values, truth = _checked(scores, good)
    kept = values >= threshold
    n_right = int((kept & (truth == 1)).sum())
    n_good = int((truth == 1).sum())
    n_kept = int(kept.sum())
    return ThresholdResult(
        threshold=float(threshold),
        n_kept=n_kept,
        n_dropped=values.size - n_kept,
        n_good=n_good,
        precision=wilson_interval(n_right, n_kept),
        recall=wilson_interval(n_right, n_good),
    )


def threshold_curve(scores: npt.ArrayLike, good: npt.ArrayLike) -> list[ThresholdResult]:
    """Return `at_threshold` at every score that occurs, lowest first.

    Parameters
    ----------
    scores, good
        As in `at_threshold`, which also says what is raised.

    Examples
    --------
    >>> [each.n_kept for each in threshold_curve([1, 2, 2, 4], [0, 0, 1, 1])]
    [4, 3, 1]
    """
    values, truth = _checked(scores, good)
    found = np.unique(values[~np.isnan(values)])
    return [at_threshold(values, truth, float(each)) for each in found]


def _checked(scores: npt.ArrayLike, good: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return scores and gold of the items with gold."""
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(good, dtype=np.float64)
    if values.shape != truth.shape or values.ndim != 1:
        raise DataError(f"scores have shape {values.shape}, good {truth.shape}: give two vectors")
    known = ~np.isnan(truth)
    if not np.isin(truth[known], (0, 1)).all():
        raise DataError("good is 1, 0 or NaN for each item")
    return values[known], truth[known]
