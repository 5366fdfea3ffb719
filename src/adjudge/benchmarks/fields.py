"""Benchmark files as rows whose fields are checked when they are read.

Every error names the file, the row (counted from 1) and the field.
"""

from __future__ import annotations

import csv
import io
import json
import math
import pickle
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from adjudge.errors import DataError
from adjudge.schema import Source, content_hash


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a file.

    Attributes
    ----------
    values
        Its fields; those of a CSV file are all text.
    within
        The way to it in a nested row ("scores."), for messages.
    """

    path: Path
    line: int
    values: Mapping[str, Any]
    within: str = ""
    is_csv: bool = False

    def error(self, message: str, field: str = "") -> DataError:
        """Return an error that names this row, for the caller to raise."""
        name = f"{self.within}{field}".removesuffix(".") or None
        return DataError(message, path=self.path, line=self.line, field=name)

    def has(self, field: str) -> bool:
        """Return whether there is such a field and it is not null."""
        return self.values.get(field) is not None

    def text(self, field: str, *, empty: bool = False) -> str:
        """Return a text; only with `empty` may it be blank."""
        value = self._value(field)
        if not isinstance(value, str):
            raise self.error(f"must be text, not {_kind(value)}", field)
        if not empty and not value.strip():
            raise self.error("the text is empty", field)
        return self._unicode(value, field)

    def name(self, field: str) -> str:
        """Return an id or a name: a text that is not blank, or a whole number."""
        value = self._value(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text(field)

    def number(self, field: str) -> float:
        """Return a finite number."""
        return self._number(self._value(field), field)

    def numbers(self, field: str) -> tuple[float, ...]:
        """Return the numbers of a list that is not empty; a single number counts as a list."""
        value = self._value(field)
        if not isinstance(value, list | tuple):
            return (self._number(value, field),)
        if not value:
            raise self.error("the list is empty: it needs one number or more", field)
        return tuple(self._number(each, field) for each in value)

    def texts(self, field: str) -> tuple[str, ...]:
        """Return the texts of a list."""
        value = self._value(field)
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise self.error(f"must be a list of texts, not {_kind(value)}", field)
        return tuple(self._unicode(each, field) for each in value)

    def label(self, field: str, meanings: Mapping[Any, float]) -> float:
        """Return what a label means: a key of `meanings`, the type included."""
        value = self._value(field)
        for key, meaning in meanings.items():
            if type(key) is type(value) and key == value:
                return meaning
        allowed = ", ".join(map(repr, meanings))
        raise self.error(f"unknown label {_shown(value)}: it must be one of {allowed}", field)

    def row(self, field: str) -> Row:
        """Return a nested object."""
        return self._inner(self._value(field), field)

    def rows(self, field: str) -> list[Row]:
        """Return the objects of a list."""
        value = self._value(field)
        if not isinstance(value, list | tuple):
            raise self.error(f"must be a list of objects, not {_kind(value)}", field)
        return [self._inner(each, f"{field}.{i}") for i, each in enumerate(value)]

    def _inner(self, value: Any, field: str) -> Row:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise self.error(f"must be an object, not {_kind(value)}", field)
        return Row(path=self.path, line=self.line, values=value, within=f"{self.within}{field}.")

    def _value(self, field: str) -> Any:
        if field not in self.values:
            has = ", ".join(map(str, self.values)) or "nothing"
            raise self.error(f"the field is missing; there is: {has}", field)
        value = self.values[field]
        if value is None:
            raise self.error("the field has no value", field)
        return value

    def _number(self, value: Any, field: str) -> float:
        if self.is_csv and isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise self.error(f"must be a number, not {_shown(value)}", field) from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"must be a number, not {_kind(value)}", field)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error(f"must be a finite number, not {number}", field)
        return number

    def _unicode(self, text: str, field: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self.error("holds half of a surrogate pair, which is no text", field) from None
        return text


class Sources:
    """The sources of a file, one for each text and each with an id of its own."""

    def __init__(self) -> None:
        self._by_text: dict[str, Source] = {}
        self._ids: set[str] = set()

    def __len__(self) -> int:
        return len(self._by_text)

    def of(self, text: str, name: str) -> Source:
        """Return the source of a text.

        A new text is called `name`, with a hash of the text added where another has that name.
        """
        if text not in self._by_text:
            if name in self._ids:
                name = f"{name}-{content_hash(text)[:8]}"
            self._ids.add(name)
            self._by_text[text] = Source(id=name, text=text)
        return self._by_text[text]


class Unique:
    """What may be there only once, with the row where it was seen."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._rows: dict[Hashable, Row] = {}

    def add(self, key: Hashable, row: Row, field: str) -> None:
        """Remember a key.

        Raises
        ------
        DataError
            If it has been there before.
        """
        first = self._rows.setdefault(key, row)
        if first is not row:
            raise row.error(f"the {self._what} {key!r} is also that of row {first.line}", field)


