"""Consistency of a judge with itself: by hand, by brute force, and under symmetries."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.errors import DataError
from adjudge.stats.consistency import (
    INTRANSITIVE_CHANCE,
    as_verdicts,
    cross_format_gap,
    gold_pair_accuracy_paper_compat,
    order_flip_rate,
    position_balance,
    run_to_run_alpha,
    transitivity,
)

NAN = math.nan
verdicts = st.sampled_from([1.0, 0.0, -1.0, NAN])


def antisymmetric(n: int, upper: list[float]) -> Any:
    """Fill a preference matrix from the values above its diagonal."""
    matrix = np.zeros((n, n))
    for (i, j), value in zip(combinations(range(n), 2), upper, strict=True):
        matrix[i, j], matrix[j, i] = value, -value
    return matrix


def tournaments(values: Any) -> Any:
    return st.integers(3, 7).flatmap(
        lambda n: st.lists(values, min_size=math.comb(n, 2), max_size=math.comb(n, 2)).map(
            lambda upper: antisymmetric(n, upper)
        )
    )


def count_cycles(matrix: Any) -> tuple[int, int]:
    """Look at every triple: cyclic ones and strict ones."""
    cyclic = strict = 0
    for i, j, k in combinations(range(len(matrix)), 3):
        ring = [matrix[i, j], matrix[j, k], matrix[k, i]]
        strict += all(abs(edge) == 1 for edge in ring)
        cyclic += abs(sum(ring)) == 3
    return cyclic, strict


def test_flips_ties_and_unreadable_are_counted_apart() -> None:
    # same, same, flip to the first shown, flip to the second shown, tie to win, both tie, ...
    first = [1, -1, 1, -1, 0, 0, 1, NAN, NAN, 1]
    again = [1, -1, -1, 1, 1, 0, 0, 1, NAN, -1]
    result = order_flip_rate(first, again)
    assert result.value == pytest.approx(3 / 5)
    assert (result.n_flips, result.n_first_position) == (3, 2)
    assert (result.n_ties, result.n_tie_changes, result.n_unreadable) == (1, 2, 2)
    assert (result.kept, result.total) == (5, 10)


def test_ties_alone_have_no_flip_rate() -> None:
    result = order_flip_rate([0, NAN], [0, 1])
    assert math.isnan(result.value)
    assert (result.kept, result.total) == (0, 2)


@given(st.lists(st.tuples(verdicts, verdicts), max_size=30))
def test_flips_do_not_see_names_and_counts_add_up(pairs: Any) -> None:
    first = np.array([a for a, _ in pairs])
    second = np.array([b for _, b in pairs])
    result = order_flip_rate(first, second)
    # Exchanging both responses and the two orders leaves the same positions.
    assert order_flip_rate(-second, -first) == pytest.approx(result, nan_ok=True)
    exchanged = order_flip_rate(second, first)
    assert exchanged.n_flips == result.n_flips
    assert exchanged.n_first_position == result.n_flips - result.n_first_position
    assert result.total == (
        result.kept + result.n_ties + result.n_tie_changes + result.n_unreadable
    )


def test_runs_are_compared_by_ordinal_alpha() -> None:
    runs = [
        [NAN, NAN, NAN, NAN, NAN, 3, 4, 1, 2, 1, 1, 3, 3, NAN, 3],
        [1, NAN, 2, 1, 3, 3, 4, 3, NAN, NAN, NAN, NAN, NAN, NAN, NAN],
        [NAN, NAN, 2, 1, 3, 4, 4, NAN, 2, 1, 1, 3, 3, NAN, 4],
    ]
    # krippendorff 0.9.0: alpha(runs, level_of_measurement="ordinal")
    result = run_to_run_alpha(runs)
    assert result.value == pytest.approx(0.8067214199413153, abs=1e-12)
    assert (result.kept, result.total) == (12, 15)


def test_the_gap_has_no_sign() -> None:
    assert cross_format_gap(0.5, 0.75) == cross_format_gap(0.75, 0.5) == 0.25
    assert math.isnan(cross_format_gap(NAN, 0.5))


def test_one_cycle_among_four() -> None:
    # 0 > 1 > 2 > 0, and 3 below all: of four triples one is a cycle.
    matrix = antisymmetric(4, [1, -1, 1, 1, 1, 1])
    assert transitivity(matrix) == (0.25, 0.25, 1, 4, 4)


@pytest.mark.parametrize("n", [3, 5, 7])
def test_the_most_cyclic_tournament_has_the_known_number_of_cycles(n: int) -> None:
    # Each beats the (n - 1) / 2 that follow: (n^3 - n) / 24 cycles (Kendall and Babington Smith).
    place = np.arange(n)
    ahead = (place[None, :] - place[:, None]) % n
    matrix = np.where(ahead == 0, 0, np.where(ahead <= n // 2, 1, -1))
    assert transitivity(matrix).n_cycles == (n**3 - n) // 24


def test_an_order_has_no_cycle() -> None:
    score = np.random.default_rng(0).normal(size=9)
    result = transitivity(np.sign(score[:, None] - score[None, :]))
    assert (result.value, result.n_cycles, result.kept) == (0, 0, 84)


@given(tournaments(st.sampled_from([1.0, -1.0])))
def test_complete_tournaments_equal_a_count_of_triples(matrix: Any) -> None:
    result = transitivity(matrix)
    assert (result.n_cycles, result.kept) == count_cycles(matrix)
    assert result.kept == result.total


@given(tournaments(verdicts), st.randoms(use_true_random=False))
def test_gaps_and_ties_equal_a_count_of_triples(matrix: Any, random: Any) -> None:
    result = transitivity(matrix)
    assert (result.n_cycles, result.kept) == count_cycles(matrix)
    assert result.total == math.comb(len(matrix), 3)
    mix = random.sample(range(len(matrix)), len(matrix))
    assert transitivity(matrix[mix][:, mix]) == pytest.approx(result, nan_ok=True)
    assert transitivity(-matrix) == pytest.approx(result, nan_ok=True)


def test_several_sources_are_pooled_and_the_diagonal_is_ignored() -> None:
    cycle, order = antisymmetric(3, [1, -1, 1]), antisymmetric(3, [1, 1, NAN])
    np.fill_diagonal(cycle, NAN)
    np.fill_diagonal(order, 1)
    assert transitivity([cycle, cycle, order]) == (1, 0.25, 2, 2, 3)
    assert transitivity([cycle, antisymmetric(3, [1, 1, 1])]) == (0.5, 0.25, 1, 2, 2)
    assert math.isnan(transitivity([[0, 1], [-1, 0]]).value)


def test_coins_give_the_chance_level() -> None:
    coins = np.random.default_rng(0).choice([-1.0, 1.0], size=(400, 6, 6))
    upper = np.triu(coins, 1)
    result = transitivity(upper - np.swapaxes(upper, 1, 2))
    # 8,000 triples, pairwise uncorrelated: the standard error is 0.0048.
    assert result.value == pytest.approx(INTRANSITIVE_CHANCE, abs=0.015)


def test_paper_compat_counts_gold_triples_as_the_script_does() -> None:
    # One response per score 1..5: an accuracy over triples x < s < y, judged on (x, y) alone.
    pairs = list(combinations(range(1, 6), 2))
    said = {pair: (-1 if sum(pair) % 2 else 1) for pair in pairs}
    triples = [(x, y) for x, s, y in combinations(range(1, 6), 3)]
    expected = np.mean([said[pair] == -1 for pair in triples])
    first, second = zip(*pairs, strict=True)
    result = gold_pair_accuracy_paper_compat([said[pair] for pair in pairs], first, second)
    assert result.value == pytest.approx(expected)
    assert (result.weight, result.kept, result.total) == (10, 6, 10)


def test_paper_compat_of_ties_gaps_and_unreadable() -> None:
    # Weights 3, 1, 1, 0, none: a tie is half right, unreadable wrong.
    result = gold_pair_accuracy_paper_compat([0, NAN, 1, 1, 1], [5, 1, 4, 2, NAN], [1, 3, 2, 1, 5])
    assert tuple(result) == (0.5, 5, 3, 5)
    assert math.isnan(gold_pair_accuracy_paper_compat([1], [2], [1]).value)


def test_paper_compat_is_blind_to_cycles() -> None:
    # The judge is right wherever the gap is 2 or more, and yet 1 > 2 > 3 > 1 by its verdicts.
    pairs = [(1, 2, 1), (2, 3, 1), (1, 3, -1)]
    first, second, said = zip(*pairs, strict=True)
    assert gold_pair_accuracy_paper_compat(said, first, second).value == 1
    assert transitivity(antisymmetric(3, [1, -1, 1])).value == 1


def test_balance_by_hand() -> None:
    # Shares of the first position: 4 of 5 decided, then 1 of 2.
    one: list[list[float]] = [[NAN, 0.9, 0.6], [0.7, NAN, 0.5], [0.2, 0.8, NAN]]
    two = [[NAN, 0.9, NAN], [0.1, NAN, 0.5], [NAN, 0.5, NAN]]
    none = [[NAN, 0.5, NAN], [0.5, NAN, NAN], [NAN, NAN, NAN]]
    result = position_balance([one, two, none])
    assert result.value == pytest.approx(-0.15)
    assert result.first_rate == pytest.approx(0.65)
    assert (result.kept, result.total) == (2, 3)
    assert math.isnan(position_balance(none).value)


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_a_judge_without_a_bias_is_balanced_and_swaps_mirror(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(size=(3, n, n))
    fair = (matrix + 1 - np.swapaxes(matrix, 1, 2)) / 2
    assert position_balance(fair).value == pytest.approx(0)
    result = position_balance(matrix)
    assert position_balance(1 - matrix).value == pytest.approx(result.value)
    assert position_balance(1 - matrix).first_rate == pytest.approx(1 - result.first_rate)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: as_verdicts([1], [[1]]), "flat lists"),
        (lambda: as_verdicts([0.5]), r"a verdict is 0\.5"),
        (lambda: order_flip_rate([1, 1], [1]), "shapes"),
        (lambda: transitivity([[0, 1], [1, 0]]), "antisymmetric"),
        (lambda: transitivity([[0.0, NAN], [1.0, 0.0]]), "antisymmetric"),
        (lambda: transitivity([[0, 1, 1]]), r"expected \(n, n\)"),
        (lambda: transitivity([[0, 2], [-2, 0]]), "a verdict is 2"),
        (lambda: gold_pair_accuracy_paper_compat([1], [2.5], [1]), "not whole"),
        (lambda: gold_pair_accuracy_paper_compat([1], [2, 3], [1]), "shape"),
        (lambda: position_balance([0.5, 0.5]), r"expected \(n, n\)"),
        (lambda: position_balance([[0.5, 1.5], [0.5, 0.5]]), "outside"),
    ],
)
def test_what_cannot_be_used_is_said(call: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        call()
