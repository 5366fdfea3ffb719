"""What a benchmark says of judges, as grids. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjudge.experiments.bench import AccuracyRow, AxisPair, BenchRow
from adjudge.experiments.compare import Difference
from adjudge.experiments.correlate import COEFFICIENTS
from adjudge.reports.correlations import with_interval
from adjudge.reports.grid import render_grid


def bench_report(rows: Sequence[BenchRow], means: Sequence[float], style: str) -> str:
    """Return one row per criterion, and one with the averages over several."""
    header = ("criterion", "n", "kept/total", *COEFFICIENTS, "coverage", "failures")
    spearman = COEFFICIENTS.index("spearman")
    lines = [
        (
            row.found.criterion or "(none)",
            str(row.found.n),
            f"{row.found.correlations[spearman].kept}/{row.found.correlations[spearman].total}",
            *(
                with_interval(each.value, interval.low, interval.high)
                for each, interval in zip(row.found.correlations, row.found.intervals, strict=True)
            ),
            _number(row.coverage),
            ", ".join(f"{n} {status}" for status, n in sorted(row.failures.items())) or "0",
        )
        for row in rows
    ]
    if len(rows) > 1:
        n = sum(row.found.n for row in rows)
        lines.append(("average", str(n), "", *map(_number, means), "", ""))
    return render_grid(header, lines, style)


def accuracy_report(rows: Sequence[AccuracyRow], style: str) -> str:
    """Return one row per group, convention and way with ties."""
    header = (
        "pairs", "convention", "ties", "accuracy", "kept/total", "gold ties", "judge ties",
        "unreadable", "orders agree",
    )  # fmt: skip
    lines = [
        (
            row.group or "all",
            row.convention,
            "counted" if row.ties else "left out",
            with_interval(row.accuracy.value, row.interval.low, row.interval.high),
            f"{row.accuracy.kept}/{row.accuracy.total}",
            str(row.accuracy.n_gold_ties),
            str(row.accuracy.n_verdict_ties),
            str(row.accuracy.n_unreadable),
            _number(row.accuracy.consistency),
        )
        for row in rows
    ]
    return render_grid(header, lines, style)


def difference_report(rows: Sequence[Difference], style: str) -> str:
    """Return one row per criterion and pair of judges."""
    header = ("first", "second", "criterion", "n", "first is", "second is", "difference", "p",
              "p (Holm)", "p (Williams)")  # fmt: skip
    lines = [
        (
            row.first,
            row.second,
            row.criterion or "-",
            str(row.n),
            _number(row.first_value),
            _number(row.second_value),
            _number(row.difference, sign="+"),
            *(_number(p, digits=4) for p in (row.p_value, row.p_holm, row.p_williams)),
        )
        for row in rows
    ]
    return render_grid(header, lines, style)


def axes_report(rows: Sequence[AxisPair], style: str) -> str:
    """Return one row per pair of criteria, both readings side by side."""
    header = ("criteria", "by source", "sources", "sample", "kept/total")
    lines = [
        (
            f"{row.first} - {row.second}",
            _number(row.by_source.value),
            str(row.sample.total),
            _number(row.sample.value),
            f"{row.sample.kept}/{row.sample.total}",
        )
        for row in rows
    ]
    return render_grid(header, lines, style)


def _number(value: float | None, *, digits: int = 3, sign: str = "") -> str:
    return "-" if value is None or math.isnan(value) else f"{value:{sign}.{digits}f}"
