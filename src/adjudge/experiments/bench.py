"""A judge measured against a benchmark's gold: what to judge, and how well it was judged."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple, TypeVar

import numpy as np

from adjudge.benchmarks.base import RatedPair, RatedResponse
from adjudge.errors import ConfigError, DataError
from adjudge.experiments.correlate import COEFFICIENTS, CriterionCorrelation, correlate
from adjudge.formats.scores import ScoreRow
from adjudge.formats.verdicts import VerdictRow
from adjudge.registry import unknown_name
from adjudge.schema import Criterion, Item, Judgment, Status, content_hash
from adjudge.stats.correlation import Constant, Correlation, Level, correlation
from adjudge.stats.inference import Interval, mean_interval
from adjudge.stats.pairwise import (
    BOTH_ORDERS,
    CONVENTIONS,
    Accuracy,
    Convention,
    pairwise_accuracy,
    pairwise_marks,
)

Row = TypeVar("Row", RatedResponse, RatedPair)


class BenchRow(NamedTuple):
    """How well a judge did by one criterion.

    Attributes
    ----------
    found
        Correlations with gold, their intervals and the counts.
    coverage
        Mean coverage of the judgments, in [0, 1]; None where none is known.
    failures
        Judgments without a score, by status; of a file, ``no_score``: null there or not in it.
    """

    found: CriterionCorrelation
    coverage: float | None
    failures: Mapping[str, int]


class AccuracyRow(NamedTuple):
    """How often a judge of pairs agreed with gold in a group, under one convention.

    `group` is empty for all pairs; `ties` says whether ties were counted; `n_missing` pairs have
    no verdict, and count as unreadable ones do.
    """

    group: str
    convention: Convention
    ties: bool
    accuracy: Accuracy
    interval: Interval
    n_missing: int = 0


class AxisPair(NamedTuple):
    """How two criteria of the same ratings go together, in both readings."""

    first: str
    second: str
    by_source: Correlation
    sample: Correlation


# --- what to judge ------------------------------------------------------------------------------


def select(
    rows: Sequence[Row], *, limit_sources: int = 0, groups: Sequence[str] = (), seed: int = 0
) -> list[Row]:
    """Return the rows of some sources and groups, in their order.

    Parameters
    ----------
    rows
        All rows of a benchmark.
    limit_sources
        How many sources to take, whole; 0: all. More sources contain those of fewer.
    groups
        Only rows of these groups; empty: of all.
    seed
        Decides which sources.

    Raises
    ------
    ConfigError
        If there is no such group, or the limit is negative.
    """
    known = dict.fromkeys(row.group for row in rows)
    for group in groups:
        if group not in known:
            raise unknown_name("group", group, filter(None, known))
    wanted = [row for row in rows if not groups or row.group in groups]
    taken = drawn_sources([row.source.id for row in wanted], limit_sources, seed)
    return [row for row in wanted if row.source.id in taken]


def rows_hash(rows: Iterable[RatedResponse | RatedPair]) -> str:
    """Return the beginning of a hash of a benchmark's texts and gold, for signatures."""
    whole = hashlib.sha256()
    for row in rows:
        content = (
            [row.system, row.response, dict(row.gold)]
            if isinstance(row, RatedResponse)
            else [list(row.systems), list(row.responses), str(row.gold)]
        )
        whole.update(content_hash([row.id, row.source.hash, *content]).encode())
    return whole.hexdigest()[:8]


def drawn_sources(ids: Iterable[str], n: int, seed: int) -> set[str]:
    """Return n of the ids, or all where n is 0; more contain those of fewer.

    Raises
    ------
    ConfigError
        If n or the seed is negative.
    """
    if n < 0:
        raise ConfigError(f"limit_sources must be 0 (all) or more, not {n}")
    if seed < 0:
        raise ConfigError(f"the seed must be 0 or more, not {seed}")
    known = list(dict.fromkeys(ids))
    order = np.random.default_rng(seed).permutation(len(known))
    return {known[i] for i in order[: n or len(known)]}


def bench_items(rows: Iterable[RatedResponse], criteria: Sequence[Criterion]) -> list[Item]:
    """Return the items to judge: every row by its own criterion, or by all that are given."""
    return [
        Item(
            id=row.id,
            source=row.source,
            systems=(row.system,),
            responses=(row.response,),
            criterion=criterion,
            reference_answers=row.reference_answers,
        )
        for row in rows
        for criterion in ([row.criterion] if row.criterion else criteria)
    ]


