"""How far two raters, or several, agree on the same units.

Units without a rating are left out and counted: `kept` of `total`. Infinite ratings raise
DataError, as do two raters' ratings of different shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from adjudge.errors import ConfigError, DataError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
Weights = Literal["linear", "quadratic"]
Level = Literal["nominal", "ordinal", "interval"]
Measure = Literal["pearson", "spearman", "kappa"] | Callable[[FloatArray, FloatArray], float]

#: Means are rounded to this many decimals before they are ranked or compared with labels.
DECIMALS = 9


class Agreement(NamedTuple):
    """An agreement, NaN where undefined, over `kept` of `total` units."""

    value: float
    kept: int
    total: int


class ConfusionMatrix(NamedTuple):
    """Counts (k, k) of label pairs, rows first rater, by `labels` (k,); `kept` of `total` units."""

    counts: npt.NDArray[np.int64]
    labels: FloatArray
    kept: int
    total: int


class HumanCeiling(NamedTuple):
    """How far human raters agree with one another.

    Attributes
    ----------
    leave_one_out, pairwise
        Mean of `per_rater`; mean over pairs of raters. NaN if none is defined.
    per_rater
        Shape (n_raters,): agreement of each rater with the mean of the others; NaN where undefined.
    n_pairs, kept, total
        Pairs of raters with a defined agreement; units with two ratings or more; all units.
    """

    leave_one_out: float
    pairwise: float
    per_rater: FloatArray
    n_pairs: int
    kept: int
    total: int


def exact_match(a: npt.ArrayLike, b: npt.ArrayLike) -> Agreement:
    """Return the share of units that both raters give the same rating.

    Parameters
    ----------
    a, b
        Ratings, of one shape; NaN = not rated, which leaves the unit out.

    Returns
    -------
    Agreement
        Value in [0, 1]; NaN without a unit.

    Examples
    --------
    >>> exact_match([1, 2, 3, 4], [1, 2, 4, float("nan")])
    Agreement(value=0.6666666666666666, kept=3, total=4)
    """
    first, second, total = _paired(a, b)
    return Agreement(_mean(first == second), first.size, total)


def mean_absolute_error(a: npt.ArrayLike, b: npt.ArrayLike) -> Agreement:
    """Return the mean absolute difference of two raters' ratings; lower is better.

    Parameters
    ----------
    a, b
        Ratings, of one shape and on one scale; NaN = not rated, which leaves the unit out.

    Returns
    -------
    Agreement
        Value at least 0, in points of the scale; NaN without a unit.

    Examples
    --------
    >>> mean_absolute_error([1, 2, 3], [1, 4, 2])
    Agreement(value=1.0, kept=3, total=3)
    """
    first, second, total = _paired(a, b)
    return Agreement(_mean(np.abs(first - second)), first.size, total)


def confusion_matrix(a: npt.ArrayLike, b: npt.ArrayLike, labels: npt.ArrayLike) -> ConfusionMatrix:
    """Return how often each label of one rater meets each label of the other.

    Parameters
    ----------
    a, b
        Ratings, of one shape; NaN = not rated, which leaves the unit out.
    labels
        Shape (k,): the distinct ratings allowed, in the order of rows and columns.

    Returns
    -------
    ConfusionMatrix
        Rows are `a`, columns `b`.

    Raises
    ------
    ConfigError
        Labels are repeated, missing values or none.
    DataError
        A rating is not among the labels.

    Examples
    --------
    >>> confusion_matrix([1, 1, 2], [1, 2, 2], [1, 2]).counts.tolist()
    [[1, 1], [0, 1]]
    """
    first, second, total = _paired(a, b)
    names = np.asarray(labels, dtype=np.float64)
    k = names.size
    if names.ndim != 1 or not k or np.isnan(names).any() or np.unique(names).size != k:
        raise ConfigError(f"labels are {names.tolist()}; give distinct numbers in a flat list")
    cells = _positions(first, names) * k + _positions(second, names)
    counts = np.bincount(cells, minlength=k * k).reshape(k, k).astype(np.int64)
    return ConfusionMatrix(counts, names, first.size, total)


def cohen_kappa(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    weights: Weights | None = None,
    labels: npt.ArrayLike | None = None,
) -> Agreement:
    """Return Cohen's kappa: agreement of two raters beyond what their label shares give.

    Kappa is 1 - sum(w * observed) / sum(w * expected) over the confusion matrix (Cohen 1960,
    1968). Distances in w are of positions in `labels`, not of values, as scikit-learn has it: give
    the whole scale in `labels` where a score of it may not occur.

    Parameters
    ----------
    a, b
        Ratings, of one shape; NaN = not rated, which leaves the unit out.
    weights
        None: every disagreement weighs the same; "linear": by its distance; "quadratic": by the
        square of it.
    labels
        Shape (k,): the ratings allowed, in order; by default those that occur, ascending.

    Returns
    -------
    Agreement
        Value at most 1, 0 at chance; NaN if both raters give one and the same label throughout,
        or without a unit.

    Raises
    ------
    ConfigError
        Unknown weights, or labels that are not distinct.
    DataError
        A rating is not among the labels.

    Examples
    --------
    >>> cohen_kappa([1, 1, 2, 2], [1, 2, 2, 2])
    Agreement(value=0.5, kept=4, total=4)
    """
    if weights not in (None, "linear", "quadratic"):
        raise ConfigError(f"weights is {weights!r}; use None, 'linear' or 'quadratic'")
    first, second, total = _paired(a, b)
    if not first.size:
        return Agreement(math.nan, 0, total)
    names = np.unique(np.concatenate([first, second])) if labels is None else labels
    counts = confusion_matrix(first, second, names).counts
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / first.size
    place = np.arange(len(counts))
    distance = np.abs(place[:, None] - place[None, :])
    weight = {None: distance > 0, "linear": distance, "quadratic": distance**2}[weights]
    by_chance = float((weight * expected).sum())
    value = 1 - float((weight * counts).sum()) / by_chance if by_chance else math.nan
    return Agreement(value, first.size, total)


def krippendorff_alpha(ratings: npt.ArrayLike, *, level: Level) -> Agreement:
    """Return Krippendorff's alpha: agreement of any number of raters beyond chance.

    Alpha is 1 - observed / expected disagreement over the ratings of units with two or more
    (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"). The ordinal distance is the
    squared difference of midranks, so that no coincidence matrix is built: O(n log n).

    Parameters
    ----------
    ratings
        Shape (n_raters, n_units); NaN = not rated.
    level
        "nominal": ratings are equal or not; "ordinal": their order counts; "interval": their
        differences count.

    Returns
    -------
    Agreement
        Value at most 1, 0 at chance; NaN if all pairable ratings are equal or none is pairable.
        `kept` counts units with two ratings or more.

    Raises
    ------
    ConfigError
        Unknown level.
    DataError
        Not a matrix, or infinite values.

    Examples
    --------
    >>> alpha = krippendorff_alpha([[1, 2, 3, 3], [1, 2, 3, 2]], level="nominal")
    >>> round(alpha.value, 4), alpha.kept
    (0.6667, 4)
    """
    if level not in ("nominal", "ordinal", "interval"):
        raise ConfigError(f"level is {level!r}; use 'nominal', 'ordinal' or 'interval'")
    matrix = _rating_matrix(ratings)
    total = matrix.shape[1]
    matrix = matrix[:, (~np.isnan(matrix)).sum(axis=0) >= 2]
    kept = matrix.shape[1]
    there = ~np.isnan(matrix.T)
    unit = np.nonzero(there)[0]
    values = matrix.T[there]
    if np.unique(values).size < 2:
        return Agreement(math.nan, kept, total)
    disagreement = _nominal_disagreement if level == "nominal" else _squared_disagreement
    scores = midranks(values) if level == "ordinal" else values
    observed, expected = disagreement(scores, unit, kept)
    return Agreement(1 - observed / expected, kept, total)


def human_ceiling(ratings: npt.ArrayLike, *, measure: Measure = "spearman") -> HumanCeiling:
    """Return how far human raters agree with one another: what a judge can hope to reach.

    Leave-one-out compares each rater with the mean of the others over the units that both have:
    the usual ceiling. The mean over pairs of raters is lower, since one rater is noisier than a
    mean. Where a row is a slot filled by changing people, it describes no single one of them.

    Parameters
    ----------
    ratings
        Shape (n_raters, ...): the other axes are flattened to units. NaN = not rated.
    measure
        "pearson", "spearman", "kappa", or a function of two arrays without NaN. "kappa" is
        quadratic, and moves the mean of the others to the nearest rating that occurs, or the lower.

    Returns
    -------
    HumanCeiling
        Undefined agreements (a constant rater) are left out of both means.

    Raises
    ------
    ConfigError
        Unknown measure.
    DataError
        Fewer than two raters, or infinite values.

    Examples
    --------
    >>> ceiling = human_ceiling([[1, 2, 3, 4], [1, 2, 4, 3], [2, 1, 3, 4]])
    >>> round(ceiling.leave_one_out, 3), round(ceiling.pairwise, 3)
    (0.79, 0.733)
    """
    array = np.asarray(ratings, dtype=np.float64)
    matrix = _rating_matrix(array.reshape(len(array), -1) if array.ndim > 2 else array)
    if len(matrix) < 2:
        raise DataError(f"there is {len(matrix)} rater; a ceiling takes at least two")
    there = ~np.isnan(matrix)
    labels = np.unique(matrix[there])
    agree = _measure(measure, labels)
    filled = np.where(there, matrix, 0.0)
    per_rater = np.full(len(matrix), math.nan)
    for rater, row in enumerate(matrix):
        n_others = there.sum(axis=0) - there[rater]
        both = there[rater] & (n_others > 0)
        others = (filled.sum(axis=0) - filled[rater])[both] / n_others[both]
        others = np.round(others, DECIMALS)
        if measure == "kappa":
            others = labels[np.abs(others[:, None] - labels).argmin(axis=1)]
        per_rater[rater] = agree(row[both], others) if both.any() else math.nan
    pairs = []
    for i, j in combinations(range(len(matrix)), 2):
        if (both := there[i] & there[j]).any():
            pairs.append(agree(matrix[i, both], matrix[j, both]))
    defined = [value for value in pairs if not math.isnan(value)]
    ceiling, kept = _mean(per_rater[~np.isnan(per_rater)]), int((there.sum(axis=0) >= 2).sum())
    return HumanCeiling(ceiling, _mean(defined), per_rater, len(defined), kept, matrix.shape[1])


def midranks(values: npt.ArrayLike) -> FloatArray:
    """Return ranks from 1 of values (n,) without NaN; equal ones share the mean of their ranks.

    Examples
    --------
    >>> midranks([10, 30, 20, 20]).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    _, code, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[code], dtype=np.float64)


