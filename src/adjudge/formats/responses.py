"""Rows of texts to judge.

A row has either ``source`` or ``instruction``, and ``response``, or ``response_a`` and
``response_b`` for a pair, or a list ``responses`` to be ranked. Taken if they are there: ``id``,
``source_id``, ``system`` (``system_a`` and ``system_b``, ``systems``), ``reference_answer`` or a
list ``reference_answers``, and ``rubric``: a criterion of the row's own. Other columns are let be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from adjudge.errors import ConfigError, DataError
from adjudge.formats.rows import is_unicode, read_rows
from adjudge.rubrics import parse_rubric
from adjudge.schema import Criterion, Source, content_hash

#: The columns of the texts, and of what wrote them, of one response, a pair and a list.
FORMS = {"response": "system", "response_a": "system_a", "responses": "systems"}


class ResponseRow(NamedTuple):
    """Texts to judge at once, as read from a file.

    Attributes
    ----------
    systems, responses
        What wrote each text, "" where that is not said; and the texts.
    criterion
        The row's own criterion; None where those of the run count.
    """

    id: str
    source: Source
    systems: tuple[str, ...]
    responses: tuple[str, ...]
    reference_answers: tuple[str, ...] = ()
    criterion: Criterion | None = None


def read_responses(path: str | Path, *, limit: int = 0) -> list[ResponseRow]:
    """Return the rows of a file in its order.

    A row without ``id`` gets ``source_id/system``, or its number if it has no system or several
    responses; a source without ``source_id`` gets one made of its text. A missing or null cell
    of a response counts as an empty response; a missing column does not.

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
        responses, systems = _texts(row, at)
        single = systems[0] if len(systems) == 1 else ""
        name = f"{source.id}/{single}" if single else f"row-{number}"
        row_id = at.text(row, "id", default=name)
        if row_id in lines:
            hint = "add a column id" if row.get("id") is None else "give each row its own id"
            raise at.error(f"the id {row_id!r} is also that of line {lines[row_id]}: {hint}", "id")
        lines[row_id] = line
        references, criterion = _references(row, at), _criterion(row, at)
        rows.append(ResponseRow(row_id, source, systems, responses, references, criterion))
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


def given_rows(
    sources: Sequence[str],
    responses: Sequence[str | None] | Sequence[Sequence[str]],
    systems: Sequence[str] | Sequence[Sequence[str]] | None,
    reference_answers: Sequence[str | Sequence[str] | None] | None,
    *,
    name: str = "sources",
) -> list[ResponseRow]:
    """Return texts as rows; see `adjudge.BoundJudge.score`.

    `name` is what the sources are called in messages.

    Raises
    ------
    ConfigError
        If the lists are not as long as each other, or what is in them is no text.
    """
    n = len(responses) if isinstance(responses, Sequence) else 0
    columns = {
        name: sources,
        "responses": responses,
        "systems": systems if systems is not None else [""] * n,
        "reference_answers": reference_answers if reference_answers is not None else [""] * n,
    }
    for what, column in columns.items():
        if isinstance(column, str):
            raise ConfigError(f"{what} is one text; give a list of texts")
        if not isinstance(column, Sequence):
            raise ConfigError(f"{what} must be a list of texts, not {type(column).__name__}")
        if len(column) != len(sources):
            said = {"systems": systems, "reference_answers": reference_answers}
            counts = ", ".join(
                f"{len(each)} {what}"
                for what, each in columns.items()
                if what not in said or said[what] is not None
            )
            raise ConfigError(
                f"{name}, responses and what is said of them must be as many: got {counts}"
            )
    for number, text in enumerate(sources, start=1):
        _check_text(f"{name.removesuffix('s')} {number}", text, empty=False)
    known: dict[str, Source] = {}
    for text in sources:
        known.setdefault(text, Source(id=f"source-{len(known) + 1}", text=text))
    rows = []
    for number, (source, given, system, reference) in enumerate(
        zip(*columns.values(), strict=True), start=1
    ):
        texts = tuple(given) if isinstance(given, list | tuple) else (given,)
        for text in texts:
            _check_text(f"response {number}", text, empty=True)
        references = tuple(reference) if isinstance(reference, list | tuple) else (reference,)
        for text in references:
            _check_text(f"reference answer {number}", text, empty=True)
        names = (system,) if isinstance(system, str) else tuple(system)
        if not any(names):
            names = ("",) * len(texts)
        if len(names) != len(texts):
            raise ConfigError(
                f"row {number} has {len(texts)} responses and {len(names)} systems: name each"
            )
        rows.append(
            ResponseRow(
                str(number),
                known[source],
                names,
                tuple(text or "" for text in texts),
                tuple(text.strip() for text in references if text and text.strip()),
            )
        )
    return rows


