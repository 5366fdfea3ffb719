"""The configuration of a run: the same fields as flags, as TOML and in code."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from adjudge.engines.metered import Budget, read_prices
from adjudge.errors import ConfigError
from adjudge.registry import unknown_name


def _task() -> Any:
    about = "What responses are: summarization, dialogue, story or instruction"
    return field(default="summarization", metadata={"help": about})


def _limit_sources() -> Any:
    about = "Take N sources only, whole, drawn by the seed; 0: all"
    return field(default=0, metadata={"help": about})


def _format() -> Any:
    return field(default="text", metadata={"help": "text, markdown, latex, csv or json"})


@dataclass(frozen=True, kw_only=True)
class CommonConfig:
    """By what to judge, and where things go.

    The metadata of a field is its help text.
    """

    criterion: tuple[str, ...] = field(
        default=(),
        metadata={"help": "Criterion by name or FILE.toml[:NAME]; may be given more than once"},
    )
    store: str = field(
        default="adjudge.db", metadata={"help": "File that keeps replies and judgments"}
    )
    seed: int = field(default=0, metadata={"help": "Seed of everything that is drawn"})
    prompts: str = field(
        default="", metadata={"help": "Folder with METHOD/TASK.toml prompts of your own"}
    )
    option: tuple[str, ...] = field(
        default=(), metadata={"help": "Option of the judge as NAME=VALUE; may be repeated"}
    )
    truncate_source: int = field(
        default=0, metadata={"help": "Cut sources to so many tokens; 0: never"}
    )

    prices: str = field(
        default="", metadata={"help": "TOML file of what models' tokens cost, to count money"}
    )
    max_cost: float = field(
        default=0.0, metadata={"help": "Stop when so much money is spent; 0: never"}
    )
    max_tokens: int = field(
        default=0, metadata={"help": "Stop when so many tokens are spent; 0: never"}
    )

    def budget(self) -> Budget:
        """Return what may be spent."""
        prices = read_prices(self.prices) if self.prices else None
        return Budget(max_tokens=self.max_tokens, max_cost=self.max_cost, prices=prices)

    def options(self) -> dict[str, str]:
        """Return the judge's options by name; see `named_values`."""
        return named_values(self.option, what="a judge's option")


@dataclass(frozen=True, kw_only=True)
class ModelConfig(CommonConfig):
    """With which model to judge, besides."""

    model: str = field(
        default="smollm2-135m",
        metadata={
            "help": "Known name, path to a .gguf, hf:FOLDER, hf:owner/repo or hf:.../file.gguf"
        },
    )
    out: str = field(default="", metadata={"help": "File to write: .jsonl, .csv or .parquet"})


@dataclass(frozen=True, kw_only=True)
class JudgeConfig(ModelConfig):
    """What judges, besides."""

    judge: str = field(default="ladder", metadata={"help": "Judging method; see `adjudge judges`"})
    ladder_model: str = field(
        default="",
        metadata={
            "help": "Another model to write ladders, paraphrases or steps; --model then judges"
        },
    )
    ladders: str = field(
        default="", metadata={"help": "File of ladders to use; see `adjudge ladder`"}
    )


@dataclass(frozen=True, kw_only=True)
class RunConfig(JudgeConfig):
    """How to judge a file of responses."""

    task: str = _task()
    limit: int = field(default=0, metadata={"help": "Judge the first N rows only; 0: all"})
    min_score: float | None = field(
        default=None,
        metadata={"help": "Keep what scores at least this: --out NAME gets NAME.kept, .dropped"},
    )
    min_gold: float | None = field(
        default=None,
        metadata={"help": "Column gold from here on is good: print precision and recall"},
    )


@dataclass(frozen=True, kw_only=True)
class BenchConfig(JudgeConfig):
    """How to judge a benchmark, or read what judged it, and how to measure that."""

    scores: str = field(
        default="",
        metadata={"help": "Measure this file of scores or verdicts instead of running a judge"},
    )
    limit_sources: int = _limit_sources()
    group: tuple[str, ...] = field(
        default=(), metadata={"help": "Only items of this group; may be repeated"}
    )
    by_group: bool = field(
        default=False, metadata={"help": "Of pairs: a table row for every group too"}
    )
    level: str = field(
        default="",
        metadata={"help": "sample, system, pooled or by_source; if not given, the benchmark's"},
    )
    constant: str = field(
        default="skip", metadata={"help": "Groups without an order: skip, zero or one"}
    )
    resamples: int = field(default=1000, metadata={"help": "Resamples of the 95 % intervals"})
    format: str = _format()


@dataclass(frozen=True, kw_only=True)
class LadderConfig(ModelConfig):
    """How to write ladders."""

    task: str = _task()
    limit_sources: int = _limit_sources()


@dataclass(frozen=True, kw_only=True)
class CheckConfig(ModelConfig):
    """How to check ladders, and mend them."""

    data: str = field(
        default="", metadata={"help": "Where the sources are: a file or a benchmark's name"}
    )
    task: str = _task()
    repair: bool = field(
        default=False, metadata={"help": "Write the rungs anew that fail; needs --out"}
    )
    ladder_model: str = field(
        default="", metadata={"help": "Another model to write rungs; --model then compares"}
    )


