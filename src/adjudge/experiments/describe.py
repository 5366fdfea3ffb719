"""What the records of a benchmark hold: counts, means, and how far the raters agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from adjudge.benchmarks.base import Benchmark, RatedPair, RatedResponse
from adjudge.errors import DataError
from adjudge.stats.agreement import HumanCeiling, human_ceiling

#: Gold numbers of a source that differ by less are equal: means carry floating-point noise.
TOLERANCE = 1e-9

#: Stands for all groups together, where there are several.
ALL = "(all)"


class GoldFacts(NamedTuple):
    """What is gold of one criterion, in one group of items.

    Attributes
    ----------
    group, criterion
        Their names; `criterion` is empty where every item has its own.
    n, n_without_gold
        Responses with a gold number, and without.
    mean
        Of the gold numbers; NaN without any.
    n_sources, n_constant
        Sources with two gold numbers or more, and those of them whose gold is all equal: no
        judge can be correlated with that.
    raters
        How far the raters agree, by Spearman correlation over all responses; None where the
        ratings of two raters or more are not published.
    """

    group: str
    criterion: str
    n: int
    n_without_gold: int
    mean: float
    n_sources: int
    n_constant: int
    raters: HumanCeiling | None


class PreferenceFacts(NamedTuple):
    """What is gold of one group of pairs: how many are there, and how many of each preference."""

    group: str
    n: int
    n_first: int
    n_second: int
    n_ties: int
    n_without_gold: int


class BenchmarkFacts(NamedTuple):
    """How much a benchmark holds; `gold` is of rated responses, `preferences` of pairs.

    Where there are several groups, facts of all of them together (`ALL`) come last.
    """

    n_items: int
    n_sources: int
    n_systems: int
    gold: tuple[GoldFacts, ...]
    preferences: tuple[PreferenceFacts, ...]


def describe(
    benchmark: Benchmark, rows: Sequence[RatedResponse] | Sequence[RatedPair]
) -> BenchmarkFacts:
    """Return how many items, sources and systems a benchmark has, and what its gold is like.

    Parameters
    ----------
    rows
        Its records, as its loader gives them.

    Raises
    ------
    DataError
        If there are none.
    """
    if not rows:
        raise DataError(f"the files of the benchmark {benchmark.name!r} hold no item")
    responses = [row for row in rows if isinstance(row, RatedResponse)]
    pairs = [row for row in rows if isinstance(row, RatedPair)]
    systems = {row.system for row in responses} | {name for row in pairs for name in row.systems}
    groups = list(dict.fromkeys(row.group for row in rows))
    if len(groups) > 1:
        groups.append(ALL)
    return BenchmarkFacts(
        n_items=len(rows),
        n_sources=len({(row.group, row.source.id) for row in rows}),
        n_systems=len(systems - {""}),
        gold=tuple(
            _gold_facts(group, criterion, [row for row in responses if group in (row.group, ALL)])
            for group in groups
            for criterion in _criteria(benchmark, responses)
            if responses
        ),
        preferences=tuple(
            _preference_facts(group, [pair for pair in pairs if group in (pair.group, ALL)])
            for group in groups
            if pairs
        ),
    )


def item_rows(rows: Iterable[RatedResponse | RatedPair], *, gold: bool) -> Iterator[dict[str, Any]]:
    """Yield the items of a benchmark as rows of a file; with `gold`, what people said of them.

    Responses have ``response`` and a column ``gold_CRITERION`` each, pairs ``response_a`` and
    ``response_b`` and ``gold``: A, B, tie or null.
    """
    letters = {1.0: "A", -1.0: "B", 0.0: "tie"}
    for row in rows:
        made: dict[str, Any] = {
            "id": row.id,
            "source_id": row.source.id,
            "group": row.group,
            "source": row.source.text,
        }
        if isinstance(row, RatedResponse):
            made |= {"system": row.system, "response": row.response}
            if gold:
                made |= {f"gold_{name}": value for name, value in row.gold.items()}
        else:
            made |= {"response_a": row.responses[0], "response_b": row.responses[1]}
            if gold:
                made["gold"] = letters.get(row.gold)
        if row.criterion:
            made |= {"criterion": row.criterion.description, "rubric": list(row.criterion.rubric)}
        yield made


def _criteria(benchmark: Benchmark, rows: Sequence[RatedResponse]) -> list[str]:
    """Return the criteria to tell apart: one without a name where each item has its own."""
    if not benchmark.criteria:
        return [""]
    found = dict.fromkeys(name for row in rows for name in row.gold)
    return list(dict.fromkeys(benchmark.criteria) | found)


def _gold_facts(group: str, criterion: str, rows: Sequence[RatedResponse]) -> GoldFacts:
    gold, ratings = [], []
    for row in rows:
        name = criterion or (row.criterion.name if row.criterion else next(iter(row.gold), ""))
        gold.append(row.gold.get(name, np.nan))
        ratings.append(row.ratings.get(name, ()))
    values = np.asarray(gold, dtype=np.float64)
    there = np.isfinite(values)
    by_source: dict[tuple[str, str], list[float]] = {}
    for row, value in zip(rows, values, strict=True):
        if np.isfinite(value):
            by_source.setdefault((row.group, row.source.id), []).append(float(value))
    several = [each for each in by_source.values() if len(each) > 1]
    matrix = _rating_matrix(ratings)
    return GoldFacts(
        group=group,
        criterion=criterion,
        n=int(there.sum()),
        n_without_gold=int((~there).sum()),
        mean=float(values[there].mean()) if there.any() else float("nan"),
        n_sources=len(several),
        n_constant=sum(max(each) - min(each) <= TOLERANCE for each in several),
        raters=human_ceiling(matrix) if len(matrix) > 1 else None,
    )


def _rating_matrix(ratings: Sequence[tuple[float, ...]]) -> npt.NDArray[np.float64]:
    """Return ratings as (n_raters, n_responses), NaN where there is none."""
    matrix = np.full((max(map(len, ratings)), len(ratings)), np.nan)
    for i, each in enumerate(ratings):
        matrix[: len(each), i] = each
    return matrix


def _preference_facts(group: str, pairs: Sequence[RatedPair]) -> PreferenceFacts:
    gold = np.asarray([pair.gold for pair in pairs], dtype=np.float64)
    return PreferenceFacts(
        group=group,
        n=len(pairs),
        n_first=int((gold > 0).sum()),
        n_second=int((gold < 0).sum()),
        n_ties=int((gold == 0).sum()),
        n_without_gold=int(np.isnan(gold).sum()),
    )
