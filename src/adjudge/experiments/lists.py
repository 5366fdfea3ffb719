"""Benchmarks for judges of lists: all responses of a source are one item, ranks become scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from adjudge.benchmarks.base import RatedResponse
from adjudge.errors import ConfigError
from adjudge.experiments.bench import bench_items
from adjudge.judges.base import Judge
from adjudge.schema import Criterion, Item, Judgment, Status


def items_for(
    judge: Judge, rows: Sequence[RatedResponse], criteria: Sequence[Criterion]
) -> list[Item]:
    """Return what a judge judges of a benchmark: single responses, or lists of them."""
    return list_items(rows, criteria) if judge.takes == "list" else bench_items(rows, criteria)


def list_items(rows: Sequence[RatedResponse], criteria: Sequence[Criterion]) -> list[Item]:
    """Return one item for each source and criterion, with all responses to that source.

    Raises
    ------
    ConfigError
        If rows have criteria of their own, so that none holds for a whole list.
    """
    if any(row.criterion for row in rows):
        raise ConfigError(
            "this benchmark has a criterion for each response, so that its responses cannot be "
            "ranked against each other: take a judge of single responses"
        )
    return [
        Item(
            id=source_id,
            source=of_source[0].source,
            systems=tuple(row.system for row in of_source),
            responses=tuple(row.response for row in of_source),
            criterion=criterion,
            reference_answers=of_source[0].reference_answers,
        )
        for source_id, of_source in _by_source(rows).items()
        for criterion in criteria
    ]


def by_response(
    judge: Judge, judgments: Iterable[Judgment], rows: Sequence[RatedResponse]
) -> list[Judgment]:
    """Return one judgment for each response of a benchmark, out of those of a judge's items.

    Of a judge of lists a response's value is the share of the others that it is ranked above,
    ties half, in [0, 1]; 0.5 where there are no others. Raw is its rank. An empty response,
    which is ranked last, has no value, as of other judges.
    """
    if judge.takes != "list":
        return list(judgments)
    sources = _by_source(rows)
    found = []
    for made in judgments:
        for place, row in enumerate(of_source := sources[made.item_id]):
            empty = not row.response.strip()
            rank = made.ranks[place] if made.ranks and not empty else None
            others = len(of_source) - 1
            value = None if rank is None else 1 - (rank - 1) / others if others else 0.5
            found.append(
                replace(
                    made,
                    item_id=row.id,
                    system=row.system,
                    status=Status.EMPTY_RESPONSE if empty else made.status,
                    value=value,
                    raw=rank,
                    ranks=(),
                    distribution=(),
                    evidence={"list": made.item_id},
                )
            )
    return found


def _by_source(rows: Sequence[RatedResponse]) -> dict[str, list[RatedResponse]]:
    sources: dict[str, list[RatedResponse]] = {}
    for row in rows:
        sources.setdefault(row.source.id, []).append(row)
    return sources
