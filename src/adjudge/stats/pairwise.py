"""How often a judge of pairs agrees with gold: the published conventions, by name.

A verdict is 1 (the first response is better), 0 (tie), -1 (the second is) or NaN (unreadable).
One on the swapped pair is mapped back, that is negated, before it comes here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from adjudge.errors import ConfigError, DataError
from adjudge.stats.consistency import as_verdicts

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Convention = Literal["plain", "prometheus", "fastchat", "autoj", "llmbar"]

CONVENTIONS: tuple[Convention, ...] = get_args(Convention)
#: Conventions whose accuracy takes a verdict in each order.
BOTH_ORDERS: frozenset[Convention] = frozenset({"fastchat", "autoj", "llmbar"})
#: Score differences are rounded to this many decimals before they are compared.
DECIMALS = 9
#: Sign vectors per matrix product, which bounds memory.
BLOCK = 4096


class Accuracy(NamedTuple):
    """Accuracy of verdicts on pairs, in [0, 1], NaN if no pair is left; and what it rests on.

    Attributes
    ----------
    kept, total
        Pairs in the denominator, and all pairs.
    n_gold_ties, n_verdict_ties, n_unreadable
        Among all pairs: gold is a tie; the judge calls a tie (fastchat: or the orders disagree); a
        verdict is unreadable in an order that was given.
    consistency
        Share of all pairs with the same readable verdict in both orders; NaN in one order.
    """

    value: float
    kept: int
    total: int
    n_gold_ties: int
    n_verdict_ties: int
    n_unreadable: int
    consistency: float


class TieCalibratedAccuracy(NamedTuple):
    """Accuracy with ties, in [0, 1], where a small score difference is a tie.

    Attributes
    ----------
    epsilons
        Shape (n_folds,), or (1,) if optimistic: the largest difference that is a tie, per fold.
    kept, total
        Pairs with a difference and gold, and all pairs.
    optimistic
        Whether epsilon was chosen on the very pairs that it was tried on.
    """

    value: float
    epsilons: FloatArray
    kept: int
    total: int
    optimistic: bool


class SoftPairwiseAccuracy(NamedTuple):
    """Agreement, in [0, 1], of two sets of scores on how sure the order of two systems is.

    Attributes
    ----------
    kept, total
        Pairs of systems with a shared source, and all pairs.
    n_resamples, exact
        Sign vectors behind each p-value, and whether they are all that there are.
    """

    value: float
    kept: int
    total: int
    n_resamples: int
    exact: bool


def pairwise_accuracy(
    verdict: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    convention: Convention,
    swapped: npt.ArrayLike | None = None,
    ties: bool = True,
) -> Accuracy:
    """Return the share of pairs on which a judge agrees with gold, under a named convention.

    ========== ====== ========================================= ===================
    convention orders right                                     `ties=False` drops
    ========== ====== ========================================= ===================
    plain      first  verdict is gold                           gold ties
    prometheus first  verdict is gold; a gold tie: never        gold ties
    fastchat   both   agreed verdict is gold; disagreement: tie gold and judge ties
    autoj      both   both verdicts are gold                    gold ties
    llmbar     both   mean over orders of "verdict is gold"     gold ties
    ========== ====== ========================================= ===================

    fastchat drops a pair with an unreadable verdict; elsewhere it is wrong and stays in the
    denominator. Auto-J and LLMBar always count ties: there `ties=False` is our addition.
    arXiv: Prometheus 2 2405.01535, FastChat 2306.05685, Auto-J 2310.05470, LLMBar 2310.07641.

    Parameters
    ----------
    verdict, gold
        Shape (n_pairs,): 1, 0, -1, or NaN = unreadable or no gold. No gold leaves the pair out.
    convention, ties
        See the table; `ties` says whether ties are counted.
    swapped
        Shape (n_pairs,): verdicts on the swapped pairs, mapped back to the order of `gold`. The
        conventions of one order use them for `consistency` alone.

    Returns
    -------
    Accuracy
        Value in [0, 1]; higher is better.

    Raises
    ------
    ConfigError
        Unknown convention, or one of both orders without `swapped`.
    DataError
        Another value than 1, 0, -1 or NaN, or different shapes.

    Examples
    --------
    >>> result = pairwise_accuracy([1, -1, 0], [1, 1, 0], convention="prometheus")
    >>> result.value, result.kept, result.n_gold_ties
    (0.3333333333333333, 3, 1)
    """
    first, second, truth = _verdicts(verdict, gold, convention, swapped)
    judged, marks = _marks(convention, first, second, truth, ties=ties)
    kept = ~np.isnan(marks)
    same = first == second
    return Accuracy(
        value=float(marks[kept].mean()) if kept.any() else math.nan,
        kept=int(kept.sum()),
        total=truth.size,
        n_gold_ties=int((truth == 0).sum()),
        n_verdict_ties=int((judged == 0).sum()),
        n_unreadable=int((np.isnan(first) | np.isnan(second)).sum()),
        consistency=math.nan if swapped is None or not same.size else float(same.mean()),
    )


def pairwise_marks(
    verdict: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    convention: Convention,
    swapped: npt.ArrayLike | None = None,
    ties: bool = True,
) -> FloatArray:
    """Return how right a judge is on each pair: what `pairwise_accuracy` is the mean of.

    Parameters
    ----------
    verdict, gold, convention, swapped, ties
        As in `pairwise_accuracy`, which also says what is raised.

    Returns
    -------
    FloatArray
        Shape (n_pairs,), 0 to 1; NaN where the convention leaves the pair out.

    Examples
    --------
    >>> pairwise_marks([1, -1, 0], [1, 1, 0], convention="plain", ties=False).tolist()
    [1.0, 0.0, nan]
    """
    first, second, truth = _verdicts(verdict, gold, convention, swapped)
    return _marks(convention, first, second, truth, ties=ties)[1]


def tie_calibrated_accuracy(
    score_differences: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    n_folds: int = 5,
    groups: npt.ArrayLike | None = None,
) -> TieCalibratedAccuracy:
    """Return pairwise accuracy with ties, the threshold of a tie chosen on other folds.

    A pair is called a tie if its scores differ by epsilon or less (Deutsch, Foster and Freitag
    2023, arXiv 2305.14324). The paper chooses epsilon on the pairs that it reports; here each fold
    takes the one that is best on the others, the smallest of several. The search over the observed
    differences is exact and O(n log n).

    Parameters
    ----------
    score_differences
        Shape (n_pairs,): score of the first minus score of the second response; NaN = not scored,
        which leaves the pair out. Rounded to 9 decimals.
    gold
        Shape (n_pairs,): 1, 0, -1, or NaN = no gold, which leaves the pair out.
    rng
        Draws the folds.
    n_folds
        At least 2.
    groups
        Shape (n_pairs,): pairs of equal value, such as one source, stay in one fold; by default
        each pair is on its own.

    Returns
    -------
    TieCalibratedAccuracy
        Over all pairs, each judged with the epsilon of its fold.

    Raises
    ------
    ConfigError
        Fewer than 2 folds, or fewer groups than folds.
    DataError
        Gold is no verdict, differences are infinite, or different shapes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> differences, gold = [2.0, -2.0, 0.1, -0.2] * 5, [1, -1, 0, 0] * 5
    >>> tie_calibrated_accuracy(differences, gold, rng=rng).value
    1.0
    """
    differences, truth, there = _scored_pairs(score_differences, gold)
    names = np.arange(there.size) if groups is None else np.asarray(groups)
    if names.shape != there.shape:
        raise DataError(f"groups have shape {names.shape}; expected {there.shape}")
    unique, group = np.unique(names[there], return_inverse=True)
    if n_folds < 2 or unique.size < n_folds:
        raise ConfigError(
            f"n_folds is {n_folds} for {unique.size} groups; use 2 or more, up to that"
        )
    fold = rng.permutation(np.arange(unique.size) % n_folds)[group]
    epsilons = np.empty(n_folds)
    right = 0
    for held_out in range(n_folds):
        mine = fold == held_out
        epsilons[held_out] = _best_epsilon(differences[~mine], truth[~mine])
        right += _n_right(differences[mine], truth[mine], epsilons[held_out])
    return TieCalibratedAccuracy(
        right / truth.size, epsilons, truth.size, there.size, optimistic=False
    )


def optimistic_tie_calibrated_accuracy(
    score_differences: npt.ArrayLike, gold: npt.ArrayLike
) -> TieCalibratedAccuracy:
    """Return pairwise accuracy with ties under the threshold that is best on these very pairs.

    The published form (arXiv 2305.14324): an upper bound whose threshold saw gold.

    Parameters
    ----------
    score_differences, gold
        As for `tie_calibrated_accuracy`, which may be compared between judges; it has the errors.

    Returns
    -------
    TieCalibratedAccuracy
        With `optimistic` set; value NaN without a pair.

    Examples
    --------
    >>> optimistic_tie_calibrated_accuracy([2.0, -2.0, 0.1, -0.2], [1, -1, 0, 0]).epsilons.item()
    0.2
    """
    differences, truth, there = _scored_pairs(score_differences, gold)
    epsilon = _best_epsilon(differences, truth) if truth.size else math.nan
    value = _n_right(differences, truth, epsilon) / truth.size if truth.size else math.nan
    return TieCalibratedAccuracy(
        value, np.array([epsilon]), truth.size, there.size, optimistic=True
    )


def soft_pairwise_accuracy(
    prediction: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    n_resamples: int = 1000,
) -> SoftPairwiseAccuracy:
    """Return 1 - mean |p of prediction - p of gold| over pairs of systems.

    p is the share of sign vectors over sources under which the earlier system's summed lead is at
    least the observed one (Thompson et al. 2024, arXiv 2409.09598). Both sides share the vectors;
    where the sources allow no more than `n_resamples`, all are used, as in scipy. As published,
    equal sums count in full: where many leads are zero the order of the systems moves the value.

    Parameters
    ----------
    prediction, gold
        Shape (n_systems, n_sources): scores of a judge and of humans, each on its own scale,
        higher is better. NaN = not judged: a pair of systems uses the sources where both systems
        have both scores.
    rng
        Draws the sign vectors.
    n_resamples
        Sign vectors, at least 1.

    Returns
    -------
    SoftPairwiseAccuracy
        Value in [0, 1]; higher is better; NaN if no pair of systems shares a source.

    Raises
    ------
    ConfigError
        Fewer than 1 resample.
    DataError
        Not two matrices of one shape, or infinite values.

    Examples
    --------
    >>> scores = [[1, 2, 3, 4], [2, 2, 4, 3], [5, 1, 2, 5]]
    >>> soft_pairwise_accuracy(scores, scores, rng=np.random.default_rng(0)).value
    1.0
    """
    both = _score_matrices(prediction, gold)
    if n_resamples < 1:
        raise ConfigError(f"n_resamples is {n_resamples}; use at least 1")
    _, n_systems, n_sources = both.shape
    exact = n_sources < 63 and 2**n_sources <= n_resamples
    n_vectors = 2**n_sources if exact else n_resamples
    there: BoolArray = ~np.isnan(both[0] + both[1])
    count = np.zeros((2, n_systems, n_systems))
    for signs in _sign_vectors(n_vectors, n_sources, rng, exact=exact):
        for i in range(n_systems - 1):
            shared = there[i] & there[i + 1 :]
            for side, scores in enumerate(both):
                difference = np.where(shared, scores[i] - scores[i + 1 :], 0.0)
                # Sums of the same terms in another order differ by rounding alone.
                bar = difference.sum(axis=1) - 1e-9 * np.abs(difference).sum(axis=1)
                count[side, i, i + 1 :] += (signs @ difference.T >= bar).sum(axis=0)
    pairs = np.triu_indices(n_systems, 1)
    kept = ((there.astype(np.int64) @ there.T.astype(np.int64)) > 0)[pairs]
    gap = np.abs(count[0] - count[1])[pairs][kept] / n_vectors
    value = 1 - float(gap.mean()) if gap.size else math.nan
    return SoftPairwiseAccuracy(value, int(kept.sum()), kept.size, n_vectors, exact)


def _verdicts(
    verdict: npt.ArrayLike,
    gold: npt.ArrayLike,
    convention: Convention,
    swapped: npt.ArrayLike | None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return checked verdicts in both orders (the same where there is one) and gold."""
    if convention not in CONVENTIONS:
        raise ConfigError(f"convention is {convention!r}; use one of {', '.join(CONVENTIONS)}")
    if swapped is None and convention in BOTH_ORDERS:
        raise ConfigError(f"convention {convention!r} takes verdicts in both orders; give swapped")
    first, truth = as_verdicts(verdict, gold)
    second = first if swapped is None else as_verdicts(swapped, gold)[0]
    return first, second, truth


