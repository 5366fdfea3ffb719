"""`adjudge engines`: what can run a model, and what a model can do."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

Format = Annotated[str, typer.Option("--format", help="text, markdown, latex, csv or json")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="List engines, and check what a model can do.")
    group.command("list")(list_engines)
    group.command("check")(check)
    app.add_typer(group, name="engines")


def list_engines(
    style: Format = "text",
    checks: Annotated[
        str, typer.Option(help="File that `engines check --out` wrote: show what was found")
    ] = "",
) -> None:
    """List the engines: what they run, how models are named, what they serve."""
    from adjudge.experiments.engine_check import check_from_json
    from adjudge.formats.rows import read_rows
    from adjudge.reports.engines import checks_report, engines_report

    if not checks:
        print(engines_report(style))
        return
    found = [check_from_json(row) for _, row in read_rows(checks)]
    print(checks_report(found, style))


def check(
    model: Annotated[str, typer.Argument(help="A model, as for --model")],
    out: Annotated[
        str, typer.Option(help="File to add what was found to: .jsonl, for `engines list --checks`")
    ] = "",
) -> None:
    """Ask a model a few short things, and say what it can do and what judges it can run."""
    from adjudge import api
    from adjudge.experiments.engine_check import check_engine, check_to_json
    from adjudge.formats.rows import check_writable, read_rows, write_rows
    from adjudge.reports.engines import check_report

    before = []
    if out:
        check_writable(out)
        before = [row for _, row in read_rows(out)] if Path(out).exists() else []
    with closing(api.load_engine(model)) as engine:
        found = check_engine(engine, model, make=api.judge_method)
    print(check_report(found))
    if out:
        write_rows(out, [*before, check_to_json(found)])
