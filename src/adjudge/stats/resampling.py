"""Correlations of many resamples at once: a resample is how often each row and column occurs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from adjudge.stats.correlation import (
    Coefficient,
    Constant,
    Floats,
    Level,
    check_options,
    checked_matrices,
    group_value,
    level_correlation,
    scaled,
)

Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.integer[Any]]
#: Sources with more systems are not compared all with all: the matrices would be too large.
MATRIX_LIMIT = 2000
#: Cells of all resamples that are worked on together; bounds the memory and fits the cache.
CHUNK_CELLS = 2**21
#: Multiplications up to which OpenBLAS keeps a matrix product on one thread.
ONE_THREAD = 2**18


class _Weighted(NamedTuple):
    """Correlations of (R,) resamples, and where a side is constant."""

    values: Floats
    x_constant: Bools
    y_constant: Bools


def resampled_correlations(
    prediction: npt.ArrayLike,
    gold: npt.ArrayLike,
    system_counts: npt.ArrayLike,
    source_counts: npt.ArrayLike,
    *,
    coefficient: Coefficient = "spearman",
    level: Level = "sample",
    constant: Constant = "skip",
) -> Floats:
    """Return the correlation of every resample of systems and sources.

    Equal to `correlation` of the matrices whose rows and columns are repeated by the counts, but
    at the level "sample" without repeating: with the signs ``S_ij = sign(x_i - x_j)`` of a source
    and counts ``c``, Kendall's concordance is ``c' (S_x * S_y) c``, its untied pairs are
    ``c' (S_x * S_x) c``, and the centred ranks of Spearman are ``S_x c / 2``: matrix products
    over all resamples. At the other levels every resample is built.

    Parameters
    ----------
    prediction, gold
        Shape (n_systems, n_sources), any unit; NaN = not judged.
    system_counts
        Shape (R, n_systems), integers from 0: how often each system occurs in each resample.
    source_counts
        Shape (R, n_sources), integers from 0: how often each source occurs.
    coefficient, level, constant
        As in `correlation`; the policy holds for the groups of each resample.

    Returns
    -------
    numpy.ndarray
        Shape (R,), -1 to 1; NaN = no group of the resample is kept.

    Raises
    ------
    ValueError
        As `correlation`, and for counts that are not of these shapes, whole and from 0.

    Examples
    --------
    >>> scores, gold = [[1, 3], [2, 1], [3, 2]], [[1, 1], [2, 2], [3, 3]]
    >>> resampled_correlations(scores, gold, [[1, 1, 1], [1, 1, 1]], [[1, 1], [3, 1]]).round(3)
    array([0.25 , 0.625])
    """
    prediction, gold = checked_matrices(prediction=prediction, gold=gold)
    check_options(coefficient=coefficient, level=level, constant=constant)
    systems = _checked_counts("system_counts", system_counts, prediction.shape[0])
    sources = _checked_counts("source_counts", source_counts, prediction.shape[1])
    if len(systems) != len(sources):
        raise ValueError(
            f"system_counts has {len(systems)} resamples and source_counts {len(sources)};"
            " they must be equal"
        )
    if level != "sample":
        return _built(prediction, gold, systems, sources, coefficient, level, constant)
    parts = [np.empty(0)]
    step = chunk_size(prediction)
    for start in range(0, len(systems), step):
        chunk = slice(start, start + step)
        values = np.empty((len(sources[chunk]), prediction.shape[1]))
        for source, (x, y) in enumerate(zip(prediction.T, gold.T, strict=True)):
            values[:, source] = source_correlations(x, y, systems[chunk], coefficient, constant)
        parts.append(mean_of_kept(values, sources[chunk]))
    return np.concatenate(parts)


def chunk_size(matrix: Floats) -> int:
    """Return how many resamples of a matrix to work on together."""
    return max(1, CHUNK_CELLS // max(1, matrix.size))


def mean_of_kept(values: Floats, weights: npt.ArrayLike = 1) -> Floats:
    """Return the weighted mean of every row of (R, n_groups), NaN = not kept; NaN if none is."""
    kept = np.where(np.isnan(values), 0, weights)
    total = kept.sum(axis=1)
    weighted = (np.nan_to_num(values) * kept).sum(axis=1)
    return np.where(total > 0, weighted / np.maximum(total, 1), np.nan)


def source_correlations(
    x: Floats, y: Floats, counts: Integers, coefficient: Coefficient, constant: Constant
) -> Floats:
    """Return one source's correlation in every resample of its systems; NaN = not kept.

    Parameters
    ----------
    x, y
        Shape (n_systems,): prediction and gold; NaN = not judged.
    counts
        Shape (R, n_systems), integers from 0.
    coefficient, constant
        As in `correlation`.

    Returns
    -------
    numpy.ndarray
        Shape (R,).
    """
    judged = np.isfinite(x) & np.isfinite(y)
    if not judged.all():
        x, y, counts = x[judged], y[judged], counts[:, judged]
    if x.size > MATRIX_LIMIT:
        return np.array(
            [
                group_value(np.repeat(x, row), np.repeat(y, row), coefficient, constant)
                for row in counts
            ]
        )
    weights = counts.astype(np.float64)
    number = weights.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if coefficient == "pearson":
            found = _pearson(x, y, weights, number)
        elif coefficient == "spearman":
            found = _spearman(x, y, weights)
        else:
            found = _kendall(x, y, weights, number, coefficient)
    filler = {"skip": np.nan, "zero": 0.0, "one": 1.0}[constant]
    values = found.values.clip(-1, 1)
    values[found.x_constant] = np.nan if constant == "skip" else 0.0
    values[found.y_constant] = filler
    return np.where(number >= 2, values, np.nan)


def swapped_differences(
    judges: Floats,
    gold: Floats,
    swaps: Bools,
    coefficient: Coefficient,
    level: Level,
    constant: Constant,
) -> Floats:
    """Return judge 0's correlation minus judge 1's, for many swaps of their scores.

    With the systems of both judges stacked, a swap is a resample: of each system, one half counts
    once and the other not.

    Parameters
    ----------
    judges
        Shape (2, n_systems, n_sources), on one scale; NaN = not judged.
    gold
        Shape (n_systems, n_sources); NaN = not judged.
    swaps
        Broadcast to shape (R, n_systems, n_sources): where the judges' scores are swapped.
    coefficient, level, constant
        As in `correlation`.

    Returns
    -------
    numpy.ndarray
        Shape (R,), -2 to 2; NaN where either is undefined.
    """
    a, b = judges
    if level != "sample":
        options = coefficient, level, constant
        of_a = [level_correlation(np.where(swap, b, a), gold, *options).value for swap in swaps]
        of_b = [level_correlation(np.where(swap, a, b), gold, *options).value for swap in swaps]
        return np.subtract(of_a, of_b)
    swaps = np.broadcast_to(swaps, (len(swaps), *gold.shape))
    by_source = np.ascontiguousarray(np.moveaxis(swaps, 2, 0))
    values = np.empty((2, len(swaps), gold.shape[1]))
    for source, swapped in enumerate(by_source):
        x, y = judges[:, :, source].ravel(), np.tile(gold[:, source], 2)
        counts = np.concatenate([~swapped, swapped], axis=1).astype(np.int8)
        for judge, taken in enumerate((counts, 1 - counts)):
            values[judge, :, source] = source_correlations(x, y, taken, coefficient, constant)
    return np.asarray(mean_of_kept(values[0]) - mean_of_kept(values[1]))


def _checked_counts(name: str, counts: npt.ArrayLike, length: int) -> Integers:
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[1] != length:
        raise ValueError(f"{name} has the shape {array.shape}; it must be (R, {length})")
    if not np.issubdtype(array.dtype, np.integer) or (array < 0).any():
        raise ValueError(f"{name} must hold whole numbers from 0")
    return array


def _built(
    prediction: Floats,
    gold: Floats,
    systems: Integers,
    sources: Integers,
    coefficient: Coefficient,
    level: Level,
    constant: Constant,
) -> Floats:
    values = np.empty(len(systems))
    for resample, (rows, columns) in enumerate(zip(systems, sources, strict=True)):
        cells = np.ix_(
            np.repeat(np.arange(len(rows)), rows), np.repeat(np.arange(len(columns)), columns)
        )
        values[resample] = level_correlation(
            prediction[cells], gold[cells], coefficient, level, constant
        ).value
    return values


def _dense(x: Floats) -> Floats:
    """Return the position of each value among the distinct ones, from 0."""
    return np.unique(x, return_inverse=True)[1].astype(np.float64)


def _signs(x: Floats) -> Floats:
    places = _dense(x)
    return np.asarray(np.sign(places[:, None] - places[None, :]))


def _product(weights: Floats, form: Floats) -> Floats:
    """Return the matrix product, in pieces that BLAS does not share among threads.

    Small products gain nothing from threads, and lose twentyfold where the cores are busy.
    """
    if form.size > ONE_THREAD // 16:
        return np.asarray(weights @ form)
    rows = ONE_THREAD // max(1, form.size)
    product = np.empty((len(weights), form.shape[1]))
    for start in range(0, len(weights), rows):
        piece = slice(start, start + rows)
        np.matmul(weights[piece], form, out=product[piece])
    return product


def _quadratic(weights: Floats, form: Floats) -> Floats:
    """Return ``c' form c`` for every row c of the weights."""
    return np.asarray(np.einsum("rm,rm->r", _product(weights, form), weights))


