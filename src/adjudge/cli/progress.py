"""What is shown while a run goes on, and what becomes of interrupting it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from adjudge.cli.report import print_lines

if TYPE_CHECKING:
    from adjudge.runs.runner import Counters
    from adjudge.runs.start import StartedRun

#: The exit status of a command that was interrupted: 128 + SIGINT.
INTERRUPTED = 130
#: Where there is no terminal for a progress bar, a line is written after so many seconds.
QUIET_SECONDS = 30.0


def finished(run: StartedRun, console: Console, store: str) -> Counters:
    """Show a run going on, and return its counts at the end; exit if it was interrupted."""
    counters = _watched(run, console)
    if counters.judged < run.n_items:
        print_lines(
            console,
            [
                f"interrupted: {counters.judged} of {run.n_items} items judged; all replies so "
                f"far are in {store}. Run the same command again to go on from there."
            ],
        )
        raise typer.Exit(INTERRUPTED)
    return counters


def _watched(run: StartedRun, console: Console) -> Counters:
    """Show what happens while it does, and return the last counts."""
    from adjudge.runs.runner import Counters

    counters = Counters()
    columns = (
        TextColumn("judged"),
        BarColumn(bar_width=20),
        TaskProgressColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}"),
    )
    started = said = time.monotonic()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("judge", total=run.n_items, detail="")
        for event in run.events:
            counters = event.counters
            rate = counters.judged / max(time.monotonic() - started, 1e-9)
            detail = (
                f"{rate:.1f}/s, {counters.calls:,} calls, {counters.failed} failed, "
                f"{counters.evaluated_tokens:,} tokens evaluated, {counters.saved_tokens:,} saved"
            )
            progress.update(bar, completed=counters.judged, detail=detail)
            if not console.is_terminal and time.monotonic() - said > QUIET_SECONDS:
                said = time.monotonic()
                print(
                    f"judged {counters.judged}/{run.n_items}; {detail}", file=sys.stderr, flush=True
                )
    return counters


@contextmanager
def interruptible() -> Iterator[Flag]:
    """Give a flag that Ctrl-C and SIGTERM set; the second one ends the process at once.

    Ending at once loses nothing: what was answered is stored, in whole transactions.
    """
    flag = Flag()

    def interrupt(_signal: int, _frame: object) -> None:
        if flag.is_set():
            os._exit(INTERRUPTED)
        flag.set()

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
