"""`adjudge runs`: what a store holds."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from adjudge.cli.report import print_judgments
from adjudge.errors import StoreError

StoreOption = Annotated[str, typer.Option("--store", help="The store")]
RunArgument = Annotated[str, typer.Argument(help="The run's id, or how it begins")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="List, show and export the runs of a store.")
    group.command("list")(list_runs)
    group.command("show")(show)
    group.command("export")(export)
    app.add_typer(group, name="runs")


def list_runs(store: StoreOption = "adjudge.db") -> None:
    """List the runs of a store."""
    from adjudge.reports.tables import runs_table
    from adjudge.runs.store import open_store

    with open_store(store) as opened:
        Console().print(runs_table(opened.runs()))


def show(run: RunArgument, store: StoreOption = "adjudge.db") -> None:
    """Show the judgments of a run, its means, failures and signature."""
    from adjudge.reports.tables import runs_table
    from adjudge.runs.store import open_store

    console = Console()
    with open_store(store) as opened:
        found = opened.find_run(run)
        judgments = list(opened.judgments(found.id))
    console.print(runs_table([found]))
    print_judgments(console, judgments, [str(found.signature)])


def export(
    run: RunArgument,
    out: Annotated[str, typer.Option(help="The file: .jsonl, .csv or .parquet")],
    store: StoreOption = "adjudge.db",
) -> None:
    """Write the scores of a run to a file."""
    from adjudge.formats.rows import check_writable, write_rows
    from adjudge.formats.scores import score_rows
    from adjudge.runs.store import open_store

    check_writable(out, never=[store])
    with open_store(store) as opened:
        found = opened.find_run(run)
        if not found.n_judged:
            raise StoreError(f"the run {found.id} has no judgments yet: run its command again")
        n = write_rows(out, score_rows(opened.judgments(found.id)))
    print(f"{out}: {n} of {found.n_items} judgments")