def read_rows(path: Path, *, keyed: bool = False) -> list[Row]:
    """Return the rows of a JSON array, of JSON lines or of a CSV file.

    Parameters
    ----------
    path
        A file; one named ``.csv`` is CSV, of others the content tells.
    keyed
        Whether a single object of objects stands for its values.

    Raises
    ------
    DataError
        If the file cannot be read, has no rows, or a row is no object.
    """
    if path.suffix.lower() == ".csv":
        return _read_csv(path)
    text = read_text(path)
    try:
        content = _parsed(text)
    except ValueError as error:
        if text.lstrip().startswith("["):
            raise DataError(f"not JSON: {error}", path=path) from error
        content = _json_lines(text, path)
    if isinstance(content, dict):
        objects = keyed and all(isinstance(each, dict) for each in content.values())
        content = list(content.values()) if objects else [content]
    if not isinstance(content, list):
        raise DataError(f"must be a list of objects, not {_kind(content)}", path=path)
    if not content:
        raise DataError("there are no rows", path=path)
    for line, values in enumerate(content, start=1):
        if not isinstance(values, dict):
            raise DataError(f"a row must be an object, not {_kind(values)}", path=path, line=line)
    return [Row(path=path, line=i, values=values) for i, values in enumerate(content, start=1)]


def read_mapping(path: Path) -> dict[str, Row]:
    """Return the objects of an object by key, from a JSON or a pickle file (``.pkl``).

    Raises
    ------
    DataError
        If the file cannot be read, is empty or holds something else.
    """
    if path.suffix.lower() == ".pkl":
        content = read_plain_pickle(path)
    else:
        try:
            content = _parsed(read_text(path))
        except ValueError as error:
            raise DataError(f"not JSON: {error}", path=path) from error
    if not isinstance(content, dict):
        raise DataError(f"must be an object of objects, not {_kind(content)}", path=path)
    if not content:
        raise DataError("there are no rows", path=path)
    rows = {}
    for line, (key, values) in enumerate(content.items(), start=1):
        row = Row(path=path, line=line, values={"key": key})
        rows[row.name("key")] = Row(path=path, line=line, values=_object(values, row))
    return rows


def read_plain_pickle(path: Path) -> object:
    """Return the content of a pickle of plain dicts, lists, texts and numbers.

    Nothing in it can be executed: to call anything, a pickle must first name a class or function,
    and each such name is an error here.

    Raises
    ------
    DataError
        If it names a class or function, or is no pickle.
    """
    with path.open("rb") as stream:
        try:
            return _PlainUnpickler(stream, path).load()
        except DataError:
            raise
        except Exception as error:
            raise DataError(f"not a pickle of plain values: {error}", path=path) from error


def read_text(path: Path) -> str:
    """Return a file's text.

    Raises
    ------
    DataError
        If it is not UTF-8 or empty.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error}", path=path) from error
    if not text.strip():
        raise DataError("the file is empty", path=path)
    return text


def mean(numbers: Collection[float]) -> float:
    """Return the mean of one number or more."""
    return math.fsum(numbers) / len(numbers)


def most_votes(votes: Iterable[float]) -> float:
    """Return the preference with the most votes; NaN where two have as many.

    Examples
    --------
    >>> most_votes([1, -1, 1]), most_votes([1, -1, 0])
    (1, nan)
    """
    counts: dict[float, int] = {}
    for vote in votes:
        counts[vote] = counts.get(vote, 0) + 1
    top = [vote for vote, count in counts.items() if count == max(counts.values())]
    return top[0] if len(top) == 1 else math.nan


class _PlainUnpickler(pickle.Unpickler):
    """Reads values that need no class."""

    def __init__(self, stream: Any, path: Path) -> None:
        super().__init__(stream)
        self._path = path

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        """Raise: no name is ever looked up."""
        raise DataError(
            f"the pickle asks for {module_name}.{global_name}, which is never looked up: only "
            "plain dicts, lists, texts and numbers are read",
            path=self._path,
        )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _json_lines(text: str, path: Path) -> list[Any]:
    rows = []
    for line, each in enumerate(text.split("\n"), start=1):
        if each.strip():
            try:
                rows.append(_parsed(each))
            except ValueError as error:
                raise DataError(f"not JSON: {error}", path=path, line=line) from error
    return rows


def _read_csv(path: Path) -> list[Row]:
    csv.field_size_limit(1 << 27)
    rows = []
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        header = next(reader)
        for line, cells in enumerate(filter(None, reader), start=1):
            if len(cells) != len(header):
                message = f"{len(cells)} cells for {len(header)} columns"
                raise DataError(message, path=path, line=line)
            values = {key: cell or None for key, cell in zip(header, cells, strict=True)}
            rows.append(Row(path=path, line=line, values=values, is_csv=True))
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", path=path, line=len(rows) + 1) from error
    if not rows:
        raise DataError("there are no rows", path=path)
    return rows


def _object(values: Any, row: Row) -> Mapping[str, Any]:
    if not isinstance(values, dict):
        raise row.error(f"must be an object, not {_kind(values)}")
    return values


def _kind(value: object) -> str:
    """Return what a value is, in the words of JSON."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    names = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
