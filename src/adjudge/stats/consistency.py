"""How far a judge agrees with itself: over orders, runs, formats and chains of preferences.

Verdicts are 1 (the first response is better), 0 (tie), -1 (the second) or NaN (unreadable).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from adjudge.errors import DataError
from adjudge.stats.agreement import Agreement, krippendorff_alpha

FloatArray = npt.NDArray[np.float64]

#: Expected share of cyclic triples if every preference were the throw of a fair coin.
INTRANSITIVE_CHANCE = 0.25


class OrderFlips(NamedTuple):
    """How often a verdict changes with the order in which two responses are shown.

    Attributes
    ----------
    value
        Share of `kept` whose winner changes, in [0, 1]; lower is better; NaN if none is kept.
    n_flips, n_first_position
        Pairs whose winner changes, and those of them won by whichever response was shown first.
    n_ties, n_tie_changes
        Pairs that are a tie in both orders, and in one of the two.
    n_unreadable
        Pairs with an unreadable verdict.
    kept, total
        Pairs with a winner in both orders, and all pairs.
    """

    value: float
    n_flips: int
    n_first_position: int
    n_ties: int
    n_tie_changes: int
    n_unreadable: int
    kept: int
    total: int


class Transitivity(NamedTuple):
    """How often three preferences form a cycle.

    Attributes
    ----------
    value
        Share of `kept` that are cycles, in [0, 1]; lower is better; NaN if none is kept.
    chance
        Its expected value under coin flips.
    n_cycles
        Triples in which a beats b, b beats c and c beats a.
    kept, total
        Triples without tie or missing preference, and all triples.
    """

    value: float
    chance: float
    n_cycles: int
    kept: int
    total: int


class WeightedAccuracy(NamedTuple):
    """Accuracy in [0, 1] over pairs of total weight `weight`, `kept` of `total` pairs."""

    value: float
    weight: float
    kept: int
    total: int


class PositionBalance(NamedTuple):
    """How even a judge is between the two positions.

    Attributes
    ----------
    value
        -abs(first_rate - 0.5), in [-0.5, 0]; higher is better; NaN if no document is kept.
    first_rate
        Mean over documents of the share of decided comparisons that the first position wins.
    kept, total
        Documents with a decided comparison, and all documents.
    """

    value: float
    first_rate: float
    kept: int
    total: int


def order_flip_rate(first: npt.ArrayLike, swapped: npt.ArrayLike) -> OrderFlips:
    """Return the share of pairs whose winner changes when the two responses change places.

    A pair with a tie or an unreadable verdict in either order is no flip and is counted apart.

    Parameters
    ----------
    first
        Shape (n_pairs,): 1, 0, -1, or NaN = unreadable.
    swapped
        Shape (n_pairs,): verdicts on the swapped pairs, mapped back to the order of `first`: 1
        means the same response in both.

    Returns
    -------
    OrderFlips
        Value and counts.

    Raises
    ------
    DataError
        Another value than 1, 0, -1 or NaN, or different shapes.

    Examples
    --------
    >>> flips = order_flip_rate([1, 1, -1, 0], [1, -1, -1, 1])
    >>> round(flips.value, 3), flips.n_tie_changes
    (0.333, 1)
    """
    one, two = as_verdicts(first, swapped)
    readable = ~(np.isnan(one) | np.isnan(two))
    strict = readable & (one != 0) & (two != 0)
    flipped = strict & (one != two)
    n_ties = int((readable & (one == 0) & (two == 0)).sum())
    kept, n_flips = int(strict.sum()), int(flipped.sum())
    return OrderFlips(
        value=n_flips / kept if kept else math.nan,
        n_flips=n_flips,
        n_first_position=int((flipped & (one == 1)).sum()),
        n_ties=n_ties,
        n_tie_changes=int(readable.sum()) - kept - n_ties,
        n_unreadable=int((~readable).sum()),
        kept=kept,
        total=one.size,
    )


def run_to_run_alpha(scores: npt.ArrayLike) -> Agreement:
    """Return Krippendorff's ordinal alpha over repeated runs of one judge.

    Parameters
    ----------
    scores
        Shape (n_runs, n_items); NaN = no score in that run.

    Returns
    -------
    Agreement
        Value at most 1, higher is better; NaN if all scores are equal.

    Raises
    ------
    DataError
        Not a matrix, or infinite values.

    Examples
    --------
    >>> run_to_run_alpha([[1, 2, 3], [1, 2, 3]]).value
    1.0
    """
    return krippendorff_alpha(scores, level="ordinal")


def cross_format_gap(direct_accuracy: float, pairwise_accuracy: float) -> float:
    """Return the absolute difference of a judge's accuracies on the same pairs in two formats.

    Prometheus 2 (arXiv 2405.01535) compares pairs decided by two direct scores with pairs judged
    as pairs.

    Parameters
    ----------
    direct_accuracy, pairwise_accuracy
        In one unit; NaN = undefined, which makes the gap NaN.

    Returns
    -------
    float
        At least 0, in that unit; lower is better.

    Examples
    --------
    >>> cross_format_gap(0.75, 0.5)
    0.25
    """
    return abs(float(direct_accuracy) - float(pairwise_accuracy))


def transitivity(preferences: npt.ArrayLike) -> Transitivity:
    """Return the share of triples whose three preferences form a cycle.

    Only triples with three strict preferences count. Chance is 1/4: two of the eight outcomes of
    three fair coins are cycles. A complete tournament has C(n, 3) - sum over i of C(wins_i, 2)
    cycles (Kendall and Babington Smith 1940); otherwise cycles are closed walks of length 3 among
    the strict preferences.

    Parameters
    ----------
    preferences
        Shape (n, n), or (n_sources, n, n) for several, whose triples are pooled. Entry (i, j) is
        1 where i is preferred to j, 0 for a tie, -1 where j is, NaN = none. Antisymmetric; the
        diagonal is ignored.

    Returns
    -------
    Transitivity
        Value in [0, 1]; lower is better.

    Raises
    ------
    DataError
        Not square, not antisymmetric, or another value than 1, 0, -1 or NaN.

    Examples
    --------
    >>> transitivity([[0, 1, -1], [-1, 0, 1], [1, -1, 0]]).value
    1.0
    """
    stack = _square_stack(preferences, "preferences")
    as_verdicts(stack.ravel())
    n = stack.shape[-1]
    opposite = -np.swapaxes(stack, -1, -2)
    off = ~np.eye(n, dtype=bool)
    if not np.array_equal(stack[:, off], opposite[:, off], equal_nan=True):
        raise DataError(
            "preferences are not antisymmetric; entry (j, i) must be minus entry (i, j)"
        )
    wins = np.where(off, stack == 1, 0.0)
    strict = wins + np.swapaxes(wins, -1, -2)
    total = len(stack) * math.comb(n, 3)
    if bool((strict[:, off] == 1).all()):
        kept = total
        degree = wins.sum(axis=-1)
        n_cycles = total - round(float((degree * (degree - 1) / 2).sum()))
    else:
        kept, n_cycles = _closed_walks(strict) // 6, _closed_walks(wins) // 3
    value = n_cycles / kept if kept else math.nan
    return Transitivity(value, INTRANSITIVE_CHANCE, n_cycles, kept, total)


def gold_pair_accuracy_paper_compat(
    verdict: npt.ArrayLike, gold_first: npt.ArrayLike, gold_second: npt.ArrayLike
) -> WeightedAccuracy:
    """Return what the published "transitivity" of Prometheus 2 measures: an accuracy.

    The script takes responses x, s, y of one instruction with gold scores x < s < y and checks
    the judge on (x, y) alone. With one response per score from 1 to 5 this is accuracy on pairs
    whose gold scores differ by 2 or more, each weighted by the number of scores in between, the
    difference minus 1. No preference is compared with another: for that see `transitivity`.
    The script settles a tie by a coin; here it is half right, the mean of the coin. An unreadable
    verdict is wrong.

    Parameters
    ----------
    verdict
        Shape (n_pairs,): 1, 0, -1, or NaN = unreadable.
    gold_first, gold_second
        Shape (n_pairs,): whole gold scores of the two responses; NaN = none, which leaves the
        pair out.

    Returns
    -------
    WeightedAccuracy
        Value NaN if no pair has a gap of 2.

    Raises
    ------
    DataError
        Another verdict than 1, 0, -1 or NaN, different shapes, or scores that are not whole.

    Examples
    --------
    >>> gold_pair_accuracy_paper_compat([-1, 1, 1], [1, 1, 2], [5, 3, 3])
    WeightedAccuracy(value=0.75, weight=4.0, kept=2, total=3)
    """
    (said,) = as_verdicts(verdict)
    one = np.asarray(gold_first, dtype=np.float64)
    two = np.asarray(gold_second, dtype=np.float64)
    if not said.shape == one.shape == two.shape:
        raise DataError(f"verdicts have shape {said.shape}, gold {one.shape} and {two.shape}")
    scores = np.concatenate([one, two])
    scores = scores[~np.isnan(scores)]
    if (np.isinf(scores) | (scores != np.floor(scores))).any():
        raise DataError("a gold score is not whole; the weights count the scores in between")
    gap = np.nan_to_num(one - two)
    weight = np.maximum(np.abs(gap) - 1, 0)
    right = np.where(said == 0, 0.5, said == np.sign(gap))
    whole = float(weight.sum())
    value = float((weight * right).sum()) / whole if whole else math.nan
    return WeightedAccuracy(value, whole, int((weight > 0).sum()), said.size)


def position_balance(first_better: npt.ArrayLike) -> PositionBalance:
    """Return how even the two positions win: ZEPO's fairness of a prompt.

    Per document the share of ordered pairs that the first position wins, over those decided (not
    0.5); first_rate is the mean over documents, and the value -abs(first_rate - 0.5) (Zhou et al.
    2024, arXiv 2406.11370). Every pair is there in both orders, so that a judge without a
    position bias reaches 0 whatever it prefers.

    Parameters
    ----------
    first_better
        Shape (n, n), or (n_documents, n, n): entry (i, j) is the probability that i, shown first,
        is better than j; 0.5 = undecided; NaN = not judged, left out. The diagonal is ignored.

    Returns
    -------
    PositionBalance
        Value in [-0.5, 0]; higher is better.

    Raises
    ------
    DataError
        Not square, or outside [0, 1].

    Examples
    --------
    >>> position_balance([[0.5, 0.9], [0.8, 0.5]]).value
    -0.5
    """
    stack = _square_stack(first_better, "probabilities")
    if ((stack < 0) | (stack > 1)).any():
        raise DataError("a probability is outside [0, 1]; use NaN for a pair that was not judged")
    pairs = stack[:, ~np.eye(stack.shape[-1], dtype=bool)]
    won, lost = (pairs > 0.5).sum(axis=1), (pairs < 0.5).sum(axis=1)
    decided = won + lost > 0
    if not decided.any():
        return PositionBalance(math.nan, math.nan, 0, len(stack))
    rate = float((won[decided] / (won + lost)[decided]).mean())
    return PositionBalance(-abs(rate - 0.5), rate, int(decided.sum()), len(stack))


def as_verdicts(*verdicts: npt.ArrayLike) -> tuple[FloatArray, ...]:
    """Return verdicts as flat float arrays of one length, checked.

    Parameters
    ----------
    verdicts
        Each of shape (n_pairs,): 1, 0, -1, or NaN = unreadable or none.

    Raises
    ------
    DataError
        Another value, or different shapes.

    Examples
    --------
    >>> as_verdicts([1, -1], [0, float("nan")])
    (array([ 1., -1.]), array([ 0., nan]))
    """
    arrays = tuple(np.asarray(each, dtype=np.float64) for each in verdicts)
    if len({each.shape for each in arrays}) > 1 or any(each.ndim != 1 for each in arrays):
        shapes = " and ".join(str(each.shape) for each in arrays)
        raise DataError(f"verdicts and gold have shapes {shapes}; give flat lists of one length")
    for each in arrays:
        strange = each[~(np.isnan(each) | np.isin(each, (-1.0, 0.0, 1.0)))]
        if strange.size:
            raise DataError(
                f"a verdict is {strange[0]:g}; use 1 (first better), 0 (tie), -1 (second better) "
                "or NaN (unreadable)"
            )
    return arrays


def _square_stack(matrices: npt.ArrayLike, what: str) -> FloatArray:
    """Return shape (n_matrices, n, n)."""
    stack = np.asarray(matrices, dtype=np.float64)
    if stack.ndim not in (2, 3) or stack.shape[-1] != stack.shape[-2]:
        raise DataError(f"{what} have shape {stack.shape}; expected (n, n) or (n_sources, n, n)")
    return stack[None] if stack.ndim == 2 else stack


def _closed_walks(edges: FloatArray) -> int:
    """Return the number of closed walks of length 3, starts told apart."""
    return round(float(((edges @ edges) * np.swapaxes(edges, -1, -2)).sum()))
