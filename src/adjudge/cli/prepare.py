"""What commands make of their configuration before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from adjudge.errors import ConfigError
from adjudge.runs.config import CheckConfig, JudgeConfig, LadderConfig, PromptSearchConfig
from adjudge.schema import TASKS

if TYPE_CHECKING:
    from adjudge.benchmarks.base import RatedResponse
    from adjudge.engines.base import Engine
    from adjudge.judges.base import Judge
    from adjudge.schema import Criterion, Source


def load_method(config: JudgeConfig, task: str, *, pairs: bool = False) -> Judge:
    """Return the judge of a configuration, without a model; of pairs, one that judges these."""
    from adjudge import api

    return api.judge_method(
        config.judge,
        task=task,
        seed=config.seed,
        prompts=config.prompts or None,
        ladders=config.ladders or None,
        pairs=pairs,
        options=config.options(),
    )


def load_engine(
    config: JudgeConfig | LadderConfig | CheckConfig | PromptSearchConfig,
) -> Engine:
    """Return the engine of a configuration, within its budget; with a model for ladders, both."""
    from adjudge import api

    if isinstance(config, LadderConfig):
        return config.budget().metered(api.load_engine(config.model))
    if config.ladder_model and isinstance(config, JudgeConfig):
        if config.ladders:
            raise ConfigError("--ladder-model writes ladders, --ladders has them: give one")
        if not api.judge_method(config.judge, task=TASKS[0], options=config.options()).has_writer:
            raise ConfigError(
                f"the judge {config.judge!r}, with these options, writes nothing that another "
                "model could write for it: drop --ladder-model"
            )
    budget = config.budget()
    return budget.metered(api.load_engine(config.model, ladder_model=config.ladder_model or None))


def load_sources(data: str, task: str) -> tuple[list[Source], str, Sequence[str]]:
    """Return the sources of a file or a benchmark, their task, and criteria to take by default."""
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.formats.responses import read_sources
    from adjudge.formats.rows import SUFFIXES

    if Path(data).suffix.lower() in SUFFIXES:
        return read_sources(data), task, ()
    benchmark = find_benchmark(data)
    if not benchmark.criteria:
        raise ConfigError(f"{data} has no criteria that hold for all its sources: no ladders")
    rows = cast("Sequence[RatedResponse]", read_benchmark(benchmark))
    return [row.source for row in rows], benchmark.task, benchmark.criteria


def load_criteria(names: Sequence[str], task: str) -> list[Criterion]:
    """Return criteria by name or file; there must be some."""
    from adjudge import api

    if not names:
        raise ConfigError("name a criterion: --criterion coherence; see `adjudge criteria`")
    return api.load_criteria(names, task)
