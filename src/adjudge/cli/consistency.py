"""`adjudge consistency`: a rubric judge against itself, over runs, orders and formats."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple, cast

import typer
from rich.console import Console

from adjudge.cli.bench import PAIR_CRITERION
from adjudge.cli.options import check_known, configured
from adjudge.cli.progress import finished, interruptible
from adjudge.cli.report import print_after, print_lines
from adjudge.errors import ConfigError
from adjudge.registry import unknown_name
from adjudge.runs.config import ConsistencyConfig

if TYPE_CHECKING:
    from adjudge.benchmarks.base import Benchmark, RatedPair, RatedResponse
    from adjudge.engines.base import Engine
    from adjudge.experiments.consistency import ConsistencyItems
    from adjudge.judges.base import Judge
    from adjudge.runs.store import Store
    from adjudge.schema import Criterion, Item, Judgment, Signature

#: The judge in its two formats.
ABSOLUTE, RELATIVE = "prometheus-absolute", "prometheus-relative"
#: Options that are settled here, and what to do instead of giving them.
SETTLED = {"runs": "give --runs", "orders": "drop it: both orders are always asked"}


class _Judged(NamedTuple):
    """What came of judging in one format, and what to say of it."""

    judgments: Sequence[Judgment]
    lines: Sequence[str]
    signature: Signature | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    argument = ("bench", "A benchmark; see `adjudge benchmarks list`")
    doc = (
        "Measure how consistent a rubric judge is: over runs, over the orders of a pair, between "
        "scores and preferences, and among preferences."
    )
    command = configured(consistency, ConsistencyConfig, argument=argument, doc=doc)
    app.command("consistency")(command)


def consistency(config: ConsistencyConfig, bench: str) -> None:
    """Judge a benchmark in both formats, and print how consistent that is."""
    from adjudge import api
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.experiments.bench import rows_hash, select
    from adjudge.formats.rows import check_writable
    from adjudge.reports.grid import check_style
    from adjudge.runs.store import Store

    check_style(config.format)
    if config.out:
        check_writable(config.out, never=[config.store])
    benchmark = find_benchmark(bench)
    everything = cast("Sequence[RatedResponse]", read_benchmark(benchmark))
    rows = select(everything, limit_sources=config.limit_sources, seed=config.seed)
    items = _items(config, benchmark, rows)
    methods = _methods(config, benchmark.task)
    named = {
        "benchmark": f"{benchmark.name}#{rows_hash(everything)}",
        "sources": str(config.limit_sources or "all"),
    }
    with (
        interruptible() as stop,
        Store(config.store) as store,
        closing(config.budget().metered(api.load_engine(config.model))) as engine,
    ):
        graded, compared = (
            _judged(config, method, each, named, engine, store, stop.is_set)
            for method, each in zip(methods, (items.responses, items.pairs), strict=True)
        )
    _print(config, items, graded, compared)


def _print(
    config: ConsistencyConfig, items: ConsistencyItems, graded: _Judged, compared: _Judged
) -> None:
    """Print the measures, and what they rest on."""
    import numpy as np

    from adjudge.experiments.consistency import (
        CONVENTION,
        N_RESAMPLES,
        consistency_measures,
        text_statuses,
    )
    from adjudge.formats.rows import write_rows
    from adjudge.reports.consistency import (
        consistency_report,
        equal_lines,
        measure_rows,
        status_lines,
    )

    measures = consistency_measures(
        items,
        graded.judgments,
        compared.judgments,
        runs=config.runs,
        rng=np.random.default_rng(config.seed),
    )
    print(consistency_report(measures, config.format))
    after = equal_lines(items)
    for name, judged, texts in ((ABSOLUTE, graded, config.runs), (RELATIVE, compared, 2)):
        statuses = text_statuses(name, judged.judgments, texts)
        after += [*status_lines(statuses), *judged.lines]
    if config.out:
        write_rows(config.out, measure_rows(measures))
        after.append(f"measures: {config.out}")
    measured = {
        "convention": CONVENTION,
        "gold_ties": "left_out",
        "resamples": f"{N_RESAMPLES} of sources",
    }
    after += [str(each.signature | measured) for each in (graded, compared) if each.signature]
    print_after(after, config.format)


def _items(
    config: ConsistencyConfig,
    benchmark: Benchmark,
    rows: Sequence[RatedResponse] | Sequence[RatedPair],
) -> ConsistencyItems:
    """Return what to judge of a benchmark."""
    from adjudge.experiments.consistency import preferred_items, scored_items

    if benchmark.kind == "pairs":
        pairs = cast("Sequence[RatedPair]", rows)
        own = all(pair.criterion for pair in pairs)
        return preferred_items(pairs, _criterion(config, benchmark, own=own))
    responses = cast("Sequence[RatedResponse]", rows)
    criterion = _criterion(config, benchmark, own=not benchmark.criteria)
    return scored_items(responses, criterion, seed=config.seed)


def _criterion(config: ConsistencyConfig, benchmark: Benchmark, *, own: bool) -> Criterion | None:
    """Return the one criterion to judge by; None where items have `own` ones."""
    from adjudge import api

    wanted, known = config.criterion, benchmark.criteria
    if own and wanted:
        raise ConfigError(
            f"every item of {benchmark.name} has a criterion of its own; leave --criterion out"
        )
    if own:
        return None
    if len(wanted) > 1:
        raise ConfigError("consistency is measured by one criterion: give --criterion once")
    if benchmark.kind == "pairs":
        return api.load_criteria(wanted or [PAIR_CRITERION], benchmark.task)[0]
    if not wanted and len(known) > 1:
        raise ConfigError(
            f"{benchmark.name} was rated by several criteria: choose one with --criterion; "
            f"there are {', '.join(known)}"
        )
    (name,) = wanted or known
    check_known(f"criterion of {benchmark.name}", name, known)
    return api.load_criteria([name], benchmark.task)[0]


def _methods(config: ConsistencyConfig, task: str) -> list[Judge]:
    """Return the judge in both formats, without a model; options go where they are known.

    Both read what is written; the option score_mode changes that for pairs alone, since runs are
    compared by the scores that are written.
    """
    from adjudge import api, registry

    given = config.options()
    for name in SETTLED.keys() & given.keys():
        raise ConfigError(f"the option {name} is no choice of this command: {SETTLED[name]}")
    kinds = {name: registry.judges.load(name) for name in (ABSOLUTE, RELATIVE)}
    known = {
        name: {each.name for each in fields(kind)}.difference(kind.not_options)
        for name, kind in kinds.items()
    }
    for name in given:
        if name not in (every := set.union(*known.values())):
            raise unknown_name("option of either judge", name, every.difference(SETTLED))
    text = {"score_mode": "text"}
    options: dict[str, Mapping[str, str]] = {
        ABSOLUTE: given | text | {"runs": str(config.runs)},
        RELATIVE: text | given | {"orders": "both", "runs": "1"},
    }
    return [
        api.judge_method(
            name,
            task=task,
            seed=config.seed,
            prompts=config.prompts or None,
            options={key: value for key, value in options[name].items() if key in known[name]},
        )
        for name in kinds
    ]


def _judged(
    config: ConsistencyConfig,
    method: Judge,
    items: Sequence[Item],
    named: Mapping[str, str],
    engine: Engine,
    store: Store,
    stopped: Callable[[], bool],
) -> _Judged:
    """Run the judge over the items in one format."""
    from adjudge.reports.tables import cost_lines, cut_lines
    from adjudge.runs.start import fit, run_signature, start_run
    from adjudge.runs.truncate import truncate_sources

    if not items:
        return _Judged([], [], None)
    console, started = Console(stderr=True), time.monotonic()
    print_lines(console, [f"{method.name}: {len(items)} items"])
    method = fit(method, engine)
    items, n_cut = truncate_sources(items, config.truncate_source, engine)
    signature = run_signature(
        method,
        list(dict.fromkeys(item.criterion for item in items)),
        engine,
        truncate_source=config.truncate_source,
        **named,
    )
    begun = start_run(
        method, engine, items, store,
        signature=signature, data=named["benchmark"].partition("#")[0], stopped=stopped,
    )  # fmt: skip
    counters = finished(begun, console, config.store)
    cost = cost_lines(counters, time.monotonic() - started, engine)
    lines = [f"run: {begun.id} in {config.store}", *cost, *cut_lines(n_cut, config.truncate_source)]
    return _Judged(
        list(store.judgments(begun.id)), [f"{method.name}: {each}" for each in lines], signature
    )
