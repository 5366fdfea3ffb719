"""Flags made from the fields of the run configuration, so that both are the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING, fields
from typing import Annotated, Any, Optional, TypeVar, get_type_hints

import typer

from adjudge.registry import unknown_name
from adjudge.runs.config import load_config

Config = TypeVar("Config")


def check_known(what: str, value: str, known: Collection[str]) -> None:
    """Raise ConfigError if a value is not among those that are known; `what` says what it is."""
    if value not in known:
        raise unknown_name(what, value, known)


def configured(
    command: Callable[[Config, str], None],
    kind: type[Config],
    *,
    argument: tuple[str, str],
    doc: str,
) -> Callable[..., None]:
    """Return a Typer command whose flags are the fields of a configuration, with ``--config``.

    A flag that is given overrides the file of ``--config``, which overrides the default.
    `argument` is the name of what is judged and its help text.
    """
    hints = get_type_hints(kind)
    name, about = argument
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            annotation=Annotated[str, typer.Argument(help=about)],
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
    for each in fields(kind):  # type: ignore[arg-type]
        single = hints[each.name] in (str, int, bool)
        hint: Any = hints[each.name] if single else list[str]
        if hints[each.name] in (float, float | None):
            hint = float
        text = each.metadata["help"]
        if each.default is not MISSING and each.default not in (None, "", (), 0, False):
            text += f" (default: {each.default})"
        parameters.append(
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[Optional[hint], typer.Option(help=text)],  # noqa: UP045
            )
        )

    def run(*, config: str | None = None, **flags: Any) -> None:
        judged = flags.pop(name)
        command(load_config(config, flags, kind), judged)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = doc
    return run
