"""A paper's table beside our own figures. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjudge.experiments.ablate import AblationResult, Preset
from adjudge.reports.grid import render_grid


def ablation_report(
    preset: Preset,
    bench: str,
    criteria: Sequence[str],
    results: Sequence[AblationResult],
    style: str,
) -> str:
    """Return one row per task: our figures with their cost, then the printed ones.

    Printed figures are the average, and by criterion in brackets where the paper has them. A row
    that was not run says why, and has no figure of ours.
    """
    papers = [
        name
        for name in preset.models
        if any(name in preset.printed(row, bench) for row in preset.rows)
    ]
    header = (
        "row", "model", *criteria, "average", "kept/total", "failed", "prompt tokens", "unique",
        "written", *(f"printed: {preset.models[name]}" for name in papers),
    )  # fmt: skip
    rows = []
    for each in results:
        printed = preset.printed(each.task.row, bench)
        figures = [_printed(printed.get(name, ()), each.task.row.printed_sd) for name in papers]
        rows.append((each.task.label, *_ours(each, len(criteria)), *figures))
    return render_grid(header, rows, style)


def _ours(result: AblationResult, n_criteria: int) -> list[str]:
    task = result.task
    if task.why_not:
        return [f"not run: {task.why_not}", *[""] * (n_criteria + 6)]
    model = f"{task.model} + {task.ladder_model}" if task.ladder_model else task.model
    average = _number(result.average)
    if not math.isnan(result.sd):
        average += f" ± {result.sd:.3f}"
    return [
        model,
        *map(_number, result.by_criterion),
        average,
        f"{result.kept}/{result.total}",
        str(result.n_failed),
        *("?" if n is None else f"{n:,}" for n in (result.total_tokens, result.unique_tokens)),
        "?" if result.written_tokens is None else f"{result.written_tokens:,}",
    ]


def _printed(values: Sequence[float], sd: float) -> str:
    if not values:
        return ""
    *single, average = values
    shown = f"{average:g}" + (f" ± {sd:g}" if sd else "")
    return f"{shown} ({' '.join(f'{value:g}' for value in single)})" if single else shown


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"
