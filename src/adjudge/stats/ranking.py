"""Rankings out of pairwise preferences: by sorting, by counting wins, by a model of strength.

A preference is above 0 where the first response of a pair is better, below 0 where the second is,
and 0 for a tie.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from adjudge.errors import ConfigError, DataError
from adjudge.stats.correlation import ranks as ranks_from_lowest

FloatArray = npt.NDArray[np.float64]
Pair = tuple[int, int]

#: Jeffreys' prior on the probability of beating an average response.
PRIOR = 0.5
MOST_STEPS = 10_000


def merge_sort(n: int) -> Generator[list[Pair], Sequence[float], tuple[int, ...]]:
    """Yield pairs to compare, and return the ranking, best first.

    A merge sort from single responses upwards. All merges of one level advance together, by one
    comparison each, so that a yield holds what can be compared at the same time. Runs of one
    level differ in length by 1 at most. That takes at most n ceil(log2 n) - 2^ceil(log2 n) + 1
    comparisons, never more than n log2 n, in fewer than 2 n yields. A tie keeps the given order.

    Parameters
    ----------
    n
        Number of responses, at least 1.

    Yields
    ------
    list of (i, j)
        Pairs whose preferences are to be sent, in this order: above 0 where i is better, below 0
        where j is, 0 for a tie.

    Returns
    -------
    tuple of int
        Responses, best first.

    Raises
    ------
    DataError
        No response, a preference that is NaN, or another number of them than of pairs.

    Examples
    --------
    >>> quality = [2, 3, 1]
    >>> sorting = merge_sort(3)
    >>> pairs = next(sorting)
    >>> try:
    ...     while True:
    ...         pairs = sorting.send([quality[i] - quality[j] for i, j in pairs])
    ... except StopIteration as end:
    ...     print(end.value)
    (1, 0, 2)
    """
    if n < 1:
        raise DataError(f"there are {n} responses to rank; give at least 1")
    depth = (n - 1).bit_length()
    cuts = [n * each >> depth for each in range(2**depth + 1)]
    runs = [list(range(*ends)) for ends in pairwise(cuts)]
    while len(runs) > 1:
        runs = yield from _merge_level(runs[::2], runs[1::2])
    return tuple(runs[0])


def all_pairs(n: int) -> list[Pair]:
    """Return the pairs (i, j) of n responses with i < j.

    Parameters
    ----------
    n
        Number of responses.

    Examples
    --------
    >>> all_pairs(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(n), 2))


def copeland_scores(preferences: npt.ArrayLike) -> FloatArray:
    """Return each response's wins plus half of its ties (Copeland 1951).

    Only the sign of a preference counts.

    Parameters
    ----------
    preferences
        Shape (n, n). Entry (i, j) is above 0, up to 1, where i is preferred to j, 0 for a tie,
        below 0 where j is, NaN = none, which counts for neither. Antisymmetric; the diagonal is
        ignored.

    Returns
    -------
    FloatArray
        Shape (n,), in [0, n - 1]; higher is better.

    Raises
    ------
    DataError
        Not square, not antisymmetric, or outside [-1, 1].

    Examples
    --------
    >>> copeland_scores([[0, 1, 0], [-1, 0, 0.2], [0, -0.2, 0]]).tolist()
    [1.5, 1.0, 0.5]
    """
    matrix = _square(preferences, "preferences")
    off = ~np.eye(len(matrix), dtype=bool)
    strange = matrix[off & (np.abs(matrix) > 1)]
    if strange.size:
        raise DataError(f"a preference is {strange[0]:g}; use -1 to 1, or NaN for none")
    if not np.array_equal(matrix[off], -matrix.T[off], equal_nan=True):
        raise DataError(
            "preferences are not antisymmetric; entry (j, i) must be minus entry (i, j)"
        )
    points = (matrix > 0) + 0.5 * (matrix == 0)
    return np.asarray(np.where(off, points, 0.0).sum(axis=1))


