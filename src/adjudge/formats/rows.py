"""Rows in files: JSON Lines, CSV and Parquet by suffix."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from adjudge.errors import ConfigError, DataError

SUFFIXES = (".jsonl", ".csv", ".parquet")


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


def is_unicode(text: str) -> bool:
    """Return whether a text can be written in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
