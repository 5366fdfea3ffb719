"""`adjudge bench compare`: judges against each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast, get_args

import typer

from adjudge.cli.options import check_known
from adjudge.cli.report import hashed_file, print_after
from adjudge.errors import ConfigError

if TYPE_CHECKING:
    from adjudge.benchmarks.base import RatedPair, RatedResponse
    from adjudge.experiments.compare import Difference
    from adjudge.formats.scores import ScoreRow
    from adjudge.formats.verdicts import VerdictRow
    from adjudge.schema import Judgment
    from adjudge.stats.correlation import Coefficient, Constant, Level
    from adjudge.stats.inference import Permute
    from adjudge.stats.pairwise import Convention


class _Judged(NamedTuple):
    """What a judge said: judgments of a run, or a file; and of which benchmark, if that is known.

    `mark` is the run's id or the file's hash.
    """

    name: str
    mark: str
    benchmark: str
    file: str
    judgments: Sequence[Judgment]


def compare(
    judges: Annotated[
        list[str],
        typer.Argument(help="Runs (ID, or STORE.db:ID), or files of scores or verdicts"),
    ],
    bench: Annotated[str, typer.Option(help="The benchmark; runs know theirs")] = "",
    store: Annotated[str, typer.Option(help="The store of runs given as ID")] = "adjudge.db",
    coefficient: Annotated[
        str, typer.Option(help="spearman, pearson, kendall_tau_b or kendall_tau_c")
    ] = "spearman",
    convention: Annotated[
        str, typer.Option(help="Of pairs: plain, prometheus, fastchat, autoj or llmbar")
    ] = "plain",
    level: Annotated[str, typer.Option(help="If not given, the benchmark's")] = "",
    constant: Annotated[
        str, typer.Option(help="Groups without an order: skip, zero or one")
    ] = "skip",
    permute: Annotated[
        str, typer.Option(help="What chance may vary: both, inputs, systems or cells")
    ] = "both",
    permutations: Annotated[int, typer.Option(help="Of each test", min=1)] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the permutations", min=0)] = 0,
    format: Annotated[  # noqa: A002 - the flag's name
        str, typer.Option(help="text, markdown, latex, csv or json")
    ] = "text",
) -> None:
    """Compare judges on a benchmark: differences with p-values, corrected by Holm."""
    from adjudge.reports.grid import check_style

    if repeated := [each for each in judges if judges.count(each) > 1]:
        raise ConfigError(f"{repeated[0]} is given more than once")
    check_style(format)
    judged = [_judged(each, store) for each in judges]
    if len({each.name for each in judged}) < len(judged):
        judged = [each._replace(name=name) for each, name in zip(judged, judges, strict=True)]
    wanted = _Wanted(coefficient, convention, level, constant, permute, permutations, seed)
    _print_differences(judged, _benchmark(judged, bench), wanted, format)


class _Wanted(NamedTuple):
    """How judges are to be compared."""

    coefficient: str
    convention: str
    level: str
    constant: str
    permute: str
    permutations: int
    seed: int


def _print_differences(judged: Sequence[_Judged], bench: str, wanted: _Wanted, style: str) -> None:
    """Print every difference, and the line that reproduces it."""
    from importlib.metadata import version

    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.experiments.bench import rows_hash
    from adjudge.reports.bench import difference_report
    from adjudge.stats.correlation import Coefficient, Constant, Level
    from adjudge.stats.inference import Permute
    from adjudge.stats.pairwise import Convention

    benchmark = find_benchmark(bench)
    wanted = wanted._replace(level=wanted.level or benchmark.level)
    for what, value, kind in (
        ("coefficient", wanted.coefficient, Coefficient),
        ("convention", wanted.convention, Convention),
        ("level", wanted.level, Level),
        ("policy for constant groups", wanted.constant, Constant),
        ("way to permute", wanted.permute, Permute),
    ):
        check_known(what, value, get_args(kind))
    rows = read_benchmark(benchmark)
    if benchmark.kind == "pairs":
        found = _of_pairs(judged, cast("Sequence[RatedPair]", rows), wanted)
        names: tuple[str, ...] = ("convention", "permutations", "seed")
    else:
        found = _of_scores(judged, cast("Sequence[RatedResponse]", rows), wanted)
        names = ("coefficient", "level", "constant", "permute", "permutations", "seed")
    print(difference_report(found, style))
    said = "|".join(f"{each.name}={each.mark}" for each in judged)
    settings = "|".join(f"{name}:{getattr(wanted, name)}" for name in names)
    line = f"judges:{said}|benchmark:{benchmark.name}#{rows_hash(rows)}|{settings}"
    print_after([f"{line}|adjudge:{version('adjudge')}"], style)


def _of_pairs(
    judged: Sequence[_Judged], rows: Sequence[RatedPair], wanted: _Wanted
) -> list[Difference]:
    import numpy as np

    from adjudge.experiments.compare import compare_verdicts

    return compare_verdicts(
        {each.name: _verdicts(each) for each in judged},
        rows,
        rng=np.random.default_rng(wanted.seed),
        convention=cast("Convention", wanted.convention),
        n_resamples=wanted.permutations,
    )


def _of_scores(
    judged: Sequence[_Judged], rows: Sequence[RatedResponse], wanted: _Wanted
) -> list[Difference]:
    import numpy as np

    from adjudge.experiments.bench import bench_gold, gold_names
    from adjudge.experiments.compare import compare_scores

    return compare_scores(
        {each.name: _scores(each) for each in judged},
        bench_gold(rows, gold_names(rows)),
        rng=np.random.default_rng(wanted.seed),
        coefficient=cast("Coefficient", wanted.coefficient),
        level=cast("Level", wanted.level),
        constant=cast("Constant", wanted.constant),
        permute=cast("Permute", wanted.permute),
        n_resamples=wanted.permutations,
    )


def _judged(reference: str, store: str) -> _Judged:
    """Return what a reference stands for: a file by its suffix, or a run."""
    from adjudge.formats.rows import SUFFIXES
    from adjudge.runs.store import open_store

    if Path(reference).suffix.lower() in SUFFIXES:
        if not Path(reference).is_file():
            raise ConfigError(f"there is no file {reference!r}")
        return _Judged(Path(reference).stem, hashed_file(reference), "", reference, ())
    place, colon, run = reference.rpartition(":")
    place = place if colon else store
    if not (run and Path(place).is_file()):
        raise ConfigError(
            f"{reference!r} is neither a file of scores ({', '.join(SUFFIXES)}) nor a run in the "
            f"store {place!r}; give ID with --store, or STORE.db:ID"
        )
    with open_store(place) as opened:
        found = opened.find_run(run)
        if found.n_judged < found.n_items:
            raise ConfigError(
                f"the run {found.id} has {found.n_judged} of {found.n_items} judgments: run its "
                "command again to finish it"
            )
        judgments = tuple(opened.judgments(found.id))
    fields = found.signature.fields
    name = f"{fields.get('judge', 'run')}:{found.id[:8]}"
    benchmark = fields.get("benchmark", "").partition("#")[0]
    return _Judged(name, found.id, benchmark, "", judgments)


def _scores(judged: _Judged) -> Sequence[ScoreRow]:
    from adjudge.experiments.bench import judged_scores
    from adjudge.formats.scores import read_scores

    return read_scores(judged.file, "score") if judged.file else judged_scores(judged.judgments)


def _verdicts(judged: _Judged) -> Sequence[VerdictRow]:
    from adjudge.experiments.bench import judged_verdicts
    from adjudge.formats.verdicts import read_verdicts

    return read_verdicts(judged.file) if judged.file else judged_verdicts(judged.judgments)


def _benchmark(judged: Sequence[_Judged], given: str) -> str:
    """Return the name of the one benchmark that all were judged on."""
    named = {given, *(each.benchmark for each in judged)} - {""}
    if not named:
        raise ConfigError("no benchmark is known of these; name it, as in --bench summeval")
    if len(named) > 1:
        raise ConfigError(f"these are of different benchmarks: {', '.join(sorted(named))}")
    return named.pop()
