"""The judging methods as the registry has them: what each needs, costs and changes."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from typing import get_args, get_type_hints

from adjudge import registry
from adjudge.api import judge_method
from adjudge.reports.grid import check_style, render_grid

WIDTH = 80
HEADER = ("judge", "takes", "paper", "needs", "calls", "differs")


def methods_report(names: Sequence[str], style: str) -> str:
    """Return what there is to know of judges: as blocks of text, or as a grid in other styles.

    Parameters
    ----------
    names
        Which judges; empty: all.
    style
        See `adjudge.reports.grid.render_grid`.

    Raises
    ------
    ConfigError
        If a judge or the style is not known.
    """
    check_style(style)
    rows = [_row(name) for name in names or registry.judges.targets()]
    if style != "text":
        return render_grid(HEADER, rows, style)
    return "\n\n".join(_block(row) for row in rows)


def method_options(name: str) -> str:
    """Return the options of a judge with their defaults and other values, and what they mean."""
    kind = registry.judges.load(name)
    hints = get_type_hints(kind)
    lines = ["", "Options, as --option NAME=VALUE:"]
    for each in fields(kind):
        if each.name not in kind.not_options:
            others = [str(value) for value in get_args(hints[each.name]) if value != each.default]
            lines.append("  " + " | ".join([f"{each.name}={each.default}", *others]))
    return "\n".join([*lines, "", inspect.cleandoc(kind.__doc__ or ""), ""])


def _row(name: str) -> tuple[str, ...]:
    kind = registry.judges.load(name)
    takes = {"response": "a response", "pair": "a pair", "list": "a list"}[kind.takes]
    return (name, takes, kind.url, _needs(name), kind.calls, kind.differs)


def _needs(name: str) -> str:
    """Return what an engine must serve for a judge with its usual options, and for others."""
    usual = judge_method(name, task="instruction", options={})
    return "; ".join(filter(None, [", ".join(sorted(usual.needs)), usual.may_need]))


def _block(row: Sequence[str]) -> str:
    name, *rest = row
    about = (registry.judges.load(name).__doc__ or "").strip().splitlines()[0]
    lines = [f"{name}: {about}"]
    for what, text in zip(HEADER[1:], rest, strict=True):
        lines += textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"  {what:<8} ",
            subsequent_indent=" " * 11,
            break_long_words=False,
        )
    return "\n".join(lines)
