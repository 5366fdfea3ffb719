"""Rankings out of pairwise preferences: by known orders, published strengths and likelihoods."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata

from adjudge.errors import ConfigError, DataError
from adjudge.stats.ranking import (
    all_pairs,
    bradley_terry_strengths,
    copeland_scores,
    merge_sort,
    ranks,
)

NAN, INF = math.nan, math.inf
seeds = st.integers(0, 2**32 - 1)

#: Agresti (2002), Categorical Data Analysis, 10.6: games that each team won against each other one
#: in the American League East of 1987, and their strengths without a home advantage, that of the
#: last team 0 (table 10.11). Four decimals: R package BradleyTerry2, tests/baseball.Rout.save.
BASEBALL = [
    [0, 7, 9, 7, 7, 9, 11],  # Milwaukee
    [6, 0, 7, 5, 11, 9, 9],  # Detroit
    [4, 6, 0, 7, 7, 8, 12],  # Toronto
    [6, 8, 6, 0, 6, 7, 10],  # New York
    [6, 2, 6, 7, 0, 7, 12],  # Boston
    [4, 4, 5, 6, 6, 0, 6],  # Cleveland
    [2, 4, 1, 3, 1, 7, 0],  # Baltimore
]
BASEBALL_STRENGTHS = [1.5814, 1.4364, 1.2945, 1.2476, 1.1077, 0.6839, 0.0]


def sort_by(
    n: int, prefer: Callable[[int, int], float]
) -> tuple[tuple[int, ...], list[list[tuple[int, int]]]]:
    """Return the ranking and the yields."""
    sorting, yields = merge_sort(n), []
    try:
        pairs = next(sorting)
        while True:
            yields.append(pairs)
            pairs = sorting.send([prefer(i, j) for i, j in pairs])
    except StopIteration as end:
        return end.value, yields


def by_score(scores: Any) -> Callable[[int, int], float]:
    return lambda i, j: scores[i] - scores[j]


def most_comparisons(n: int) -> int:
    """Return what an even merge sort takes at worst (Knuth, vol. 3, 5.2.4)."""
    levels = math.ceil(math.log2(n))
    return n * levels - (1 << levels) + 1


def random_preferences(n: int, rng: np.random.Generator) -> Any:
    """Fill an antisymmetric matrix with signs, fractions, ties and gaps."""
    upper = np.triu(rng.choice([1.0, -1.0, 0.3, -0.3, 0.0, NAN], size=(n, n)), 1)
    return upper - upper.T


def simulated_wins(strengths: Any, n_each: int, rng: np.random.Generator) -> Any:
    """Draw the wins of `n_each` comparisons of every pair."""
    wins = np.zeros((len(strengths), len(strengths)))
    for i, j in all_pairs(len(strengths)):
        wins[i, j] = rng.binomial(n_each, expit(strengths[i] - strengths[j]))
        wins[j, i] = n_each - wins[i, j]
    return wins


def standard_errors(strengths: Any, n_each: int) -> Any:
    """Return those of the centred strengths: the Fisher information, inverted on mean 0."""
    chance = expit(strengths[:, None] - strengths[None, :])
    edges = n_each * chance * (1 - chance)
    np.fill_diagonal(edges, 0)
    return np.sqrt(np.diag(np.linalg.pinv(np.diag(edges.sum(axis=1)) - edges)))


def most_likely(wins: Any, prior: float) -> Any:
    """Maximise the log-likelihood, the further response of strength x[-1] included."""
    n = len(wins)

    def loss(x: Any) -> tuple[float, Any]:
        gap = x[:n, None] - x[None, :n]
        further = x[:n] - x[n]
        value = -(wins * -np.logaddexp(0, -gap)).sum()
        value += prior * (np.logaddexp(0, -further) + np.logaddexp(0, further)).sum()
        missed = wins * expit(-gap)
        pull = prior * (expit(further) - expit(-further))
        slope = np.append(missed.sum(axis=0) - missed.sum(axis=1) + pull, -pull.sum())
        return float(value), slope

    found = minimize(loss, np.zeros(n + 1), jac=True, method="BFGS", options={"gtol": 1e-8}).x[:n]
    return found - found.mean()


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7])
def test_every_order_is_found_and_the_worst_takes_what_is_known(n: int) -> None:
    counts = []
    for scores in permutations(range(n)):
        ranking, yields = sort_by(n, by_score(scores))
        assert [scores[each] for each in ranking] == list(range(n))[::-1]
        counts.append(sum(map(len, yields)))
    assert max(counts) == most_comparisons(n)


@pytest.mark.parametrize("n", [2, 3, 9, 16, 17, 33, 100, 257])
def test_long_lists_stay_within_n_log_n(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(20):
        order = rng.permutation(n)
        ranking, yields = sort_by(n, by_score(-np.argsort(order)))
        assert ranking == tuple(order)
        assert sum(map(len, yields)) <= most_comparisons(n) <= n * math.log2(n)
        assert len(yields) < 2 * n


def test_all_merges_of_a_level_are_asked_together() -> None:
    # By hand: 0 > 1 > ... > 7 in the given order, so that every left run is used up first.
    _, yields = sort_by(8, by_score(range(8, 0, -1)))
    assert yields[0] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert yields[1:3] == [[(0, 2), (4, 6)], [(1, 2), (5, 6)]]
    assert yields[3:] == [[(0, 4)], [(1, 4)], [(2, 4)], [(3, 4)]]


def test_one_response_needs_no_comparison() -> None:
    assert sort_by(1, by_score([0])) == ((0,), [])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_ties_keep_the_given_order(scores: list[int]) -> None:
    # Python's sort is stable.
    ranking, yields = sort_by(len(scores), by_score(scores))
    assert list(ranking) == sorted(range(len(scores)), key=lambda each: -scores[each])
    for pairs in yields:
        # No response is in two comparisons at a time, and the earlier one comes first.
        assert len({each for pair in pairs for each in pair}) == 2 * len(pairs)
        assert all(i < j for i, j in pairs)


@given(st.integers(1, 25), seeds)
def test_any_preferences_give_a_ranking(n: int, seed: int) -> None:
    # Cycles too: what comes out still holds every response once.
    rng = np.random.default_rng(seed)
    ranking, _ = sort_by(n, lambda i, j: rng.normal())
    assert sorted(ranking) == list(range(n))


@given(st.integers(2, 25), seeds)
def test_probabilities_of_a_known_order_give_that_order_under_any_names(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Steps of 0.01 to 1 on the log scale, from the best down.
    strengths = -np.cumsum(rng.uniform(0.01, 1, size=n))
    better = expit(strengths[:, None] - strengths[None, :])
    names = rng.permutation(n)
    ranking, _ = sort_by(n, lambda i, j: 2 * better[names[i], names[j]] - 1)
    assert [names[each] for each in ranking] == list(range(n))
    # The other ways to a ranking agree with it.
    scores = copeland_scores(np.sign(2 * better - 1))
    np.testing.assert_array_equal(scores, np.arange(n)[::-1])
    np.testing.assert_array_equal(ranks(bradley_terry_strengths(better)), np.arange(n) + 1)


def test_pairs_are_those_above_the_diagonal() -> None:
    assert all_pairs(4) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert all_pairs(1) == []
    np.testing.assert_array_equal(np.transpose(all_pairs(30)), np.triu_indices(30, 1))


def test_wins_count_one_and_ties_a_half() -> None:
    # 0 beats 1 (barely), ties with 2, never met 3; 1 loses to 2 and ties with 3; 2 beats 3.
    matrix = [[5, 0.1, 0, NAN], [-0.1, NAN, -1, 0], [0, 1, 0, 0.6], [NAN, 0, -0.6, 0]]
    assert copeland_scores(matrix).tolist() == [1.5, 0.5, 2.5, 0.5]
    assert copeland_scores([[NAN]]).tolist() == [0]


@given(st.integers(1, 9), seeds)
def test_copeland_scores_share_out_the_pairs_and_follow_the_names(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = random_preferences(n, rng)
    scores = copeland_scores(matrix)
    met = ~np.isnan(matrix) & ~np.eye(n, dtype=bool)
    assert scores.sum() == met.sum() / 2
    np.testing.assert_array_equal(copeland_scores(-matrix), met.sum(axis=1) - scores)
    np.testing.assert_array_equal(copeland_scores(np.sign(matrix)), scores)
    mix = rng.permutation(n)
    np.testing.assert_array_equal(copeland_scores(matrix[mix][:, mix]), scores[mix])


def test_published_strengths_are_reproduced() -> None:
    found = bradley_terry_strengths(BASEBALL, prior=1e-6)
    assert found - found[-1] == pytest.approx(BASEBALL_STRENGTHS, abs=1e-4)
    assert found.mean() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("first", "second"), [(3, 1), (0.2, 0.9), (17.5, 600)])
def test_two_responses_differ_by_the_log_of_the_ratio_of_wins(first: float, second: float) -> None:
    found = bradley_terry_strengths([[NAN, first], [second, NAN]], prior=1e-7)
    assert found == pytest.approx(np.array([0.5, -0.5]) * math.log(first / second), abs=1e-5)


@given(st.integers(1, 8), st.sampled_from([0.1, 0.5, 2.0]), seeds)
def test_strengths_are_the_most_likely_ones(n: int, prior: float, seed: int) -> None:
    # Sparse fractional wins: unbeaten, winless and disconnected responses are among them.
    rng = np.random.default_rng(seed)
    wins = rng.uniform(0, 4, size=(n, n)) * (rng.random((n, n)) < 0.4)
    np.fill_diagonal(wins, 0)
    found = bradley_terry_strengths(wins, prior=prior)
    np.testing.assert_allclose(found, most_likely(wins, prior), atol=1e-5)
    assert found.mean() == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(bradley_terry_strengths(wins.T, prior=prior), -found, atol=1e-5)
    mix = rng.permutation(n)
    renamed = bradley_terry_strengths(wins[mix][:, mix], prior=prior)
    np.testing.assert_allclose(renamed, found[mix], atol=1e-5)


def test_the_default_prior_is_half_a_win_and_half_a_loss() -> None:
    assert bradley_terry_strengths(BASEBALL) == pytest.approx(
        most_likely(np.array(BASEBALL), 0.5), abs=1e-6
    )


def test_unbeaten_and_disconnected_responses_have_finite_strengths() -> None:
    # 0 always beats 1; 2 and 3 are even and met neither; 4 met nobody.
    wins = np.zeros((5, 5))
    wins[0, 1], wins[2, 3], wins[3, 2] = 40, 7, 7
    strengths = bradley_terry_strengths(wins)
    assert np.isfinite(strengths).all()
    assert strengths[0] > strengths[2] > strengths[1]
    assert strengths[2:] == pytest.approx([0, 0, 0], abs=1e-6)
    assert bradley_terry_strengths(np.zeros((3, 3))) == pytest.approx([0, 0, 0], abs=1e-12)
    # By symmetry the further response has strength 0, and each of two has strength s or -s:
    # 1 win unanswered, half a win and half a loss: sigma(-2 s) = sigma(s) - 1/2.
    s = bradley_terry_strengths([[0, 1], [0, 0]])[0]
    assert expit(-2 * s) == pytest.approx(expit(s) - 0.5, abs=1e-8)


def test_a_stronger_prior_draws_strengths_together() -> None:
    spread = [np.ptp(bradley_terry_strengths(BASEBALL, prior=prior)) for prior in (0.01, 0.5, 5)]
    assert spread == sorted(spread, reverse=True)
    assert spread[2] < 0.95 * spread[0]


def test_ten_thousand_comparisons_give_strengths_within_a_twentieth() -> None:
    true = np.array([0.5, -0.5])
    # The standard error of each is 0.011: 0.05 is 4.4 of them.
    assert standard_errors(true, 10_000) == pytest.approx([0.0113, 0.0113], abs=1e-4)
    rng = np.random.default_rng(0)
    for _ in range(50):
        found = bradley_terry_strengths(simulated_wins(true, 10_000, rng))
        assert found == pytest.approx(true, abs=0.05)


def test_errors_of_five_strengths_are_the_standard_errors() -> None:
    true = np.array([1.0, 0.5, 0.0, -0.5, -1.0])
    n_sets, rng = 200, np.random.default_rng(0)
    # 10 pairs, 1,000 comparisons each: 10,000 a set, a standard error of 0.03 each.
    error = np.array(
        [bradley_terry_strengths(simulated_wins(true, 1000, rng)) - true for _ in range(n_sets)]
    )
    expected = standard_errors(true, 1000)
    assert expected == pytest.approx([0.03] * 5, abs=0.004)
    size = np.sqrt((error**2).mean(axis=0))
    assert (size < 0.05).all()
    # The relative standard error of a root mean square of 200 is 1 / sqrt(400) = 0.05.
    assert size / expected == pytest.approx(np.ones(5), abs=0.2)
    assert (np.abs(error.mean(axis=0)) < 4 * expected / math.sqrt(n_sets)).all()


@given(st.lists(st.sampled_from([-INF, -1.5, 0.0, -0.0, 2.0, 3.0, INF]), max_size=20))
def test_ranks_are_those_of_scipy_from_the_top(scores: list[float]) -> None:
    found = ranks(scores)
    np.testing.assert_array_equal(found, rankdata([-each for each in scores]))


def test_the_highest_is_first_and_ties_share_the_mean() -> None:
    assert ranks([3, 9, 3, 1, 3]).tolist() == [3, 1, 3, 5, 3]


def send(*preferences: float) -> None:
    sorting = merge_sort(5)
    next(sorting)
    sorting.send(preferences)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: next(merge_sort(0)), "there are 0 responses"),
        (lambda: send(NAN), "between responses 3 and 4 .* is NaN"),
        (lambda: send(1, 1), "got 2 preferences for 1 pairs"),
        (lambda: copeland_scores([[0, 1, 1]]), r"preferences have shape \(1, 3\)"),
        (lambda: copeland_scores([[0, 2], [-2, 0]]), "a preference is 2"),
        (lambda: copeland_scores([[0, 1], [1, 0]]), "antisymmetric"),
        (lambda: copeland_scores([[0.0, NAN], [1.0, 0.0]]), "antisymmetric"),
        (lambda: bradley_terry_strengths([1, 2]), r"wins have shape \(2,\)"),
        (lambda: bradley_terry_strengths(np.zeros((0, 0))), r"wins have shape \(0, 0\)"),
        (lambda: bradley_terry_strengths([[0, -1], [1, 0]]), "a number of wins is -1"),
        (lambda: bradley_terry_strengths([[0.0, NAN], [1.0, 0.0]]), "a number of wins is nan"),
        (lambda: bradley_terry_strengths([[0.0, INF], [1.0, 0.0]]), "a number of wins is inf"),
        (lambda: ranks([[1, 2]]), r"expected \(n,\)"),
        (lambda: ranks([1, NAN]), r"score 1 \(from 0\) is NaN"),
    ],
)
def test_what_cannot_be_used_is_said(call: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        call()


@pytest.mark.parametrize("prior", [0, -1, NAN, INF])
def test_a_prior_is_above_zero(prior: float) -> None:
    with pytest.raises(ConfigError, match="use a number above 0"):
        bradley_terry_strengths(BASEBALL, prior=prior)


@pytest.mark.parametrize("scale", [1e7, 1e12])
def test_a_fit_without_end_says_so(scale: float) -> None:
    with pytest.raises(DataError, match="give a larger prior"):
        bradley_terry_strengths(np.triu(np.full((8, 8), scale), 1), prior=1e-6)
