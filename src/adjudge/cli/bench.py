"""`adjudge bench`: judges measured on benchmarks, and against each other."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast, get_args

import typer
from rich.console import Console

from adjudge.cli import tables
from adjudge.cli.compare import compare
from adjudge.cli.options import check_known, configured
from adjudge.cli.prepare import load_engine, load_method
from adjudge.cli.progress import finished, interruptible
from adjudge.cli.report import hashed_file, print_after, print_lines
from adjudge.errors import ConfigError
from adjudge.runs.config import BenchConfig, ModelConfig

if TYPE_CHECKING:
    from adjudge.benchmarks.base import Benchmark, RatedPair, RatedResponse
    from adjudge.experiments.bench import BenchRow
    from adjudge.formats.scores import ScoreRow
    from adjudge.judges.base import Judge
    from adjudge.schema import Criterion, Item, Judgment, Signature
    from adjudge.stats.correlation import Constant, Level

#: By what to compare pairs that have no criterion of their own, if nothing else is asked for.
PAIR_CRITERION = "helpfulness"

BenchArgument = Annotated[str, typer.Argument(help="A benchmark; see `adjudge benchmarks list`")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Measure judges on benchmarks.")
    argument = ("bench", "A benchmark; see `adjudge benchmarks list`")
    doc = "Judge a benchmark's items, and print how well the scores agree with gold."
    group.command("run")(configured(run, BenchConfig, argument=argument, doc=doc))
    doc = "Say what `bench run` would cost; ask the model nothing."
    group.command("plan")(configured(plan, BenchConfig, argument=argument, doc=doc))
    group.command("compare")(compare)
    group.command("axes")(axes)
    tables.register(group)
    app.add_typer(group, name="bench")


class _Chosen(NamedTuple):
    """What of a benchmark was asked for."""

    benchmark: Benchmark
    rows: Sequence[RatedResponse] | Sequence[RatedPair]
    fields: dict[str, str]


def run(config: BenchConfig, bench: str) -> None:
    """Judge a benchmark, or measure a file of scores on it."""
    from adjudge.reports.grid import check_style
    from adjudge.stats.correlation import Constant, Level

    check_style(config.format)
    check_known("policy for constant groups", config.constant, get_args(Constant))
    if config.level:
        check_known("level", config.level, get_args(Level))
    if config.resamples < 1:
        raise ConfigError(f"resamples must be 1 or more, not {config.resamples}")
    if config.scores:
        used = {"criterion", "store", "seed"}
        idle = [each.name for each in fields(ModelConfig) if each.name not in used]
        _refuse(config, [*idle, "judge", "ladder_model", "ladders"], "with --scores")
    chosen = _chosen(config, bench)
    if chosen.benchmark.kind == "pairs":
        _refuse(config, ["level", "constant"], f"for the pairs of {bench}")
        _run_pairs(config, chosen, cast("Sequence[RatedPair]", chosen.rows))
    else:
        _refuse(config, ["by_group"], f"for {bench}, which has no pairs; see --group")
        _run_scores(config, chosen, cast("Sequence[RatedResponse]", chosen.rows))


def plan(config: BenchConfig, bench: str) -> None:
    """Print what judging a benchmark would cost."""
    from pathlib import Path

    from adjudge.reports.tables import cut_lines, plan_lines
    from adjudge.runs.plan import plan_run
    from adjudge.runs.start import fit
    from adjudge.runs.store import Store
    from adjudge.runs.truncate import truncate_sources

    chosen = _chosen(config, bench)
    method, items = _method_and_items(config, chosen)
    path = config.store if Path(config.store).exists() else ":memory:"
    with Store(path) as store, closing(load_engine(config)) as engine:
        method = fit(method, engine)
        items, n_cut = truncate_sources(items, config.truncate_source, engine)
        lines = plan_lines(plan_run(method, items, engine, store))
        lines += cut_lines(n_cut, config.truncate_source)
    print_lines(Console(), lines)


def axes(
    bench: BenchArgument,
    format: Annotated[  # noqa: A002 - the flag's name
        str, typer.Option(help="text, markdown, latex, csv or json")
    ] = "text",
) -> None:
    """Correlate a benchmark's criteria with one another: what people mean by them."""
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.experiments.bench import criterion_correlations, rows_hash
    from adjudge.reports.bench import axes_report
    from adjudge.reports.grid import check_style

    check_style(format)
    benchmark = find_benchmark(bench)
    if len(benchmark.criteria) < 2:
        raise ConfigError(f"{bench} has no criteria that all its items were rated by")
    rows = cast("Sequence[RatedResponse]", read_benchmark(benchmark))
    print(axes_report(criterion_correlations(rows, benchmark.criteria), format))
    line = f"benchmark:{bench}#{rows_hash(rows)}|coefficient:spearman|constant:skip"
    print_after([line], format)


