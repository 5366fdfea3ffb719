"""Rows of scores: the one that is written for a judgment, and numbers read from files."""

from __future__ import annotations

import math
from collections.abc import Iterable
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
#: Columns that are there if any row fills them: of repeated runs, pairs, lists and feedback.
MORE_COLUMNS = ("sd", "verdict", "verdict_swapped", "ranks", "feedback")


def score_rows(judgments: Iterable[Judgment]) -> list[dict[str, Any]]:
    """Return the rows of a file of scores; missing numbers are null.

    Of pairs the verdicts are always there, also where none could be read.
    """
    given = list(judgments)
    rows = [_row(each) for each in given]
    orders = max((len(each.evidence.get("orders", ())) for each in given), default=0)
    kept = ("verdict", "verdict_swapped")[:orders]
    empty = [
        name for name in MORE_COLUMNS if name not in kept and all(row[name] is None for row in rows)
    ]
    return [{key: value for key, value in row.items() if key not in empty} for row in rows]


def _row(judgment: Judgment) -> dict[str, Any]:
    orders = [*judgment.evidence.get("orders", ()), None, None]
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
        "sd": judgment.sd,
        "verdict": _verdict(orders[0]),
        "verdict_swapped": _verdict(orders[1]),
        "ranks": list(judgment.ranks) or None,
        "feedback": judgment.feedback,
    }


def _verdict(preference: float | None) -> str | None:
    """Return a preference for A as files of verdicts say it."""
    if preference is None:
        return None
    return "A" if preference > 0 else "B" if preference < 0 else "tie"


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
