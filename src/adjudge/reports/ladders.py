"""Tables of how good ladders are. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from rich.table import Table

from adjudge.experiments.ladders import LadderReport, LadderSummary
from adjudge.reports.tables import MAX_ROWS, count, number, plain, table


def ladder_table(reports: Sequence[LadderReport]) -> Table:
    """Return one row per ladder, for at most `MAX_ROWS` of them."""
    numbers = ("tau", "inverted", "words", "length tau", "copied")
    made = table("source", "criterion", *numbers, "rungs that fail", numbers=numbers)
    for each in islice(reports, MAX_ROWS):
        made.add_row(
            plain(each.ladder.source_id),
            plain(each.ladder.criterion),
            _number(each.tau),
            f"{len(each.inverted)}/{len(each.gains)}",
            f"{min(each.words)}-{max(each.words)}",
            _number(each.length_tau),
            f"{max(each.copied):.0%}",
            plain(_failures(each)),
            style="yellow" if each.failed else None,
        )
    return made


def ladder_lines(summary: LadderSummary) -> list[str]:
    """Return what is printed under the table."""
    share = summary.n_inverted / summary.n_pairs if summary.n_pairs else math.nan
    return [
        f"{count(summary.n_good)} of {count(summary.n)} ladders are good; mean tau "
        f"{_number(summary.mean_tau)}; inverted neighbours: {count(summary.n_inverted)} of "
        f"{count(summary.n_pairs)} ({_number(100 * share, 1)} %)",
        f"rungs: {count(summary.n_duplicates)} duplicates, {count(summary.n_empty)} empty, "
        f"{count(summary.n_refused)} refused, {count(summary.n_copying)} copying the source; "
        f"ladders whose lengths drift: {count(summary.n_drifting)}",
    ]


def _failures(report: LadderReport) -> str:
    """Return in words which rungs fail."""
    said = []
    for what, rungs in (
        ("duplicate", report.duplicates),
        ("empty", report.empty),
        ("refused", report.refused),
    ):
        said += [f"{rung} {what}" for rung in rungs]
    said += [f"{rung} above {rung + 1}" for rung in report.inverted]
    return ", ".join(said) or ("" if report.status == "ok" else report.status.value)


def _number(value: float, digits: int = 2) -> str:
    return number(None if math.isnan(value) else value, digits)
