"""The command line: every verb, and what becomes of errors."""

from __future__ import annotations

import sys

import typer

from adjudge.cli import catalogue, runs, score
from adjudge.errors import AdjudgeError

app = typer.Typer(
    name="adjudge",
    help="Scores generated text with language models, and says how far to trust the scores.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
score.register(app)
runs.register(app)
catalogue.register(app)


def main() -> None:
    """Run the command line; an error that a user can mend is one line and exit status 2."""
    try:
        app()
    except AdjudgeError as error:
        print(f"adjudge: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        sys.exit(141)
