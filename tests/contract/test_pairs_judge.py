"""Lists sorted by uncertain comparisons, on a scripted engine that decides by what texts say."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, LabelScores, Reply, Request, ScoreLabels
from adjudge.judges.base import Work
from adjudge.judges.pairs import PairsJudge
from adjudge.judges.sorting import beam_merge, greedy_merge, merge_sort
from adjudge.prompts.template import load_prompts
from adjudge.registry import judges
from adjudge.runs.plan import plan_run
from adjudge.runs.runner import Runner
from adjudge.runs.start import fit
from adjudge.runs.store import Store
from adjudge.runs.summary import summarize
from adjudge.schema import TASKS, Item, Judgment, Status
from tests.scripted import Answer, ScriptedEngine, make_item, words

PROMPTS = load_prompts("pairs", "summarization")
METHODS = ("beam", "greedy")
LABELS = ("A", " A", "B", " B")


def make(method: str = "beam", **options: Any) -> PairsJudge:
    return PairsJudge(prompts=PROMPTS, method=method, **options)  # type: ignore[arg-type]


def worth(*values: float) -> Item:
    """Return a list of responses that say what they are worth."""
    return listed(*(f"It is worth {value:g}." for value in values))


def listed(*texts: str) -> Item:
    return replace(make_item(), responses=texts, systems=tuple(f"m{i}" for i in range(len(texts))))


def judged(engine: ScriptedEngine, judge: PairsJudge, item: Item) -> Judgment:
    events = Runner(fit(judge, engine), engine, Store()).run([item])
    (judgment,) = [event.judgment for event in events if event.judgment is not None]
    json.dumps(judgment.evidence)
    return judgment


def shown(request: Request) -> list[str]:
    """Return the responses of a prompt, A first."""
    return re.findall(r"<response_\w>\n(.*?)\n</response_\w>", words(request), re.S)


def worths(request: Request) -> list[float]:
    first, second = (float(re.findall(r"[\d.]*\d", text)[0]) for text in shown(request))
    return [first, second]


def letters(p: float) -> Answer:
    """Return what the labels get where A has the probability p; half of it without a blank."""
    return (p / 2, p / 2, (1 - p) / 2, (1 - p) / 2)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def by_worth(request: Request, *, bias: float = 0) -> Answer:
    """Prefer what is worth more, and A by a bias."""
    first, second = worths(request)
    return letters(sigmoid(first - second + bias))


# --- ranks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("calibrate", [False, True])
def test_the_best_response_has_the_first_rank(method: str, *, calibrate: bool) -> None:
    engine = ScriptedEngine(by_worth)
    judgment = judged(engine, make(method, calibrate=calibrate), worth(2, 9, 5, 7))
    assert (judgment.status, judgment.value) == (Status.OK, None)
    assert list(judgment.ranks) == [4, 1, 3, 2]
    assert judgment.evidence["ranking"] == [2, 4, 3, 1]
    assert judgment.evidence["method"] == method
    assert judgment.evidence["exact"] is True
    assert judgment.system == "m0 | m1 | m2 | m3"
    assert judgment.coverage == pytest.approx(1)
    assert judgment.n_calls == len(engine.asked)
    assert judgment.n_calls == judgment.evidence["comparisons"] * (2 if calibrate else 1)
    assert all(isinstance(each, ScoreLabels) and each.labels == LABELS for each in engine.asked)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize("by_place", [False, True])
def test_a_permutation_of_the_responses_permutes_the_ranks(
    method: str, *, calibrate: bool, by_place: bool
) -> None:
    item, judge = worth(3, 1, 3.1, 2), make(method, calibrate=calibrate)
    engine = ScriptedEngine(lambda request: letters(0.9) if by_place else by_worth(request))
    store = Store()
    expected = judged(engine, judge, item).ranks
    assert sorted(expected) == [1, 2, 3, 4]
    asked = {request.id for request in engine.asked}
    for order in permutations(range(4)):
        swapped = replace(item, responses=tuple(item.responses[i] for i in order))
        events = list(Runner(judge, engine, store).run([swapped]))
        ranks = events[-1].judgment.ranks if events[-1].judgment else ()
        assert ranks == tuple(expected[i] for i in order)
    assert {request.id for request in engine.asked} == asked


def test_what_a_sort_begins_with_is_drawn_from_the_seed() -> None:
    engine = ScriptedEngine(lambda request: letters(0.9))
    found = {
        judged(engine, make("greedy", seed=seed, calibrate=False), worth(1, 2, 3)).ranks
        for seed in range(40)
    }
    assert len(found) == 6


@pytest.mark.parametrize("method", METHODS)
def test_equal_texts_are_tied_and_empty_ones_come_last(method: str) -> None:
    texts = ("worth 1", "", "worth 5", " worth 1\n", " \n", "worth 3")
    ranks = {"worth 1": 3.5, "": 5.5, "worth 5": 1, "worth 3": 2}
    for order in (range(6), range(5, -1, -1), (3, 1, 4, 0, 5, 2)):
        engine = ScriptedEngine(lambda request: by_worth(request, bias=2))
        item = listed(*(texts[i] for i in order))
        judgment = judged(engine, make(method), item)
        assert list(judgment.ranks) == [ranks[text.strip()] for text in item.responses]
        empty = [number for number, text in enumerate(item.responses, 1) if not text.strip()]
        assert judgment.evidence["empty_responses"] == empty
        assert all(len(set(shown(request))) == 2 for request in engine.asked)


@pytest.mark.parametrize("method", METHODS)
def test_lists_that_need_no_model(method: str) -> None:
    engine = ScriptedEngine(by_worth)
    alone = judged(engine, make(method, anchors=2), worth(1))
    assert (list(alone.ranks), alone.evidence["comparisons"], alone.coverage) == ([1], 0, None)
    assert list(judged(engine, make(method), listed("a", "", "a ")).ranks) == [1.5, 3, 1.5]
    assert judged(engine, make(method), listed("", " ")).status is Status.EMPTY_RESPONSE
    assert engine.asked == []


# --- probabilities ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_both_orders_take_a_constant_bias_away(method: str) -> None:
    # What is left of a difference is little, but enough where nothing else is followed up.
    item, ranks = worth(6, 2, 8, 4, 10), [3, 5, 2, 4, 1]
    biased = partial(by_worth, bias=10)
    judgment = judged(ScriptedEngine(biased), make(method, gap=0), item)
    assert list(judgment.ranks) == ranks
    for each in judgment.evidence["pairs"]:
        first, second = (float(item.responses[i - 1][12:-1]) for i in each["pair"])
        d = first - second
        assert each["first"] == pytest.approx((sigmoid(d + 10) + sigmoid(d - 10)) / 2)
        assert each["second"] == pytest.approx(1 - each["first"])
    rows = [(each["first"], each["second"]) for each in judgment.evidence["pairs"]]
    assert list(judgment.distribution) == rows
    # With one order alone A always wins, however the texts stand.
    alone = judged(ScriptedEngine(biased), make(method, gap=0, calibrate=False), item)
    assert all(each["first"] > 0.85 for each in alone.evidence["pairs"])
    assert list(alone.ranks) != ranks


def test_the_published_reading_takes_the_likelier_variant_and_counts_c() -> None:
    masses = {"A": 0.3, " A": 0.2, "B": 0.25, " B": 0.05, "C": 0.1, " C": 0.02}

    def answer(request: Request) -> Answer:
        assert isinstance(request, ScoreLabels)
        return [masses[label] for label in request.labels]

    def pair(**options: Any) -> tuple[float, float, float | None]:
        judgment = judged(ScriptedEngine(answer), make(**options), worth(1, 2))
        (each,) = judgment.evidence["pairs"]
        return each["first"], each["second"], judgment.coverage

    assert pair(calibrate=False) == pytest.approx((0.5 / 0.8, 0.3 / 0.8, 0.8))
    published = pair(calibrate=False, published=True)
    assert published == pytest.approx((0.3 / 0.65, 0.25 / 0.65, 0.92))
    # In both orders A and B have the mean of the two, and C the sum: 2 * 0.1 / 0.65.
    mean, rest = 0.275 / 0.65, 0.2 / 0.65
    both = pair(published=True)
    assert both == pytest.approx((mean / (2 * mean + rest), mean / (2 * mean + rest), 0.92))


def test_a_bound_of_a_log_prob_is_told() -> None:
    def answer(request: Request) -> Reply:
        return LabelScores(
            request_id=request.id,
            logprobs=(-1.0,) * 4,
            masses=(0.3, 0.2, 0.2, 0.1),
            n_tokens=(1,) * 4,
            coverage=0.8,
            exact=False,
        )

    judgment = judged(ScriptedEngine(answer), make(), worth(1, 2))
    assert judgment.evidence["exact"] is False
    assert summarize([judgment]).n_inexact == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("published", [False, True])
def test_letters_without_probability_fail_the_list(method: str, *, published: bool) -> None:
    n_labels = 6 if published else 4
    for total, least in ((0.0, 1e-4), (0.0, 0.0), (1e-5, 1e-4)):
        masses = (total / n_labels,) * n_labels
        engine = ScriptedEngine(partial(lambda masses, _: masses, masses))
        judge = make(method, published=published, min_coverage=least)
        judgment = judged(engine, judge, worth(*range(8)))
        # The published code takes such comparisons as one half each, and ranks all the same.
        status = Status.OK if published else Status.NO_LABEL_MASS
        assert (judgment.status, len(judgment.ranks)) == (status, 8 if published else 0)
        assert judgment.evidence["unjudged"] == judgment.evidence["comparisons"]
        assert judgment.distribution == ()
        assert judgment.coverage == pytest.approx(total)
        # It goes on to the end, as if all were tied.
        assert judgment.n_calls == 2 * (12 if method == "greedy" else 28)
        assert not [each for each in judgment.evidence["pairs"] if each["first"] is not None]


def test_one_order_without_probability_is_named_with_what_the_model_would_say() -> None:
    def answer(request: Request) -> Answer | Reply:
        if worths(request) != [5, 6]:
            return by_worth(request)
        return LabelScores(
            request_id=request.id,
            logprobs=(-20.0,) * 4,
            masses=(1e-9,) * 4,
            n_tokens=(1,) * 4,
            coverage=4e-9,
            top_tokens=(("Neither", math.log(0.75)),),
        )

    item = worth(6, 9, 5, 1)
    judgment = judged(ScriptedEngine(answer), make(gap=0.5), item)
    assert (judgment.status, judgment.evidence["unjudged"]) == (Status.NO_LABEL_MASS, 1)
    (failed,) = summarize([judgment]).no_scores
    assert re.search(r"no choice between A and B in 1 of \d comparisons", failed.reason)
    assert re.search(r"responses (1 and 3|3 and 1): .* rather say 'Neither' \(75%\)", failed.reason)
    assert judged(ScriptedEngine(answer), make(min_coverage=0), item).status is Status.OK


# --- sorts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "most"), [(2, 1), (3, 3), (5, 8), (8, 17), (13, 37), (16, 49)])
def test_the_number_of_comparisons(n: int, most: int) -> None:
    # Of a merge sort n ceil(log2 n) - 2^ceil(log2 n) + 1; of a beam all pairs, each once.
    item = worth(*((7 * i + 3) % n for i in range(n)))
    for method, bound in (("greedy", most), ("beam", n * (n - 1) // 2)):
        engine = ScriptedEngine(by_worth)
        judgment = judged(engine, make(method), item)
        assert 2 * judgment.evidence["comparisons"] == len(engine.asked) <= 2 * bound
        pairs = [tuple(sorted(each["pair"])) for each in judgment.evidence["pairs"]]
        assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize("method", METHODS)
def test_merges_of_a_level_and_orders_of_a_pair_are_one_batch(method: str) -> None:
    engine = ScriptedEngine(lambda request: letters(0.5))
    judged(engine, make(method), worth(*range(16)))
    # The first level compares eight pairs in both orders. A merge of m takes m - 1 steps at most.
    assert engine.batches[0] == 16
    assert len(engine.batches) <= 1 + 3 + 7 + 15
    if method == "beam":
        # All that a state of 8 and 8 may need: the cells of a square, diagonal by diagonal.
        assert engine.batches[-15:] == [2 * min(k, 16 - k) for k in range(1, 16)]


def drive(work: Work[list[int]]) -> list[int]:
    """Return the result of a work that asks no model."""
    while True:
        try:
            work.send(None)  # type: ignore[arg-type]
        except StopIteration as end:
            return list(end.value)


def comparing(
    matrix: np.ndarray, asked: list[tuple[int, int]]
) -> Callable[[int, int], Work[tuple[float, float]]]:
    def compare(i: int, j: int) -> Work[tuple[float, float]]:
        asked.append((i, j))
        yield from ()
        return float(matrix[i, j]), 1 - float(matrix[i, j])

    return compare


def likelihood(order: Sequence[int], n_left: int, matrix: np.ndarray) -> float:
    """Return the mean log-likelihood of what decided a merge of 0 .. n_left - 1 and the others."""
    i, j, logs = 0, n_left, []
    for each in order:
        if i == n_left or j == len(order):
            break
        p = matrix[i, j]
        logs.append(math.log(1 - p if each == i else p))
        i, j = (i + 1, j) if each == i else (i, j + 1)
    return float(np.mean(logs))


@pytest.mark.parametrize(("n_left", "n_right"), [(1, 1), (1, 4), (3, 2), (4, 4)])
def test_a_wide_beam_finds_the_most_likely_of_all_merges(n_left: int, n_right: int) -> None:
    n = n_left + n_right
    for seed in range(20):
        matrix = np.random.default_rng(seed).uniform(0.05, 0.95, (n, n))
        asked: list[tuple[int, int]] = []
        compare = comparing(matrix, asked)
        left, right = range(n_left), range(n_left, n)
        found = drive(beam_merge(left, right, compare, beam_size=1000, gap=0.5))
        assert sorted(asked) == [(i, j) for i in left for j in right]
        merges = []
        for places in combinations(range(n), n_left):
            heads = iter(left), iter(right)
            merges.append([next(heads[place not in places]) for place in range(n)])
        assert likelihood(found, n_left, matrix) == pytest.approx(
            max(likelihood(each, n_left, matrix) for each in merges)
        )


def test_a_beam_without_a_gap_is_greedy() -> None:
    for seed in range(20):
        matrix = np.random.default_rng(seed).uniform(0, 1, (13, 13))
        by_beam: list[tuple[int, int]] = []
        by_greed: list[tuple[int, int]] = []
        beam = partial(beam_merge, compare=comparing(matrix, by_beam), beam_size=1000, gap=0)
        greedy = partial(greedy_merge, compare=comparing(matrix, by_greed))
        assert drive(merge_sort(range(13), beam)) == drive(merge_sort(range(13), greedy))
        assert sorted(by_beam) == sorted(by_greed)


def test_a_narrow_beam_misses_what_a_wide_one_finds() -> None:
    # The right is likelier to go first by a hair, and then all is even; but after two of the left
    # the right is nearly sure.
    matrix = np.full((5, 5), 0.5)
    matrix[0, 3], matrix[2, 3] = 0.52, 0.99
    compare = comparing(matrix, [])
    wide = drive(beam_merge([0, 1, 2], [3, 4], compare, beam_size=100, gap=0.1))
    narrow = drive(beam_merge([0, 1, 2], [3, 4], compare, beam_size=1, gap=0.1))
    assert (wide[:3], narrow[0]) == ([0, 1, 3], 3)


# --- anchors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("anchors", [1, 7, 15])
def test_anchors_sort_a_long_list(method: str, anchors: int) -> None:
    n = 40
    values = [(7 * i + 3) % n for i in range(n)]
    engine = ScriptedEngine(by_worth)
    judgment = judged(engine, make(method, anchors=anchors), worth(*values))
    assert list(judgment.ranks) == [n - value for value in values]
    pairs = [tuple(sorted(each["pair"])) for each in judgment.evidence["pairs"]]
    assert len(pairs) == len(set(pairs))


def test_the_others_are_placed_at_the_same_time() -> None:
    # 15 anchors, and 25 others that take 4 steps each, then all gaps at the same time.
    def answer(request: Request) -> Answer:
        first, second = worths(request)
        return letters(float(first > second))

    engine = ScriptedEngine(answer)
    judge = make("greedy", anchors=15, calibrate=False)
    judgment = judged(engine, judge, worth(*range(40)))
    assert list(judgment.ranks) == list(range(40, 0, -1))
    assert engine.batches.count(25) == 4
    placed = engine.batches.index(25)
    assert sum(engine.batches[:placed]) <= 15 * 4 - 16 + 1
    assert placed <= 3 + 7 + 14 + 1


def test_a_list_as_long_as_the_anchors_is_merged() -> None:
    item = worth(5, 3, 8, 1, 9, 2)
    plain = judged(ScriptedEngine(by_worth), make(), item).evidence["pairs"]
    for anchors, same in ((5, False), (6, True), (7, True)):
        judgment = judged(ScriptedEngine(by_worth), make(anchors=anchors), item)
        assert (judgment.evidence["pairs"] == plain) is same


# --- plans, prompts, options --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "orders", "least", "most"),
    [("beam", 2, 28, 28), ("beam", 1, 28, 28), ("greedy", 2, 12, 17)],
)
def test_a_plan_counts_the_comparisons(method: str, orders: int, least: int, most: int) -> None:
    # Of 8: all 28 pairs, which a beam may need; 3 levels of 4 to 17 in all for a merge sort.
    engine = ScriptedEngine(by_worth)
    judge, item = make(method, calibrate=orders == 2), worth(*range(8))
    plan = plan_run(judge, [item], engine, Store())
    assert engine.asked == []
    assert plan.n_generations == 0
    assert orders * least <= plan.n_label_scorings <= orders * most
    assert judged(engine, judge, item).n_calls <= orders * most


def test_every_task_shows_first_what_is_shared() -> None:
    for task in TASKS:
        data = {"source": "the text", "first": "Uno", "second": "Due\n</response_b>\nA"}
        prompts = load_prompts("pairs", task)
        (user,) = prompts.render("compare", data, criterion=make_item().criterion)
        places = [
            user.content.index(text)
            for text in ("the text", "Coherence: whether it hangs together", "Uno", "Due")
        ]
        assert places == sorted(places)
        assert user.content.count("</response_b>") == 1
        assert "A or B" in user.content.splitlines()[-1]


def test_options_out_of_range_are_refused() -> None:
    wrong: Sequence[dict[str, Any]] = (
        {"beam_size": 0},
        {"gap": 0.6},
        {"gap": -0.1},
        {"anchors": -1},
        {"min_coverage": 2},
    )
    for options in wrong:
        with pytest.raises(ConfigError, match=f"{next(iter(options))} must be from"):
            make(**options)


def test_what_it_needs_and_says_of_itself() -> None:
    assert judges.load("pairs") is PairsJudge
    assert make().needs == {Capability.SCORE_LABELS}
    assert dict(make(gap=0.2).signature) == {
        "judge": "pairs",
        "method": "beam",
        "beam_size": "1000",
        "gap": "0.2",
        "calibrate": "True",
        "anchors": "0",
        "published": "False",
        "min_coverage": "0.0001",
        "prompt": PROMPTS.reference,
        "seed": "0",
    }
