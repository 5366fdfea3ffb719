"""The exact templates that Prometheus models know, read from an installed `prometheus-eval`.

The package's source is read, never imported: its requirements need not be there and none of its
code runs. The prompt is one user message, as in the models' training data: the system sentence, a
blank line and the filled template, to its last blank.

Texts are put in as they are. The templates mark their parts by headings, which a text may hold
too; exchanging them would be another prompt than the one that the models know.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple, cast

from adjudge.errors import ConfigError
from adjudge.exchange import Message
from adjudge.registry import unknown_name
from adjudge.rubrics import rubric_text
from adjudge.schema import Criterion, Scale

DISTRIBUTION = "prometheus-eval"

_FILE = "prometheus_eval/prompts.py"
_SCORES = (1, 2, 3, 4, 5)
#: As `str.format` reads a template of plain fields: doubled braces are single ones.
_FIELD = re.compile(r"\{\{|\}\}|\{(\w+)\}")


class _Form(NamedTuple):
    """A method's prompt: its name, the package's constants, and template field -> judge's text."""

    prompt: str
    system: str
    template: str
    texts: Mapping[str, str]


_FORMS = {
    "prometheus-absolute": _Form(
        prompt="grade",
        system="ABS_SYSTEM_PROMPT",
        template="ABSOLUTE_PROMPT",
        texts={"instruction": "source", "response": "response"},
    ),
    "prometheus-relative": _Form(
        prompt="compare",
        system="REL_SYSTEM_PROMPT",
        template="RELATIVE_PROMPT",
        texts={"instruction": "source", "response_A": "first", "response_B": "second"},
    ),
}


#: The methods that it has prompts for.
METHODS = tuple(_FORMS)


def installed_prompts(method: str) -> InstalledPrompts:
    """Return the templates of the installed package for a method.

    Parameters
    ----------
    method
        ``prometheus-absolute`` or ``prometheus-relative``.

    Raises
    ------
    ConfigError
        If the package has no templates for the method, is not installed or has not the
        templates that are known of it.
    """
    if method not in _FORMS:
        raise ConfigError(
            f"{DISTRIBUTION} has prompts for {' and '.join(_FORMS)}, not for {method!r}"
        )
    try:
        package = distribution(DISTRIBUTION)
    except PackageNotFoundError as error:
        raise ConfigError(
            f"the package {DISTRIBUTION} is not installed: pip install --no-deps {DISTRIBUTION} "
            "(its requirements are not needed)"
        ) from error
    return InstalledPrompts(_FORMS[method], package)


class InstalledPrompts:
    """The prompts of one method, as `PromptSet` has them.

    Attributes
    ----------
    id, version
        The package and its version.
    reference
        ``id@version#hash``: the hash is of the file with the templates.
    settings
        The package's own limit of tokens.
    """

    def __init__(self, form: _Form, package: Distribution) -> None:
        self.id, self.version = DISTRIBUTION, package.version
        self.settings: dict[str, Any] = {"max_tokens": 1024}
        content = self._read(Path(str(package.locate_file(_FILE))))
        self.reference = f"{self.id}@{self.version}#{hashlib.sha256(content).hexdigest()[:8]}"
        self._form = form
        constants = self._constants(content)
        names = (form.system, form.template, f"{form.template}_WO_REF")
        if missing := [name for name in names if name not in constants]:
            raise self._error(f"lacks the texts {', '.join(missing)}")
        self._system, self._with, self._without = (constants[name] for name in names)
        fields = {*form.texts, "rubric"}
        for name, expected in zip(names[1:], (fields | {"reference_answer"}, fields), strict=True):
            found = {match[1] for match in _FIELD.finditer(constants[name]) if match[1]}
            if found != expected:
                raise self._error(
                    f"has the fields {', '.join(sorted(found)) or '(none)'} in its {name} and "
                    f"not {', '.join(sorted(expected))}"
                )

    def render(
        self, name: str, data: Mapping[str, str], /, **fields: object
    ) -> tuple[Message, ...]:
        """Return the filled template as one user message.

        Parameters
        ----------
        name
            ``grade`` of the absolute and ``compare`` of the relative templates.
        data
            ``source`` and ``response``, or ``source``, ``first`` and ``second``; and
            ``reference``, where an empty one takes the template without.
        fields
            ``criterion``, and ``scale`` for ``grade``; `ties` must not be asked for. A comparison
            is shown what is judged and no descriptions of scores.

        Raises
        ------
        ConfigError
            If there is no such prompt, the texts are others, a comparison is to allow ties, or a
            grade has another scale than 1-5 or a criterion without a description for each score.
        """
        if name != self._form.prompt:
            raise unknown_name(f"prompt of {self.reference}", name, [self._form.prompt])
        if data.keys() != (shown := {*self._form.texts.values(), "reference"}):
            raise ConfigError(
                f"the prompts {self.reference} show {', '.join(sorted(shown))}, "
                f"not {', '.join(sorted(data))}"
            )
        values = {field: data[text] for field, text in self._form.texts.items()}
        values |= {"rubric": self._rubric(fields), "reference_answer": data["reference"]}
        template = self._with if data["reference"].strip() else self._without
        filled = _FIELD.sub(lambda match: values[match[1]] if match[1] else match[0][0], template)
        return (Message(role="user", content=f"{self._system}\n\n{filled}"),)

    def _rubric(self, fields: Mapping[str, object]) -> str:
        """Return the block of the rubric."""
        criterion = cast("Criterion", fields["criterion"])
        if self._form.prompt == "compare":
            if fields.get("ties"):
                raise ConfigError(
                    f"the prompts {self.reference} ask for A or B and allow no tie: "
                    "leave ties out or take the built-in prompts"
                )
            return f"[{criterion.description}]"
        scale = cast("Scale", fields["scale"])
        if scale.continuous or scale.scores != _SCORES:
            raise ConfigError(
                f"the prompts {self.reference} ask for a score of 1-5, not of the scale {scale}: "
                "take the scale 1-5 or the built-in prompts"
            )
        if not criterion.rubric:
            raise ConfigError(
                f"the prompts {self.reference} need a description of each score and the criterion "
                f"{criterion.name!r} has none: give it a rubric, or take the built-in prompts"
            )
        return rubric_text(criterion, scale)

    def _read(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise self._error(f"has no file {_FILE}") from error

    def _constants(self, content: bytes) -> dict[str, str]:
        """Return the texts that the file gives names to."""
        try:
            statements = ast.parse(content).body
        except (SyntaxError, ValueError) as error:
            raise self._error(f"has a {_FILE} that is not Python: {error}") from error
        found = {}
        for statement in statements:
            if isinstance(statement, ast.Assign) and (text := _literal(statement.value)):
                names = [each.id for each in statement.targets if isinstance(each, ast.Name)]
                found.update(dict.fromkeys(names, text))
        return found

    def _error(self, problem: str) -> ConfigError:
        return ConfigError(
            f"{DISTRIBUTION} {self.version} {problem}: install the version that is known to "
            f"work, pip install --no-deps {DISTRIBUTION}==0.1.20, or take the built-in prompts"
        )


def _literal(node: ast.expr) -> str | None:
    """Return the text of a string literal, also of one with ``.strip()`` called on it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="strip"),
                      args=[], keywords=[]):  # fmt: skip
            return text.strip()
    return None