@dataclass(frozen=True, kw_only=True)
class PromptSearchConfig(CommonConfig):
    """How to search for an instruction that favours no place of a pair."""

    task: str = _task()
    model: str = field(
        default="smollm2-135m",
        metadata={
            "help": "Known name, path to a .gguf, hf:FOLDER, hf:owner/repo or hf:.../file.gguf"
        },
    )
    ladder_model: str = field(
        default="",
        metadata={"help": "Another model to write the paraphrases; --model then compares"},
    )
    limit: int = field(default=0, metadata={"help": "Take the first N rows only; 0: all"})
    out: str = field(
        default="", metadata={"help": "Folder to write prompts to, for --prompts of other commands"}
    )
    log: str = field(
        default="",
        metadata={"help": "File with every instruction that was tried: .jsonl, .csv or .parquet"},
    )


@dataclass(frozen=True, kw_only=True)
class AblateConfig(CommonConfig):
    """How to run the rows of a paper's table again; options go to the rows whose judge has them."""

    preset: str = field(
        default="paper-table2",
        metadata={"help": "paper-table1, paper-table2, paper-table3 or paper-table4"},
    )
    model: tuple[str, ...] = field(
        default=(),
        metadata={"help": "NAME=MODEL; a name that the table knows (llama3) stands for it"},
    )
    limit_sources: int = _limit_sources()
    limit_row: tuple[str, ...] = field(
        default=(),
        metadata={"help": "JUDGE=N: rows of that judge take N sources instead; may be repeated"},
    )
    format: str = _format()


@dataclass(frozen=True, kw_only=True)
class TableConfig(CommonConfig):
    """How to run a table of a paper on judges; options go to the judges that have them."""

    model: tuple[str, ...] = field(
        default=(),
        metadata={"help": "NAME=MODEL; a name that the table knows stands for its row"},
    )
    limit_sources: int = _limit_sources()
    format: str = _format()


@dataclass(frozen=True, kw_only=True)
class ConsistencyConfig(ModelConfig):
    """How to measure a rubric judge's consistency; options go to the formats that have them."""

    runs: int = field(default=3, metadata={"help": "Scores to draw of each response"})
    limit_sources: int = _limit_sources()
    format: str = _format()


Config = TypeVar("Config")


def named_values(pairs: Sequence[str], *, what: str) -> dict[str, str]:
    """Return ``NAME=VALUE`` texts by name.

    Raises
    ------
    ConfigError
        If one is something else, or a name comes twice; `what` says what they are.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals) or "#" in name:  # model.gguf#threads=1 has no name
            raise ConfigError(f"{what} is given as NAME=VALUE, not {pair!r}")
        if name in found:
            raise ConfigError(f"{what} {name!r} is given more than once")
        found[name] = value
    return found


def load_config(path: str | Path | None, flags: Mapping[str, Any], kind: type[Config]) -> Config:
    """Return the configuration in a TOML file, overridden by the flags that were given.

    Raises
    ------
    ConfigError
        If the file cannot be read, has an unknown key or a value of the wrong type.
    """
    values: dict[str, Any] = {}
    if path:
        try:
            values = tomllib.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"the configuration {str(path)!r} cannot be read: {error}") from error
    if isinstance(values.get("criterion"), str):
        values["criterion"] = [values["criterion"]]
    if isinstance(values.get("option"), dict):
        values["option"] = [f"{name}={value}" for name, value in values["option"].items()]
    given = checked_fields(kind, values, what="key", where=f"{path}: ")
    flagged = {name: value for name, value in flags.items() if value not in (None, [])}
    fields_given = given | checked_fields(kind, flagged, what="flag")
    if fields_given.get("seed", 0) < 0:
        raise ConfigError(f"the seed must be 0 or more, not {fields_given['seed']}")
    return kind(**fields_given)


def checked_fields(
    kind: type, values: Mapping[str, Any], *, what: str, where: str = "", but: Sequence[str] = ()
) -> dict[str, Any]:
    """Return values turned into what the fields of a dataclass are; text is read as such.

    Raises
    ------
    ConfigError
        If a name is not a field or a value cannot be read as the field's type; `what` says
        what the names are, `where` what the message begins with. Fields in `but` do not count.
    """
    from pydantic import TypeAdapter, ValidationError

    hints = {
        name: hint
        for name, hint in get_type_hints(kind).items()
        if name in field_names(kind).difference(but)
    }
    checked = {}
    for name, value in values.items():
        if name not in hints:
            raise unknown_name(what, name, hints, where=where)
        try:
            # Text, as flags and options are, may be read as a number; other things stay what
            # they are, but that TOML has lists where we have tuples.
            exact = tuple(value) if isinstance(value, list) else value
            checked[name] = TypeAdapter(hints[name]).validate_python(
                exact, strict=not isinstance(value, str)
            )
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise ConfigError(f"{where}{what} {name!r}: {problem}, not {value!r}") from error
    return checked


def field_names(kind: type) -> set[str]:
    """Return the names of a dataclass's fields."""
    return {each.name for each in fields(kind)}
