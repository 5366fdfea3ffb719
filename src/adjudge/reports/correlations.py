"""Correlations with gold as a grid. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjudge.experiments.correlate import COEFFICIENTS, CriterionCorrelation
from adjudge.reports.grid import render_grid

HEADER = ("criterion", "n", "kept/total", *COEFFICIENTS, "no score", "no gold", "not joined")


def correlation_report(results: Sequence[CriterionCorrelation], style: str) -> str:
    """Return one row per criterion: counts, and each coefficient with its 95 % interval."""
    rows = []
    for each in results:
        cells = [
            with_interval(found.value, interval.low, interval.high)
            for found, interval in zip(each.correlations, each.intervals, strict=True)
        ]
        spearman = each.correlations[COEFFICIENTS.index("spearman")]
        rows.append(
            (
                each.criterion or "(none)",
                str(each.n),
                f"{spearman.kept}/{spearman.total}",
                *cells,
                str(each.n_without_score),
                str(each.n_without_gold),
                str(each.n_only_scores + each.n_only_gold),
            )
        )
    return render_grid(HEADER, rows, style)


def with_interval(value: float, low: float, high: float) -> str:
    """Return a number with the ends of its interval; a missing one is a dash."""
    if math.isnan(value):
        return "-"
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"
