"""Correlations with gold as a grid. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence

from adjudge.experiments.correlate import COEFFICIENTS, CriterionCorrelation
from adjudge.reports.grid import Cell, Estimate, render_grid

HEADER = ("criterion", "n", "kept/total", *COEFFICIENTS, "no score", "no gold", "not joined")


def correlation_report(results: Sequence[CriterionCorrelation], style: str) -> str:
    """Return one row per criterion: counts, and each coefficient with its 95 % interval."""
    rows: list[tuple[Cell, ...]] = []
    for each in results:
        cells = [
            Estimate(found.value, interval.low, interval.high)
            for found, interval in zip(each.correlations, each.intervals, strict=True)
        ]
        spearman = each.correlations[COEFFICIENTS.index("spearman")]
        rows.append(
            (
                each.criterion or "(none)",
                each.n,
                f"{spearman.kept}/{spearman.total}",
                *cells,
                each.n_without_score,
                each.n_without_gold,
                each.n_only_scores + each.n_only_gold,
            )
        )
    return render_grid(HEADER, rows, style)
