"""`adjudge prompt-search`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer
from rich.console import Console

from adjudge.cli.options import configured
from adjudge.cli.prepare import load_criteria
from adjudge.cli.progress import INTERRUPTED, interruptible
from adjudge.cli.report import print_lines
from adjudge.errors import ConfigError
from adjudge.runs.config import PromptSearchConfig

if TYPE_CHECKING:
    from adjudge.experiments.prompt_search import Found, Search
    from adjudge.judges.zepo import ZepoJudge
    from adjudge.runs.runner import Counters


def register(app: typer.Typer) -> None:
    """Add the command."""
    argument = ("file", "Responses, several of each source: .jsonl, .csv or .parquet")
    doc = (
        "Search for an instruction by which a model compares without favouring the first or the "
        "second place (ZEPO); no gold is read."
    )
    command = configured(search, PromptSearchConfig, argument=argument, doc=doc)
    app.command("prompt-search")(command)


def search(config: PromptSearchConfig, file: str) -> None:
    """Search for an instruction by each criterion, and write prompts with them."""
    from adjudge import api
    from adjudge.cli.prepare import load_engine
    from adjudge.experiments.prompt_search import found, grouped, log_rows, start_search
    from adjudge.formats.responses import read_responses
    from adjudge.formats.rows import write_rows
    from adjudge.reports.tables import cost_lines, cut_lines
    from adjudge.runs.store import Store

    _check_outputs(config, file)
    rows = grouped(read_responses(file, limit=config.limit))
    prompts = config.prompts or None
    method = api.judge_method(
        "zepo", task=config.task, seed=config.seed, prompts=prompts, options=config.options()
    )
    criteria = load_criteria(config.criterion, config.task)
    console, started = Console(), time.monotonic()
    with (
        interruptible() as stop,
        Store(config.store) as store,
        closing(load_engine(config)) as engine,
    ):
        judge = api.BoundJudge(method, engine, criteria, truncate_source=config.truncate_source)
        signature, n_cut = str(judge.signature_for(rows)), judge.n_cut(rows)
        begun = start_search(
            cast("ZepoJudge", judge.method), engine, judge.items(rows), store, stopped=stop.is_set
        )
        counters = _finished(begun, console, config.store)
    ended = begun.ended
    assert ended is not None
    best = found(ended)
    _print_table(console, best)
    after = [
        *(f"{name}: {each.best.instruction}" for name, each in best.items()),
        *(f"{name}: {_counts(each)}" for name, each in best.items()),
        *cut_lines(n_cut, config.truncate_source),
        *cost_lines(counters, time.monotonic() - started, engine),
    ]
    if config.log:
        write_rows(config.log, log_rows(ended.log))
        after.append(f"log: {config.log}")
    print_lines(console, [*after, *_export(config, ended.instructions), signature])


def _check_outputs(config: PromptSearchConfig, file: str) -> None:
    """Raise ConfigError if what is to be written cannot be."""
    from adjudge.formats.rows import check_writable

    if config.log:
        check_writable(config.log, never=[file, config.store])
    out = Path(config.out)
    if config.out and out.exists() and not out.is_dir():
        raise ConfigError(f"--out {config.out!r} is a file: name a folder for the prompts")
    if config.out:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"--out {config.out!r} cannot be written: {error.strerror}"
            ) from error
    if config.out and config.prompts and out.resolve() == Path(config.prompts).resolve():
        raise ConfigError(
            f"the prompts in {config.out!r} are read and would be overwritten: name another --out"
        )


def _finished(begun: Search, console: Console, store: str) -> Counters:
    """Show a search going on, and return its counts at the end; exit if it was interrupted."""
    with console.status("searching") as status:
        for event in begun.events:
            counters = event.counters
            status.update(
                f"searching: {counters.calls:,} calls, {counters.evaluated_tokens:,} tokens "
                f"evaluated, {counters.saved_tokens:,} saved"
            )
    if not begun.ended:
        said = f"interrupted: all replies so far are in {store}."
        print_lines(console, [f"{said} Run the same command again to go on from there."])
        raise typer.Exit(INTERRUPTED)
    return begun.runner.counters


def _print_table(console: Console, best: Mapping[str, Found]) -> None:
    """Print how often the first place wins, with the initial and with the best instruction."""
    from adjudge.reports.tables import number, plain, table

    columns = ("A_rate before", "A_rate after", "fairness", "epoch")
    made = table("criterion", *columns, numbers=columns)
    for name, each in best.items():
        made.add_row(
            plain(name),
            number(each.initial.a_rate, 3),
            number(each.best.a_rate, 3),
            number(each.best.fairness, 3),
            str(each.best.epoch),
        )
    console.print(made)
    said = "A_rate: share of comparisons that the first place wins; 0.5 is balanced (fairness 0)"
    print_lines(console, [said])


def _counts(each: Found) -> str:
    """Return in words how much was tried."""
    dropped = f"{each.n_dropped} of them dropped"
    unread = f"; {each.best.unread} comparisons without a verdict" if each.best.unread else ""
    kept = (
        "none better than the initial one; "
        if each.best.instruction == each.initial.instruction
        else ""
    )
    return f"{kept}{each.n_tried} instructions tried, {dropped}{unread}"


def _export(config: PromptSearchConfig, instructions: Mapping[str, str]) -> list[str]:
    """Write the prompts if that is wanted, and return what to say of them."""
    from adjudge.experiments.prompt_search import write_prompts

    if not config.out:
        return []
    folder = config.prompts or None
    paths = write_prompts(config.out, config.task, instructions, folder=folder)
    return [f"prompts: {path}" for path in paths]
