"""Greedy matching by cosines: the formulas, and what must not matter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.stats.matching import (
    Matched,
    Vectors,
    best_match,
    greedy_match,
    idf_weights,
    unit_rows,
)

SEEDS = st.integers(0, 10_000)


def rows(n: int, seed: int) -> Vectors:
    drawn = np.random.default_rng(seed).normal(size=(n, 8)).astype(np.float32)
    return unit_rows(drawn)


def in_loops(x: Vectors, y: Vectors, v: list[float], w: list[float]) -> tuple[float, ...]:
    """Return precision, recall and f1 as the paper writes them."""
    cosines = [[float(np.dot(a, b)) for b in y] for a in x]
    precision = sum(v[i] * max(cosines[i]) for i in range(len(x))) / sum(v)
    recall = sum(w[j] * max(cosines[i][j] for i in range(len(x))) for j in range(len(y))) / sum(w)
    return precision, recall, 2 * precision * recall / (precision + recall)


@given(SEEDS, st.integers(1, 7), st.integers(1, 7))
def test_the_paper_in_loops_gives_the_same(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    v, w = rng.uniform(0.1, 3, n), rng.uniform(0.1, 3, m)
    x, y = rows(n, seed), rows(m, seed + 1)
    wanted = in_loops(x, y, v.tolist(), w.tolist())
    assert greedy_match(x, y, v, w) == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@given(SEEDS, st.integers(1, 7), st.integers(1, 7))
def test_exchanged_texts_exchange_precision_and_recall(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    v, w = rng.uniform(0.1, 3, n), rng.uniform(0.1, 3, m)
    x, y = rows(n, seed), rows(m, seed + 1)
    there, back = greedy_match(x, y, v, w), greedy_match(y, x, w, v)
    assert there == pytest.approx((back.recall, back.precision, back.f1), rel=1e-6)


@given(SEEDS, st.integers(1, 7))
def test_a_text_matches_itself_whatever_the_order_of_its_tokens(seed: int, n: int) -> None:
    x, order = rows(n, seed), np.random.default_rng(seed).permutation(n)
    weights = np.arange(1.0, n + 1)
    assert greedy_match(x, x[order], weights, weights[order]) == pytest.approx((1, 1, 1), abs=1e-6)


def test_a_token_without_weight_counts_not_but_can_be_matched() -> None:
    x, y = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)[:1]
    # The second token of the response has no partner; the first is matched by one of weight 0.
    assert greedy_match(x, y, np.array([1.0, 0.0]), np.ones(1)).precision == 1
    assert greedy_match(x, y, np.array([0.0, 1.0]), np.ones(1)) == Matched(0, 1, 0)


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [((0.0, 1.0), (0, 1, 0)), ((1.0, 0.0), (1, 0, 0)), ((0.0, 0.0), (0,) * 3)],
)
def test_a_side_without_weight_has_zero(
    weights: tuple[float, float], wanted: tuple[float, ...]
) -> None:
    x = np.eye(1, dtype=np.float32)
    assert greedy_match(x, x, np.array(weights[:1]), np.array(weights[1:])) == wanted


def test_opposite_means_give_no_infinite_f1() -> None:
    x = np.array([[1, 0], [-1, 0]], dtype=np.float32)
    y = x[:1]
    # Precision (1 - 1) / 2 and recall 1, then precision -1 and recall 1.
    assert greedy_match(x, y, np.ones(2), np.ones(1)) == Matched(0, 1, 0)
    assert greedy_match(x, y, np.array([0.0, 1.0]), np.ones(1)) == Matched(-1, 1, 0)


def test_rare_tokens_weigh_more() -> None:
    weights = idf_weights([5, 6, 5, 7], {5: 9, 6: 4}, 9)
    assert weights == pytest.approx([0, math.log(2), 0, math.log(10)])
    assert idf_weights([], {}, 3).shape == (0,)


def test_rows_become_of_length_one_and_a_row_of_zeros_no_number() -> None:
    found = unit_rows(np.array([[3, 4], [0, 0]], dtype=np.float32))
    assert found[0] == pytest.approx([0.6, 0.8])
    assert np.isnan(found[1]).all()
    assert found.dtype == np.float32


@given(st.lists(st.tuples(*[st.floats(-1, 1)] * 3), min_size=1))
def test_the_best_of_each_part_whatever_the_order(
    parts: list[tuple[float, float, float]],
) -> None:
    matches = [Matched(*each) for each in parts]
    shuffled = sorted(matches, reverse=True)
    columns = np.array(parts).max(axis=0)
    assert best_match(matches) == best_match(shuffled) == pytest.approx(tuple(columns))


def test_a_match_that_is_no_number_is_not_passed_over() -> None:
    good, bad = Matched(0.9, 0.8, 0.85), Matched(np.nan, 0.7, np.nan)
    for matches in ([good, bad], [bad, good]):
        found = best_match(matches)
        assert (np.isnan(found.precision), found.recall, np.isnan(found.f1)) == (True, 0.8, True)
