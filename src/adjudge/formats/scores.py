"""Rows of scores: the one that is written for a judgment, and numbers read from files."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from adjudge.errors import DataError
from adjudge.formats.rows import check_columns, read_rows
from adjudge.schema import Judgment

#: The columns of a file of scores.
SCORE_COLUMNS = (
    "id", "source_id", "system", "criterion", "score", "raw", "distribution", "coverage",
    "status", "n_calls",
)  # fmt: skip


def score_row(judgment: Judgment) -> dict[str, Any]:
    """Return a judgment's row of a file of scores; missing numbers are null."""
    return {
        "id": judgment.item_id,
        "source_id": judgment.source_id,
        "system": judgment.system,
        "criterion": judgment.criterion,
        "score": judgment.value,
        "raw": judgment.raw,
        "distribution": [list(row) for row in judgment.distribution],
        "coverage": judgment.coverage,
        "status": judgment.status.value,
        "n_calls": judgment.n_calls,
    }


class ScoreRow(NamedTuple):
    """A number from a file of scores or of gold; NaN where it has none."""

    id: str
    criterion: str
    source_id: str
    system: str
    value: float


def read_scores(path: str | Path, field: str) -> list[ScoreRow]:
    """Return the numbers in a column of a file, a null one as NaN.

    Parameters
    ----------
    path
        A ``.jsonl``, ``.csv`` or ``.parquet`` file with ``id`` and `field`, and if it has them
        ``criterion``, ``source_id`` and ``system``.
    field
        The column with the numbers.

    Raises
    ------
    DataError
        If a column is missing, a value is no finite number, or an id or a system of a source
        comes twice for one criterion.
    """
    rows: list[ScoreRow] = []
    lines: dict[tuple[str, ...], int] = {}
    for line, row in read_rows(path):
        check_columns(row, "id", field, path=path, line=line)
        texts = {
            name: "" if row.get(name) is None else str(row[name])
            for name in ("id", "criterion", "source_id", "system")
        }
        made = ScoreRow(**texts, value=_number(row[field], path, line, field))
        keys = [(made.criterion, "id", made.id)]
        if made.source_id and made.system:
            keys.append((made.criterion, made.source_id, made.system))
        for key in keys:
            if key in lines:
                raise DataError(
                    f"{' '.join(key[1:])} comes twice, here and in line {lines[key]}",
                    path=path,
                    line=line,
                )
            lines[key] = line
        rows.append(made)
    if not rows:
        raise DataError("there are no rows", path=path)
    return rows


def read_numbers(path: str | Path, field: str, *, limit: int = 0) -> list[float]:
    """Return the numbers of a column in the order of the rows, a null one as NaN.

    Parameters
    ----------
    path
        A ``.jsonl``, ``.csv`` or ``.parquet`` file.
    field
        The column.
    limit
        Read only this many rows; 0 means all.

    Raises
    ------
    DataError
        If a row lacks the column, or a value is no finite number.
    """
    found = []
    for line, row in islice(read_rows(path), limit or None):
        check_columns(row, field, path=path, line=line)
        found.append(_number(row[field], path, line, field))
    return found


def _number(value: object, path: str | Path, line: int, field: str) -> float:
    """Return a cell as a number; null is NaN."""
    if value is None:
        return math.nan
    try:
        if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
            raise ValueError("reads as a number in Python alone")
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        shown = repr(value) if len(str(value)) < 50 else f"{str(value)[:50]!r}..."
        raise DataError(f"{shown} is no number", path=path, line=line, field=field) from error
    if math.isinf(number):
        raise DataError("the number is infinite", path=path, line=line, field=field)
    return number
