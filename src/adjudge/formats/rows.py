"""Rows of texts to judge, and rows of scores: JSON Lines, CSV and Parquet by suffix.

A row to judge has ``response`` and either ``source`` or ``instruction``; ``id``, ``source_id``
and ``system`` are taken from it if they are there. Other columns are let be.
"""

from __future__ import annotations

import csv
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from adjudge.errors import ConfigError, DataError
from adjudge.schema import Source, content_hash

SUFFIXES = (".jsonl", ".csv", ".parquet")


class ResponseRow(NamedTuple):
    """A response to judge, as read from a file."""

    id: str
    source: Source
    system: str
    response: str


def read_rows(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line, columns) of each row; of a Parquet file, the row's number from 1.

    Raises
    ------
    ConfigError
        If the file is not there or its suffix is not known.
    DataError
        If a line cannot be read.
    """
    path = Path(path)
    check_suffix(path)
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r}")
    readers = {".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet}
    return readers[path.suffix.lower()](path)


def read_responses(path: str | Path, *, limit: int = 0) -> list[ResponseRow]:
    """Return the responses of a file in its order.

    A row without ``id`` gets ``source_id/system``, or its number if it has no system; a source
    without ``source_id`` gets one made of its text. A missing or null ``response`` cell counts
    as an empty response; a missing column does not.

    Parameters
    ----------
    path
        A ``.jsonl``, ``.csv`` or ``.parquet`` file.
    limit
        Read only this many rows; 0 means all.

    Raises
    ------
    ConfigError
        If the limit is negative.
    DataError
        If a column is missing or has no text, two rows have one id, or two texts one source_id.
    """
    if limit < 0:
        raise ConfigError(f"the limit must be 0 (all rows) or more, not {limit}")
    rows: list[ResponseRow] = []
    lines: dict[str, int] = {}
    sources: dict[str, tuple[Source, int]] = {}
    for number, (line, row) in enumerate(read_rows(path), start=1):
        at = _Place(path, line)
        source = _source(row, at, sources)
        system = at.text(row, "system", default="")
        name = f"{source.id}/{system}" if system else f"row-{number}"
        row_id = at.text(row, "id", default=name)
        if row_id in lines:
            hint = "add a column id" if row.get("id") is None else "give each row its own id"
            raise at.error(f"the id {row_id!r} is also that of line {lines[row_id]}: {hint}", "id")
        lines[row_id] = line
        response = at.text(row, "response", default="" if "response" in row else None)
        rows.append(ResponseRow(row_id, source, system, response))
        if limit and number >= limit:
            break
    if not rows:
        raise DataError("there are no rows", path=path)
    return rows


def read_sources(path: str | Path) -> list[Source]:
    """Return the distinct sources of a file in its order; responses need not be there.

    Raises
    ------
    DataError
        If a column is missing or has no text, or two texts have one source_id.
    """
    sources: dict[str, tuple[Source, int]] = {}
    for line, row in read_rows(path):
        _source(row, _Place(path, line), sources)
    if not sources:
        raise DataError("there are no rows", path=path)
    return [source for source, _ in sources.values()]


def check_columns(row: Mapping[str, Any], *names: str, path: str | Path, line: int) -> None:
    """Raise DataError if a row lacks a column, or its ``id`` is null."""
    for name in names:
        if name not in row or (name == "id" and row[name] is None):
            has = ", ".join(map(str, row)) or "nothing"
            raise DataError(
                f"the column is missing; the row has: {has}", path=path, line=line, field=name
            )


def check_suffix(path: Path) -> None:
    """Raise ConfigError if a file's suffix names no known format."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{str(path)!r}: the file's suffix must be {', '.join(SUFFIXES)}")


def check_writable(path: str | Path, *, never: Iterable[str | Path] = ()) -> None:
    """Raise ConfigError if `path` cannot be written, before there is anything to write.

    It may not be one of the files in `never`: what is read must not be written over.
    """
    path = Path(path)
    check_suffix(path)
    for other in map(Path, never):
        if path.resolve() == other.resolve():
            raise ConfigError(f"{str(path)!r} is read from and would be overwritten: name another")
    if path.is_dir():
        raise ConfigError(f"{str(path)!r} is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{str(path)!r} is no ordinary file: name another")
    if not path.parent.is_dir():
        raise ConfigError(f"{str(path)!r} cannot be written: make the folder {str(path.parent)!r}")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "the file is there and read-only")
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be written: {error.strerror}") from error


def write_rows(
    path: str | Path, rows: Iterable[Mapping[str, Any]], *, columns: Sequence[str] = ()
) -> int:
    """Write rows to a file in the format of its suffix, and return how many.

    Nested values become JSON text in CSV and Parquet; `columns` come first there, and are there
    though there are no rows. The file gets its name when it is whole.

    Raises
    ------
    ConfigError
        If the suffix is not known or the file cannot be written.
    """
    path = Path(path).resolve()  # what a link points to is written, not the link
    check_suffix(path)
    writers = {".jsonl": _write_jsonl, ".csv": _write_csv, ".parquet": _write_parquet}
    try:
        with whole_file(path) as part:
            return writers[path.suffix.lower()](part, rows, columns)
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be written: {error.strerror}") from error


