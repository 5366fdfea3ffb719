"""What a table prints under a run: means and counts, failures among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

from adjudge.schema import Judgment, Status


class SystemMean(NamedTuple):
    """Mean value of a system by one criterion, over its judgments with a value."""

    system: str
    criterion: str
    mean: float | None
    n_scored: int
    n: int


class Summary(NamedTuple):
    """Counts and means over the judgments of a run."""

    systems: tuple[SystemMean, ...]
    statuses: dict[str, int]
    mean_coverage: float | None


def summarize(judgments: Iterable[Judgment]) -> Summary:
    """Return means per system and criterion in order of appearance, and counts per status."""
    values: dict[tuple[str, str], list[float]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    statuses: Counter[str] = Counter()
    coverages: list[float] = []
    for judgment in judgments:
        key = (judgment.system, judgment.criterion)
        scored = values.setdefault(key, [])
        counts[key] += 1
        statuses[judgment.status.value] += 1
        if judgment.status is Status.OK and judgment.value is not None:
            scored.append(judgment.value)
        if judgment.coverage is not None:
            coverages.append(judgment.coverage)
    systems = tuple(
        SystemMean(*key, fmean(scored) if scored else None, len(scored), counts[key])
        for key, scored in values.items()
    )
    return Summary(systems, dict(statuses), fmean(coverages) if coverages else None)
