"""`adjudge bench table`: a paper's table of judges on several benchmarks, run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import typer
from rich.console import Console

from adjudge.cli.ablate import Engines, judge_rows
from adjudge.cli.options import configured
from adjudge.cli.progress import interruptible
from adjudge.cli.report import print_after, print_lines
from adjudge.errors import AdjudgeError, ConfigError, DataError, EngineError
from adjudge.runs.config import TableConfig, named_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adjudge.benchmarks.base import RatedPair, RatedResponse, Rows
    from adjudge.engines.base import Engine
    from adjudge.experiments.figures import Judged
    from adjudge.experiments.tables import Job, TablePreset
    from adjudge.judges.base import Judge
    from adjudge.runs.store import Store
    from adjudge.schema import Item

#: The exit status where a benchmark was there and could not be judged.
FAILED = 1


def register(group: typer.Typer) -> None:
    """Add the command."""
    argument = (
        "preset",
        "prometheus-direct, prometheus-pairwise, prometheus-consistency or prometheus-reference",
    )
    doc = "Run a paper's table of judges again, and print our figures below the printed ones."
    group.command("table")(configured(table, TableConfig, argument=argument, doc=doc))


class _Work(NamedTuple):
    """What a job takes besides its engine."""

    method: Judge
    rows: Rows
    items: list[Item]


def table(config: TableConfig, preset: str) -> None:
    """Run what can be run of a table."""
    from adjudge.experiments.figures import table_cells
    from adjudge.experiments.tables import lacking_data, load_table, plan_jobs
    from adjudge.reports.grid import check_style
    from adjudge.reports.published import published_lines, published_report

    check_style(config.format)
    chosen = load_table(preset)
    models = _models(config, chosen)
    chosen.check_options(config.options())
    data, unread = _read(config, chosen)
    lacking = lacking_data(chosen, data, unread)
    jobs = plan_jobs(chosen, list(models), lacking)
    outcomes = _run_all(config, models, {job: _work(config, chosen, job, data) for job in jobs})
    cells = {
        model: table_cells(chosen, model, data, lacking, outcomes, seed=config.seed)
        for model in models
    }
    print(published_report(chosen, cells, config.format))
    print_after([*published_lines(chosen, cells), _signature(config, chosen, data)], config.format)
    if any(isinstance(each, str) for each in outcomes.values()):
        raise typer.Exit(FAILED)


def _models(config: TableConfig, preset: TablePreset) -> dict[str, str]:
    """Return the references of the models by name."""
    if config.criterion:
        raise ConfigError(
            "--criterion does nothing for a table, whose benchmarks have their own: drop it"
        )
    models = named_values(config.model, what="a model")
    if not models:
        known = ", ".join(row.name for row in preset.rows)
        raise ConfigError(
            "name a model: --model NAME=MODEL, as in --model mine=model.gguf; these names stand "
            f"for rows of {preset.name}: {known}"
        )
    return models


def _read(config: TableConfig, preset: TablePreset) -> tuple[dict[str, Rows], dict[str, str]]:
    """Return the rows of the benchmarks that are here, and why others cannot be read."""
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.experiments.bench import select

    data: dict[str, Rows] = {}
    unread: dict[str, str] = {}
    for name in preset.benchmarks:
        try:
            rows = cast("Sequence[RatedResponse]", read_benchmark(find_benchmark(name)))
        except AdjudgeError as error:
            unread[name] = str(error)
        else:
            data[name] = select(rows, limit_sources=config.limit_sources, seed=config.seed)
    return data, unread


def _work(config: TableConfig, preset: TablePreset, job: Job, data: Mapping[str, Rows]) -> _Work:
    """Return the judge and the items of a job; what is wrong with options is found here."""
    from adjudge import api
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.experiments.bench import bench_items, pair_items

    benchmark, rows = find_benchmark(job.benchmark), data[job.benchmark]
    if preset.measure == "accuracy":
        (criterion,) = api.load_criteria([preset.pair_criterion], benchmark.task)
        items = pair_items(cast("Sequence[RatedPair]", rows), criterion)
    else:
        items = bench_items(cast("Sequence[RatedResponse]", rows), [])
    method = api.judge_method(
        preset.judges[job.judge].judge,
        task=benchmark.task,
        seed=config.seed,
        prompts=config.prompts or None,
        pairs=preset.measure == "accuracy",
        options=preset.options(job.judge, config.options()),
    )
    return _Work(method, rows, items)


def _run_all(
    config: TableConfig, models: dict[str, str], work: Mapping[Job, _Work]
) -> dict[Job, Judged | str]:
    """Run every job, and return what it came to or why it failed."""
    from adjudge.runs.store import Store

    console = Console(stderr=True)
    outcomes: dict[Job, Judged | str] = {}
    with (
        interruptible() as stop,
        Store(config.store) as store,
        Engines(models, config.budget()) as engines,
    ):
        for done, (job, each) in enumerate(work.items(), start=1):
            said = f"run {done} of {len(work)}: {job.model}, {job.benchmark}, {job.judge}"
            print_lines(console, [said])
            engine = engines.load(job.model)
            try:
                outcomes[job] = _run(config, job, each, engine, store, stop)
            except (ConfigError, DataError, EngineError) as error:
                outcomes[job] = str(error)
                print_lines(console, [f"failed: {error}"])
    return outcomes


def _run(
    config: TableConfig, job: Job, work: _Work, engine: Engine, store: Store, stop: Any
) -> Judged:
    """Run a job."""
    from adjudge.experiments.figures import Judged
    from adjudge.runs.start import fit
    from adjudge.runs.truncate import truncate_sources

    method = fit(work.method, engine)
    items, _ = truncate_sources(work.items, config.truncate_source, engine)
    run_id = judge_rows(config, method, job.benchmark, work.rows, items, engine, store, stop)
    return Judged(run_id, list(store.judgments(run_id)))


def _signature(config: TableConfig, preset: TablePreset, data: Mapping[str, Rows]) -> str:
    """Return what reproduces the figures, but for the runs' own signatures."""
    from adjudge.experiments.bench import rows_hash
    from adjudge.experiments.figures import RESAMPLES

    named = ",".join(f"{name}#{rows_hash(rows)}" for name, rows in data.items()) or "none"
    how = {"pearson": "coefficient:pearson|level:pooled", "accuracy": "convention:prometheus"}
    given = "".join(f"|{name}:{value}" for name, value in config.options().items())
    return (
        f"table:{preset.name}{given}|benchmarks:{named}|sources:{config.limit_sources or 'all'}"
        f"|{how[preset.measure]}|resamples:{RESAMPLES} of sources|seed:{config.seed}; "
        f"`adjudge runs show` has each run's signature, in {config.store}"
    )
