"""A grid of texts in the formats that papers and programs want."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Literal, get_args

from adjudge.registry import unknown_name

Style = Literal["text", "markdown", "latex", "csv", "json"]
_LATEX = str.maketrans(
    {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
     "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)  # fmt: skip


def render_grid(header: Sequence[str], rows: Sequence[Sequence[str]], style: str) -> str:
    """Return a grid as text, Markdown, LaTeX (booktabs), CSV or JSON.

    Parameters
    ----------
    header
        ``(n_columns,)`` names; the first column is set flush left, the others flush right.
    rows
        ``(n_rows, n_columns)`` texts.
    style
        One of ``text``, ``markdown``, ``latex``, ``csv``, ``json``.

    Raises
    ------
    ConfigError
        If the style is not known.

    Examples
    --------
    >>> print(render_grid(["name", "n"], [["a_b", "10"]], "markdown"))
    | name |  n |
    | :--- | -: |
    | a_b  | 10 |
    """
    check_style(style)
    if style == "json":
        return json.dumps([dict(zip(header, row, strict=True)) for row in rows], indent=1)
    if style == "csv":
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])
        return stream.getvalue().rstrip("\n")
    if style == "latex":
        return _latex(header, rows)
    escaped = [[cell.replace("|", r"\|") if style == "markdown" else cell for cell in row]
               for row in [header, *rows]]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*escaped, strict=True)]
    lines = [_cells(row, widths) for row in escaped]
    if style == "text":
        return "\n".join("  ".join(cells).rstrip() for cells in lines)
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [lines[0], rule, *lines[1:]])


def check_style(style: str) -> None:
    """Raise ConfigError if a grid cannot be had in this format."""
    if style not in get_args(Style):
        raise unknown_name("format", style, get_args(Style))


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]


def _latex(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [r"\begin{tabular}{l" + "r" * (len(header) - 1) + "}", r"\toprule"]
    body = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in [header, *rows]]
    return "\n".join([*lines, body[0], r"\midrule", *body[1:], r"\bottomrule", r"\end{tabular}"])
