"""The prefix plan against a tree that is built node by node."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.engines.prefix import PrefixPlan, prefix_plan

tokens = st.one_of(st.integers(0, 2), st.sampled_from([255, 256, 65536, 2**31, 2**32 - 1]))
prompts_ = st.lists(st.lists(tokens, max_size=6), max_size=8)


def tree_size(prompts: list[list[int]]) -> int:
    """Return the number of edges of the prompts' prefix tree."""
    return len({tuple(prompt[:i]) for prompt in prompts for i in range(1, len(prompt) + 1)})


def common(a: list[int], b: list[int]) -> int:
    """Return how many leading tokens are equal."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))


def depth_first(prompts: list[list[int]], order: tuple[int, ...]) -> bool:
    """Say whether prompts with one beginning stand next to each other, for every beginning."""
    for prefix in {tuple(prompt[:i]) for prompt in prompts for i in range(len(prompt) + 1)}:
        places = [k for k, i in enumerate(order) if tuple(prompts[i][: len(prefix)]) == prefix]
        if places != list(range(places[0], places[-1] + 1)):
            return False
    return True


@given(prompts_)
def test_the_order_is_a_permutation(prompts: list[list[int]]) -> None:
    assert sorted(prefix_plan(prompts).order) == list(range(len(prompts)))


@given(prompts_)
def test_the_order_is_depth_first(prompts: list[list[int]]) -> None:
    assert depth_first(prompts, prefix_plan(prompts).order)


@given(prompts_)
def test_unique_tokens_are_the_edges_of_the_tree(prompts: list[list[int]]) -> None:
    plan = prefix_plan(prompts)
    assert plan.unique_tokens == tree_size(prompts)
    assert plan.total_tokens == sum(map(len, prompts))


@given(prompts_)
def test_shared_is_the_longest_common_beginning_of_neighbours(prompts: list[list[int]]) -> None:
    plan = prefix_plan(prompts)
    ordered = [prompts[i] for i in plan.order]
    assert plan.shared[:1] == (0,) * bool(prompts)
    assert list(plan.shared[1:]) == [
        common(ordered[k - 1], ordered[k]) for k in range(1, len(ordered))
    ]


def test_no_prompts_cost_nothing() -> None:
    assert prefix_plan([]) == PrefixPlan((), (), 0, 0)


def test_an_equal_prompt_costs_nothing_more() -> None:
    assert prefix_plan([[4, 5], [4, 5], [4]]) == PrefixPlan((2, 0, 1), (0, 1, 2), 5, 2)


def test_tokens_are_ordered_as_numbers_not_as_bytes() -> None:
    assert prefix_plan([[256], [1], [65536], [2]]).order == (1, 3, 0, 2)


def test_ladders_of_two_sources_are_kept_apart() -> None:
    plan = prefix_plan([[9, 1, 1], [9, 2, 1], [9, 1, 2], [9, 2, 2]])
    assert plan == PrefixPlan((0, 2, 1, 3), (0, 2, 1, 2), 12, 7)


@pytest.mark.parametrize("token", [-1, 2**32])
def test_a_token_outside_32_bits_is_refused(token: int) -> None:
    with pytest.raises(OverflowError, match="out of bounds"):
        prefix_plan([[token]])