# --- reading ------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """A row's place in its file, for messages."""

    path: str | Path
    line: int

    def error(self, message: str, field: str) -> DataError:
        return DataError(message, path=self.path, line=self.line, field=field)

    def text(self, row: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
        """Return a column's text; numbers are let pass as text, as ids often are."""
        value = row.get(name)
        if value is None or (value == "" and default is not None):
            if default is None:
                has = ", ".join(map(str, row)) or "nothing"
                raise self.error(f"the column is missing; the row has: {has}", name)
            return default
        if isinstance(value, str):
            if not is_unicode(value):
                raise self.error("holds half of a surrogate pair, which is no text", name)
            return value
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**30:
            return str(value)
        if isinstance(value, float) and math.isfinite(value):
            return str(value)
        raise self.error(f"must be text, not {type(value).__name__}", name)


def is_unicode(text: str) -> bool:
    """Return whether a text can be written in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _source(row: Mapping[str, Any], at: _Place, sources: dict[str, tuple[Source, int]]) -> Source:
    """Return the source of a row, the same for the same id; `sources` holds those before it."""
    text = _source_text(row, at)
    source_id = at.text(row, "source_id", default=f"source-{content_hash(text)[:8]}")
    source, first = sources.setdefault(source_id, (Source(id=source_id, text=text), at.line))
    if source.text != text:
        raise at.error(
            f"{source_id!r} stands for another text than in line {first}: "
            "give each text its own source_id",
            "source_id",
        )
    return source


def _source_text(row: Mapping[str, Any], at: _Place) -> str:
    """Return what the response answers."""
    given = [name for name in ("source", "instruction") if row.get(name) is not None]
    if len(given) == 2:
        raise at.error("a row has source or instruction, not both: drop one", "instruction")
    if not given and "source" not in row:
        has = ", ".join(map(str, row)) or "nothing"
        raise at.error(f"a row needs source or instruction; this one has: {has}", "source")
    text = at.text(row, given[0] if given else "source")
    if not text.strip():
        raise at.error("the text is empty", given[0])
    return text


def _read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open("rb") as stream:
        for line, text in enumerate(_decoded_lines(path, stream), start=1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise DataError(f"not a JSON line: {error}", path=path, line=line) from error
            if not isinstance(row, dict):
                raise DataError("a row must be a JSON object", path=path, line=line)
            yield line, row


def _read_csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a CSV file; an empty cell is null, a row's line is where it begins."""
    csv.field_size_limit(1 << 27)
    header: list[str] | None = None
    with path.open("rb") as stream:
        reader = csv.reader(_decoded_lines(path, stream), strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise DataError(f"not a CSV row: {error}", path=path, line=line) from error
            if cells is None:
                return
            if not cells:
                continue
            if header is None:
                header = cells
                if repeated := [name for name in header if header.count(name) > 1]:
                    raise DataError(
                        "two columns have this name", path=path, line=line, field=repeated[0]
                    )
                continue
            if len(cells) != len(header):
                raise DataError(
                    f"{len(cells)} cells for {len(header)} columns", path=path, line=line
                )
            yield line, {name: cell or None for name, cell in zip(header, cells, strict=True)}


def _decoded_lines(path: Path, stream: BinaryIO) -> Iterator[str]:
    """Yield a file's lines as text."""
    for line, raw in enumerate(stream, start=1):
        try:
            yield raw.decode("utf-8-sig" if line == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8: {error}", path=path, line=line) from error


def _read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    import polars

    try:
        frame = polars.read_parquet(path, glob=False)
    except (polars.exceptions.PolarsError, OSError) as error:
        raise DataError(f"not a Parquet file: {error}", path=path) from error
    return iter(enumerate(frame.iter_rows(named=True), start=1))


# --- writing ------------------------------------------------------------------------------------


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a file to write that takes the place of `path` only if all went well."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> int:
    del columns  # every line names its own
    n = 0
    with path.open("w", encoding="utf-8") as stream:
        for n, row in enumerate(rows, start=1):  # noqa: B007 - the last number is the count
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    return n


def _write_csv(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> int:
    flat = [_flat(row) for row in rows]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=_columns(flat, columns))
        writer.writeheader()
        writer.writerows(flat)
    return len(flat)


def _write_parquet(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> int:
    import polars

    flat = [_flat(row) for row in rows]
    frame = polars.DataFrame(flat, schema=_columns(flat, columns), infer_schema_length=None)
    # Columns without any value are those of missing numbers: files must be alike.
    frame = frame.with_columns(polars.col(polars.Null).cast(polars.Float64))
    try:
        frame.write_parquet(path)
    except polars.exceptions.PolarsError as error:
        raise OSError(None, str(error)) from error
    return len(flat)


def _columns(rows: Sequence[Mapping[str, Any]], first: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*first, *(name for row in rows for name in row)]))


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with nested values as JSON text."""
    return {
        name: json.dumps(value, ensure_ascii=False)
        if isinstance(value, list | tuple | dict)
        else value
        for name, value in row.items()
    }