def _refuse(config: BenchConfig, names: Sequence[str], where: str) -> None:
    """Raise ConfigError if a flag was given that does nothing."""
    usual = BenchConfig()
    for name in names:
        if getattr(config, name) != getattr(usual, name):
            raise ConfigError(f"--{name.replace('_', '-')} does nothing {where}: drop it")


def _chosen(config: BenchConfig, bench: str) -> _Chosen:
    """Return the benchmark, the rows that are wanted and what the signature says of them."""
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.experiments.bench import rows_hash, select

    benchmark = find_benchmark(bench)
    everything = cast("Sequence[RatedResponse]", read_benchmark(benchmark))
    rows = select(
        everything, limit_sources=config.limit_sources, groups=config.group, seed=config.seed
    )
    groups = {"group": ",".join(config.group)} if config.group else {}
    named = {
        "benchmark": f"{benchmark.name}#{rows_hash(everything)}",
        "sources": str(config.limit_sources or "all"),
    }
    return _Chosen(benchmark, rows, named | groups)


def _run_pairs(config: BenchConfig, chosen: _Chosen, rows: Sequence[RatedPair]) -> None:
    """Judge pairs, or take their verdicts from a file, and print the accuracy."""
    import numpy as np

    from adjudge.experiments.bench import judged_verdicts, rate_verdicts
    from adjudge.formats.verdicts import read_verdicts
    from adjudge.reports.bench import accuracy_report

    after: list[str] = []
    if config.scores:
        _refuse(config, ["criterion"], "with verdicts from a file")
        verdicts, signature = read_verdicts(config.scores), _file_signature(config, chosen)
    else:
        signature, judgments, after = _judged(config, chosen)
        verdicts = judged_verdicts(judgments)
    found = rate_verdicts(
        verdicts,
        rows,
        rng=np.random.default_rng(config.seed),
        by_group=config.by_group,
        n_resamples=config.resamples,
    )
    print(accuracy_report(found, config.format))
    if stray := {each.id for each in verdicts}.difference(row.id for row in rows):
        print(f"{len(stray)} verdicts join no pair, such as {min(stray)!r}", file=sys.stderr)
    measured = {"resamples": f"{config.resamples} of pairs"}
    print_after([*after, str(signature | measured)], config.format)


def _file_signature(config: BenchConfig, chosen: _Chosen) -> Signature:
    """Return what reproduces numbers from a file of scores or verdicts."""
    from importlib.metadata import version

    from adjudge.schema import Signature

    return Signature(
        {"verdicts" if chosen.benchmark.kind == "pairs" else "scores": hashed_file(config.scores)}
        | chosen.fields
        | {"seed": str(config.seed), "adjudge": version("adjudge")}
    )


def _run_scores(config: BenchConfig, chosen: _Chosen, rows: Sequence[RatedResponse]) -> None:
    """Judge responses, or take their scores from a file, and print correlations with gold."""
    import numpy as np

    from adjudge.experiments.bench import bench_gold, judged_scores, rate_scores

    level = cast("Level", config.level or chosen.benchmark.level)
    judgments: Sequence[Judgment] = ()
    after: list[str] = []
    if config.scores:
        signature, scores, criteria = _given_scores(config, chosen, rows)
    else:
        signature, judgments, after = _judged(config, chosen)
        scores = judged_scores(judgments)
        criteria = list(dict.fromkeys(each.criterion for each in judgments))
    found = rate_scores(
        scores,
        bench_gold(rows, criteria),
        rng=np.random.default_rng(config.seed),
        level=level,
        constant=cast("Constant", config.constant),
        n_resamples=config.resamples,
        judgments=judgments,
    )
    _print_scores(found, config.format)
    measured = {
        "level": level,
        "constant": config.constant,
        "resamples": f"{config.resamples} of sources and systems",
    }
    print_after([*after, str(signature | measured)], config.format)


def _given_scores(
    config: BenchConfig, chosen: _Chosen, rows: Sequence[RatedResponse]
) -> tuple[Signature, list[ScoreRow], list[str]]:
    """Return the scores of a file by the wanted criteria: signature, scores, criteria."""
    from adjudge.experiments.bench import gold_names
    from adjudge.formats.scores import read_scores

    scores = read_scores(config.scores, "score")
    if wanted := _wanted_criteria(config, chosen.benchmark) if config.criterion else []:
        scores = [row for row in scores if row.criterion in ("", *wanted)]
    named = set(wanted) or {row.criterion for row in scores} - {""}
    criteria = [name for name in gold_names(rows) if not named or name in named]
    return _file_signature(config, chosen), scores, criteria


