"""Which prompts share which beginnings, and the order that uses it.

Prompts form a tree in which shared beginnings are shared paths. Visiting it depth-first, an
engine that keeps the key-value cache of the last prompt evaluates every edge once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np


class PrefixPlan(NamedTuple):
    """A depth-first order over prompts and what it costs.

    Attributes
    ----------
    order
        Indices of the prompts in the order to run them.
    shared
        ``shared[k]``: tokens that prompt ``order[k]`` shares with prompt ``order[k - 1]``.
    total_tokens
        Tokens of all prompts.
    unique_tokens
        Edges of the prefix tree: what must be evaluated at least.
    """

    order: tuple[int, ...]
    shared: tuple[int, ...]
    total_tokens: int
    unique_tokens: int


def prefix_plan(prompts: Sequence[Sequence[int]]) -> PrefixPlan:
    """Return the depth-first order of the prompts' prefix tree.

    Sorting token lists lexicographically visits their tree depth-first, so the tokens shared by
    neighbours are all the sharing there is: unique = total - sum(shared).

    Parameters
    ----------
    prompts
        Token ids of each prompt, in [0, 2**32).

    Examples
    --------
    >>> prefix_plan([[1, 2, 3], [7], [1, 2, 4]])
    PrefixPlan(order=(0, 2, 1), shared=(0, 2, 0), total_tokens=7, unique_tokens=5)
    """
    # Big-endian bytes compare as the numbers do, at the speed of memcmp.
    keys = [np.asarray(prompt, dtype=">u4").tobytes() for prompt in prompts]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    shared = [_common_tokens(keys[before], keys[here]) for before, here in pairwise(order)]
    total = sum(len(key) for key in keys) // 4
    return PrefixPlan(tuple(order), (0, *shared)[: len(order)], total, total - sum(shared))


def _common_tokens(a: bytes, b: bytes) -> int:
    """Return how many leading tokens two keys share, by bisection on equal beginnings."""
    low, high = 0, min(len(a), len(b)) // 4
    while low < high:
        middle = (low + high + 1) // 2
        if a[4 * low : 4 * middle] == b[4 * low : 4 * middle]:
            low = middle
        else:
            high = middle - 1
    return low
