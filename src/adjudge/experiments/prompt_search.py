"""A search for instructions by itself, and what it found as prompts for other judges."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from adjudge.engines.base import Engine
from adjudge.errors import ConfigError
from adjudge.formats.responses import ResponseRow
from adjudge.formats.rows import whole_file
from adjudge.judges.zepo import ZepoJudge
from adjudge.judges.zepo_search import KEPT, Candidate
from adjudge.prompts.template import prompt_source
from adjudge.runs.plan import check_prompts
from adjudge.runs.runner import Event, Runner
from adjudge.runs.start import check_needs
from adjudge.runs.store import Store
from adjudge.schema import Item

#: The judges whose prompts take an instruction that was found.
METHODS = ("pairs", "zepo")
#: What could end a text of a template, or of the TOML file around it.
_UNSAFE = re.compile(r"""["\\{}]|'(?=')""")


class Found(NamedTuple):
    """The instruction that a search ended with, the initial one, and the size of the search."""

    best: Candidate
    initial: Candidate
    n_tried: int
    n_dropped: int


class Search(NamedTuple):
    """A search that happens while `events` are taken."""

    runner: Runner
    events: Iterator[Event]

    @property
    def ended(self) -> ZepoJudge | None:
        """The judge with what was found; None until the search has ended."""
        judge = self.runner.judge
        return judge if isinstance(judge, ZepoJudge) and judge.log else None


def start_search(
    judge: ZepoJudge,
    engine: Engine,
    items: Sequence[Item],
    store: Store,
    *,
    stopped: Callable[[], bool] = lambda: False,
) -> Search:
    """Return the search for an instruction for each criterion of the lists.

    Everything that can be wrong with the lists and prompts is found here, before anything runs.
    What the store holds is not asked again, so that a search that was stopped goes on.

    Parameters
    ----------
    judge, engine, store
        Who searches with which model, and where replies are kept.
    items
        Lists of responses, by every criterion.
    stopped
        Asked after every reply; when it says True the search ends without a result.

    Raises
    ------
    ConfigError
        If the engine does not serve the judge, a criterion has no list with two different
        responses, or a prompt does not fit the context.
    """
    check_needs(judge, engine)
    criteria = dict.fromkeys(item.criterion for item in items)
    lists = [item for criterion in criteria for item in judge.searched(items, criterion)]
    check_prompts(judge, lists, engine, store)
    runner = Runner(judge, engine, store, stopped=stopped)
    return Search(runner, runner.run([], known=lists))


def grouped(rows: Sequence[ResponseRow]) -> list[ResponseRow]:
    """Return rows of lists: single responses of one source become one, others stay as they are.

    Raises
    ------
    ConfigError
        If a row has a rubric of its own.
    """
    if own := [row.id for row in rows if row.criterion]:
        raise ConfigError(
            f"an instruction is searched for criteria by name, and the row {own[0]!r} has a "
            "rubric of its own: drop the column rubric, or put it into a file for --criterion"
        )
    lists: dict[tuple[str, str], ResponseRow] = {}
    for row in rows:
        key = (row.source.id, "" if len(row.responses) == 1 else row.id)
        before = lists.get(key)
        if before is None:
            lists[key] = row._replace(id=row.id if key[1] else row.source.id)
        else:
            lists[key] = before._replace(
                systems=before.systems + row.systems, responses=before.responses + row.responses
            )
    return list(lists.values())


def found(judge: ZepoJudge) -> dict[str, Found]:
    """Return what a search found for each criterion."""
    logs: dict[str, list[Candidate]] = {name: [] for name in judge.instructions}
    for candidate in judge.log:
        logs[candidate.criterion].append(candidate)
    return {
        name: Found(
            best=[each for each in log if each.outcome == KEPT][-1],
            initial=log[0],
            n_tried=len(log),
            n_dropped=sum(each.outcome.startswith("dropped") for each in log),
        )
        for name, log in logs.items()
    }


