"""Benchmarks: what is declared of each, and the records that its loader gives.

A benchmark is declared in ``data/NAME.toml``; the data themselves are no part of adjudge.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from adjudge.registry import unknown_name
from adjudge.schema import Criterion, Source

Kind = Literal["scores", "pairs"]

#: What reads a format, imported when first asked for.
FORMATS = {
    "bartscore": "adjudge.benchmarks.ratings:read_bartscore",
    "unieval": "adjudge.benchmarks.ratings:read_unieval",
    "usr": "adjudge.benchmarks.ratings:read_usr",
    "hanna": "adjudge.benchmarks.ratings:read_hanna",
    "prometheus-scores": "adjudge.benchmarks.prometheus:read_scores",
    "prometheus-pairs": "adjudge.benchmarks.prometheus:read_pairs",
    "preference-collection": "adjudge.benchmarks.prometheus:read_preference_collection",
    "biggen": "adjudge.benchmarks.prometheus:read_biggen",
    "autoj": "adjudge.benchmarks.pairs:read_autoj",
    "llmbar": "adjudge.benchmarks.pairs:read_llmbar",
    "judgebench": "adjudge.benchmarks.pairs:read_judgebench",
    "pandalm": "adjudge.benchmarks.pairs:read_pandalm",
    "faireval": "adjudge.benchmarks.pairs:read_faireval",
    "fastchat-votes": "adjudge.benchmarks.pairs:read_fastchat_votes",
}


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file of a benchmark.

    Attributes
    ----------
    path
        Where it lies in the source repository at the commit.
    sha256
        Of that file; empty where it is not known, and then the file cannot be pulled.
    copy, copy_sha256
        Where a copy lies below the folder that ``ADJUDGE_DATA`` names, and its hash; a copy may
        have the same content in another format.
    group
        What its items are called together, where a benchmark has several parts.
    url
        Where to get it by hand, where it is not in the source repository.
    optional
        Whether the benchmark can be read without it.
    """

    path: str
    sha256: str = ""
    copy: str = ""
    copy_sha256: str = ""
    group: str = ""
    url: str = ""
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What is declared of a benchmark; the fields of its TOML file.

    Attributes
    ----------
    kind
        ``scores``: single responses with gold numbers; ``pairs``: pairs with a preference.
    task
        One of `adjudge.schema.TASKS`.
    format
        How the files are read: a key of `FORMATS`.
    criteria
        Names of what was rated; empty where every item has a criterion of its own.
    scale, gold
        The scale of the ratings, and which fields of the files are gold.
    level
        At which level the papers that use it correlate.
    source, commit
        The repository on GitHub and its state that is meant.
    checked
        False where the loader was built from a description of the format alone.
    """

    name: str
    title: str
    about: str
    kind: Kind
    task: str
    format: str
    scale: str
    gold: str
    source: str
    commit: str
    licence: str
    citation: str
    files: tuple[DataFile, ...]
    criteria: tuple[str, ...] = ()
    level: str = "sample"
    checked: bool = True
    note: str = ""

    def url(self, file: DataFile) -> str:
        """Return where a file is published."""
        return (
            file.url
            or f"https://raw.githubusercontent.com/{self.source}/{self.commit}/{quote(file.path)}"
        )


class LocalFile(NamedTuple):
    """A file of a benchmark on this machine, and the group of its items."""

    path: Path
    group: str


@dataclass(frozen=True, kw_only=True)
class RatedResponse:
    """A response with gold numbers by criterion.

    Attributes
    ----------
    gold
        Criterion -> number on the benchmark's scale, usually a mean over raters.
    ratings
        Criterion -> the single raters' numbers, where they are published; NaN = not rated.
    criterion
        The item's own criterion, with its rubric; None where the benchmark's criteria hold. Its
        name is then the key of `gold`.
    reference_answers
        Texts known to be good.
    """

    id: str
    source: Source
    system: str
    response: str
    gold: Mapping[str, float]
    ratings: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    criterion: Criterion | None = None
    reference_answers: tuple[str, ...] = ()
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class RatedPair:
    """Two responses to one source with a preference.

    Attributes
    ----------
    gold
        1: the first is better, -1: the second, 0: a tie, NaN: there is none.
    votes
        The single raters' preferences, where they are published.
    """

    id: str
    source: Source
    systems: tuple[str, str]
    responses: tuple[str, str]
    gold: float = math.nan
    votes: tuple[float, ...] = ()
    criterion: Criterion | None = None
    reference_answers: tuple[str, ...] = ()
    group: str = ""


Rows = Sequence[RatedResponse] | Sequence[RatedPair]
Loader = Callable[[Sequence[LocalFile]], Rows]


@cache
def named_benchmarks() -> dict[str, Benchmark]:
    """Return all benchmarks by name, in alphabetical order."""
    folder = files("adjudge.benchmarks") / "data"
    texts = {
        place.name.removesuffix(".toml"): place.read_text("utf-8")
        for place in folder.iterdir()
        if place.name.endswith(".toml")
    }
    return {name: _declared(name, tomllib.loads(text)) for name, text in sorted(texts.items())}


def find_benchmark(name: str) -> Benchmark:
    """Return a benchmark by name.

    Raises
    ------
    ConfigError
        If there is none of that name; the message lists the nearest.
    """
    known = named_benchmarks()
    if name not in known:
        raise unknown_name("benchmark", name, known)
    return known[name]


def loader(benchmark: Benchmark) -> Loader:
    """Return what reads a benchmark's files."""
    module, _, function = FORMATS[benchmark.format].partition(":")
    found: Loader = getattr(import_module(module), function)
    return found


def _declared(name: str, table: dict[str, Any]) -> Benchmark:
    table["files"] = tuple(DataFile(**each) for each in table["files"])
    table["criteria"] = tuple(table.get("criteria", ()))
    return Benchmark(name=name, **table)
