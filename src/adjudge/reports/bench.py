"""What a benchmark says of judges, as grids. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence

from adjudge.experiments.bench import AccuracyRow, AxisPair, BenchRow
from adjudge.experiments.compare import Difference
from adjudge.experiments.correlate import COEFFICIENTS
from adjudge.reports.grid import Cell, Estimate, Number, render_grid


def bench_report(rows: Sequence[BenchRow], means: Sequence[float], style: str) -> str:
    """Return one row per criterion, and one with the averages over several."""
    header = ("criterion", "n", "kept/total", *COEFFICIENTS, "coverage", "failures")
    spearman = COEFFICIENTS.index("spearman")
    lines: list[tuple[Cell, ...]] = [
        (
            row.found.criterion or "(none)",
            row.found.n,
            f"{row.found.correlations[spearman].kept}/{row.found.correlations[spearman].total}",
            *(
                Estimate(each.value, interval.low, interval.high)
                for each, interval in zip(row.found.correlations, row.found.intervals, strict=True)
            ),
            Number(row.coverage),
            ", ".join(f"{n} {status}" for status, n in sorted(row.failures.items())) or 0,
        )
        for row in rows
    ]
    if len(rows) > 1:
        n = sum(row.found.n for row in rows)
        lines.append(("average", n, "", *map(Number, means), "", ""))
    return render_grid(header, lines, style)


def accuracy_report(rows: Sequence[AccuracyRow], style: str) -> str:
    """Return one row per group, convention and way with ties."""
    header = (
        "pairs", "convention", "ties", "accuracy", "kept/total", "gold ties", "judge ties",
        "unreadable", "no verdict", "orders agree",
    )  # fmt: skip
    lines: list[tuple[Cell, ...]] = [
        (
            row.group or "all",
            row.convention,
            "counted" if row.ties else "left out",
            Estimate(row.accuracy.value, row.interval.low, row.interval.high),
            f"{row.accuracy.kept}/{row.accuracy.total}",
            row.accuracy.n_gold_ties,
            row.accuracy.n_verdict_ties,
            row.accuracy.n_unreadable - row.n_missing,
            row.n_missing,
            Number(row.accuracy.consistency),
        )
        for row in rows
    ]
    return render_grid(header, lines, style)


def difference_report(rows: Sequence[Difference], style: str) -> str:
    """Return one row per criterion and pair of judges."""
    header = ("first", "second", "criterion", "n", "first is", "second is", "difference", "p",
              "p (Holm)", "p (Williams)")  # fmt: skip
    lines: list[tuple[Cell, ...]] = [
        (
            row.first,
            row.second,
            row.criterion or "-",
            row.n,
            Number(row.first_value),
            Number(row.second_value),
            Number(row.difference, sign="+"),
            *(Number(p, digits=4) for p in (row.p_value, row.p_holm, row.p_williams)),
        )
        for row in rows
    ]
    return render_grid(header, lines, style)


def axes_report(rows: Sequence[AxisPair], style: str) -> str:
    """Return one row per pair of criteria, both readings side by side."""
    header = ("criteria", "by source", "sources", "sample", "kept/total")
    lines: list[tuple[Cell, ...]] = [
        (
            f"{row.first} - {row.second}",
            Number(row.by_source.value),
            row.sample.total,
            Number(row.sample.value),
            f"{row.sample.kept}/{row.sample.total}",
        )
        for row in rows
    ]
    return render_grid(header, lines, style)