def log_rows(log: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Return one row per instruction that was tried, in the order of the search."""
    return [each._asdict() | {"fairness": each.fairness} for each in log]


# --- prompts ------------------------------------------------------------------------------------


def write_prompts(
    out: str | Path,
    task: str,
    instructions: Mapping[str, str],
    *,
    folder: str | Path | None = None,
) -> list[Path]:
    """Write prompts with instructions that were found, for the judges in `METHODS`.

    Criteria without one keep the initial instruction.

    Parameters
    ----------
    out
        A folder to give to ``--prompts``; it is made if it is not there.
    task
        What the responses are.
    instructions
        By the name of their criterion.
    folder
        Where the prompts of the search are from; None: the built-in ones.

    Returns
    -------
    list of Path
        The files, ``METHOD/TASK.toml``.

    Raises
    ------
    ConfigError
        If they cannot be written.
    """
    source = _source("zepo", task, folder)
    initial = source["instruction"]["user"].strip()
    written = []
    for method in METHODS:
        tables = dict(source) if method == "zepo" else _source(method, task, None)
        if method == "zepo":
            tables["instruction"] = {"user": _branches(instructions, "{{{{ {} }}}}", initial)}
        else:
            chosen = _branches(
                instructions,
                "{{% set instruction = {} %}}",
                f"{{% set instruction %}}{initial}{{% endset %}}",
            )
            tables["compare"] = {
                role: f"{chosen}{text.lstrip()}" if "instruction" in text else text
                for role, text in source["compare"].items()
            }
        tables["id"] = f"{method}/{task}/searched"
        path = Path(out) / method / f"{task}.toml"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as part:
                part.write_text(_as_toml(tables), "utf-8", newline="\n")
        except OSError as error:
            raise ConfigError(f"{str(path)!r} cannot be written: {error.strerror}") from error
        written.append(path)
    return written


def template_text(text: str) -> str:
    r"""Return a text as what a template calls a string, safe in a TOML file too.

    >>> print(template_text('say "{{ A }}"'))
    "say \x22\x7b\x7b A \x7d\x7d\x22"
    """
    escaped = (
        _escape(each) if _UNSAFE.match(text, i) or not each.isprintable() else each
        for i, each in enumerate(text)
    )
    return f'"{"".join(escaped)}"'


def _escape(character: str) -> str:
    """Return a character as Python and Jinja spell it by its number."""
    number = ord(character)
    if number < 1 << 8:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def _branches(instructions: Mapping[str, str], form: str, otherwise: str) -> str:
    """Return a template that chooses by the criterion's name."""
    lines: list[str] = []
    for name, text in instructions.items():
        test = "elif" if lines else "if"
        lines.append(f"{{% {test} criterion.name == {template_text(name)} %}}")
        lines.append(form.format(template_text(text)))
    return "\n".join([*lines, "{% else %}", otherwise, "{% endif %}", ""])


def _source(method: str, task: str, folder: str | Path | None) -> dict[str, Any]:
    """Return the content of a prompt file."""
    if folder is None:
        return tomllib.loads(prompt_source(method, task))
    return tomllib.loads((Path(folder) / method / f"{task}.toml").read_text("utf-8"))


def _as_toml(tables: Mapping[str, Any]) -> str:
    """Return a prompt file: its settings, then its prompts."""
    lines = [
        f"{name} = {_toml_value(value)}"
        for name, value in tables.items()
        if not isinstance(value, dict)
    ]
    for name, prompt in tables.items():
        if isinstance(prompt, dict):
            bare = re.fullmatch(r"[\w-]+", name, re.ASCII)
            lines += ["", f"[{name if bare else json.dumps(name)}]"]
            lines += [f"{role} = {_toml_value(text)}" for role, text in prompt.items()]
    return "\n".join([*lines, ""])


def _toml_value(value: object) -> str:
    """Return a text, a number, a truth value or a list of them as TOML writes it."""
    if isinstance(value, str) and "\n" in value:
        plain = all(each.isprintable() or each in "\n\t" for each in value)
        if plain and "'''" not in value and not value.endswith("'"):
            return f"'''\n{value}'''"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
