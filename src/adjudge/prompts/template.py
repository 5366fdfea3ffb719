"""Prompts as data: TOML files with an id, a version and Jinja2 texts.

A file holds the prompts of one method for one task, each in a table of its own with the text of
the ``user`` message and, if wanted, of a ``system`` message before it. Texts to be judged are
data, never instructions: templates put them between tags such as ``<article>`` or below headings
such as ``###Response A:``, and wherever one of these is spelled inside a text, its first character
is exchanged.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Protocol

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from adjudge.errors import ConfigError, DataError
from adjudge.exchange import Message
from adjudge.prompts.prometheus_eval import DISTRIBUTION, METHODS, installed_prompts
from adjudge.registry import unknown_name
from adjudge.schema import TASKS, Criterion

_HEADING = re.compile(r"^###[ \t]*([A-Za-z][A-Za-z ]*)", re.MULTILINE)
_LINE_END = "[\r\v\f\x1c-\x1e\x85\u2028\u2029]"
_TAG = re.compile(r"</?([^\W\d][\w-]*)>")
_FAILURES = (TemplateError, TypeError, ValueError, AttributeError, ArithmeticError)
_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
)


class Prompts(Protocol):
    """What a judge needs of its prompts; `PromptSet` says what each part is."""

    id: str
    reference: str
    settings: dict[str, Any]

    def render(
        self, name: str, data: Mapping[str, str], /, **fields: object
    ) -> tuple[Message, ...]:
        """Return the messages of one prompt."""


class PromptSet:
    """The prompts of one method for one task.

    Attributes
    ----------
    id, version
        As the file says.
    reference
        ``id@version#hash``: the hash is of the file, so that an edit shows in every signature.
    settings
        Numbers that belong to the texts, such as ``max_tokens``.
    """

    def __init__(self, content: bytes, *, path: str) -> None:
        try:
            fields = tomllib.loads(content.decode("utf-8"))
            self.id, self.version = str(fields.pop("id")), int(fields.pop("version"))
            tables = {name: value for name, value in fields.items() if isinstance(value, dict)}
            self.settings: dict[str, Any] = {
                name: value for name, value in fields.items() if name not in tables
            }
            self._prompts = {name: _Prompt(table) for name, table in tables.items()}
        except KeyError as error:
            raise DataError(f"the key {error} is missing", path=path) from error
        except _FAILURES as error:
            raise DataError(f"not a prompt file: {error}", path=path) from error
        self.reference = f"{self.id}@{self.version}#{hashlib.sha256(content).hexdigest()[:8]}"

    def render(
        self, name: str, data: Mapping[str, str], /, **fields: object
    ) -> tuple[Message, ...]:
        """Return the messages of one prompt.

        Parameters
        ----------
        name
            Which prompt of the set.
        data
            Texts to be judged or shown; the prompt's own tags inside them are neutralised.
        fields
            Other values that the template names.

        Raises
        ------
        ConfigError
            If the set has no such prompt, or the template names a value that is not given.
        """
        if name not in self._prompts:
            raise unknown_name(f"prompt of {self.id}", name, self._prompts)
        try:
            return self._prompts[name].render(data, fields)
        except _FAILURES as error:
            raise ConfigError(f"the prompt {name} of {self.reference} failed: {error}") from error


class _Prompt:
    """One prompt: its texts by role and the tags that it uses."""

    def __init__(self, table: Mapping[str, str]) -> None:
        if unknown := table.keys() - {"system", "user"}:
            raise ValueError(f"unknown key {sorted(unknown)[0]!r}; a prompt has system and user")
        self._texts: list[tuple[Any, Template]] = []
        if "system" in table:
            self._texts.append(("system", _ENVIRONMENT.from_string(table["system"])))
        self._texts.append(("user", _ENVIRONMENT.from_string(table["user"])))
        self._uses = set().union(
            *(find_undeclared_variables(_ENVIRONMENT.parse(text)) for text in table.values())
        )
        texts = "\n".join(table.values())
        names = set(_TAG.findall(texts))
        self._tags = (
            re.compile(rf"<(?=[^\w<>]*(?:{'|'.join(map(re.escape, names))})\b)", re.I)
            if names
            else None
        )
        self._headings = _opening(found.strip() for found in _HEADING.findall(texts))

    def render(self, data: Mapping[str, str], fields: Mapping[str, object]) -> tuple[Message, ...]:
        if unused := sorted(data.keys() - self._uses):
            raise ValueError(f"it does not show {{{{ {unused[0]} }}}}")
        clean = {name: self._neutralised(text) for name, text in data.items()}
        fields = {name: self._harmless(value) for name, value in fields.items()}
        return tuple(
            Message(role=role, content=template.render(**fields, **clean).strip())
            for role, template in self._texts
        )

    def _neutralised(self, text: str) -> str:
        text = text.strip()
        if self._tags:
            text = self._tags.sub("\u2039", text)
        return self._headings.sub("\\1\\2\uff03", text) if self._headings else text

    def _harmless(self, value: object) -> object:
        """Return a criterion, or what is said of scores, with its own markers neutralised."""
        if isinstance(value, Criterion):
            return replace(
                value,
                title=self._neutralised(value.title),
                description=self._neutralised(value.description),
                rubric=tuple(map(self._neutralised, value.rubric)),
            )
        if isinstance(value, tuple):
            return tuple(
                self._neutralised(each) if isinstance(each, str) else self._harmless(each)
                for each in value
            )
        return value


def _opening(names: Iterable[str]) -> re.Pattern[str] | None:
    """Return what opens a block with one of these headings, however it is spelled.

    Of a heading of several words the first one is enough, unless it is "The"; line ends and blanks
    may be any, and marks may stand before the name.
    """
    known = {name if name.startswith("The") else name.split()[0] for name in names}
    if not known:
        return None
    spelled = "|".join(sorted(re.escape(name.removesuffix("s")) for name in known))
    return re.compile(rf"(^|{_LINE_END})([^\S\n]*)#(?=#{{2,}}[\W_]*(?:{spelled}))", re.I | re.M)


def load_prompts(method: str, task: str, *, folder: str | Path | None = None) -> Prompts:
    """Return the prompts of a method for a task.

    Parameters
    ----------
    method, task
        ``<method>/<task>.toml`` is the file's place.
    folder
        A folder of your own to take the file from; or ``prometheus-eval``, if there is no folder
        of that name: the templates of that package, where it is installed.

    Raises
    ------
    ConfigError
        If the task is not known, the method has no prompts for it or the folder is not there.
    DataError
        If the file is not a prompt file.
    """
    if str(folder) == DISTRIBUTION and task in TASKS and not Path(DISTRIBUTION).is_dir():
        return installed_prompts(method)
    place = _place(method, task, folder)
    return PromptSet(place.read_bytes(), path=str(place))


def has_prompts(method: str, task: str, folder: str | Path) -> bool:
    """Return whether a folder, or an installed package of that name, has prompts of a method."""
    if str(folder) == DISTRIBUTION and not Path(DISTRIBUTION).is_dir():
        return method in METHODS
    return (Path(folder) / method / f"{task}.toml").is_file()


def prompt_source(method: str, task: str) -> str:
    """Return the text of the built-in file of a method's prompts for a task."""
    return _place(method, task, None).read_text("utf-8")


def _place(method: str, task: str, folder: str | Path | None) -> Traversable:
    """Return the file with a method's prompts for a task."""
    if task not in TASKS:
        raise unknown_name("task", task, TASKS)
    built_in: Traversable = files("adjudge.prompts") / "data"
    if folder is not None and not Path(folder).is_dir():
        raise ConfigError(f"there is no folder {str(folder)!r} with prompts")
    base = built_in if folder is None else Path(folder)
    place = base / method / f"{task}.toml"
    if not place.is_file():
        where = f"the folder {str(folder)!r} has no" if folder is not None else "there is no"
        raise ConfigError(f"{where} {method}/{task}.toml")
    return place
