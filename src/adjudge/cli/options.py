"""Flags made from the fields of the run configuration, so that both are the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Annotated, Any, Optional, get_type_hints

import typer

from adjudge.runs.config import RunConfig, load_config

Command = Callable[[RunConfig, str], None]


def configured(command: Command, *, doc: str) -> Callable[..., None]:
    """Return a Typer command whose flags are the fields of `RunConfig`, with ``--config``.

    A flag that is given overrides the file of ``--config``, which overrides the default.
    """
    hints = get_type_hints(RunConfig)
    parameters = [
        inspect.Parameter(
            "file",
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            annotation=Annotated[str, typer.Argument(help="Responses: .jsonl, .csv or .parquet")],
        ),
        inspect.Parameter(
            "config",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                Optional[str],  # noqa: UP045 - typer reads this form
                typer.Option(help="TOML file with any of these flags; flags override it"),
            ],
        ),
    ]
    for each in fields(RunConfig):
        several = hints[each.name] is not str and hints[each.name] is not int
        kind: Any = list[str] if several else hints[each.name]
        text = each.metadata["help"]
        if each.default is not MISSING and each.default not in ("", (), 0):
            text += f" (default: {each.default})"
        parameters.append(
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[Optional[kind], typer.Option(help=text)],  # noqa: UP045
            )
        )

    def run(file: str, *, config: str | None = None, **flags: Any) -> None:
        command(load_config(config, flags), file)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = doc
    return run
