"""A paper's table with our figures in it. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from adjudge.experiments.figures import Figure, TableCell
from adjudge.experiments.tables import TablePreset
from adjudge.reports.grid import Cell, Estimate, render_grid

#: Our cells by model.
Cells = Mapping[str, Sequence[TableCell]]


def published_report(preset: TablePreset, cells: Cells, style: str) -> str:
    """Return the paper's rows as printed, with ours below them.

    A model that the table knows stands below its row, others at the end. ``failed`` counts the
    judgments without a value in all runs of a row.
    """
    header = ("evaluator", "figures", *(column.name for column in preset.columns), "failed")
    lines: list[tuple[Cell, ...]] = []
    for row in preset.rows:
        said = "printed" if row.name in cells else "printed, not run"
        lines.append((row.label, said, *row.printed, ""))
        if row.name in cells:
            lines.append(_ours(row.label, cells[row.name]))
    known = {row.name for row in preset.rows}
    lines += [_ours(name, ours) for name, ours in cells.items() if name not in known]
    return render_grid(header, lines, style)


def published_lines(preset: TablePreset, cells: Cells) -> list[str]:
    """Return what goes below the table.

    Its source and notes; what has no figure, every reason once; of the figures how many items
    they rest on, what failed, and their runs.
    """
    lines = [f"{preset.title}: {preset.source}", *filter(None, [preset.note])]
    lines += [f"{row.label}: {row.note}" for row in preset.rows if row.note]
    reasons: dict[tuple[str, str], list[str]] = {}
    for model, ours in cells.items():
        for cell in ours:
            where = f"{model}, {cell.column}" if cell.instead == "failed" else cell.column
            if cell.instead:
                reasons.setdefault((cell.instead, cell.why), []).append(where)
    lines += [
        f"{instead}: {'; '.join(dict.fromkeys(where))}: {why}"
        for (instead, why), where in reasons.items()
    ]
    return lines + [
        f"{model}, {cell.column}: {_details(preset, cell, cell.figure)}"
        for model, ours in cells.items()
        for cell in ours
        if cell.figure
    ]


def _ours(label: str, cells: Sequence[TableCell]) -> tuple[Cell, ...]:
    figures = [
        Estimate(each.figure.value, each.figure.low, each.figure.high)
        if each.figure
        else each.instead
        for each in cells
    ]
    runs = {name: sum(failures.values()) for each in cells for name, failures in each.runs.items()}
    return (label, "ours", *figures, sum(runs.values()) if runs else "")


def _details(preset: TablePreset, cell: TableCell, figure: Figure) -> str:
    """Return what a figure rests on."""
    (column,) = (each for each in preset.columns if each.name == cell.column)
    digits = 2 if preset.measure == "accuracy" else 3
    parts = zip(column.judges, figure.parts, strict=False)
    said = [f"{judge} {value:.{digits}f}" for judge, value in parts]
    said.append(f"{figure.kept} of {figure.total} items")
    if math.isnan(figure.value):
        said.append("too few items, or all their numbers are the same")
    for run, failures in cell.runs.items():
        failed = ", ".join(f"{n} {status}" for status, n in sorted(failures.items()))
        said.append(f"run {run}, failed: {failed or 'none'}")
    return "; ".join(said)
