"""Accuracy on pairs: conventions by hand, thresholds by brute force, p-values of scipy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.errors import ConfigError, DataError
from adjudge.stats.pairwise import (
    CONVENTIONS,
    optimistic_tie_calibrated_accuracy,
    pairwise_accuracy,
    pairwise_marks,
    soft_pairwise_accuracy,
    tie_calibrated_accuracy,
)

NAN = math.nan
#: One column per pair.
#:           agree flip wrong tie  tie  one  both  ties unread no
#:                            both one  gold gold  wrong       gold
FIRST = [1, -1, -1, 0, 0, 1, 0, 0, NAN, 1]
SECOND = [1, 1, -1, 0, 1, -1, 0, 0, 1, 1]
GOLD = [1, -1, 1, 0, 0, 0, 0, 1, 1, NAN]

values = st.sampled_from([1.0, 0.0, -1.0, NAN])
triples = st.lists(st.tuples(values, values, values), min_size=1, max_size=25)
scored = st.lists(
    st.tuples(st.integers(-6, 6).map(lambda x: x / 4), st.sampled_from([-1, 0, 1])),
    min_size=1,
    max_size=30,
)
#: Scores of four systems for eight sources.
HUMAN = np.array(
    [[3, 4, 2, 5, 3, 4, 1, 2], [2, 4, 3, 4, 3, 2, 1, 1], [5, 5, 3, 5, 4, 4, 2, 3],
     [1, 2, 1, 3, 2, 2, 1, 4]]
)  # fmt: skip
JUDGE = np.array(
    [[2.5, 3.9, 2.1, 4.4, 3.3, 3.8, 1.7, 2.9], [2.6, 4.1, 2.2, 4.0, 2.7, 2.9, 1.2, 1.9],
     [3.6, 4.4, 2.4, 3.5, 4.1, 3.2, 2.8, 2.1], [1.4, 2.8, 1.9, 2.2, 3.1, 2.6, 2.3, 2.7]]
)  # fmt: skip


@pytest.mark.parametrize(
    ("convention", "ties", "right", "kept"),
    [
        # Single order: pairs 0, 1, 3, 4, 6 are right; 5, 7 wrong; 8 unreadable, so wrong.
        ("plain", True, 5, 9),
        ("plain", False, 2, 5),
        # The ties of gold, pairs 3 to 6, are wrong whatever the judge says.
        ("prometheus", True, 2, 9),
        ("prometheus", False, 2, 5),
        # Votes: 1, tie, -1, tie, tie, tie, tie, tie, dropped.
        ("fastchat", True, 5, 8),
        ("fastchat", False, 1, 2),
        # Both right: pairs 0, 3, 6.
        ("autoj", True, 3, 9),
        ("autoj", False, 1, 5),
        # First 0, 1, 3, 4, 6 and second 0, 3, 6, 8.
        ("llmbar", True, 4.5, 9),
        ("llmbar", False, 2, 5),
    ],
)
def test_each_convention_by_hand(convention: Any, ties: Any, right: float, kept: int) -> None:
    result = pairwise_accuracy(FIRST, GOLD, convention=convention, swapped=SECOND, ties=ties)
    assert result.value == pytest.approx(right / kept)
    assert (result.kept, result.total) == (kept, 10)
    assert (result.n_gold_ties, result.n_unreadable) == (4, 1)
    assert result.consistency == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("convention", "expected"), [("plain", 4), ("fastchat", 6), ("autoj", 3), ("llmbar", 3)]
)
def test_only_fastchat_makes_a_tie_of_disagreement(convention: Any, expected: int) -> None:
    result = pairwise_accuracy(FIRST, GOLD, convention=convention, swapped=SECOND)
    assert result.n_verdict_ties == expected


def test_one_order_has_no_consistency() -> None:
    result = pairwise_accuracy([1, NAN], [1, 1], convention="plain")
    assert math.isnan(result.consistency)
    assert (result.value, result.n_unreadable) == (0.5, 1)


def test_no_pair_left_is_undefined() -> None:
    result = pairwise_accuracy([0, 1], [0, 0], convention="prometheus", ties=False)
    assert math.isnan(result.value)
    assert (result.kept, result.total) == (0, 2)


def test_prometheus_with_ties_is_without_ties_times_the_share_of_non_ties() -> None:
    # Prometheus-2-7B on Auto-J Eval: 765 of 1019 pairs, and 373 gold ties, printed 75.07 and 54.96
    gold = [1.0] * 1019 + [0.0] * 373
    verdict = [1.0] * 765 + [-1.0] * (1019 - 765) + [0.0] * 373
    without = pairwise_accuracy(verdict, gold, convention="prometheus", ties=False)
    counted = pairwise_accuracy(verdict, gold, convention="prometheus")
    assert round(100 * without.value, 2) == 75.07
    assert round(100 * counted.value, 2) == 54.96
    assert pairwise_accuracy(verdict, gold, convention="plain").value > 0.8


@given(triples, st.sampled_from(CONVENTIONS), st.booleans(), st.randoms(use_true_random=False))
def test_names_and_order_of_responses_and_pairs_do_not_matter(
    rows: Any, convention: Any, ties: Any, random: Any
) -> None:
    first, second, gold = (np.array(column) for column in zip(*rows, strict=True))
    expected = pairwise_accuracy(first, gold, convention=convention, swapped=second, ties=ties)
    mirrored = pairwise_accuracy(-first, -gold, convention=convention, swapped=-second, ties=ties)
    assert mirrored == pytest.approx(expected, nan_ok=True)
    mix = random.sample(range(len(gold)), len(gold))
    mixed = pairwise_accuracy(
        first[mix], gold[mix], convention=convention, swapped=second[mix], ties=ties
    )
    assert mixed == pytest.approx(expected, nan_ok=True)
    if convention in ("fastchat", "autoj", "llmbar"):
        exchanged = pairwise_accuracy(second, gold, convention=convention, swapped=first, ties=ties)
        assert exchanged == pytest.approx(expected, nan_ok=True)


@given(scored)
def test_the_optimistic_threshold_is_the_best_there_is(rows: Any) -> None:
    difference, gold = (np.array(column, dtype=float) for column in zip(*rows, strict=True))

    def accuracy(epsilon: float) -> float:
        called = [0 if abs(d) <= epsilon else (1 if d > 0 else -1) for d in difference]
        return float(np.mean([c == g for c, g in zip(called, gold, strict=True)]))

    result = optimistic_tie_calibrated_accuracy(difference, gold)
    candidates = {0.0, *np.abs(difference).tolist()}
    best = max(map(accuracy, candidates))
    assert result.value == pytest.approx(best)
    assert result.epsilons.item() == min(e for e in candidates if accuracy(e) == best)
    assert result.optimistic


def test_differences_that_are_zero_but_for_rounding_are_ties() -> None:
    result = optimistic_tie_calibrated_accuracy([0.1 + 0.2 - 0.3, 1.0], [0, 1])
    assert (result.value, result.epsilons.item()) == (1.0, 0.0)


def test_a_held_out_threshold_sees_no_gold_of_its_fold() -> None:
    # Scores carry nothing and neither does gold: the optimistic threshold still finds something.
    rng = np.random.default_rng(3)
    difference, gold = rng.normal(size=60), rng.integers(-1, 2, size=60)
    seen = optimistic_tie_calibrated_accuracy(difference, gold)
    held = [
        tie_calibrated_accuracy(difference, gold, rng=np.random.default_rng(seed)).value
        for seed in range(20)
    ]
    assert np.mean(held) < seen.value - 0.02
    # Two pairs that contradict each other: each is judged by what is best for the other.
    apart = tie_calibrated_accuracy([1.0, 1.0], [0, 1], rng=rng, n_folds=2)
    assert (apart.value, sorted(apart.epsilons)) == (0.0, [0.0, 1.0])
    assert not apart.optimistic


def test_folds_follow_the_generator_and_keep_groups_whole() -> None:
    difference = [1.0, 1.0, 1.0, 1.0]
    gold = [0, 0, 1, 1]
    result = tie_calibrated_accuracy(
        difference, gold, rng=np.random.default_rng(0), n_folds=2, groups=["a", "a", "b", "b"]
    )
    # Within a fold all gold is one and the same, and the other fold's is the opposite.
    assert result.value == 0.0
    rng = np.random.default_rng(1)
    noise, truth = rng.normal(size=50), rng.integers(-1, 2, size=50)
    once, again = (
        tie_calibrated_accuracy(noise, truth, rng=np.random.default_rng(5)) for _ in range(2)
    )
    assert once.value == again.value
    assert once.epsilons.tolist() == again.epsilons.tolist()


def test_pairs_without_score_or_gold_are_counted() -> None:
    difference, gold = [NAN, 2.0, -2.0, 0.5, 1.0], [1, 1, -1, 0, NAN]
    result = tie_calibrated_accuracy(difference, gold, rng=np.random.default_rng(0), n_folds=3)
    assert (result.kept, result.total) == (3, 5)
    best = optimistic_tie_calibrated_accuracy(difference, gold)
    assert (best.value, best.kept, best.total) == (1.0, 3, 5)
    assert math.isnan(optimistic_tie_calibrated_accuracy([NAN], [1]).value)


def test_soft_accuracy_equals_p_values_of_scipy() -> None:
    # scipy 1.17.1, for each i < j: permutation_test((x[i], x[j]), lambda u, v, axis:
    # u.sum(axis) - v.sum(axis), permutation_type="samples", alternative="greater",
    # n_resamples=512).pvalue; JUDGE [.03515625 .7421875 .03515625 .9765625 .20703125 .01953125],
    # HUMAN [.15625 1 .0703125 1 .265625 .01171875]
    exact = soft_pairwise_accuracy(JUDGE, HUMAN, rng=np.random.default_rng(0), n_resamples=256)
    assert exact == (0.916015625, 6, 6, 256, True)
    sampled = soft_pairwise_accuracy(JUDGE, HUMAN, rng=np.random.default_rng(0), n_resamples=255)
    assert not sampled.exact
    assert sampled.value == pytest.approx(0.916, abs=0.03)


def test_soft_accuracy_over_many_blocks_comes_near_the_exact_value() -> None:
    # Eight sources twice over: too many sign vectors to list, so blocks of random ones.
    twice = soft_pairwise_accuracy(
        np.hstack([JUDGE, JUDGE]),
        np.hstack([HUMAN, HUMAN]),
        rng=np.random.default_rng(0),
        n_resamples=20_000,
    )
    full = soft_pairwise_accuracy(
        np.hstack([JUDGE, JUDGE]),
        np.hstack([HUMAN, HUMAN]),
        rng=np.random.default_rng(0),
        n_resamples=2**16,
    )
    assert (twice.exact, full.exact) == (False, True)
    assert twice.value == pytest.approx(full.value, abs=0.01)


def test_soft_accuracy_of_opposite_certainties_is_low() -> None:
    up = np.arange(4)[:, None] + np.linspace(0, 0.1, 12)
    result = soft_pairwise_accuracy(up, -up, rng=np.random.default_rng(0))
    assert result.value < 0.01
    assert soft_pairwise_accuracy(up, up, rng=np.random.default_rng(0)).value == 1.0


@given(st.integers(0, 1000), st.floats(0.1, 50), st.floats(-100, 100))
def test_soft_accuracy_does_not_see_scales_nor_the_order_of_systems(
    seed: int, scale: float, shift: float
) -> None:
    rng = np.random.default_rng(seed)
    prediction, gold = rng.normal(size=(2, 4, 8))
    expected = soft_pairwise_accuracy(prediction, gold, rng=np.random.default_rng(1)).value
    changed = soft_pairwise_accuracy(
        scale * prediction + shift, gold / scale, rng=np.random.default_rng(1)
    )
    assert changed.value == pytest.approx(expected, abs=1e-9)
    # Reversing a pair turns p into 1 - p but for equal sums, of which there is one in 256.
    mixed = soft_pairwise_accuracy(prediction[::-1], gold[::-1], rng=np.random.default_rng(1))
    assert mixed.value == pytest.approx(expected, abs=1e-9)


def test_soft_accuracy_counts_equal_sums_in_full() -> None:
    # The judge sees no difference, p = 1; humans see one everywhere, p = 1/16.
    result = soft_pairwise_accuracy(
        [[3] * 4, [3] * 4], [[2] * 4, [1] * 4], rng=np.random.default_rng(0)
    )
    assert result.value == pytest.approx(1 / 16)


def test_soft_accuracy_uses_the_sources_that_both_systems_have() -> None:
    judge = np.array([[1, 2, 3, NAN, 9], [2, 1, 1, 9, 1], [NAN, NAN, NAN, NAN, NAN]])
    human = np.array([[1, 2, 2, 1, 1], [1, 1, 1, 5, NAN], [1, 1, 1, 1, 1.0]])
    result = soft_pairwise_accuracy(judge, human, rng=np.random.default_rng(0), n_resamples=32)
    shared = soft_pairwise_accuracy(
        judge[:2, :3], human[:2, :3], rng=np.random.default_rng(0), n_resamples=16
    )
    assert (result.kept, result.total) == (1, 3)
    # Leads -1 1 2 of the judge: 3 of 8 signed sums reach 2. Leads 0 1 1 of humans: 2 of 8 do.
    assert result.value == pytest.approx(1 - 1 / 8)
    assert result.value == pytest.approx(shared.value)
    alone = soft_pairwise_accuracy([[1, 2]], [[1, 2]], rng=np.random.default_rng(0))
    assert math.isnan(alone.value)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda rng: pairwise_accuracy([1], [1], convention="mt"), ConfigError, "'mt'"),  # type: ignore[arg-type]
        (lambda rng: pairwise_accuracy([1], [1], convention="autoj"), ConfigError, "both orders"),
        (lambda rng: pairwise_accuracy([2], [1], convention="plain"), DataError, "a verdict is 2"),
        (lambda rng: pairwise_accuracy([1], [1, 1], convention="plain"), DataError, "shapes"),
        (lambda rng: tie_calibrated_accuracy([1], [1], rng=rng), ConfigError, "n_folds is 5"),
        (
            lambda rng: tie_calibrated_accuracy([1, 2], [1, 1], rng=rng, n_folds=1),
            ConfigError,
            "n_folds is 1",
        ),
        (
            lambda rng: tie_calibrated_accuracy([1, 2], [1, 1], rng=rng, groups=[1]),
            DataError,
            "groups have shape",
        ),
        (lambda rng: optimistic_tie_calibrated_accuracy([math.inf], [1]), DataError, "infinite"),
        (lambda rng: optimistic_tie_calibrated_accuracy([1, 2], [1]), DataError, "shape"),
        (lambda rng: soft_pairwise_accuracy([1, 2], [1, 2], rng=rng), DataError, "n_systems"),
        (lambda rng: soft_pairwise_accuracy([[1]], [[1, 2]], rng=rng), DataError, "shapes"),
        (lambda rng: soft_pairwise_accuracy([[math.inf]], [[1]], rng=rng), DataError, "infinite"),
        (
            lambda rng: soft_pairwise_accuracy([[1]], [[1]], rng=rng, n_resamples=0),
            ConfigError,
            "n_resamples is 0",
        ),
    ],
)
def test_what_cannot_be_used_is_said(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(np.random.default_rng(0))


@given(triples, st.sampled_from(CONVENTIONS), st.booleans())
def test_an_accuracy_is_the_mean_of_its_marks(
    verdicts: list[tuple[float, float, float]], convention: Any, ties: Any
) -> None:
    first, second, gold = np.array(verdicts).T
    options = {"convention": convention, "swapped": second, "ties": ties}
    marks = pairwise_marks(first, gold, **options)
    accuracy = pairwise_accuracy(first, gold, **options)
    kept = marks[~np.isnan(marks)]
    assert accuracy.kept == len(kept)
    assert np.isnan(accuracy.value) if not len(kept) else accuracy.value == kept.mean()
    assert np.isnan(marks[np.isnan(gold)]).all()
