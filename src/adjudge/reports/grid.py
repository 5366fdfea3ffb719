"""A grid of texts in the formats that papers and programs want."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from adjudge.registry import unknown_name

Style = Literal["text", "markdown", "latex", "csv", "json"]
_LATEX = str.maketrans(
    {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
     "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)  # fmt: skip


class Number(NamedTuple):
    """A number in a cell; None and NaN are missing. `digits` and `sign` are for print."""

    value: float | None
    digits: int = 3
    sign: str = ""


class Estimate(NamedTuple):
    """A number with the ends of its interval in a cell; NaN is missing."""

    value: float
    low: float
    high: float


#: Texts and counts are printed as they are.
Cell = str | int | Number | Estimate


def render_grid(header: Sequence[str], rows: Sequence[Sequence[Cell]], style: str) -> str:
    """Return a grid as text, Markdown, LaTeX (booktabs), CSV or JSON.

    Parameters
    ----------
    header
        ``(n_columns,)`` names; the first column is set flush left, the others flush right.
    rows
        ``(n_rows, n_columns)`` cells. For CSV and JSON, numbers stay numbers in full, and an
        estimate becomes three columns: itself, ``_low`` and ``_high``.
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
    if style in ("json", "csv"):
        return _records(header, rows, style)
    texts = [[_text(cell) for cell in row] for row in rows]
    if style == "latex":
        return _latex(header, texts)
    escaped = [[cell.replace("|", r"\|") if style == "markdown" else cell for cell in row]
               for row in [header, *texts]]  # fmt: skip
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


def _text(cell: Cell) -> str:
    """Return a cell for print, without characters that could command a terminal."""
    if isinstance(cell, Number):
        missing = cell.value is None or math.isnan(cell.value)
        return "-" if missing else f"{cell.value:{cell.sign}.{cell.digits}f}"
    if isinstance(cell, Estimate):
        if math.isnan(cell.value):
            return "-"
        ends = "" if math.isnan(cell.low) else f" [{cell.low:.3f}, {cell.high:.3f}]"
        return f"{cell.value:.3f}{ends}"
    return "".join(c if c.isprintable() else "\ufffd" for c in str(cell))


def _records(header: Sequence[str], rows: Sequence[Sequence[Cell]], style: str) -> str:
    """Return rows for programs: one value a column."""
    wide = {
        name
        for column, name in enumerate(header)
        if any(isinstance(row[column], Estimate) for row in rows)
    }
    records = [_record(header, row, wide) for row in rows]
    if style == "json":
        return json.dumps(records, indent=1)
    names = list(records[0]) if records else list(header)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return stream.getvalue().rstrip("\n")


def _record(header: Sequence[str], row: Sequence[Cell], wide: set[str]) -> dict[str, object]:
    """Return a row by column; estimates and what stands below them have three."""
    record: dict[str, object] = {}
    for name, cell in zip(header, row, strict=True):
        if isinstance(cell, Number | Estimate):
            values = cell if isinstance(cell, Estimate) else (cell.value,)
            found: list[object] = [
                None if value is None or math.isnan(value) else value for value in values
            ]
        else:
            found = [cell]
        record[name] = found[0]
        if name in wide:
            low, high = found[1:] if len(found) == 3 else (None, None)
            record |= {f"{name}_low": low, f"{name}_high": high}
    return record


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]


def _latex(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [r"\begin{tabular}{l" + "r" * (len(header) - 1) + "}", r"\toprule"]
    body = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in [header, *rows]]
    return "\n".join([*lines, body[0], r"\midrule", *body[1:], r"\bottomrule", r"\end{tabular}"])
