"""Named criteria of each task, and criteria from a user's own file.

The names are those of SummEval (Fabbri et al. 2021), USR Topical-Chat (Mehri and Eskenazi 2020),
HANNA (Chhun et al. 2022) and the helpful-honest-harmless scheme; the wording is our own.
"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from adjudge.errors import ConfigError, DataError
from adjudge.registry import unknown_name
from adjudge.schema import TASKS, Criterion


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
        ``file.toml:name``. A file has a table per criterion with ``title`` and ``description``.
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
        fields = table if isinstance(table, dict) else {}
        if unknown := fields.keys() - {"title", "description"}:
            raise DataError(
                f"unknown key {sorted(unknown)[0]!r}; a criterion has title and description",
                path=path,
                field=name,
            )
        title = fields.get("title", name.replace("_", " ").capitalize())
        description = fields.get("description")
        for key, words in (("title", title), ("description", description)):
            if not (isinstance(words, str) and words.strip()):
                raise DataError(f"a criterion needs a {key}", path=path, field=name)
        found[name] = Criterion(name=name, title=str(title), description=str(description))
    return found
