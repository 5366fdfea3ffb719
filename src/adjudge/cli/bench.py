"""`adjudge bench`: judges measured on benchmarks, and against each other."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer
from rich.console import Console

from adjudge.cli.compare import compare
from adjudge.cli.options import configured
from adjudge.cli.prepare import load_engine, load_method
from adjudge.cli.progress import finished, interruptible
from adjudge.cli.report import print_lines
from adjudge.runs.config import BenchConfig

if TYPE_CHECKING:
    from adjudge.benchmarks.base import Benchmark, RatedPair, RatedResponse
    from adjudge.experiments.bench import BenchRow
    from adjudge.schema import Judgment, Signature
    from adjudge.stats.correlation import Constant, Level

FormatOption = Annotated[str, typer.Option(help="text, markdown, latex, csv or json")]
BenchArgument = Annotated[str, typer.Argument(help="A benchmark; see `adjudge benchmarks list`")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Measure judges on benchmarks.")
    group.command("run")(
        configured(
            run,
            BenchConfig,
            argument=("bench", "A benchmark; see `adjudge benchmarks list`"),
            doc="Judge a benchmark's items, and print how well the scores agree with gold.",
        )
    )
    group.command("compare")(compare)
    group.command("axes")(axes)
    app.add_typer(group, name="bench")


def run(config: BenchConfig, bench: str) -> None:
    """Judge a benchmark, or measure a file of scores on it."""
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.errors import ConfigError
    from adjudge.experiments.bench import select

    benchmark = find_benchmark(bench)
    if config.scores and (config.out or config.judge != "ladder"):
        raise ConfigError("--scores measures a file: drop --judge and --out, they do nothing then")
    if config.by_group and benchmark.kind != "pairs":
        raise ConfigError(f"{bench} has no pairs: --by-group is for those; see --group")
    if config.resamples < 1:
        raise ConfigError(f"resamples must be 1 or more, not {config.resamples}")
    level, constant = checked(config.level or benchmark.level, config.constant, config.format)
    rows = select(
        cast("Sequence[RatedResponse]", read_benchmark(benchmark)),
        limit_sources=config.limit_sources,
        groups=config.group,
        seed=config.seed,
    )
    if benchmark.kind == "pairs":
        _run_pairs(config, benchmark, cast("Sequence[RatedPair]", rows))
    else:
        _run_scores(config, benchmark, rows, level, constant)


def _run_pairs(config: BenchConfig, benchmark: Benchmark, rows: Sequence[RatedPair]) -> None:
    """Measure stored verdicts on pairs."""
    import numpy as np

    from adjudge.errors import ConfigError
    from adjudge.experiments.bench import rate_verdicts
    from adjudge.formats.verdicts import read_verdicts
    from adjudge.reports.bench import accuracy_report
    from adjudge.schema import Signature

    if not config.scores:
        raise ConfigError(
            f"{benchmark.name} has pairs, which the judge {config.judge!r} cannot compare; give "
            "verdicts that are there already: --scores FILE with columns id and verdict"
        )
    verdicts = read_verdicts(config.scores)
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
    if config.format == "text":
        signature = Signature({"verdicts": _hashed(config.scores)} | _chosen(config, benchmark))
        print_lines(
            Console(),
            [
                str(
                    signature
                    | {"resamples": f"{config.resamples} of pairs", "seed": str(config.seed)}
                )
            ],
        )


def _run_scores(
    config: BenchConfig,
    benchmark: Benchmark,
    rows: Sequence[RatedResponse],
    level: Level,
    constant: Constant,
) -> None:
    """Judge responses, or take their scores from a file, and print correlations with gold."""
    import numpy as np

    from adjudge.experiments.bench import bench_gold, gold_names, judged_scores, rate_scores
    from adjudge.formats.scores import read_scores
    from adjudge.schema import Signature

    judgments: Sequence[Judgment] = ()
    after: list[str] = []
    if config.scores:
        scores = read_scores(config.scores, "score")
        signature = Signature(
            {"scores": _hashed(config.scores)}
            | _chosen(config, benchmark)
            | {"seed": str(config.seed)}
        )
        if wanted := _chosen_criteria(config, benchmark) if config.criterion else []:
            scores = [row for row in scores if row.criterion in ("", *wanted)]
        named = set(wanted) or {row.criterion for row in scores} - {""}
        criteria = [name for name in gold_names(rows) if not named or name in named]
    else:
        signature, judgments, after = _judged(config, benchmark, rows)
        scores = judged_scores(judgments)
        criteria = list(dict.fromkeys(each.criterion for each in judgments))
    found = rate_scores(
        scores,
        bench_gold(rows, criteria),
        rng=np.random.default_rng(config.seed),
        level=level,
        constant=constant,
        n_resamples=config.resamples,
        judgments=judgments,
    )
    _print_scores(found, config.format)
    if config.format == "text":
        measured = {
            "level": level,
            "constant": constant,
            "resamples": f"{config.resamples} of sources and systems",
        }
        print_lines(Console(), [*after, str(signature | measured)])


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


def _judged(
    config: BenchConfig, benchmark: Benchmark, rows: Sequence[RatedResponse]
) -> tuple[Signature, Sequence[Judgment], list[str]]:
    """Run the judge over the rows: its signature, judgments, and what to say of the run."""
    from adjudge import api
    from adjudge.experiments.bench import bench_items
    from adjudge.formats.rows import check_writable, write_rows
    from adjudge.formats.scores import score_row
    from adjudge.reports.tables import cost_lines, summary_lines
    from adjudge.runs.start import check_needs, run_signature, start_run
    from adjudge.runs.store import Store
    from adjudge.runs.summary import summarize
    from adjudge.runs.truncate import truncate_sources

    method = load_method(config, benchmark.task)
    names = _chosen_criteria(config, benchmark)
    items = bench_items(rows, api.load_criteria(names, benchmark.task) if names else [])
    if config.out:
        check_writable(config.out, never=[config.store])
    console, started = Console(stderr=config.format != "text"), time.monotonic()
    with (
        interruptible() as stop,
        Store(config.store) as store,
        closing(load_engine(config)) as engine,
    ):
        check_needs(method, engine)
        signature = run_signature(
            method,
            list(dict.fromkeys(item.criterion for item in items)),
            engine,
            truncate_source=config.truncate_source,
            **_chosen(config, benchmark),
        )
        items, n_cut = truncate_sources(items, config.truncate_source, engine)
        begun = start_run(
            method, engine, items, store,
            signature=signature, data=benchmark.name, stopped=stop.is_set,
        )  # fmt: skip
        counters = finished(begun, console, config.store)
        judgments = list(store.judgments(begun.id))
    after = [*summary_lines(summarize(judgments)), f"run: {begun.id} in {config.store}"]
    after += [f"{n_cut} sources were cut to {config.truncate_source} tokens"] * bool(n_cut)
    after += cost_lines(counters, time.monotonic() - started)
    if config.out:
        write_rows(config.out, map(score_row, judgments))
        after.append(f"scores: {config.out}")
    return signature, judgments, after


def _hashed(path: str) -> str:
    """Return a file's name with the beginning of its hash, for the signature."""
    from pathlib import Path

    from adjudge.cache import sha256_of

    return f"{path}#{sha256_of(Path(path))[:8]}"


