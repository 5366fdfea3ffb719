"""The configuration of a run: the same fields as flags, as TOML and in code."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adjudge.errors import ConfigError
from adjudge.registry import checked_fields


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What to judge, by what, with which model, and where things go.

    The metadata of a field is its help text.
    """

    judge: str = field(default="ladder", metadata={"help": "Judging method; see `adjudge judges`"})
    criterion: tuple[str, ...] = field(
        default=(),
        metadata={"help": "Criterion by name or FILE.toml[:NAME]; may be given more than once"},
    )
    task: str = field(
        default="summarization",
        metadata={"help": "What responses are: summarization, dialogue, story or instruction"},
    )
    model: str = field(
        default="smollm2-135m",
        metadata={"help": "Known name, path to a .gguf, or hf:owner/repo/file.gguf"},
    )
    store: str = field(
        default="adjudge.db", metadata={"help": "File that keeps replies and judgments"}
    )
    out: str = field(default="", metadata={"help": "File for the scores: .jsonl, .csv or .parquet"})
    limit: int = field(default=0, metadata={"help": "Judge the first N rows only; 0: all"})
    seed: int = field(default=0, metadata={"help": "Seed of everything that is drawn"})
    prompts: str = field(
        default="", metadata={"help": "Folder with METHOD/TASK.toml prompts of your own"}
    )
    option: tuple[str, ...] = field(
        default=(), metadata={"help": "Option of the judge as NAME=VALUE; may be repeated"}
    )

    def options(self) -> dict[str, str]:
        """Return the judge's options by name.

        Raises
        ------
        ConfigError
            If one is not NAME=VALUE.
        """
        pairs = {}
        for pair in self.option:
            name, equals, value = (part.strip() for part in pair.partition("="))
            if not (name and equals):
                raise ConfigError(f"a judge's option is given as NAME=VALUE, not {pair!r}")
            if name in pairs:
                raise ConfigError(f"the option {name!r} is given more than once")
            pairs[name] = value
        return pairs


def load_config(path: str | Path | None, flags: Mapping[str, Any]) -> RunConfig:
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
    given = checked_fields(RunConfig, values, what="key", where=f"{path}: ")
    flagged = {name: value for name, value in flags.items() if value is not None}
    return RunConfig(**given | checked_fields(RunConfig, flagged, what="flag"))
