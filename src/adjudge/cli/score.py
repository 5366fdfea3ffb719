"""`adjudge score` and `adjudge plan`."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from adjudge.cli.options import configured
from adjudge.cli.report import print_judgments, print_lines
from adjudge.runs.config import RunConfig

if TYPE_CHECKING:
    from adjudge.api import BoundJudge
    from adjudge.formats.rows import ResponseRow
    from adjudge.runs.runner import Counters, Event

#: The exit status of a command that was interrupted: 128 + SIGINT.
INTERRUPTED = 130
#: Where there is no terminal for a progress bar, a line is written after so many seconds.
QUIET_SECONDS = 30.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("score")(
        configured(score, doc="Score responses, and write one row of scores for each.")
    )
    app.command("plan")(configured(plan, doc="Say what scoring would cost; ask the model nothing."))


def score(config: RunConfig, file: str) -> None:
    """Score a file of responses."""
    from adjudge.formats.rows import check_writable, write_rows
    from adjudge.formats.scores import score_row
    from adjudge.reports.tables import cost_lines
    from adjudge.runs.store import Store

    if config.out:
        check_writable(config.out, never=[file, config.store])
    console, started = Console(), time.monotonic()
    with (
        _interruptible() as stop,
        Store(config.store) as store,
        _prepared(config, file) as (judge, rows),
    ):
        run_id, n_items, events = judge.run(rows, store, data=file, stopped=stop.is_set)
        counters = _watch(events, n_items, console)
        if counters.judged < n_items:
            print_lines(
                console,
                [
                    f"interrupted: {counters.judged} of {n_items} items judged; all replies so "
                    f"far are in {config.store}. Run the same command again to go on from there."
                ],
            )
            raise typer.Exit(INTERRUPTED)
        judgments = list(store.judgments(run_id))
        signature = str(judge.signature)
    after = cost_lines(counters, time.monotonic() - started)
    if config.out:
        write_rows(config.out, map(score_row, judgments))
        after.append(f"scores: {config.out}")
    print_judgments(console, judgments, [*after, signature])


def plan(config: RunConfig, file: str) -> None:
    """Print what scoring a file of responses would cost."""
    from adjudge.reports.tables import plan_lines
    from adjudge.runs.store import Store

    store_path = config.store if Path(config.store).exists() else ":memory:"
    with Store(store_path) as store, _prepared(config, file) as (judge, rows):
        lines = [*plan_lines(judge.plan(rows, store)), str(judge.signature)]
    print_lines(Console(), lines)


@contextmanager
def _prepared(config: RunConfig, file: str) -> Iterator[tuple[BoundJudge, list[ResponseRow]]]:
    """Give the judge and the rows; all that can be wrong is found before a model is loaded."""
    from adjudge import api
    from adjudge.errors import ConfigError
    from adjudge.formats.rows import read_responses

    if not config.criterion:
        raise ConfigError("name a criterion: --criterion coherence; see `adjudge criteria`")
    method = api.judge_method(
        config.judge,
        task=config.task,
        seed=config.seed,
        prompts=config.prompts or None,
        options=config.options(),
    )
    criteria = api.load_criteria(config.criterion, config.task)
    rows = read_responses(file, limit=config.limit)
    with closing(api.load_engine(config.model)) as engine:
        yield api.BoundJudge(method, engine, criteria), rows


def _watch(events: Iterator[Event], n_items: int, console: Console) -> Counters:
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
        bar = progress.add_task("judge", total=n_items, detail="")
        for event in events:
            counters = event.counters
            rate = counters.judged / max(time.monotonic() - started, 1e-9)
            detail = (
                f"{rate:.1f}/s, {counters.calls:,} calls, {counters.failed} failed, "
                f"{counters.evaluated_tokens:,} tokens evaluated, {counters.saved_tokens:,} saved"
            )
            progress.update(bar, completed=counters.judged, detail=detail)
            if not console.is_terminal and time.monotonic() - said > QUIET_SECONDS:
                said = time.monotonic()
                print(f"judged {counters.judged}/{n_items}; {detail}", file=sys.stderr, flush=True)
    return counters


@contextmanager
def _interruptible() -> Iterator[Flag]:
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
