"""Correlation of a judge's scores with gold scores, at four levels of aggregation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

Coefficient = Literal["pearson", "spearman", "kendall_tau_b", "kendall_tau_c"]
Level = Literal["sample", "system", "pooled", "by_source"]
Constant = Literal["skip", "zero", "one"]
Floats = npt.NDArray[np.float64]

#: Decimal places that aggregates keep, counted from the first digit of the largest one.
AGGREGATE_DECIMALS = 9


class Correlation(NamedTuple):
    """A correlation and how many groups it rests on.

    Attributes
    ----------
    value
        Between -1 and 1; NaN where no group is kept.
    kept
        Groups that count: those with a correlation, and those to which the policy gave a value.
    total
        All groups: the sources at the level "sample", 1 at the others.
    """

    value: float
    kept: int
    total: int


def pearson_r(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return Pearson's product-moment correlation of two vectors.

    Parameters
    ----------
    x, y
        Shape (n,), any unit; NaN = not judged: its pair is left out.

    Returns
    -------
    float
        Between -1 and 1; NaN with fewer than 2 pairs, or where x or y is constant.

    Raises
    ------
    ValueError
        For vectors of unequal length and for infinite values.

    Examples
    --------
    >>> round(pearson_r([1, 2, 3, 5], [2, 4, 6, 11]), 4)
    0.9981
    """
    return group_value(*checked_vectors(x, y), "pearson", "skip")


