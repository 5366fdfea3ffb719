"""The tables of a paper run again: its rows, what can be run of them, and what comes out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from statistics import stdev
from typing import Any, NamedTuple

import numpy as np

from adjudge import registry
from adjudge.experiments.bench import BenchRow, layout
from adjudge.experiments.correlate import COEFFICIENTS
from adjudge.formats.scores import ScoreRow
from adjudge.registry import unknown_name
from adjudge.runs.plan import Cost
from adjudge.stats.inference import mean_correlation_interval

SPEARMAN = COEFFICIENTS.index("spearman")
#: Direct scoring as the paper has it beside G-Eval: the number that the model writes.
WRITTEN = {"mode": "sampled", "temperature": "0"}


@dataclass(frozen=True, kw_only=True)
class AblationRow:
    """A row of a paper's table.

    Attributes
    ----------
    label, judge, options
        What it is called, and the judge that repeats it.
    model, ladder_model
        Which models it is of, by their names in the preset; empty: any.
    only
        The one model that it can be of, where that is not a model to choose.
    trials
        How often a sampled row is drawn.
    printed
        By benchmark and model: the figures in the paper, by criterion and their average, or the
        average alone.
    printed_sd
        The printed standard deviation over trials; 0 where there is none.
    """

    label: str
    judge: str
    options: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    ladder_model: str = ""
    only: str = ""
    trials: int = 1
    printed: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    printed_sd: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A paper's table: its rows, the models in it, and the criteria by benchmark.

    `aliases` names benchmarks that show the figures of another.
    """

    name: str
    title: str
    source: str
    models: Mapping[str, str]
    benchmarks: Mapping[str, Sequence[str]]
    rows: tuple[AblationRow, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def printed(
        self, row: AblationRow, bench: str, criteria: Sequence[str]
    ) -> dict[str, tuple[float, ...]]:
        """Return the printed figures of a row by model: by criterion and on average, or that alone.

        Of some of the criteria there is no printed average.
        """
        names = list(self.benchmarks[bench])
        found: dict[str, tuple[float, ...]] = {}
        for model, (*single, average) in row.printed.get(
            self.aliases.get(bench, bench), {}
        ).items():
            if list(criteria) == names:
                found[model] = (*single, average)
            elif single:
                chosen = (single[names.index(name)] for name in criteria)
                found[model] = (*chosen, float("nan"))
        return found


class Task(NamedTuple):
    """A row to run with a model, and perhaps another one for the ladders.

    `why_not` says why it cannot be run; where no model is given that it needs, it has none.
    `sources` limits the sources; 0: as for all rows.
    """

    row: AblationRow
    label: str
    model: str
    ladder_model: str
    why_not: str
    sources: int = 0


class AblationResult(NamedTuple):
    """What came out of a task.

    Attributes
    ----------
    task
        What was run, or why it was not.
    by_criterion
        Spearman correlations in the order of the criteria, the mean over trials.
    average
        Their mean.
    sd
        Standard deviation of the average over trials; NaN for a single one.
    kept, total
        Groups that could be correlated, over all criteria.
    n_failed
        Items without a score, over all criteria and trials.
    interval
        95 % bootstrap interval of the first trial's average, over sources and systems.
    n_responses, cost
        Responses that were judged by all criteria together, and what all requests of the first
        trial come to; None where it was not run.
    run_id
        Its run in the store, of the first trial.
    """

    task: Task
    by_criterion: tuple[float, ...] = ()
    average: float = float("nan")
    sd: float = float("nan")
    kept: int = 0
    total: int = 0
    n_failed: int = 0
    interval: tuple[float, float] = (float("nan"), float("nan"))
    n_responses: int = 0
    cost: Cost | None = None
    run_id: str = ""


def presets() -> list[str]:
    """Return the names of all presets."""
    folder = files("adjudge.experiments") / "data"
    names = (place.name for place in folder.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_preset(name: str) -> Preset:
    """Return a preset by name.

    Raises
    ------
    ConfigError
        If there is none of that name; the message lists the nearest.
    """
    if name not in presets():
        raise unknown_name("preset", name, presets())
    place = files("adjudge.experiments") / "data" / f"{name}.toml"
    table: dict[str, Any] = tomllib.loads(place.read_text("utf-8"))
    table["rows"] = tuple(AblationRow(**row) for row in table["rows"])
    return Preset(name=name, **table)


def plan_tasks(preset: Preset, bench: str, models: Sequence[str]) -> list[Task]:
    """Return the rows of a preset with the models that are given, and why others cannot be run.

    A row of any model is run with each. A row of certain ones is run if they are given; with
    others given, rows of the same kind are added for them.

    Parameters
    ----------
    preset, bench
        The table, and the benchmark to run it on.
    models
        Names of the given models; those that the preset knows stand for the paper's.

    Raises
    ------
    ConfigError
        If the preset is not of the benchmark.
    """
    if bench not in preset.benchmarks:
        raise unknown_name(f"benchmark of {preset.name}", bench, preset.benchmarks)
    tasks: list[Task] = []
    for row in preset.rows:
        if row.judge not in registry.judges.targets():
            tasks.append(Task(row, row.label, "", "", f"there is no judge {row.judge!r}"))
        elif row.only:
            why_not = "" if row.only in models else f"needs the model {row.only}"
            tasks.append(Task(row, row.label, "" if why_not else row.only, "", why_not))
        elif not row.model:
            tasks += [Task(row, row.label, model, "", "") for model in models]
        elif lacking := [
            preset.models.get(each, each)
            for each in dict.fromkeys((row.model, row.ladder_model))
            if each and each not in models
        ]:
            tasks.append(Task(row, row.label, "", "", f"needs {' and '.join(lacking)}"))
        else:
            writer = "" if row.ladder_model == row.model else row.ladder_model
            tasks.append(Task(row, row.label, row.model, writer, ""))
    own = [name for name in models if name not in preset.models]
    if any(row.model for row in preset.rows):
        tasks += _own_pairs(own)
    return tasks


def _own_pairs(models: Sequence[str]) -> list[Task]:
    """Return a row for each way in which two of the user's models can share the work."""
    found = []
    for model in models:
        row = AblationRow(label=f"Direct, {model}", judge="direct", options=WRITTEN)
        found.append(Task(row, row.label, model, "", ""))
        for writer in models:
            row = AblationRow(label=f"{model} predicts, {writer} writes", judge="ladder")
            other = "" if writer == model else writer
            found.append(Task(row, row.label, model, other, ""))
    return found


def combine(task: Task, trials: Sequence[Sequence[BenchRow]], **first: Any) -> AblationResult:
    """Return the result of a task from its trials' rows; `first` are fields of the first trial."""
    values = np.array([[row.found.correlations[SPEARMAN].value for row in rows] for rows in trials])
    means = [float(each) for each in values.mean(axis=1)]
    single = [row.found.correlations[SPEARMAN] for row in trials[0]]
    return AblationResult(
        task,
        tuple(values.mean(axis=0).tolist()),
        float(np.mean(means)),
        stdev(means) if len(means) > 1 else float("nan"),
        sum(each.kept for each in single),
        sum(each.total for each in single),
        sum(sum(row.failures.values()) for rows in trials for row in rows),
        **first,
    )


def average_interval(
    scores: Sequence[ScoreRow],
    gold: Sequence[ScoreRow],
    criteria: Sequence[str],
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return the ends of the interval of the criteria's average; see `AblationResult`."""
    known = {(row.id, row.criterion): row.value for row in scores}
    ours = [row._replace(value=known.get((row.id, row.criterion), np.nan)) for row in gold]
    found = mean_correlation_interval(layout(ours, criteria), layout(gold, criteria), rng=rng)
    return found.low, found.high


def without_idle(results: Sequence[AblationResult]) -> list[AblationResult]:
    """Return the results without those of models that cannot run a row which another model ran."""
    ran = {id(each.task.row) for each in results if not each.task.why_not}
    return [
        each
        for each in results
        if not (each.task.model and each.task.why_not and id(each.task.row) in ran)
    ]