def _print_scores(found: Sequence[BenchRow], style: str) -> None:
    from adjudge.experiments.bench import averages
    from adjudge.reports.bench import bench_report

    print(bench_report(found, averages(found), style))
    for row in found:
        unjoined = row.found.n_only_scores, row.found.n_only_gold
        for n, what in zip(unjoined, ("scores join no gold", "items have no score"), strict=True):
            if n:
                print(f"{row.found.criterion or 'all'}: {n} {what}", file=sys.stderr)
        if row.found.note:
            print(f"{row.found.criterion or 'all'}: {row.found.note}", file=sys.stderr)


def _method_and_items(config: BenchConfig, chosen: _Chosen) -> tuple[Judge, list[Item]]:
    """Return the judge, without a model, and the items for it."""
    from adjudge import api
    from adjudge.experiments.bench import pair_items
    from adjudge.experiments.lists import items_for

    task = chosen.benchmark.task
    if chosen.benchmark.kind == "pairs":
        pairs = cast("Sequence[RatedPair]", chosen.rows)
        criterion = _pair_criterion(config, pairs, task)
        return _for_pairs(load_method(config, task, pairs=True)), pair_items(pairs, criterion)
    names = _wanted_criteria(config, chosen.benchmark)
    criteria: list[Criterion] = api.load_criteria(names, task) if names else []
    rows = cast("Sequence[RatedResponse]", chosen.rows)
    method = load_method(config, task)
    return method, items_for(method, rows, criteria)


def _for_pairs(method: Judge) -> Judge:
    """Return a judge if it judges pairs."""
    if method.takes == "list":
        raise ConfigError(
            f"the judge {method.name!r} ranks lists, and this benchmark holds pairs: "
            "take prometheus-absolute or prometheus-relative"
        )
    return method


def _pair_criterion(config: BenchConfig, pairs: Sequence[RatedPair], task: str) -> Criterion | None:
    """Return the criterion of pairs that have none of their own."""
    from adjudge import api

    if all(pair.criterion for pair in pairs):
        _refuse(config, ["criterion"], "for pairs that have a criterion of their own")
        return None
    if len(config.criterion) > 1:
        raise ConfigError("pairs are compared by one criterion: give --criterion once")
    return api.load_criteria(config.criterion or [PAIR_CRITERION], task)[0]


def _judged(
    config: BenchConfig, chosen: _Chosen
) -> tuple[Signature, Sequence[Judgment], list[str]]:
    """Run the judge over the rows: its signature, judgments, and what to say of the run."""
    from adjudge.experiments.lists import by_response
    from adjudge.formats.rows import check_writable, write_rows
    from adjudge.formats.scores import score_rows
    from adjudge.reports.tables import cost_lines, cut_lines, summary_lines
    from adjudge.runs.start import fit, run_signature, start_run
    from adjudge.runs.store import Store
    from adjudge.runs.summary import summarize
    from adjudge.runs.truncate import truncate_sources

    method, items = _method_and_items(config, chosen)
    if config.out:
        check_writable(config.out, never=[config.store])
    console, started = Console(stderr=config.format != "text"), time.monotonic()
    with (
        interruptible() as stop,
        Store(config.store) as store,
        closing(load_engine(config)) as engine,
    ):
        method = fit(method, engine)
        items, n_cut = truncate_sources(items, config.truncate_source, engine)
        signature = run_signature(
            method,
            list(dict.fromkeys(item.criterion for item in items)),
            engine,
            truncate_source=config.truncate_source,
            **chosen.fields,
        )
        begun = start_run(
            method, engine, items, store,
            signature=signature, data=chosen.benchmark.name, stopped=stop.is_set,
        )  # fmt: skip
        counters = finished(begun, console, config.store)
        judgments = list(store.judgments(begun.id))
    scored: list[Judgment] = judgments
    if chosen.benchmark.kind != "pairs":
        rows = cast("Sequence[RatedResponse]", chosen.rows)
        scored = by_response(method, judgments, rows)
    after = [*summary_lines(summarize(judgments)), *cut_lines(n_cut, config.truncate_source)]
    after += [f"run: {begun.id} in {config.store}"]
    after += cost_lines(counters, time.monotonic() - started, engine)
    if config.out:
        write_rows(config.out, score_rows(scored))
        after.append(f"scores: {config.out}")
    return signature, scored, after


def _wanted_criteria(config: BenchConfig, benchmark: Benchmark) -> list[str]:
    """Return the names of the benchmark's criteria that were asked for."""
    if config.criterion and not benchmark.criteria:
        raise ConfigError(
            f"every item of {benchmark.name} has a criterion of its own; leave --criterion out"
        )
    for name in config.criterion:
        check_known(f"criterion of {benchmark.name}", name, benchmark.criteria)
    return list(config.criterion or benchmark.criteria)