def _marks(
    convention: Convention, first: FloatArray, second: FloatArray, gold: FloatArray, *, ties: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the verdict on each pair and how right it is, in [0, 1]; NaN = none, left out."""
    kept = ~np.isnan(gold)
    if not ties:
        kept &= gold != 0
    if convention not in BOTH_ORDERS:
        judged = first
        right = ((first == gold) & ((gold != 0) | (convention == "plain"))) * 1.0
    else:
        disagreed = 0.0 * first * second if convention == "fastchat" else math.nan
        judged = np.where(first == second, first, disagreed)
        right = (judged == gold) * 1.0
    if convention == "llmbar":
        right = ((first == gold) * 1.0 + (second == gold)) / 2
    if convention == "fastchat":
        kept &= ~np.isnan(first + second) & (ties | (judged != 0))
    return judged, np.where(kept, right, np.nan)


def _scored_pairs(
    score_differences: npt.ArrayLike, gold: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return rounded differences and gold where both are there, and where that is."""
    differences = np.asarray(score_differences, dtype=np.float64)
    (truth,) = as_verdicts(gold)
    if differences.shape != truth.shape:
        raise DataError(f"differences have shape {differences.shape}, but gold {truth.shape}")
    if np.isinf(differences).any():
        raise DataError("a score difference is infinite; use NaN for a pair that was not scored")
    there = ~(np.isnan(differences) | np.isnan(truth))
    return np.round(differences[there], DECIMALS), truth[there], there


def _best_epsilon(differences: FloatArray, gold: FloatArray) -> float:
    """Return the smallest best threshold among 0 and the observed absolute differences."""
    size = np.abs(differences)
    order = np.argsort(size, kind="stable")
    size = size[order]
    # What calling the pairs up to each one a tie wins and loses.
    gain = (gold == 0).astype(np.int64) - (np.sign(differences) == gold)
    gained = np.cumsum(gain[order])
    ends = np.flatnonzero(np.append(np.diff(size) > 0, True))
    best = int(np.argmax(gained[ends]))
    return float(size[ends[best]]) if gained[ends[best]] > 0 else 0.0


def _n_right(differences: FloatArray, gold: FloatArray, epsilon: float) -> int:
    called = np.where(np.abs(differences) <= epsilon, 0.0, np.sign(differences))
    return int((called == gold).sum())


def _score_matrices(prediction: npt.ArrayLike, gold: npt.ArrayLike) -> FloatArray:
    """Return shape (2, n_systems, n_sources)."""
    one, two = np.asarray(prediction, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    if one.shape != two.shape or one.ndim != 2 or not one.shape[1]:
        raise DataError(f"scores have shapes {one.shape}, {two.shape}; use (n_systems, n_sources)")
    if np.isinf(one).any() or np.isinf(two).any():
        raise DataError("a score is infinite; use NaN for what was not judged")
    return np.stack([one, two])


def _sign_vectors(
    n: int, n_sources: int, rng: np.random.Generator, *, exact: bool
) -> Iterator[FloatArray]:
    """Yield blocks of rows of -1 and 1: all that there are, or random ones."""
    for start in range(0, n, BLOCK):
        row = np.arange(start, min(start + BLOCK, n))[:, None]
        size = (row.size, n_sources)
        bits = (row >> np.arange(n_sources)) & 1 if exact else rng.integers(0, 2, size=size)
        yield np.asarray(bits * 2 - 1, dtype=np.float64)
