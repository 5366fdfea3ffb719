"""What is printed of judgments, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from adjudge.schema import Judgment


def print_judgments(console: Console, judgments: Sequence[Judgment], after: Iterable[str]) -> None:
    """Print a table of judgments, the means of systems, what failed and some lines after it."""
    from adjudge.reports import tables
    from adjudge.runs.summary import summarize

    summary = summarize(judgments)
    console.print(tables.judgments_table(judgments))
    if len(judgments) > tables.MAX_ROWS:
        console.print(f"... and {len(judgments) - tables.MAX_ROWS} more")
    if any(each.n_scored for each in summary.systems) or not any(j.ranks for j in judgments):
        console.print(tables.systems_table(summary))
    print_lines(console, [*tables.summary_lines(summary), *after])


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines as they are: not wrapped, not read as markup."""
    from adjudge.reports.tables import printable

    for line in lines:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def print_after(lines: Iterable[str], style: str) -> None:
    """Print what goes with a table: after a text one, else apart from it."""
    print_lines(Console(stderr=style != "text"), lines)


def hashed_file(path: str) -> str:
    """Return a file's name with the beginning of its hash, for a signature."""
    from pathlib import Path

    from adjudge.cache import sha256_of

    return f"{path}#{sha256_of(Path(path))[:8]}"