def _check_text(what: str, text: object, *, empty: bool) -> None:
    """Raise ConfigError if something is no text; None and blanks count as empty ones."""
    if not isinstance(text, str) and not (empty and text is None):
        raise ConfigError(f"{what} must be text, not {text!r}")
    if isinstance(text, str):
        if not is_unicode(text):
            raise ConfigError(f"{what} holds half of a surrogate pair, which is no text")
        if not (empty or text.strip()):
            raise ConfigError(f"{what} is empty")


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

    def texts(self, row: Mapping[str, Any], name: str) -> tuple[str, ...]:
        """Return a column's list of texts; of CSV, from its JSON. Null is an empty text."""
        value = row.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise self.error(f"is no JSON list of texts: {error}", name) from error
        if not isinstance(value, list) or not value:
            raise self.error("must be a list of texts with one or more in it", name)
        named = [{name: each} for each in value]
        return tuple(self.text(each, name, default="") for each in named)


def _texts(row: Mapping[str, Any], at: _Place) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the responses of a row and their systems."""
    given = [name for name in FORMS if row.get(name) is not None]
    if len(given) > 1:
        raise at.error(
            f"a row has one of {', '.join(FORMS)}, not {' and '.join(given)}: drop one", given[1]
        )
    form = next((name for name in (*given, *FORMS) if name in row), "response")
    if form == "responses":
        responses = at.texts(row, form)
        named = row.get("systems") is not None
        systems = at.texts(row, "systems") if named else ("",) * len(responses)
        if len(systems) != len(responses):
            raise at.error(
                f"{len(systems)} systems for {len(responses)} responses: name each", "systems"
            )
        return responses, systems
    names = ("response_a", "response_b") if form == "response_a" else (form,)
    texts = tuple(at.text(row, name, default="" if name in row else None) for name in names)
    columns = (name.replace("response", "system") for name in names)
    return texts, tuple(at.text(row, name, default="") for name in columns)


def _references(row: Mapping[str, Any], at: _Place) -> tuple[str, ...]:
    """Return the reference answers of a row, without empty ones."""
    if isinstance(row.get("reference_answer"), list):
        raise at.error("is a list: call the column reference_answers", "reference_answer")
    if row.get("reference_answers") in (None, []):
        given: tuple[str, ...] = (at.text(row, "reference_answer", default=""),)
    elif row.get("reference_answer") not in (None, ""):
        raise at.error(
            "a row has reference_answer or reference_answers: drop one", "reference_answer"
        )
    else:
        given = at.texts(row, "reference_answers")
    return tuple(text.strip() for text in given if text.strip())


def _criterion(row: Mapping[str, Any], at: _Place) -> Criterion | None:
    """Return the criterion that a row's own rubric describes."""
    rubric = row.get("rubric")
    if rubric is None:
        return None
    if isinstance(rubric, str) and rubric.lstrip().startswith("{"):  # as CSV has tables
        try:
            rubric = json.loads(rubric)
        except (ValueError, RecursionError) as error:
            raise at.error(f"is no JSON table: {error}", "rubric") from error
    if not isinstance(rubric, str | dict):
        raise at.error(f"must be a rubric as text or as a table, not {rubric!r}", "rubric")
    try:
        return parse_rubric(rubric)
    except ConfigError as error:
        raise at.error(str(error), "rubric") from error


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
