"""A paper's table beside our own figures. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjudge.experiments.ablate import AblationResult, Preset
from adjudge.reports.grid import Cell, Estimate, Number, render_grid


def ablation_report(
    preset: Preset,
    bench: str,
    criteria: Sequence[str],
    results: Sequence[AblationResult],
    style: str,
) -> str:
    """Return one row per task: our figures with their cost, then the printed ones.

    The cost is in calls, prompt tokens, those of their prefix tree and tokens written, each for
    a response and criterion. Printed figures are the average, and by criterion in brackets where
    the paper has them. A row that was not run says why, and has no figure of ours.
    """
    papers = [
        name
        for name in preset.models
        if any(name in preset.printed(row, bench, criteria) for row in preset.rows)
    ]
    header = (
        "row", "model", *criteria, "average", "sd", "kept/total", "failed", "calls", "tokens",
        "unique", "written", *(f"printed: {preset.models[name]}" for name in papers),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for each in results:
        printed = preset.printed(each.task.row, bench, criteria)
        figures = [_printed(printed.get(name, ()), each.task.row.printed_sd) for name in papers]
        rows.append((each.task.label, *_ours(each, len(criteria)), *figures))
    return render_grid(header, rows, style)


def _ours(result: AblationResult, n_criteria: int) -> list[Cell]:
    task = result.task
    if task.why_not:
        return [f"not run: {task.why_not}", *[""] * (n_criteria + 8)]
    model = f"{task.model} + {task.ladder_model}" if task.ladder_model else task.model
    counts = result.cost or (None,) * 4
    per_response = [None if n is None else n / max(1, result.n_responses) for n in counts]
    return [
        model,
        *map(Number, result.by_criterion),
        Estimate(result.average, *result.interval),
        Number(result.sd),
        f"{result.kept}/{result.total}",
        result.n_failed,
        *(Number(n, 1, ",") for n in per_response),
    ]


def _printed(values: Sequence[float], sd: float) -> str:
    if not values:
        return ""
    *single, average = values
    shown = [] if math.isnan(average) else [f"{average:g}" + (f" ± {sd:g}" if sd else "")]
    if single:
        shown.append(f"({' '.join(f'{value:g}' for value in single)})")
    return " ".join(shown)
