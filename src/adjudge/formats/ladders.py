"""Files of ladders: published, exchanged and edited; one JSON line per rung.

The first line names the format and its version. Each other line is a rung: ``source_id``,
``source_hash``, ``criterion``, ``criterion_hash``, ``rung`` (1 is the worst), ``rungs`` (how many
the ladder has), ``text`` (null where it could not be written, with the ``problem``) and
``writer``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from adjudge.errors import ConfigError, DataError
from adjudge.formats.rows import check_writable, read_rows, whole_file
from adjudge.schema import Criterion, Ladder, Source

FORMAT, VERSION = "adjudge-ladders", 1
_TEXTS = ("source_id", "source_hash", "criterion", "criterion_hash", "writer")
HUMAN, EDITED = "human", "perhaps edited: "


def ladder_rows(ladders: Iterable[Ladder]) -> list[dict[str, Any]]:
    """Return one row per rung, worst first."""
    return [
        {
            "source_id": ladder.source_id,
            "source_hash": ladder.source_hash,
            "criterion": ladder.criterion,
            "criterion_hash": ladder.criterion_hash,
            "rung": rung,
            "rungs": len(ladder.rungs),
            "text": text,
            "problem": ladder.problems.get(rung),
            "writer": ladder.writer,
        }
        for ladder in ladders
        for rung, text in enumerate(ladder.rungs, start=1)
    ]


def write_ladders(path: str | Path, ladders: Iterable[Ladder]) -> int:
    """Write ladders to a ``.jsonl`` file, and return how many.

    Raises
    ------
    ConfigError
        If the suffix is another or the file cannot be written.
    """
    path = check_ladder_path(path)
    check_writable(path)
    all_of_them = list(ladders)
    lines = [{"format": FORMAT, "version": VERSION}, *ladder_rows(all_of_them)]
    with whole_file(path.resolve()) as part:
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        part.write_text(text, "utf-8")
    return len(all_of_them)


def read_ladders(path: str | Path) -> dict[tuple[str, str], Ladder]:
    """Return the ladders of a file by source hash and criterion.

    Raises
    ------
    ConfigError
        If the file is not there.
    DataError
        If it is no file of ladders, or one of them lacks a rung or has one twice.
    """
    lines = list(read_rows(check_ladder_path(path)))
    header = lines[0][1] if lines else {}
    if header.get("format") != FORMAT:
        raise DataError(
            f"no file of ladders: the first line must be {json.dumps({'format': FORMAT})} with "
            "a version; make one with `adjudge ladder build` or `adjudge ladder import`",
            path=path,
            line=1,
        )
    if header.get("version") != VERSION:
        raise DataError(
            f"ladders of version {header.get('version')!r}; this adjudge reads version {VERSION}",
            path=path,
            line=1,
        )
    found: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
    for line, row in lines[1:]:
        _check_row(row, path, line)
        found.setdefault((row["source_hash"], row["criterion"]), []).append((line, row))
    if not found:
        raise DataError("there are no ladders", path=path)
    return {key: _ladder(rows, path) for key, rows in found.items()}


def import_ladders(
    path: str | Path, sources: Iterable[Source], criteria: Sequence[Criterion]
) -> list[Ladder]:
    """Return ladders from rows that people wrote or edited.

    Parameters
    ----------
    path
        A ``.jsonl``, ``.csv`` or ``.parquet`` file with ``source_id``, ``criterion``, ``rung``
        (1 is the worst) and ``text``; a ``writer`` that it has is marked, since any rung may
        have been edited.
    sources, criteria
        What the names in it stand for.

    Raises
    ------
    DataError
        If a column is missing, a name is not known, or a ladder lacks a rung.
    """
    known = {source.id: source for source in sources}
    meant = {criterion.name: criterion for criterion in criteria}
    found: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
    for line, row in read_rows(path):
        if row.get("format") == FORMAT:
            continue
        for name, names in (("source_id", known), ("criterion", meant)):
            if str(row.get(name)) not in names:
                shown = ", ".join(list(names)[:5])
                raise DataError(
                    f"{row.get(name)!r} is not known; there are: {shown}",
                    path=path,
                    line=line,
                    field=name,
                )
        source, criterion = known[str(row["source_id"])], meant[str(row["criterion"])]
        for field, right in (("source_hash", source.hash), ("criterion_hash", criterion.hash)):
            if row.get(field) not in (None, right):
                raise DataError(
                    "the rung was written for something else than this name stands for now: drop "
                    "the column if it fits all the same",
                    path=path,
                    line=line,
                    field=field,
                )
        filled = {
            "source_id": source.id,
            "source_hash": source.hash,
            "criterion": criterion.name,
            "criterion_hash": criterion.hash,
            "rung": _whole(row.get("rung")),
            "text": row.get("text"),
            "writer": _edited(row.get("writer")),
        }
        _check_row(filled | {"rungs": 2}, path, line)
        found.setdefault((source.hash, criterion.name), []).append((line, filled))
    if not found:
        raise DataError("there are no rungs", path=path)
    for rows in found.values():
        for _, each in rows:
            each["rungs"] = max(row["rung"] for _, row in rows)
    return [_ladder(rows, path) for rows in found.values()]


def check_ladder_path(path: str | Path) -> Path:
    """Return the path of a file of ladders; raise ConfigError if its suffix is another."""
    if Path(path).suffix.lower() != ".jsonl":
        raise ConfigError(f"{str(path)!r}: a file of ladders ends in .jsonl")
    return Path(path)


def _check_row(row: Mapping[str, Any], path: str | Path, line: int) -> None:
    for name in _TEXTS:
        if not isinstance(row.get(name), str):
            raise DataError(
                f"must be text, not {row.get(name)!r}", path=path, line=line, field=name
            )
    for name in ("rung", "rungs"):
        value = row.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DataError(
                f"must be a whole number from 1, not {value!r}", path=path, line=line, field=name
            )
    text = row.get("text")
    if text is not None and not isinstance(text, str):
        raise DataError(
            f"a rung must have a text, not {text!r}", path=path, line=line, field="text"
        )


def _ladder(rows: Sequence[tuple[int, dict[str, Any]]], path: str | Path) -> Ladder:
    """Return one ladder from its rows."""
    line, first = rows[0]
    name = f"the ladder of {first['source_id']!r} by {first['criterion']!r}"
    texts: dict[int, str | None] = {}
    problems: dict[int, str] = {}
    for at, row in rows:
        if row["rung"] in texts or row["rung"] > first["rungs"]:
            raise DataError(
                f"{name} of {first['rungs']} rungs has rung {row['rung']} once too often",
                path=path,
                line=at,
                field="rung",
            )
        for field in ("rungs", "criterion_hash"):
            if row[field] != first[field]:
                raise DataError(
                    f"{name} says {row[field]!r} here and {first[field]!r} in line {line}",
                    path=path,
                    line=at,
                    field=field,
                )
        texts[row["rung"]] = row.get("text")
        if row.get("problem"):
            problems[row["rung"]] = str(row["problem"])
    if first["rungs"] < 2:
        raise DataError(f"{name} has one rung; it takes two at least", path=path, line=line)
    if not problems:  # without one, every rung must be there
        for at, row in rows:
            if not (row.get("text") or "").strip():
                raise DataError(
                    f"a rung must have a text, not {row.get('text')!r}",
                    path=path,
                    line=at,
                    field="text",
                )
    if missing := [rung for rung in range(1, first["rungs"] + 1) if rung not in texts]:
        raise DataError(f"{name} lacks rung {missing[0]}", path=path, line=line)
    return Ladder(
        source_id=first["source_id"],
        source_hash=first["source_hash"],
        criterion=first["criterion"],
        criterion_hash=first["criterion_hash"],
        rungs=tuple(texts[rung] for rung in range(1, first["rungs"] + 1)),
        problems=problems,
        writer=first["writer"],
    )


def _edited(writer: object) -> object:
    """Return who wrote rungs that went through people's hands."""
    if not isinstance(writer, str) or writer.startswith((HUMAN, EDITED)):
        return writer or HUMAN
    return f"{EDITED}{writer}" if writer else HUMAN


def _whole(value: object) -> object:
    """Return a cell of a CSV file as the whole number that it spells, if it does."""
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value
