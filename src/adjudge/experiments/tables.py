"""The tables of a paper on judges as presets: what is printed, and what can be run."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.resources import files
from typing import Any, Literal, NamedTuple, cast

from adjudge import registry
from adjudge.benchmarks.base import RatedResponse, Rows
from adjudge.errors import ConfigError
from adjudge.registry import unknown_name

Measure = Literal["pearson", "accuracy"]


@dataclass(frozen=True, kw_only=True)
class TableJudge:
    """A judge of a table.

    Attributes
    ----------
    judge
        Its name in the registry.
    options
        What the paper has, which a user may change.
    fixed
        What makes it this judge of the table, which nobody may.
    """

    judge: str
    options: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """A column of a table.

    Attributes
    ----------
    name, benchmark
        What it is called, and of which benchmark it is.
    judges
        By their names in the preset: one, or two whose difference it shows.
    gold
        Of scores: which of the gold numbers.
    ties
        Of pairs: whether gold ties count.
    instead, why
        What stands in our cells where nothing can be run, and the reason.
    """

    name: str
    benchmark: str = ""
    judges: Sequence[str] = ()
    gold: str = ""
    ties: bool = True
    instead: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A model in a table: what a user calls it, and its figures as they are printed, by column.

    `note` says where the paper disagrees with them.
    """

    label: str
    name: str
    printed: Sequence[str]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class TablePreset:
    """A paper's table.

    `measure` is what its figures are: ``pearson``, pooled over all items, or ``accuracy`` in %.
    Pairs without a criterion of their own are compared by `pair_criterion`.
    """

    name: str
    title: str
    source: str
    measure: Measure
    judges: Mapping[str, TableJudge]
    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    pair_criterion: str = ""
    note: str = ""

    @property
    def benchmarks(self) -> list[str]:
        """The benchmarks of its columns, each once."""
        return list(dict.fromkeys(each.benchmark for each in self.columns if each.benchmark))

    def options(self, judge: str, given: Mapping[str, str]) -> dict[str, str]:
        """Return the options of one of its judges: the paper's, changed by those of a user.

        Options that this judge does not have are left to the others.
        """
        chosen = self.judges[judge]
        own = self._known(chosen)
        ours = {name: value for name, value in given.items() if name in own}
        return {**chosen.options, **ours, **chosen.fixed}

    def check_options(self, given: Mapping[str, str]) -> None:
        """Raise ConfigError for options that no judge has, or that the table itself sets."""
        known = {name for judge in self.judges.values() for name in self._known(judge)}
        for name in given:
            if any(name in judge.fixed for judge in self.judges.values()):
                raise ConfigError(f"{self.name} sets the option {name!r} itself: drop it")
            if name not in known:
                raise unknown_name(f"option of {self.name}", name, known)

    def _known(self, judge: TableJudge) -> set[str]:
        kind = registry.judges.load(judge.judge)
        by_scores = self.measure == "accuracy" and kind.takes == "response"
        names = {each.name for each in fields(kind)} - set(kind.not_options)
        return names | ({"tie_margin"} if by_scores else set())


class Job(NamedTuple):
    """A run to do: a model, a benchmark, and a judge by its name in the preset."""

    model: str
    benchmark: str
    judge: str


# --- presets ------------------------------------------------------------------------------------


def table_presets() -> list[str]:
    """Return the names of all tables."""
    names = (place.name for place in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_table(name: str) -> TablePreset:
    """Return a table by name.

    Raises
    ------
    ConfigError
        If there is none of that name; the message lists the nearest.
    """
    if name not in table_presets():
        raise unknown_name("table", name, table_presets())
    table: dict[str, Any] = tomllib.loads((_folder() / f"{name}.toml").read_text("utf-8"))
    table["judges"] = {key: TableJudge(**each) for key, each in table["judges"].items()}
    table["columns"] = tuple(TableColumn(**each) for each in table["columns"])
    table["rows"] = tuple(TableRow(**each) for each in table["rows"])
    return TablePreset(name=name, **table)


def _folder() -> Any:
    return files("adjudge.experiments") / "data" / "published"


# --- what can be run ----------------------------------------------------------------------------


def lacking_data(
    preset: TablePreset, data: Mapping[str, Rows], unread: Mapping[str, str]
) -> dict[str, str]:
    """Return the columns that lack data, each with the reason.

    Parameters
    ----------
    preset
        The table.
    data, unread
        By benchmark: its rows, or why they cannot be read.
    """
    lacking = {}
    for column in preset.columns:
        name = column.benchmark
        if name in unread:
            lacking[column.name] = unread[name]
        elif name and column.gold and not _has_gold(data[name], column.gold):
            lacking[column.name] = f"no item of {name} has the gold {column.gold!r}"
    return lacking


def _has_gold(rows: Rows, gold: str) -> bool:
    return any(gold in row.gold for row in cast("Sequence[RatedResponse]", rows))


def plan_jobs(preset: TablePreset, models: Sequence[str], lacking: Mapping[str, str]) -> list[Job]:
    """Return every run that the table takes, each once, those of a model together."""
    jobs = [
        Job(model, column.benchmark, judge)
        for model in models
        for column in preset.columns
        if column.name not in lacking
        for judge in column.judges
    ]
    return list(dict.fromkeys(jobs))