def bradley_terry_strengths(wins: npt.ArrayLike, *, prior: float = PRIOR) -> FloatArray:
    """Return the strengths s under which i beats j with probability 1 / (1 + exp(s_j - s_i)).

    The model of Bradley and Terry (1952), fitted by iterated Luce spectral ranking (Maystre and
    Grossglauser, NeurIPS 2015). Without a prior an unbeaten response has an infinite
    strength, and groups that never met have no common scale. Here every response also wins and
    loses `prior` times against one further response, which is then dropped: the strengths are the
    most likely ones if the probability of beating it is Beta(prior, prior). The weight of the
    prior on a response does not grow with n.

    Parameters
    ----------
    wins
        Shape (n, n). Entry (i, j) says how often i beat j, or with what summed probability; a tie
        is half a win for both. The diagonal is ignored.
    prior
        Above 0, in comparisons. Near 0 gives the maximum-likelihood strengths where they exist.

    Returns
    -------
    FloatArray
        Shape (n,), on the log scale, with mean 0; higher is better.

    Raises
    ------
    ConfigError
        A prior that is not a number above 0.
    DataError
        Not square, negative or not finite; or the fit does not converge, as where thousands of
        wins of an unbeaten response meet a prior near 0.

    Examples
    --------
    >>> strengths = bradley_terry_strengths([[0, 3], [1, 0]], prior=1e-6)
    >>> round(float(strengths[0] - strengths[1]), 3), round(math.log(3 / 1), 3)
    (1.099, 1.099)
    """
    if not (prior > 0 and math.isfinite(prior)):
        raise ConfigError(f"prior is {prior:g}; use a number above 0")
    counts = _square(wins, "wins").copy()
    np.fill_diagonal(counts, 0)
    strange = counts[~np.isfinite(counts) | (counts < 0)]
    if strange.size:
        raise DataError(f"a number of wins is {strange[0]:g}; use 0 or more")
    n = len(counts)
    with_further = np.full((n + 1, n + 1), float(prior))
    with_further[:n, :n], with_further[n, n] = counts, 0
    from choix import ilsr_pairwise_dense

    try:
        # Where a weight leaves the floating-point range the strengths never settle.
        with np.errstate(all="ignore"):
            found = ilsr_pairwise_dense(with_further, max_iter=MOST_STEPS)[:n]
    except (RuntimeError, ValueError) as error:
        raise DataError(
            f"Bradley-Terry strengths do not converge in {MOST_STEPS} steps with up to "
            f"{counts.max():g} wins and a prior of {prior:g}; give a larger prior"
        ) from error
    return np.asarray(found - found.mean())


def ranks(scores: npt.ArrayLike) -> FloatArray:
    """Return the rank of each score: 1 for the highest; equal scores share the mean of theirs.

    Parameters
    ----------
    scores
        Shape (n,), higher is better.

    Returns
    -------
    FloatArray
        Shape (n,), in [1, n].

    Raises
    ------
    DataError
        Not flat, or NaN.

    Examples
    --------
    >>> ranks([0.5, 2, 0.5]).tolist()
    [2.5, 1.0, 2.5]
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise DataError(f"scores have shape {values.shape}; expected (n,)")
    if np.isnan(values).any():
        raise DataError(
            f"score {int(np.isnan(values).argmax())} (from 0) is NaN and has no rank; leave out "
            "the responses without a score"
        )
    return ranks_from_lowest(-values)


def _merge_level(
    lefts: list[list[int]], rights: list[list[int]]
) -> Generator[list[Pair], Sequence[float], list[list[int]]]:
    """Merge runs two by two, and return the merged ones."""
    merges = [(left, right, list[int]()) for left, right in zip(lefts, rights, strict=True)]
    while active := [each for each in merges if each[0] and each[1]]:
        pairs = [(left[0], right[0]) for left, right, _ in active]
        preferences = _answered(pairs, (yield pairs))
        for (left, right, merged), preference in zip(active, preferences, strict=True):
            merged.append((right if preference < 0 else left).pop(0))
    return [merged + left + right for left, right, merged in merges]


def _answered(pairs: list[Pair], preferences: Sequence[float]) -> Sequence[float]:
    """Return one preference a pair, checked."""
    if len(preferences) != len(pairs):
        raise DataError(f"got {len(preferences)} preferences for {len(pairs)} pairs; send one each")
    for (i, j), preference in zip(pairs, preferences, strict=True):
        if math.isnan(preference):
            raise DataError(
                f"the preference between responses {i} and {j} (from 0) is NaN; a sort needs one "
                "for every pair it asks for: send 0 for a tie"
            )
    return preferences


def _square(matrix: npt.ArrayLike, what: str) -> FloatArray:
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise DataError(f"{what} have shape {array.shape}; expected (n, n)")
    return array