def spearman_rho(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return Spearman's rank correlation of two vectors.

    Pearson's correlation of the ranks, where equal values share the mean of their ranks.

    Parameters
    ----------
    x, y
        Shape (n,), any unit; NaN = not judged: its pair is left out before ranking.

    Returns
    -------
    float
        Between -1 and 1; NaN with fewer than 2 pairs, or where x or y is constant.

    Raises
    ------
    ValueError
        For vectors of unequal length and for infinite values.

    Examples
    --------
    >>> spearman_rho([1, 2, 3, 4, 5], [1, 3, 2, 4, 5])
    0.9
    """
    return group_value(*checked_vectors(x, y), "spearman", "skip")


def kendall_tau_b(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return Kendall's tau-b of two vectors.

    Concordant minus discordant pairs, over the geometric mean of the pairs that x and y leave
    untied (Kendall 1945); it reaches 1 only where both have the same ties. O(n log n).

    Parameters
    ----------
    x, y
        Shape (n,), any unit; NaN = not judged: its pair is left out.

    Returns
    -------
    float
        Between -1 and 1; NaN with fewer than 2 pairs, or where x or y is constant.

    Raises
    ------
    ValueError
        For vectors of unequal length and for infinite values.

    Examples
    --------
    >>> round(kendall_tau_b([1, 2, 3, 4], [1, 2, 2, 3]), 4)
    0.9129
    """
    return group_value(*checked_vectors(x, y), "kendall_tau_b", "skip")


def kendall_tau_c(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return Kendall's tau-c, also Stuart's tau-c, of two vectors.

    Concordant minus discordant pairs, over their largest possible number where the smaller side
    has m distinct values: n**2 (m - 1) / (2 m) (Stuart 1953). It is meant for scales of unequal
    length. O(n log n).

    Parameters
    ----------
    x, y
        Shape (n,), any unit; NaN = not judged: its pair is left out.

    Returns
    -------
    float
        Between -1 and 1; NaN with fewer than 2 pairs, or where x or y is constant.

    Raises
    ------
    ValueError
        For vectors of unequal length and for infinite values.

    Examples
    --------
    >>> kendall_tau_c([1, 2, 3, 4], [1, 1, 2, 2])
    1.0
    """
    return group_value(*checked_vectors(x, y), "kendall_tau_c", "skip")


def correlation(
    prediction: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    coefficient: Coefficient = "spearman",
    level: Level = "sample",
    constant: Constant = "skip",
) -> Correlation:
    """Return the correlation of predictions with gold scores, and the groups it rests on.

    "sample" is the plain mean over sources of the correlation over systems (often called
    summary-level); "system" correlates the systems' means, "by_source" the sources' means,
    "pooled" all pairs. Lawrence, Williamson and Shelton (2025), appendix B, whose formula for the
    summary level is "pooled" here and whose tables 5 and 6 are "by_source". Means are taken over
    the pairs judged on both sides and rounded at 1e-9 (of the largest one's order of magnitude),
    so that summation noise breaks no ties.

    Parameters
    ----------
    prediction, gold
        Shape (n_systems, n_sources), any unit; NaN = not judged. A pair counts where both are
        finite.
    coefficient
        Which correlation.
    level
        Which groups: each source, or one group of means or pairs.
    constant
        What a group of 2 or more pairs is worth where one side is constant: "skip" leaves it out
        (G-Eval), "zero" counts it as 0 (ZEPO), "one" counts it as 1 where gold is constant and as
        0 where only the prediction is (PairS). A group with fewer than 2 pairs is never kept.

    Returns
    -------
    Correlation
        Value (NaN where no group is kept), groups kept, groups in total.

    Raises
    ------
    ValueError
        For matrices of unequal shape, infinite values and unknown options.

    Examples
    --------
    >>> gold = [[1, 5, 2], [2, 5, 1], [3, 5, 3]]
    >>> correlation([[1, 2, 1], [2, 4, 2], [3, 6, 3]], gold)
    Correlation(value=0.75, kept=2, total=3)
    """
    prediction, gold = checked_matrices(prediction=prediction, gold=gold)
    check_options(coefficient=coefficient, level=level, constant=constant)
    return level_correlation(prediction, gold, coefficient, level, constant)


def level_correlation(
    prediction: Floats, gold: Floats, coefficient: Coefficient, level: Level, constant: Constant
) -> Correlation:
    """Return what `correlation` does, for arguments that are known to be right."""
    if level == "sample":
        groups = list(zip(prediction.T, gold.T, strict=True))
    else:
        groups = [_vectors(prediction, gold, level)]
    values = np.array([group_value(x, y, coefficient, constant) for x, y in groups])
    kept = values[~np.isnan(values)]
    return Correlation(float(kept.mean()) if kept.size else np.nan, kept.size, len(groups))


def group_value(x: Floats, y: Floats, coefficient: Coefficient, constant: Constant) -> float:
    """Return one group's correlation, or what the policy gives; NaN = the group is not kept.

    x is the prediction and y the gold, shape (n,); NaN = not judged.
    """
    judged = np.isfinite(x) & np.isfinite(y)
    x, y = x[judged], y[judged]
    if x.size < 2:
        return np.nan
    gold_constant = bool((y == y[0]).all())
    if gold_constant or (x == x[0]).all():
        return {"skip": np.nan, "zero": 0.0, "one": float(gold_constant)}[constant]
    return float(np.clip(_COEFFICIENTS[coefficient](x, y), -1, 1))


def checked_matrices(**matrices: npt.ArrayLike) -> tuple[Floats, ...]:
    """Return the matrices as floats; they must be 2-D, of one shape and not infinite."""
    return _checked(2, "(n_systems, n_sources)", matrices)


def checked_vectors(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the vectors as floats; they must be 1-D, of one length and not infinite."""
    x, y = _checked(1, "(n,)", {"x": x, "y": y})
    return x, y


def check_options(**options: str) -> None:
    """Raise a ValueError for an unknown coefficient, level or policy."""
    for name, value in options.items():
        allowed = get_args(_OPTIONS[name])
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")


def _checked(
    dimensions: int, shape: str, arrays: Mapping[str, npt.ArrayLike]
) -> tuple[Floats, ...]:
    checked = {name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()}
    first = next(iter(checked))
    for name, array in checked.items():
        if array.ndim != dimensions:
            raise ValueError(f"{name} has the shape {array.shape}; it must be {shape}")
        if array.shape != checked[first].shape:
            raise ValueError(
                f"{first} has the shape {checked[first].shape} and {name} {array.shape};"
                " they must be equal, with NaN where nothing was judged"
            )
        infinite = np.argwhere(np.isinf(array))
        if len(infinite):
            where = tuple(infinite[0].tolist())
            raise ValueError(
                f"{name}[{', '.join(map(str, where))}] is {array[where]};"
                " scores must be finite, or NaN for not judged"
            )
    return tuple(checked.values())


def _vectors(prediction: Floats, gold: Floats, level: Level) -> tuple[Floats, Floats]:
    """Return the one group of pairs of a level other than "sample"."""
    if level == "pooled":
        return prediction.ravel(), gold.ravel()
    prediction, gold = scaled(prediction), scaled(gold)  # sums must not overflow
    axis = 1 if level == "system" else 0
    judged = np.isfinite(prediction) & np.isfinite(gold)
    number = judged.sum(axis=axis)
    x, y = (
        np.where(
            number > 0,
            np.where(judged, scores, 0).sum(axis=axis) / np.maximum(number, 1),
            np.nan,
        )
        for scores in (prediction, gold)
    )
    return _rounded(x), _rounded(y)


def _rounded(means: Floats) -> Floats:
    """Return means without the noise of their summation; on a scale of 1 to 5, at 1e-9."""
    largest = np.max(np.abs(means), initial=0.0, where=~np.isnan(means))
    magnitude = int(np.floor(np.log10(largest))) if largest > 0 else 0
    return np.asarray(np.round(means, min(AGGREGATE_DECIMALS - magnitude, 300)))


def ranks(x: Floats) -> Floats:
    """Return the ranks from 1; equal values share the mean of theirs. Shape (n,), no NaN."""
    _, which, number = np.unique(x, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(number) - (number - 1) / 2)[which])


def scaled(x: Floats) -> Floats:
    """Return values below 1, by a power of 2: squares neither overflow nor lose digits."""
    largest = np.abs(x).max(initial=0.0, where=~np.isnan(x))
    return np.asarray(np.ldexp(x, -int(np.frexp(largest)[1])))


def _pearson(x: Floats, y: Floats) -> float:
    x, y = scaled(x), scaled(y)
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def _spearman(x: Floats, y: Floats) -> float:
    return _pearson(ranks(x), ranks(y))


def _kendall(x: Floats, y: Floats, variant: Literal["b", "c"]) -> float:
    if x.size == 2:  # scipy divides by n - 2
        return float(1 if (x[0] < x[1]) == (y[0] < y[1]) else -1)
    from scipy.stats import kendalltau

    # Only the statistic is used; the variance for its p-value overflows with many ties.
    with np.errstate(all="ignore"):
        return float(kendalltau(x, y, variant=variant, method="asymptotic").statistic)


_OPTIONS = {"coefficient": Coefficient, "level": Level, "constant": Constant}
#: Of two vectors of at least 2 finite values, neither of them constant.
_COEFFICIENTS: Mapping[str, Callable[[Floats, Floats], float]] = {
    "pearson": _pearson,
    "spearman": _spearman,
    "kendall_tau_b": lambda x, y: _kendall(x, y, "b"),
    "kendall_tau_c": lambda x, y: _kendall(x, y, "c"),
}
