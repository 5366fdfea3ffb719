"""`adjudge ablate`: the rows of a paper's table, run again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

import typer
from rich.console import Console

from adjudge.cli.options import configured
from adjudge.cli.progress import finished, interruptible
from adjudge.cli.report import print_after, print_lines
from adjudge.errors import ConfigError
from adjudge.runs.config import AblateConfig, CommonConfig, named_values

if TYPE_CHECKING:
    from adjudge.benchmarks.base import Benchmark, RatedResponse, Rows
    from adjudge.engines.base import Engine
    from adjudge.engines.metered import Budget
    from adjudge.experiments.ablate import AblationResult, AblationRow, Preset, Task
    from adjudge.experiments.bench import BenchRow
    from adjudge.judges.base import Judge
    from adjudge.runs.store import Store
    from adjudge.schema import Item


def register(app: typer.Typer) -> None:
    """Add the command."""
    argument = ("bench", "A benchmark that the table has")
    doc = "Run the rows of a paper's table again, and print them beside the printed figures."
    app.command("ablate")(configured(ablate, AblateConfig, argument=argument, doc=doc))


def ablate(config: AblateConfig, bench: str) -> None:
    """Run what can be run of a table."""
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.experiments.ablate import AblationResult, load_preset, plan_tasks, without_idle
    from adjudge.experiments.bench import rows_hash, select
    from adjudge.reports.ablations import ablation_report
    from adjudge.reports.grid import check_style
    from adjudge.runs.store import Store

    check_style(config.format)
    preset = load_preset(config.preset)
    models = named_values(config.model, what="a model")
    if not models:
        raise ConfigError("name a model: --model mine=model.gguf, or --model llama3=MODEL")
    tasks = plan_tasks(preset, bench, list(models))
    benchmark, criteria = find_benchmark(bench), _criteria(config, preset, bench)
    _check_rows(config, preset, benchmark.task)
    tasks = [_limited(config, each) for each in tasks]
    everything = cast("Sequence[RatedResponse]", read_benchmark(benchmark))
    rows = select(everything, limit_sources=config.limit_sources, seed=config.seed)
    console = Console(stderr=True)
    results: dict[int, AblationResult] = {}
    order = sorted(range(len(tasks)), key=lambda i: (tasks[i].model, tasks[i].ladder_model))
    with (
        interruptible() as stop,
        Store(config.store) as store,
        Engines(models, config.budget()) as engines,
    ):
        for done, i in enumerate(order, start=1):
            if tasks[i].why_not:
                results[i] = AblationResult(tasks[i])
                continue
            row = f"row {done} of {len(tasks)}: {tasks[i].label}, {tasks[i].model}"
            print_lines(console, [row])
            engine = engines.load(tasks[i].model, tasks[i].ladder_model)
            results[i] = _run(
                config, tasks[i], benchmark, criteria, everything, engine, store, stop
            )
    shown = without_idle([results[i] for i in range(len(tasks))])
    print(ablation_report(preset, bench, criteria, shown, config.format))
    lines = [f"{preset.title}: {preset.source}", *filter(None, [preset.note])]
    lines += [
        f"{each.task.label}, {each.task.model}: run {each.run_id}" for each in shown if each.run_id
    ]
    lines.append(
        f"preset:{preset.name}|benchmark:{bench}#{rows_hash(rows)}|coefficient:spearman"
        f"|level:sample|constant:skip; `adjudge runs show` has each run's signature, in "
        f"{config.store}"
    )
    print_after(lines, config.format)


class Engines:
    """The engines of several models by their names, one loaded at a time."""

    def __init__(self, references: dict[str, str], budget: Budget) -> None:
        self._references, self._budget = references, budget
        self._loaded: tuple[str, str] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def load(self, model: str, ladder_model: str = "") -> Engine:
        """Return the engine of a model, and perhaps of another one for the ladders."""
        from adjudge import api

        key = model, ladder_model
        if key != self._loaded:
            self._open.close()
            self._loaded = None
            writer = self._references[ladder_model] if ladder_model else None
            loaded = api.load_engine(self._references[model], ladder_model=writer)
            self._open.callback(loaded.close)
            self._engine = self._budget.metered(loaded)
            self._loaded = key
        return self._engine


def _criteria(config: AblateConfig, preset: Preset, bench: str) -> list[str]:
    """Return the table's criteria that were asked for."""
    from adjudge.registry import unknown_name

    known = preset.benchmarks[bench]
    for name in config.criterion:
        if name not in known:
            raise unknown_name(f"criterion of {preset.name}", name, known)
    return [name for name in known if name in config.criterion or not config.criterion]


