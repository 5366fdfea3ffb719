"""How consistent a judge is, as a grid, rows and lines. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjudge.experiments.consistency import ConsistencyItems, Measure, TextStatuses
from adjudge.reports.grid import Cell, Estimate, render_grid
from adjudge.reports.tables import count

HEADER = ("measure", "value", "of", "better", "kept/total", "ties", "unreadable", "note")


def consistency_report(measures: Sequence[Measure], style: str) -> str:
    """Return one row per measure; one that the data do not allow says why."""
    rows: list[tuple[Cell, ...]] = [
        (
            each.name,
            Estimate(each.value, each.low, each.high),
            each.unit,
            each.better,
            f"{each.kept}/{each.total}",
            "-" if each.n_ties is None else each.n_ties,
            "-" if each.n_unreadable is None else each.n_unreadable,
            _note(each),
        )
        for each in measures
    ]
    return render_grid(HEADER, rows, style)


def measure_rows(measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """Return one row per measure for a file; what there is none of is null."""
    return [
        {
            "measure": each.name,
            "value": _known(each.value),
            "low": _known(each.low),
            "high": _known(each.high),
            "of": each.unit,
            "better": each.better,
            "kept": each.kept,
            "total": each.total,
            "ties": each.n_ties,
            "unreadable": each.n_unreadable,
            "note": _note(each),
        }
        for each in measures
    ]


def status_lines(statuses: TextStatuses) -> list[str]:
    """Return how the texts of a judge ended, in counts and per cent."""
    if not statuses.n:
        return []
    shares = ", ".join(
        f"{name} {count(n)} ({n / statuses.n:.1%})" for name, n in sorted(statuses.counts.items())
    )
    again = f"{count(statuses.n_again)} texts drawn again"
    return [f"{statuses.judge}: of {count(statuses.n)} verdicts: {shares}; {again}"]


def equal_lines(items: ConsistencyItems) -> list[str]:
    """Return what to say of pairs of equal texts."""
    n = items.n_equal
    return (
        [f"{count(n)} pairs of equal texts are left out: there is nothing to prefer"] if n else []
    )


def _note(each: Measure) -> str:
    """Return what goes with a measure."""
    if each.why_not:
        return f"not measured: {each.why_not}"
    one = math.isnan(each.low)
    return "; ".join(filter(None, [each.note, "no interval: one source" if one else ""]))


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
