"""How far the judges of a panel agree, as a grid and lines. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence

from adjudge.experiments.panel import PanelAgreement
from adjudge.reports.grid import Cell, Number, render_grid

SCORES_HEADER = (
    "judges", "criterion", "items", "missing", "mean", "mean sd", "alpha", "spearman",
)  # fmt: skip
VERDICTS_HEADER = ("judges", "items", "missing", "alpha", "same verdict")


def panel_scores_report(found: Sequence[PanelAgreement], style: str) -> str:
    """Return one row per criterion and all judges, each judge, each two judges."""
    rows: list[tuple[Cell, ...]] = [
        (
            _judges(each, found[0]),
            each.criterion or "(none)",
            each.n_items,
            each.n_missing,
            *map(Number, (each.mean, each.sd, each.alpha, each.agreement)),
        )
        for each in found
    ]
    return render_grid(SCORES_HEADER, rows, style)


def panel_verdicts_report(found: Sequence[PanelAgreement], style: str) -> str:
    """Return one row for all judges, each judge, each two judges."""
    rows: list[tuple[Cell, ...]] = [
        (
            _judges(each, found[0]),
            each.n_items,
            each.n_missing,
            Number(each.alpha),
            Number(each.agreement),
        )
        for each in found
    ]
    return render_grid(VERDICTS_HEADER, rows, style)


def missing_lines(found: Sequence[PanelAgreement]) -> list[str]:
    """Return what to say of the criteria where not all judges have all items."""
    lines = []
    for each in found:
        if each.judges == found[0].judges and each.n_missing:
            name = f"{each.criterion}: " if each.criterion else ""
            counts = [f"{n} by {k or 'none'}" for k, n in enumerate(each.by_n_judges) if n]
            lines.append(f"{name}{each.n_items} items judged: {', '.join(reversed(counts))}")
    return lines


def _judges(each: PanelAgreement, first: PanelAgreement) -> str:
    """Return the names of one judge or two, "all" of all."""
    return "all" if each.judges == first.judges else " - ".join(each.judges)