def _run(
    config: AblateConfig,
    task: Task,
    benchmark: Benchmark,
    criteria: Sequence[str],
    rows: Sequence[RatedResponse],
    engine: Engine,
    store: Store,
    stop: Any,
) -> AblationResult:
    """Run all trials of a task, and return what came out."""
    import numpy as np

    from adjudge import api
    from adjudge.experiments.ablate import AblationResult, average_interval, combine
    from adjudge.experiments.bench import bench_gold, judged_scores, rate_scores, select
    from adjudge.experiments.lists import by_response, items_for
    from adjudge.runs.plan import run_cost
    from adjudge.runs.start import fitted
    from adjudge.runs.truncate import truncate_sources

    limit = task.sources or config.limit_sources
    rows = select(rows, limit_sources=limit, seed=config.seed)
    trials: list[list[BenchRow]] = []
    first: dict[str, Any] = {}
    for trial in range(task.row.trials):
        method = fitted(_method(config, task.row, benchmark.task, trial), engine)
        if lacking := method.needs - engine.capabilities:
            why_not = f"{task.model} does not serve {', '.join(sorted(lacking))}"
            return AblationResult(task._replace(why_not=why_not))
        items = items_for(method, rows, api.load_criteria(criteria, benchmark.task))
        items, _ = truncate_sources(items, config.truncate_source, engine)
        try:
            this_run = judge_rows(config, method, benchmark.name, rows, items, engine, store, stop)
        except ConfigError as error:  # as where items lack what a judge needs of them
            return AblationResult(task._replace(why_not=str(error)))
        judgments = by_response(method, store.judgments(this_run), rows)
        scores, gold = judged_scores(judgments), bench_gold(rows, criteria)
        rng = np.random.default_rng(config.seed)
        trials.append(
            rate_scores(scores, gold, rng=rng, level="sample", n_resamples=1, judgments=judgments)
        )
        first = first or {
            "interval": average_interval(scores, gold, criteria, rng),
            "n_responses": len(judgments),
            "cost": run_cost(method, items, engine, store),
            "run_id": this_run,
        }
    return combine(task, trials, **first)


def _check_rows(config: AblateConfig, preset: Preset, task: str) -> None:
    """Raise ConfigError if a row's judge cannot be made, or if nothing has what was asked for."""
    from adjudge import registry
    from adjudge.registry import unknown_name

    rows = [row for row in preset.rows if row.judge in registry.judges.targets()]
    for row in rows:
        _method(config, row, task, 0)
    known = {
        each.name
        for row in rows
        for each in fields(registry.judges.load(row.judge))
        if each.name not in registry.judges.load(row.judge).not_options
    }
    for name in config.options():
        if name not in known:
            raise unknown_name(f"option of the judges of {preset.name}", name, known)
    judges = {row.judge for row in rows}
    for name in named_values(config.limit_row, what="a limit"):
        if name not in judges:
            raise unknown_name(f"judge of {preset.name}", name, judges)


def _limited(config: AblateConfig, task: Task) -> Task:
    """Return a task with what was asked for its row alone, and a label that says it."""
    limits = named_values(config.limit_row, what="a limit")
    for judge, n in limits.items():
        if not (n.isascii() and n.isdecimal() and int(n)):
            raise ConfigError(f"--limit-row {judge}={n}: a limit is a whole number from 1")
    n_sources = int(limits.get(task.row.judge, 0))
    own = {
        name: value
        for name, value in _options(config, task.row).items()
        if task.row.options.get(name) != value
    }
    said = [f"{name}={value}" for name, value in own.items()]
    said += [f"{n_sources} source{'s' * (n_sources > 1)}"] if n_sources else []
    return task._replace(label=", ".join([task.label, *said]), sources=n_sources)


def judge_rows(
    config: CommonConfig,
    method: Judge,
    bench: str,
    rows: Rows,
    items: Sequence[Item],
    engine: Engine,
    store: Store,
    stop: Any,
) -> str:
    """Return the id of a judge's run over a benchmark's rows, when it is over.

    `method` is fitted to the engine, and `items` are those of the rows, cut if that is asked for.
    """
    from adjudge.experiments.bench import rows_hash
    from adjudge.runs.start import run_signature, start_run

    signature = run_signature(
        method,
        list(dict.fromkeys(item.criterion for item in items)),
        engine,
        truncate_source=config.truncate_source,
        benchmark=f"{bench}#{rows_hash(rows)}",
    )
    begun = start_run(
        method, engine, items, store, signature=signature, data=bench, stopped=stop.is_set
    )
    finished(begun, Console(stderr=True), config.store)
    return begun.id


def _method(config: AblateConfig, row: AblationRow, task: str, trial: int) -> Judge:
    """Return the judge of a row; options go to those that have them."""
    from adjudge import api

    options = _options(config, row)
    if row.trials > 1:
        options["trial"] = str(trial)
    return api.judge_method(
        row.judge,
        task=task,
        seed=config.seed,
        prompts=config.prompts or None,
        options=options,
    )


def _options(config: AblateConfig, row: AblationRow) -> dict[str, str]:
    """Return the options of a row's judge: those asked for that it has, and the row's own."""
    from adjudge import registry

    if row.judge not in registry.judges.targets():
        return {}
    known = {each.name for each in fields(registry.judges.load(row.judge))}
    asked = {name: value for name, value in config.options().items() if name in known}
    return asked | dict(row.options)