def _kendall(
    x: Floats, y: Floats, weights: Floats, number: Floats, coefficient: Coefficient
) -> _Weighted:
    # All sums are of whole numbers, hence exact.
    x_signs, y_signs = _signs(x), _signs(y)
    x_untied = _quadratic(weights, x_signs * x_signs)
    y_untied = _quadratic(weights, y_signs * y_signs)
    concordance = _quadratic(weights, x_signs * y_signs)
    if coefficient == "kendall_tau_b":
        scale = np.sqrt(x_untied * y_untied)
    else:
        classes = np.minimum(_n_distinct(x, weights), _n_distinct(y, weights))
        scale = number**2 * (classes - 1) / classes
    return _Weighted(concordance / scale, x_untied == 0, y_untied == 0)


def _n_distinct(x: Floats, weights: Floats) -> Floats:
    member = (_dense(x)[:, None] == np.arange(np.unique(x).size)).astype(np.float64)
    return np.asarray((_product(weights, member) > 0).sum(axis=1, dtype=np.float64))


def _spearman(x: Floats, y: Floats, weights: Floats) -> _Weighted:
    # Twice the centred ranks: whole numbers, so that their sums are exact.
    x_ranks, y_ranks = _product(weights, _signs(x).T), _product(weights, _signs(y).T)
    values, x_square, y_square = _moments(x_ranks, y_ranks, weights)
    return _Weighted(values, x_square == 0, y_square == 0)


def _pearson(x: Floats, y: Floats, weights: Floats, number: Floats) -> _Weighted:
    x, y = scaled(x), scaled(y)
    # The mean first: sums of squares would cancel.
    x_centred, y_centred = (side - ((weights @ side) / number)[:, None] for side in (x, y))
    values, _, _ = _moments(x_centred, y_centred, weights)
    return _Weighted(values, _constant(x, weights, number), _constant(y, weights, number))


def _moments(x: Floats, y: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the correlation of centred (R, n) values, and the sums of squares of both."""
    weighted = weights * x
    xy = np.einsum("rm,rm->r", weighted, y)
    xx = np.einsum("rm,rm->r", weighted, x)
    yy = np.einsum("rm,rm,rm->r", weights, y, y)
    return xy / np.sqrt(xx * yy), xx, yy


def _constant(x: Floats, weights: Floats, number: Floats) -> Bools:
    """Return where all values with a weight are equal; whole numbers, hence exact."""
    places = _dense(x)
    return np.asarray(number * (weights @ places**2) == (weights @ places) ** 2)