def _paired(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[FloatArray, FloatArray, int]:
    """Return both ratings of the units that have both, and the number of all units."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise DataError(f"ratings have shapes {first.shape} and {second.shape}; they must be equal")
    if np.isinf(first).any() or np.isinf(second).any():
        raise DataError("a rating is infinite; use NaN for a unit that was not rated")
    both = ~np.isnan(first + second)
    return first[both], second[both], first.size


def _rating_matrix(ratings: npt.ArrayLike) -> FloatArray:
    matrix = np.asarray(ratings, dtype=np.float64)
    if matrix.ndim != 2 or not len(matrix):
        raise DataError(f"ratings have shape {matrix.shape}; expected (n_raters, n_units)")
    if np.isinf(matrix).any():
        raise DataError("a rating is infinite; use NaN for a unit that was not rated")
    return matrix


def _positions(values: FloatArray, labels: FloatArray) -> IntArray:
    """Return the index in `labels` of each value."""
    order = np.argsort(labels)
    place = order[np.minimum(np.searchsorted(labels[order], values), labels.size - 1)]
    strange = labels[place] != values
    if strange.any():
        raise DataError(f"a rating is {values[strange][0]:g}; the labels are {labels.tolist()}")
    return np.asarray(place)


def _nominal_disagreement(values: FloatArray, unit: IntArray, n_units: int) -> tuple[float, float]:
    """Return observed and expected shares of unequal pairs of ratings."""
    code = np.unique(values, return_inverse=True)[1]
    n, size = values.size, np.bincount(unit, minlength=n_units)
    cell, count = np.unique(unit * (int(code.max()) + 1) + code, return_counts=True)
    equal = np.bincount(cell // (int(code.max()) + 1), weights=count**2.0, minlength=n_units)
    observed = float(((size**2 - equal) / (size - 1)).sum()) / n
    expected = float(n**2 - (np.bincount(code).astype(np.float64) ** 2).sum()) / (n * (n - 1))
    return observed, expected


def _squared_disagreement(scores: FloatArray, unit: IntArray, n_units: int) -> tuple[float, float]:
    """Return observed and expected mean squared differences of pairs of ratings."""
    n, size = scores.size, np.bincount(unit, minlength=n_units)
    mean = np.bincount(unit, weights=scores, minlength=n_units) / size
    # The sum of squared differences over ordered pairs is 2 m times that of deviations.
    spread = np.bincount(unit, weights=(scores - mean[unit]) ** 2, minlength=n_units)
    observed = float((2 * size * spread / (size - 1)).sum()) / n
    expected = 2 * float(((scores - scores.mean()) ** 2).sum()) / (n - 1)
    return observed, expected


def _measure(measure: Measure, labels: FloatArray) -> Callable[[FloatArray, FloatArray], float]:
    if callable(measure):
        return measure
    if measure == "pearson":
        return _pearson
    if measure == "spearman":
        return lambda a, b: _pearson(midranks(a), midranks(b))
    if measure == "kappa":
        return lambda a, b: cohen_kappa(a, b, weights="quadratic", labels=labels).value
    raise ConfigError(f"measure is {measure!r}; use 'pearson', 'spearman', 'kappa' or a function")


def _pearson(a: FloatArray, b: FloatArray) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    x, y = a - a.mean(), b - b.mean()
    return float(x @ y / math.sqrt(float(x @ x) * float(y @ y)))


def _mean(values: FloatArray | npt.NDArray[np.bool_] | Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan
