"""`adjudge score` and `adjudge plan`."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from adjudge.cli.options import configured
from adjudge.runs.config import RunConfig

if TYPE_CHECKING:
    from adjudge.api import BoundJudge
    from adjudge.formats.rows import ResponseRow
    from adjudge.runs.runner import Counters, Event

#: The exit status of a command that was interrupted: 128 + SIGINT.
INTERRUPTED = 130


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
    from adjudge.reports import tables
    from adjudge.runs.store import Store
    from adjudge.runs.summary import summarize

    if config.out:
        check_writable(config.out)
    console, started = Console(), time.monotonic()
    judge, rows = _prepared(config, file)
    with Store(config.store) as store, _interruptible() as stop:
        run_id, n_items, events = judge.run(rows, store, data=file, stopped=stop.is_set)
        counters = _watch(events, n_items, console)
        if stop.is_set() and (counters is None or counters.judged < n_items):
            _say_how_to_resume(console, config, n_items, counters)
            raise typer.Exit(INTERRUPTED)
        judgments = list(store.judgments(run_id))
    if config.out:
        write_rows(config.out, map(score_row, judgments))
    console.print(tables.judgments_table(judgments))
    if len(judgments) > tables.MAX_ROWS:
        console.print(f"... and {len(judgments) - tables.MAX_ROWS} more")
    summary = summarize(judgments)
    console.print(tables.systems_table(summary))
    lines = tables.failure_lines(judgments) + tables.summary_lines(summary)
    if counters:
        lines += tables.cost_lines(counters, time.monotonic() - started)
    if config.out:
        lines.append(f"scores: {config.out}")
    for line in [*lines, str(judge.signature)]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def plan(config: RunConfig, file: str) -> None:
    """Print what scoring a file of responses would cost."""
    from pathlib import Path

    from adjudge.reports.tables import plan_lines
    from adjudge.runs.store import Store

    judge, rows = _prepared(config, file)
    with Store(config.store if Path(config.store).exists() else ":memory:") as store:
        made = judge.plan(rows, store)
    for line in [*plan_lines(made), str(judge.signature)]:
        Console().print(line, markup=False, highlight=False, soft_wrap=True)


def _prepared(config: RunConfig, file: str) -> tuple[BoundJudge, list[ResponseRow]]:
    """Return the judge and the rows, with all that can be wrong found out, cheapest first."""
    from adjudge import api
    from adjudge.errors import ConfigError
    from adjudge.formats.rows import read_responses
    from adjudge.registry import judges

    judges.load(config.judge)
    if not config.criterion:
        raise ConfigError("name a criterion: --criterion coherence; see `adjudge criteria`")
    rows = read_responses(file, limit=config.limit)
    engine = api.load_engine(config.model)
    judge = api.judge(
        config.judge,
        criterion=config.criterion,
        task=config.task,
        engine=engine,
        seed=config.seed,
        prompts=config.prompts or None,
        **config.options(),
    )
    return judge, rows


def _watch(events: Iterator[Event], n_items: int, console: Console) -> Counters | None:
    """Show what happens while it does, and return the last counts."""
    counters = None
    columns = (
        TextColumn("judged"),
        BarColumn(bar_width=20),
        TaskProgressColumn("{task.completed}/{task.total}"),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
    )
    started = time.monotonic()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("judge", total=n_items, detail="")
        for event in events:
            counters = event.counters
            rate = counters.judged / max(time.monotonic() - started, 1e-9)
            detail = (
                f"{rate:.1f}/s | {counters.calls:,} calls | {counters.evaluated_tokens:,} tokens "
                f"evaluated, {counters.saved_tokens:,} saved | {counters.failed} failed"
            )
            progress.update(bar, completed=counters.judged, detail=detail)
    return counters


@contextmanager
def _interruptible() -> Iterator[Flag]:
    """Give a flag that Ctrl-C sets; a second Ctrl-C interrupts at once."""
    flag = Flag()

    def interrupt(_signal: int, _frame: object) -> None:
        if flag.is_set():
            raise KeyboardInterrupt
        flag.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)


def _say_how_to_resume(
    console: Console, config: RunConfig, n_items: int, counters: Counters | None
) -> None:
    judged = counters.judged if counters else 0
    console.print(
        f"interrupted: {judged} of {n_items} items judged; all replies so far are in "
        f"{config.store}. Run the same command again to go on from there.",
        markup=False,
        highlight=False,
    )