def _chosen(config: BenchConfig, benchmark: Benchmark) -> dict[str, str]:
    """Return what of the benchmark was taken, for the signature."""
    groups = {"group": ",".join(config.group)} if config.group else {}
    return {"benchmark": benchmark.name, "sources": str(config.limit_sources or "all")} | groups


def _chosen_criteria(config: BenchConfig, benchmark: Benchmark) -> list[str]:
    """Return the names of the benchmark's criteria that were asked for."""
    from adjudge.errors import ConfigError
    from adjudge.registry import unknown_name

    if config.criterion and not benchmark.criteria:
        raise ConfigError(
            f"every item of {benchmark.name} has a criterion of its own; leave --criterion out"
        )
    for name in config.criterion:
        if name not in benchmark.criteria:
            raise unknown_name(f"criterion of {benchmark.name}", name, benchmark.criteria)
    return list(config.criterion or benchmark.criteria)


def axes(
    bench: BenchArgument,
    format: FormatOption = "text",  # noqa: A002 - the flag's name
) -> None:
    """Correlate a benchmark's criteria with one another: what people mean by them."""
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.errors import ConfigError
    from adjudge.experiments.bench import axes as pairs
    from adjudge.reports.bench import axes_report
    from adjudge.reports.grid import check_style

    check_style(format)
    benchmark = find_benchmark(bench)
    if len(benchmark.criteria) < 2:
        raise ConfigError(f"{bench} has no criteria that all its items were rated by")
    rows = cast("Sequence[RatedResponse]", read_benchmark(benchmark))
    print(axes_report(pairs(rows, benchmark.criteria), format))
    if format == "text":
        print(f"benchmark:{bench}|coefficient:spearman|constant:skip")


def checked(level: str, constant: str, style: str) -> tuple[Level, Constant]:
    """Return level and policy under their own types, after all three were looked at."""
    from adjudge.registry import unknown_name
    from adjudge.reports.grid import check_style
    from adjudge.stats.correlation import Constant, Level

    check_style(style)
    for name, value, kinds in (
        ("level", level, get_args(Level)),
        ("policy for constant groups", constant, get_args(Constant)),
    ):
        if value not in kinds:
            raise unknown_name(name, value, kinds)
    return cast("Level", level), cast("Constant", constant)
