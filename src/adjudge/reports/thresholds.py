"""Precision and recall over thresholds. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence

from adjudge.experiments.thresholds import CriterionThreshold
from adjudge.reports.grid import Cell, Estimate, Number, render_grid
from adjudge.stats.threshold import ThresholdResult

#: Points of a curve that are printed.
MOST_POINTS = 11
HEADER = ("criterion", "score from", "kept", "dropped", "good", "precision", "recall")


def threshold_report(found: Sequence[CriterionThreshold]) -> str:
    """Return the threshold's row of each criterion, and points along its curve."""
    rows = []
    for each in found:
        rows.append(_row(f"{each.criterion}: chosen", each.at))
        step = max(1, -(-len(each.curve) // MOST_POINTS))
        rows += [_row(each.criterion, point) for point in each.curve[::step]]
    return render_grid(HEADER, rows, "text")


def _row(name: str, at: ThresholdResult) -> tuple[Cell, ...]:
    return (
        name,
        Number(at.threshold, 2),
        at.n_kept,
        at.n_dropped,
        at.n_good,
        Estimate(*at.precision),
        Estimate(*at.recall),
    )
