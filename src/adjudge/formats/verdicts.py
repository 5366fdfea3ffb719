"""Rows of verdicts: which response of a pair a judge preferred, in one order or in both."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

from adjudge.errors import DataError
from adjudge.formats.rows import check_columns, read_rows

#: What a verdict may say, in any case, and its number.
VERDICTS = {"a": 1.0, "b": -1.0, "tie": 0.0}


class VerdictRow(NamedTuple):
    """A judge's verdicts on a pair: 1 = A is better, 0 = tie, -1 = B, NaN = unreadable.

    `swapped` is the verdict when B was shown first, said of the same A and B; None where it was
    not asked.
    """

    id: str
    verdict: float
    swapped: float | None


def read_verdicts(path: str | Path) -> list[VerdictRow]:
    """Return the verdicts in a file.

    Parameters
    ----------
    path
        A ``.jsonl``, ``.csv`` or ``.parquet`` file with ``id``, ``verdict`` (A, B, tie or null:
        could not be read) and, if both orders were asked, ``verdict_swapped``: also in terms of
        A and B as the benchmark has them, whatever was shown first.

    Raises
    ------
    DataError
        If a column is missing, a verdict is something else, or an id comes twice.
    """
    rows: list[VerdictRow] = []
    lines: dict[str, int] = {}
    for line, row in read_rows(path):
        check_columns(row, "id", "verdict", path=path, line=line)
        name = str(row["id"])
        if name in lines:
            raise DataError(
                f"{name} comes twice, here and in line {lines[name]}", path=path, line=line
            )
        lines[name] = line
        verdict, swapped = (
            _verdict(row.get(field), path, line, field) for field in ("verdict", "verdict_swapped")
        )
        rows.append(VerdictRow(name, verdict, swapped if "verdict_swapped" in row else None))
    if not rows:
        raise DataError("there are no rows", path=path)
    if len({row.swapped is None for row in rows}) > 1:
        raise DataError("some rows have verdict_swapped, some do not", path=path)
    return rows


def _verdict(value: Any, path: str | Path, line: int, field: str) -> float:
    if value is None:
        return math.nan
    said = str(value).strip().casefold()
    if said in ("", "null"):
        return math.nan
    if said not in VERDICTS:
        raise DataError(
            f"{value!r} is no verdict: it must be A, B, tie or null",
            path=path,
            line=line,
            field=field,
        )
    return VERDICTS[said]