def pair_items(rows: Iterable[RatedPair], criterion: Criterion | None) -> list[Item]:
    """Return the items to judge: every pair by its own criterion, or by the one that is given.

    Raises
    ------
    ConfigError
        If a pair has none and none is given.
    """
    items = []
    for row in rows:
        by = row.criterion or criterion
        if by is None:
            raise ConfigError(f"the pair {row.id!r} has no criterion of its own: name one")
        items.append(
            Item(
                id=row.id,
                source=row.source,
                systems=row.systems,
                responses=row.responses,
                criterion=by,
                reference_answers=row.reference_answers,
            )
        )
    return items


def bench_gold(rows: Iterable[RatedResponse], criteria: Sequence[str]) -> list[ScoreRow]:
    """Return gold by the named criteria; responses of no system count by place in their source."""
    gold = []
    places: Counter[str] = Counter()
    for row in rows:
        places[row.source.id] += 1
        system = row.system or f"response {places[row.source.id]}"
        gold += [
            ScoreRow(row.id, name, row.source.id, system, row.gold[name])
            for name in criteria
            if name in row.gold
        ]
    return gold


def gold_names(rows: Iterable[RatedResponse]) -> list[str]:
    """Return the names of all gold numbers, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row.gold))


def judged_scores(judgments: Iterable[Judgment]) -> list[ScoreRow]:
    """Return judgments as rows of scores; one without a value is NaN."""
    return [
        ScoreRow(
            each.item_id,
            each.criterion,
            each.source_id,
            each.system,
            np.nan if each.value is None else each.value,
        )
        for each in judgments
    ]


def judged_verdicts(judgments: Iterable[Judgment]) -> list[VerdictRow]:
    """Return judgments of pairs as verdicts, in each order that was asked; NaN: there is none."""
    rows = []
    for each in judgments:
        orders = each.evidence.get("orders", [each.value])
        signs = [np.nan if value is None else float(np.sign(value)) for value in orders]
        rows.append(VerdictRow(each.item_id, signs[0], signs[1] if len(signs) > 1 else None))
    if any(row.swapped is not None for row in rows):  # what failed before it was asked
        rows = [row._replace(swapped=np.nan) if row.swapped is None else row for row in rows]
    return rows


# --- how well -----------------------------------------------------------------------------------


def rate_scores(
    scores: Sequence[ScoreRow],
    gold: Sequence[ScoreRow],
    *,
    rng: np.random.Generator,
    level: Level,
    constant: Constant = "skip",
    n_resamples: int = 1000,
    judgments: Sequence[Judgment] = (),
) -> list[BenchRow]:
    """Return how scores agree with a benchmark's gold, by criterion.

    Parameters
    ----------
    scores, gold
        See `judged_scores` and `bench_gold`; source and system are those of gold.
    rng, level, constant, n_resamples
        See `adjudge.experiments.correlate.correlate`.
    judgments
        Where the scores come from, for coverage and failures.

    Raises
    ------
    DataError
        If no score joins gold.
    """
    if not gold:
        said = ", ".join(sorted({row.criterion for row in scores})) or "no criterion"
        raise DataError(f"the scores are by {said}, which the benchmark was not rated by")
    places = {(row.id, row.criterion): row for row in gold}
    bare = {row.id: row for row in gold}
    placed = []
    for row in scores:
        at = places.get((row.id, row.criterion)) or (None if row.criterion else bare.get(row.id))
        placed.append(row._replace(source_id=at.source_id, system=at.system) if at else row)
    found = correlate(
        placed, gold, rng=rng, level=level, constant=constant, n_resamples=n_resamples
    )
    rows = []
    for each in found:
        ours = [judgment for judgment in judgments if judgment.criterion == each.criterion]
        coverages = [judgment.coverage for judgment in ours if judgment.coverage is not None]
        failures = Counter(
            judgment.status.value for judgment in ours if judgment.status is not Status.OK
        )
        if not judgments and (lacking := each.n_without_score + each.n_only_gold):
            failures["no_score"] = lacking
        rows.append(BenchRow(each, fmean(coverages) if coverages else None, failures))
    return rows


def averages(rows: Sequence[BenchRow]) -> list[float]:
    """Return the mean over the criteria of each coefficient, as papers give it.

    NaN where a criterion has no correlation: a mean over fewer would be another number.
    """
    return [
        float(np.mean([row.found.correlations[i].value for row in rows]))
        for i in range(len(COEFFICIENTS))
    ]


def rate_verdicts(
    verdicts: Sequence[VerdictRow],
    rows: Sequence[RatedPair],
    *,
    rng: np.random.Generator,
    by_group: bool = False,
    n_resamples: int = 1000,
) -> list[AccuracyRow]:
    """Return a judge's accuracy on pairs under every convention that its verdicts allow.

    Verdicts are joined on id; a pair without one counts as unreadable.

    Parameters
    ----------
    verdicts, rows
        What the judge said, and the pairs with gold.
    rng, n_resamples
        For the intervals, over pairs.
    by_group
        Whether every group gets rows of its own, after those of all.

    Raises
    ------
    DataError
        If no verdict joins a pair.
    """
    said, gold = aligned_verdicts(verdicts, rows), np.array([row.gold for row in rows])
    given = {row.id for row in verdicts}
    missing = np.array([row.id not in given for row in rows])
    names = np.array([row.group for row in rows])
    groups = ["", *(dict.fromkeys(names) if by_group else ())]
    found = []
    for group in groups:
        taken = (names == group) | (group == "")
        for convention in conventions(said):
            for ties in (True, False):
                first, swapped = (None if each is None else each[taken] for each in said)
                options = {"convention": convention, "swapped": swapped, "ties": ties}
                accuracy = pairwise_accuracy(first, gold[taken], **options)  # type: ignore[arg-type]
                marks = pairwise_marks(first, gold[taken], **options)  # type: ignore[arg-type]
                interval = mean_interval(marks, rng=rng, n_resamples=n_resamples)
                n_missing = int(missing[taken].sum())
                found.append(
                    AccuracyRow(str(group), convention, ties, accuracy, interval, n_missing)
                )
    return found


def aligned_verdicts(
    verdicts: Sequence[VerdictRow], rows: Sequence[RatedPair]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the verdicts on the pairs in their order, and on the swapped pairs if there.

    Raises
    ------
    DataError
        If no verdict joins a pair.
    """
    known = {row.id: row for row in verdicts}
    joined = [known.get(row.id) for row in rows]
    if not any(joined):
        raise DataError(
            f"no verdict joins: {len(verdicts)} verdicts, such as on {verdicts[0].id!r}, and "
            f"{len(rows)} pairs, such as {rows[0].id!r}; ids must be those of the benchmark"
        )
    first = np.array([each.verdict if each else np.nan for each in joined])
    if verdicts[0].swapped is None:
        return first, None
    second = [each.swapped if each and each.swapped is not None else np.nan for each in joined]
    return first, np.array(second)


