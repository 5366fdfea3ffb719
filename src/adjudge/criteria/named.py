"""Named criteria of each task, and criteria from a user's own file.

A file has a table for each criterion: ``description`` and, if wanted, ``title``, ``rubric`` and
``questions``::

    [wit]
    title = "Wit"
    description = "how funny it is"
    rubric.1 = "nobody would smile"
    rubric.2 = "some would smile"
    questions = ["Is there a joke in it?", { text = "Is it new?", weight = 2 }]

``rubric`` is score -> description, a score with a point in quotes (``rubric."0.5"``), or a list
of descriptions, lowest first, which go to the scores of the scale in turn. ``questions`` is what
a checklist asks; each weighs 1 if not said.

The names are those of SummEval (Fabbri et al. 2021), USR Topical-Chat (Mehri and Eskenazi 2020),
HANNA (Chhun et al. 2022) and the helpful-honest-harmless scheme; the wording is our own.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from adjudge.errors import ConfigError, DataError
from adjudge.registry import unknown_name
from adjudge.rubrics import described_levels
from adjudge.schema import TASKS, Criterion, Question

_KEYS = ("title", "description", "rubric", "questions")


def named_criteria(task: str) -> dict[str, Criterion]:
    """Return the built-in criteria of a task by name.

    Raises
    ------
    ConfigError
        If the task is not known.
    """
    if task not in TASKS:
        raise unknown_name("task", task, TASKS)
    place = files("adjudge.criteria") / "data" / f"{task}.toml"
    return _criteria(place.read_text("utf-8"), str(place))


def load_criterion(name: str, task: str) -> Criterion:
    """Return a criterion by name, or from a TOML file.

    Parameters
    ----------
    name
        A built-in name of the task, ``file.toml`` with one criterion in it, or
        ``file.toml:name``; the top of this module shows such a file.
    task
        Which task's names count.

    Raises
    ------
    ConfigError
        If there is no such criterion or file; the message lists the nearest names.
    DataError
        If the file does not hold criteria.
    """
    in_file = re.fullmatch(r"(.+\.toml)(?::(.+))?", name)
    if not in_file:
        known = named_criteria(task)
        if name not in known:
            raise unknown_name(
                f"criterion of {task}", name, known, hint="Or a TOML file with your own"
            )
        return known[name]
    path, wanted = Path(in_file[1]), in_file[2] or ""
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r} with a criterion")
    try:
        own = _criteria(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", path=path) from error
    if not own:
        raise DataError("there is no criterion in it", path=path)
    if not wanted and len(own) == 1:
        return next(iter(own.values()))
    if not wanted:
        raise ConfigError(
            f"{path} holds {len(own)} criteria: name one, as in {path}:{next(iter(own))}"
        )
    if wanted not in own:
        raise unknown_name(f"criterion in {path}", wanted, own)
    return own[wanted]


def _criteria(text: str, path: str) -> dict[str, Criterion]:
    """Return the criteria of a TOML text."""
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"not TOML: {error}", path=path) from error
    found = {}
    for name, table in tables.items():
        try:
            found[name] = _criterion(name, table if isinstance(table, dict) else {})
        except ConfigError as error:
            raise DataError(str(error), path=path, field=name) from error
    return found


def _criterion(name: str, fields: dict[str, Any]) -> Criterion:
    """Return the criterion of a table."""
    if unknown := fields.keys() - set(_KEYS):
        raise ConfigError(f"unknown key {sorted(unknown)[0]!r}; a criterion has {', '.join(_KEYS)}")
    title = fields.get("title", name.replace("_", " ").capitalize())
    description = fields.get("description")
    for key, words in (("title", title), ("description", description)):
        if not (isinstance(words, str) and words.strip()):
            raise ConfigError(f"a criterion needs a {key}")
    criterion = Criterion(name=name, title=str(title), description=str(description))
    if "rubric" in fields:
        rubric, levels = described_levels(fields["rubric"], name=name)
        criterion = replace(criterion, rubric=rubric, levels=levels)
    if "questions" in fields:
        criterion = replace(criterion, questions=_questions(fields["questions"]))
    return criterion


def _questions(asked: object) -> tuple[Question, ...]:
    """Return the questions of a list of texts, or of tables of text and weight."""
    if not (isinstance(asked, list) and asked):
        raise ConfigError(f"questions must be a list with one question or more, not {asked!r}")
    found: dict[str, Question] = {}
    for n, each in enumerate(asked, start=1):
        table = each if isinstance(each, dict) else {"text": each}
        if unknown := table.keys() - {"text", "weight"}:
            raise ConfigError(
                f"question {n} has an unknown key {sorted(unknown)[0]!r}; it has text and weight"
            )
        text, weight = table.get("text"), table.get("weight", 1)
        if not (isinstance(text, str) and text.strip()):
            raise ConfigError(f"question {n} has no text")
        if isinstance(weight, bool) or not (isinstance(weight, int | float) and weight > 0):
            raise ConfigError(f"question {n} must have a weight above 0, not {weight!r}")
        if text.strip() in found:
            raise ConfigError(f"question {n} repeats an earlier one, {text.strip()!r}: drop one")
        found[text.strip()] = Question(text=text.strip(), weight=float(weight))
    return tuple(found.values())
