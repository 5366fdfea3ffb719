"""Sorts by probabilities that one candidate is better than another; the worst comes first.

All are works: comparisons that can be made at the same time go out in one batch. The methods are
those of PairS (Liu et al. 2024, https://arxiv.org/abs/2403.16950).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from adjudge.judges.base import Work, together

#: Candidates by number, the worst first.
Order: TypeAlias = Sequence[int]
#: Asks which of two candidates is better; returns the probability of the first and of the second.
Compare: TypeAlias = Callable[[int, int], Work[tuple[float, float]]]
#: Makes one order out of two.
Merge: TypeAlias = Callable[[Order, Order], Work[list[int]]]

#: Keeps the logarithm of a probability finite.
TINY = 1e-9


def merge_sort(order: Order, merge: Merge) -> Work[list[int]]:
    """Sort both halves of an order at the same time, and merge them.

    Parameters
    ----------
    order
        Candidates as they come; of an odd number the first half has one less.
    merge
        What makes one order of two: `greedy_merge` or `beam_merge`, bound to the rest.
    """
    if len(order) < 2:
        return list(order)
    middle = len(order) // 2
    halves = [merge_sort(half, merge) for half in (order[:middle], order[middle:])]
    left, right = yield from together(halves)
    return (yield from merge(left, right))


def anchored_sort(order: Order, n_anchors: int, merge: Merge, compare: Compare) -> Work[list[int]]:
    """Sort some candidates, place the others among them, and sort what shares a place.

    The others are placed by binary search, all at the same time, in about log2 of the anchors
    steps; a tie goes below the anchor. PairS puts them one by one into a list that grows.

    Parameters
    ----------
    order
        Candidates as they come.
    n_anchors
        How many of the first are anchors; all of them: a merge sort.
    merge, compare
        See `merge_sort` and `greedy_merge`.
    """
    anchors = yield from merge_sort(order[:n_anchors], merge)
    others = order[n_anchors:]
    places = yield from together([_place(each, anchors, compare) for each in others])
    gaps: list[list[int]] = [[] for _ in range(len(anchors) + 1)]
    for each, place in zip(others, places, strict=True):
        gaps[place].append(each)
    first, *rest = yield from together([merge_sort(gap, merge) for gap in gaps])
    for anchor, gap in zip(anchors, rest, strict=True):
        first += [anchor, *gap]
    return first


def _place(candidate: int, anchors: Order, compare: Compare) -> Work[int]:
    """Return how many anchors a candidate is better than, by binary search."""
    low, high = 0, len(anchors)
    while low < high:
        middle = (low + high) // 2
        better, worse = yield from compare(candidate, anchors[middle])
        low, high = (middle + 1, high) if better > worse else (low, middle)
    return low


def greedy_merge(left: Order, right: Order, compare: Compare) -> Work[list[int]]:
    """Merge two orders as the likelier answer of each comparison says (PairS-greedy).

    Parameters
    ----------
    left, right
        Candidates, the worst first.
    compare
        Asked about the worst ones that are left; at a tie the left one goes first.
    """
    merged: list[int] = []
    i = j = 0
    while i < len(left) and j < len(right):
        first, second = yield from compare(left[i], right[j])
        if first > second:
            merged.append(right[j])
            j += 1
        else:
            merged.append(left[i])
            i += 1
    return [*merged, *left[i:], *right[j:]]


def beam_merge(
    left: Order, right: Order, compare: Compare, *, beam_size: int, gap: float
) -> Work[list[int]]:
    """Merge two orders into the one with the highest mean log-likelihood (PairS-beam).

    A state has placed some of the left and some of the right; it goes on with the worst of either
    that is left. Of the two it keeps only the likelier one where that has a probability above
    0.5 + `gap`. Its score is the mean log-probability of its decisions so far; once a list is
    used up, the score stays.

    Parameters
    ----------
    left, right
        Candidates, the worst first; neither is empty.
    compare
        Asked once about each pair that a state needs; those of one step are one batch. Of its
        answer the first probability counts.
    beam_size
        States that are kept of a step; of equal ones the first.
    gap
        From 0 to 0.5; at 0.5 both choices are always kept.
    """
    n_left, n_right = len(left), len(right)
    taken = np.zeros(1, dtype=np.int64)  # of the left, by each state
    scores = np.zeros(1)
    steps: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for n in range(n_left + n_right):
        both = (taken < n_left) & (n - taken < n_right)
        # A pair belongs to one step alone: that which has placed all before it.
        heads = np.unique(taken[both]).tolist()
        asked = yield from together([compare(left[i], right[n - i]) for i in heads])
        better = np.zeros(n_left + 1)
        better[heads] = [first for first, _ in asked]
        likely = better[taken[both]]
        # A column for taking the left, which says that the right is better, and for the right.
        chances = np.column_stack([1 - likely, likely])
        new = np.column_stack([scores, scores])
        new[both] = new[both] * (n / (n + 1)) + np.log(chances + TINY) / (n + 1)
        allowed = np.column_stack([taken < n_left, n - taken < n_right])
        allowed[both] = chances[:, ::-1] <= 0.5 + gap
        choices = np.flatnonzero(allowed)
        if n == 0:
            choices = choices[::-1]  # the right comes first, and a beam of 1 begins with both
        else:
            choices = choices[np.argsort(-new.ravel()[choices], kind="stable")[:beam_size]]
        parents, sides = np.divmod(choices, 2)
        taken, scores = taken[parents] + (sides == 0), new.ravel()[choices]
        steps.append((parents, sides))
    return _path(steps, left, right)


def _path(
    steps: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]], left: Order, right: Order
) -> list[int]:
    """Return what the best state placed, in turn."""
    sides: list[int] = []
    state = 0
    for parents, each in reversed(steps):
        sides.append(int(each[state]))
        state = int(parents[state])
    heads = (iter(left), iter(right))
    return [next(heads[side]) for side in reversed(sides)]