def conventions(said: tuple[np.ndarray, np.ndarray | None]) -> list[Convention]:
    """Return the conventions that can be computed from verdicts in one order or both."""
    return [each for each in CONVENTIONS if said[1] is not None or each not in BOTH_ORDERS]


def criterion_correlations(
    rows: Iterable[RatedResponse], criteria: Sequence[str]
) -> list[AxisPair]:
    """Return the Spearman correlations among a benchmark's criteria, in two readings.

    ``by_source``: ratings are averaged over the systems of each source, then correlated over
    the sources; ``sample``: correlated over the systems of each source, then averaged. Tables 5
    and 6 of Lawrence, Williamson and Shelton (2025) are the first and are called the second.

    Parameters
    ----------
    rows
        A benchmark's responses.
    criteria
        Names of what was rated.

    Raises
    ------
    ConfigError
        If there are fewer than two criteria.
    """
    if len(criteria) < 2:
        raise ConfigError("correlations among criteria take two criteria or more")
    gold = bench_gold(rows, criteria)
    matrices = dict(zip(criteria, layout(gold, criteria), strict=True))
    return [
        AxisPair(
            one,
            other,
            correlation(matrices[one], matrices[other], level="by_source"),
            correlation(matrices[one], matrices[other], level="sample"),
        )
        for place, one in enumerate(criteria)
        for other in criteria[place + 1 :]
    ]


def layout(rows: Sequence[ScoreRow], criteria: Sequence[str]) -> list[np.ndarray]:
    """Return one matrix (systems x sources) per criterion of rows, all laid out alike.

    Raises
    ------
    DataError
        If a system has two responses to a source.
    """
    sources = {name: i for i, name in enumerate(dict.fromkeys(row.source_id for row in rows))}
    systems = {name: i for i, name in enumerate(dict.fromkeys(row.system for row in rows))}
    matrices = {name: np.full((len(systems), len(sources)), np.nan) for name in criteria}
    seen: set[tuple[str, str, str]] = set()
    for row in rows:
        if (row.criterion, row.system, row.source_id) in seen:
            raise DataError(
                f"the system {row.system!r} has two responses to the source {row.source_id!r}"
            )
        seen.add((row.criterion, row.system, row.source_id))
        matrices[row.criterion][systems[row.system], sources[row.source_id]] = row.value
    return list(matrices.values())
