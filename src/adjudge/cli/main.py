"""The command line: every verb, and what becomes of errors."""

from __future__ import annotations

import sys
from importlib import metadata
from io import TextIOWrapper
from typing import Annotated

import typer

from adjudge.cli import (
    ablate,
    bench,
    benchmarks,
    catalogue,
    consistency,
    correlate,
    engines,
    ladder,
    panel,
    prompt_search,
    runs,
    score,
)
from adjudge.errors import AdjudgeError

app = typer.Typer(
    name="adjudge",
    help="Scores generated text with language models, and says how far to trust the scores.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version", is_eager=True)
    ] = False,
) -> None:
    if version:
        print(f"adjudge {metadata.version('adjudge')}")
        raise typer.Exit


score.register(app)
runs.register(app)
ladder.register(app)
correlate.register(app)
panel.register(app)
bench.register(app)
ablate.register(app)
consistency.register(app)
prompt_search.register(app)
catalogue.register(app)
engines.register(app)
benchmarks.register(app)


def main() -> None:
    """Run the command line; an error that a user can mend is one line and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that knows fewer characters
            stream.reconfigure(errors="replace")
    try:
        app()
    except AdjudgeError as error:
        print(f"adjudge: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:  # a full disk, a name that is too long
        print(f"adjudge: {error}", file=sys.stderr)
        sys.exit(2)
