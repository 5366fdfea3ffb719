"""`adjudge judges`, `adjudge criteria` and `adjudge models`: what there is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("judges")(judges)
    app.command("criteria")(criteria)
    app.command("prompts")(prompts)
    group = typer.Typer(no_args_is_help=True, help="List, fetch and convert models.")
    group.command("list")(list_models)
    group.command("pull")(pull)
    group.command("convert")(convert)
    app.add_typer(group, name="models")


def judges(
    name: Annotated[str, typer.Argument(help="One judge: its options too")] = "",
    format: Annotated[  # noqa: A002 - the flag's name
        str, typer.Option(help="text, markdown, latex, csv or json")
    ] = "text",
) -> None:
    """List the judging methods: paper, needs, calls for an item, where ours differs from it."""
    from adjudge.reports.methods import method_options, methods_report

    print(methods_report([name] if name else [], format))
    if name and format == "text":
        print(method_options(name))
    elif format == "text":
        print("`adjudge judges NAME` has the options of one.", file=sys.stderr)


def criteria(
    task: Annotated[str, typer.Option(help="Only those of this task")] = "",
) -> None:
    """List the named criteria of each task."""
    from adjudge.criteria.named import named_criteria
    from adjudge.reports.tables import table
    from adjudge.schema import TASKS

    made = table("task", "criterion", "what it means")
    for each in [task] if task else TASKS:
        for name, criterion in named_criteria(each).items():
            made.add_row(each, name, criterion.description)
    Console().print(made)


def prompts(
    method: Annotated[str, typer.Argument(help="A judge's name")],
    task: Annotated[str, typer.Argument(help="summarization, dialogue, story or instruction")],
) -> None:
    """Print the prompts of a judge for a task: a file to edit for --prompts."""
    from adjudge.prompts.template import prompt_source

    print(prompt_source(method, task), end="")


def list_models() -> None:
    """List the known models, and where those lie that are here."""
    from adjudge.engines.models import KNOWN, cached_path
    from adjudge.reports.tables import table

    made = table("model", "engine", "about", "where")
    for name, model in KNOWN.items():
        path = cached_path(name)
        where = str(path) if path.exists() else "not pulled"
        made.add_row(name, model.engine, model.about, where)
    Console().print(made)


def pull(name: Annotated[str, typer.Argument(help="A known model's name")]) -> None:
    """Fetch a known model into the cache; nothing is done if it is there."""
    from adjudge.engines import pull as fetch

    print(f"{name}: {fetch.pull(name)}")


def convert(
    reference: Annotated[str, typer.Argument(help="A known GGUF model, or a path to a .gguf file")],
    folder: Annotated[Path, typer.Argument(help="Where to write the model; new or empty")],
    dtype: Annotated[
        str, typer.Option(help="What weights are kept as: float32, float16 or bfloat16")
    ] = "float32",
) -> None:
    """Write a GGUF model as a folder of transformers, to be loaded as hf:FOLDER."""
    from adjudge.engines.convert import write_folder

    write_folder(reference, folder, dtype=dtype)
    print(f"load it as hf:{folder}")
