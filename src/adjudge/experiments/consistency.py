"""How consistent a rubric judge is: over runs, orders, its two formats and three preferences.

Scores and verdicts are those that the judge writes, as in Kim et al. 2024 (Prometheus 2).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from adjudge.benchmarks.base import RatedPair, RatedResponse
from adjudge.experiments.bench import bench_items, judged_verdicts, pair_items
from adjudge.judges.base import derived_seed
from adjudge.schema import Criterion, Item, Judgment, Status
from adjudge.stats.consistency import (
    INTRANSITIVE_CHANCE,
    WeightedAccuracy,
    cross_format_gap,
    gold_pair_accuracy_paper_compat,
    order_flip_rate,
    run_to_run_alpha,
    transitivity,
)
from adjudge.stats.pairwise import Convention, pairwise_accuracy, pairwise_marks
from adjudge.stats.sources import distance_ends, drawn_counts, percentile_ends, ratio_interval

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: How verdicts are compared with gold, whose ties are left out; see `pairwise_accuracy`.
CONVENTION: Convention = "prometheus"
#: Resamples of sources behind each interval, and the probability between its ends.
N_RESAMPLES = 1000
#: Score differences are rounded to this many decimals before they are compared.
DECIMALS = 9


class ConsistencyItems(NamedTuple):
    """What is judged: responses one by one, and pairs of them.

    Attributes
    ----------
    responses, pairs
        The items.
    places
        Shape (n_pairs, 2): which two of the responses each pair has.
    gold
        Shape (n_pairs,): 1, 0, -1, or NaN = none.
    gold_scores
        Shape (n_responses,): gold scores; NaN = none.
    n_equal
        Pairs left out because both texts are the same: there is nothing to prefer.
    """

    responses: list[Item]
    pairs: list[Item]
    places: IntArray
    gold: FloatArray
    gold_scores: FloatArray
    n_equal: int


class Measure(NamedTuple):
    """One measure of consistency.

    Attributes
    ----------
    name, unit, better
        What is measured, in what, and whether ``higher`` or ``lower`` is better.
    value, low, high
        The value and its 95 % interval; NaN where there is none.
    kept, total
        Responses, pairs or triples that the value rests on, and all of them.
    n_ties, n_unreadable
        Pairs with a tie, and pairs or runs that could not be read; None where it is no matter.
    note, why_not
        What else was counted, and why the data do not allow the measure, if they do not.
    """

    name: str
    unit: str
    better: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    kept: int = 0
    total: int = 0
    n_ties: int | None = None
    n_unreadable: int | None = None
    note: str = ""
    why_not: str = ""


ALPHA = Measure("run-to-run alpha", "alpha", "higher")
FLIPS = Measure("order flips", "share of pairs", "lower")
PAIRWISE = Measure("pairwise accuracy", "share of pairs", "higher")
BY_SCORES = Measure("accuracy by two scores", "share of pairs", "higher")
GAP = Measure("cross-format gap", "difference of shares", "lower")
CYCLES = Measure("cycles", "share of triples", "lower")
PAPER = Measure("gold pairs (paper_compat)", "share of weight", "higher")


class TextStatuses(NamedTuple):
    """How the `n` texts of a judge ended, by status.

    `n_again` more were drawn because one before them could not be read.
    """

    judge: str
    counts: dict[str, int]
    n: int
    n_again: int


# --- what to judge ------------------------------------------------------------------------------


def scored_items(
    rows: Sequence[RatedResponse], criterion: Criterion | None, *, seed: int = 0
) -> ConsistencyItems:
    """Return rated responses, and all pairs of those with one source and criterion.

    Parameters
    ----------
    rows
        A benchmark's responses. A pair has a reference answer if both have the same.
    criterion
        By what to judge rows that have none of their own.
    seed
        Decides which of a pair comes first: files are often sorted by score.
    """
    responses = bench_items(rows, [criterion] if criterion else [])
    scores = np.array(
        [
            row.gold.get(item.criterion.name, math.nan)
            for row, item in zip(rows, responses, strict=True)
        ]
    )
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, item in enumerate(responses):
        groups[item.source.id, item.criterion.hash].append(place)
    pairs, places, n_equal = [], list[tuple[int, int]](), 0
    for one, other in (both for group in groups.values() for both in combinations(group, 2)):
        if responses[one].response == responses[other].response:
            n_equal += 1
            continue
        turned = derived_seed(seed, responses[one].id, responses[other].id) % 2
        first, second = (other, one) if turned else (one, other)
        pairs.append(_paired(responses[first], responses[second]))
        places.append((first, second))
    where = _places(places)
    gold = np.sign(np.round(scores[where[:, 0]] - scores[where[:, 1]], DECIMALS))
    return ConsistencyItems(responses, pairs, where, gold, scores, n_equal)


def preferred_items(rows: Sequence[RatedPair], criterion: Criterion | None) -> ConsistencyItems:
    """Return rated pairs, and the distinct responses in them.

    Parameters
    ----------
    rows
        A benchmark's pairs.
    criterion
        By what to judge rows that have none of their own.

    Raises
    ------
    ConfigError
        If a pair has no criterion and none is given.
    """
    responses: list[Item] = []
    known: dict[tuple[object, ...], int] = {}
    pairs, places, gold = [], list[tuple[int, int]](), []
    for row, item in zip(rows, pair_items(rows, criterion), strict=True):
        if item.pair[0] == item.pair[1]:
            continue
        both = []
        for i, text in enumerate(item.pair):
            key = (item.source.id, item.criterion.hash, item.reference_answers, text)
            if key not in known:
                known[key] = len(responses)
                systems = item.systems[i : i + 1]
                one = replace(item, id=f"{item.id}/{'AB'[i]}", responses=(text,), systems=systems)
                responses.append(one)
            both.append(known[key])
        pairs.append(item)
        places.append((both[0], both[1]))
        gold.append(row.gold)
    none = np.full(len(responses), math.nan)
    n_equal = len(rows) - len(pairs)
    return ConsistencyItems(responses, pairs, _places(places), np.array(gold), none, n_equal)


def _paired(first: Item, second: Item) -> Item:
    common = first.reference_answers == second.reference_answers
    return replace(
        first,
        id=f"{first.id} - {second.id}",
        responses=(first.response, second.response),
        systems=(*first.systems, *second.systems),
        reference_answers=first.reference_answers if common else (),
    )


def _places(pairs: Sequence[tuple[int, int]]) -> IntArray:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


# --- what was said ------------------------------------------------------------------------------


def written_scores(judgments: Sequence[Judgment], runs: int) -> FloatArray:
    """Return the score that was written in each run: (runs, n_responses); NaN = none."""
    scores = np.full((runs, len(judgments)), math.nan)
    for place, each in enumerate(judgments):
        said = (each.evidence.get(name, ()) for name in ("written", "statuses"))
        for run, (value, status) in enumerate(zip(*said, strict=True)):
            if status == Status.OK.value:
                scores[run, place] = value
    return scores


def verdicts_by_scores(
    scores: FloatArray, judgments: Sequence[Judgment], places: IntArray
) -> FloatArray:
    """Return the verdicts on pairs that two scores decide, as the judge ``by_scores`` has them.

    Equal scores are a tie; an empty response, which has no score, loses to one with a score.

    Parameters
    ----------
    scores
        Shape (n_responses,): of one run; NaN = none, which makes the verdict NaN: unreadable.
    judgments
        Where they come from; they say which responses are empty.
    places
        See `ConsistencyItems`.
    """
    empty = [each.status is Status.EMPTY_RESPONSE for each in judgments]
    known = np.where(np.array(empty, dtype=bool), -math.inf, scores)[places]
    with np.errstate(invalid="ignore"):  # of two empty ones: NaN
        lead: FloatArray = known[:, 0] - known[:, 1]
    return np.sign(np.round(lead, DECIMALS))


def text_statuses(judge: str, judgments: Sequence[Judgment], texts: int) -> TextStatuses:
    """Return how the texts of a judge ended: `texts` for each item, also if none was written."""
    counts: Counter[str] = Counter()
    for each in judgments:
        counts.update(each.evidence.get("statuses", [each.status.value] * texts))
    n_again = sum(each.evidence.get("resampled", 0) for each in judgments)
    return TextStatuses(judge, dict(counts), counts.total(), n_again)


# --- how consistent -----------------------------------------------------------------------------


def consistency_measures(
    items: ConsistencyItems,
    graded: Sequence[Judgment],
    compared: Sequence[Judgment],
    *,
    runs: int,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> list[Measure]:
    """Return every measure of consistency, with the reason where the data do not allow it.

    They are run-to-run alpha (Krippendorff, ordinal); order flips; accuracy of the first order
    and of two scores of the first run; the distance of these, the cross-format gap; cycles among
    triples in the first order; and what the paper calls transitivity (``paper_compat``).

    Parameters
    ----------
    items
        What was judged.
    graded
        By ``prometheus-absolute`` with ``score_mode=text``: one judgment per response.
    compared
        By ``prometheus-relative`` with ``orders=both``: one judgment per pair.
    runs
        How many scores were asked for of each response.
    rng, n_resamples
        For the intervals, over sources; there is none where only one source counts.
    """
    scores = written_scores(graded, runs)
    names = {item.source.id: i for i, item in enumerate(items.responses)}
    sources = np.array([names[item.source.id] for item in items.responses])
    alpha = _alpha(scores, sources, rng, n_resamples)
    verdicts = judged_verdicts(compared)
    swapped = [math.nan if row.swapped is None else row.swapped for row in verdicts]
    pairs = _Pairs(
        items,
        np.array([row.verdict for row in verdicts], dtype=float),
        np.array(swapped, dtype=float),
        verdicts_by_scores(scores[0], graded, items.places),
        _groups(sources[items.places[:, 0]]),
        rng,
        n_resamples,
    )
    found = [alpha, _flips(pairs), *_formats(pairs), _cycles(pairs), _paper(pairs)]
    if pairs.sources:
        return found
    why = "no source has two different responses"
    return [alpha, *(each._replace(why_not=why) for each in found[1:])]


def _groups(numbers: IntArray) -> list[IntArray]:
    """Return the places of each number."""
    order = np.argsort(numbers, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
    return [each for each in parts if each.size]


def _alpha(
    scores: FloatArray, sources: IntArray, rng: np.random.Generator, n_resamples: int
) -> Measure:
    bare = ALPHA._replace(total=scores.shape[1])
    if len(scores) < 2:
        return bare._replace(why_not="one run of each response; it takes two or more")
    found = run_to_run_alpha(scores)
    n_failed = int(np.isnan(scores).sum())
    note = f"{n_failed} of {scores.size} runs without a score"
    bare = bare._replace(kept=found.kept, n_unreadable=n_failed, note=note)
    if not found.kept:
        return bare._replace(why_not="no response has a score in two runs")
    if math.isnan(found.value):
        return bare._replace(why_not="all scores are equal, which leaves nothing to agree on")
    kept = (~np.isnan(scores)).sum(axis=0) >= 2
    scores, place = scores[:, kept], np.unique(sources[kept], return_inverse=True)[1]
    low = high = math.nan
    if n := int(place.max()):
        columns = np.arange(place.size)
        counts = drawn_counts(n + 1, rng=rng, n_resamples=n_resamples)
        drawn = (np.repeat(columns, each[place]) for each in counts)
        values = np.array([run_to_run_alpha(scores[:, each]).value for each in drawn])
        low, high = percentile_ends(values)
    return bare._replace(value=found.value, low=low, high=high)


class _Pairs(NamedTuple):
    """Verdicts on the pairs, (n_pairs,) each; the pairs of each source; and what draws sources."""

    items: ConsistencyItems
    first: FloatArray
    swapped: FloatArray
    by_scores: FloatArray
    sources: list[IntArray]
    rng: np.random.Generator
    n_resamples: int

    def measured(self, bare: Measure, value: float, sums: Iterable[tuple[float, float]]) -> Measure:
        """Return a measure with its value, the interval from what each source adds to two sums."""
        tops, bottoms = np.array(list(sums), dtype=float).reshape(-1, 2).T
        low, high = ratio_interval(tops, bottoms, rng=self.rng, n_resamples=self.n_resamples)
        return bare._replace(value=value, low=low, high=high)


def _flips(pairs: _Pairs) -> Measure:
    whole = order_flip_rate(pairs.first, pairs.swapped)
    n_ties = whole.n_ties + whole.n_tie_changes
    note = f"{whole.n_first_position} of {whole.n_flips} flips to the response shown first"
    bare = FLIPS._replace(
        kept=whole.kept, total=whole.total, n_ties=n_ties, n_unreadable=whole.n_unreadable
    )
    if not whole.kept:
        return bare._replace(why_not="no pair has a winner in both orders")
    single = [order_flip_rate(pairs.first[at], pairs.swapped[at]) for at in pairs.sources]
    sums = ((each.n_flips, each.kept) for each in single)
    return pairs.measured(bare._replace(note=note), whole.value, sums)


def _formats(pairs: _Pairs) -> list[Measure]:
    """Return the accuracies in both formats, and their distance."""
    gold, both = pairs.items.gold, (pairs.first, pairs.by_scores)
    found, sums = [], []
    for name, verdicts in zip((PAIRWISE, BY_SCORES), both, strict=True):
        rate = pairwise_accuracy(verdicts, gold, convention=CONVENTION, ties=False)
        marks = pairwise_marks(verdicts, gold, convention=CONVENTION, ties=False)
        note = f"left out: {rate.n_gold_ties} gold ties, {np.isnan(gold).sum()} without gold"
        bare = name._replace(kept=rate.kept, total=rate.total, note=note)
        bare = bare._replace(n_ties=rate.n_verdict_ties, n_unreadable=rate.n_unreadable)
        known = [marks[at][~np.isnan(marks[at])] for at in pairs.sources]
        sums.append([(float(each.sum()), each.size) for each in known])
        found.append(pairs.measured(bare, rate.value, sums[-1]))
    n_ties = int(((both[0] == 0) | (both[1] == 0)).sum())
    n_unreadable = int(np.isnan(both[0] + both[1]).sum())
    gap = GAP._replace(
        kept=found[0].kept, total=gold.size, n_ties=n_ties, n_unreadable=n_unreadable
    )
    if not gap.kept:
        why = "no pair has a gold preference for one of its responses"
        return [each._replace(why_not=why) for each in (*found, gap)]
    there = np.isin(gold, (-1, 1))
    if any(np.isnan(each[there]).all() for each in both):
        return [*found, gap._replace(why_not="no verdict of one of the formats can be read")]
    lead = found[1].value - found[0].value
    change = [(two - one, n) for (one, n), (two, _) in zip(*sums, strict=True)]
    signed = pairs.measured(gap, lead, change)
    ends = "" if math.isnan(signed.low) else f" [{signed.low:+.3f}, {signed.high:+.3f}]"
    low, high = distance_ends(signed.low, signed.high)
    value = cross_format_gap(found[1].value, found[0].value)
    note = f"by scores less pairwise: {lead:+.3f}{ends}"
    return [*found, gap._replace(value=value, low=low, high=high, note=note)]


def _cycles(pairs: _Pairs) -> Measure:
    """Return the share of cycles among the triples whose three pairs were all compared."""
    items, names = pairs.items, dict[str, int]()
    criteria = np.array(
        [names.setdefault(item.criterion.hash, len(names)) for item in items.pairs], dtype=int
    )
    sums, n_compared = [], 0
    for at in pairs.sources:
        n_cycles = kept = 0
        for group in _groups(criteria[at]):
            places, verdicts = items.places[at[group]], pairs.first[at[group]]
            found = transitivity(_preferences(places, verdicts))
            n_cycles, kept = n_cycles + found.n_cycles, kept + found.kept
            n_compared += transitivity(_preferences(places, np.ones(group.size))).kept
        sums.append((n_cycles, kept))
    n_cycles, kept = sum(each for each, _ in sums), sum(each for _, each in sums)
    note = f"chance {INTRANSITIVE_CHANCE}; left out: {n_compared - kept} without three winners"
    bare = CYCLES._replace(kept=kept, total=n_compared, note=note)
    if not n_compared:
        return bare._replace(why_not="no three responses of a source were all compared")
    if not kept:
        return bare._replace(why_not="each triple has a tie or an unreadable verdict")
    return pairs.measured(bare, n_cycles / kept, sums)


def _preferences(places: IntArray, verdicts: FloatArray) -> FloatArray:
    """Return (n, n) preferences among the responses of some pairs, NaN where not compared.

    Of two that were compared more than once, the first verdict counts.
    """
    nodes, at = np.unique(places, return_inverse=True)
    one, other = at.reshape(-1, 2)[::-1].T
    low, high = np.minimum(one, other), np.maximum(one, other)
    matrix = np.full((nodes.size, nodes.size), math.nan)
    matrix[low, high] = np.where(one < other, verdicts[::-1], -verdicts[::-1])
    matrix[high, low] = -matrix[low, high]
    return matrix


def _paper(pairs: _Pairs) -> Measure:
    said = pairs.first
    n_unreadable = int(np.isnan(said).sum())
    bare = PAPER._replace(total=said.size, n_ties=int((said == 0).sum()), n_unreadable=n_unreadable)
    known = pairs.items.gold_scores[~np.isnan(pairs.items.gold_scores)]
    if not known.size:
        return bare._replace(why_not="there are no gold scores")
    if (known != np.floor(known)).any():
        return bare._replace(why_not="gold scores are not whole, as means of raters are not")
    scores = pairs.items.gold_scores[pairs.items.places]

    def rate(at: IntArray) -> WeightedAccuracy:
        return gold_pair_accuracy_paper_compat(said[at], scores[at, 0], scores[at, 1])

    whole = rate(np.arange(said.size))
    bare = bare._replace(kept=whole.kept, note=f"weight {whole.weight:g}")
    if not whole.kept:
        return bare._replace(why_not="no two gold scores of a source differ by 2 or more")
    single = [each for each in map(rate, pairs.sources) if each.kept]
    sums = ((each.value * each.weight, each.weight) for each in single)
    return pairs.measured(bare, whole.value, sums)
