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
    from adjudge.formats.scores import ScoreRow
    from adjudge.stats.correlation import Coefficient, Constant, Level
    from adjudge.stats.inference import Permute
    from adjudge.stats.pairwise import Convention


class _Judged(NamedTuple):
    """What a judge said: scores of a run, or a file; and of which benchmark, if that is known.

    `mark` is the run's id or the file's hash.
    """

    name: str
    mark: str
    benchmark: str
    file: str
    scores: Sequence[ScoreRow]


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
    from importlib.metadata import version

    import numpy as np

    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.experiments.bench import bench_gold, gold_names, rows_hash
    from adjudge.experiments.compare import compare_scores, compare_verdicts
    from adjudge.formats.verdicts import read_verdicts
    from adjudge.reports.bench import difference_report
    from adjudge.reports.grid import check_style
    from adjudge.stats.correlation import Coefficient, Constant, Level
    from adjudge.stats.inference import Permute
    from adjudge.stats.pairwise import Convention

    if repeated := [each for each in judges if judges.count(each) > 1]:
        raise ConfigError(f"{repeated[0]} is given more than once")
    judged = [_judged(each, store) for each in judges]
    benchmark = find_benchmark(_benchmark(judged, bench))
    level = level or benchmark.level
    for what, value, kind in (
        ("coefficient", coefficient, Coefficient),
        ("convention", convention, Convention),
        ("level", level, Level),
        ("policy for constant groups", constant, Constant),
        ("way to permute", permute, Permute),
    ):
        check_known(what, value, get_args(kind))
    check_style(format)
    if len({each.name for each in judged}) < len(judged):
        judged = [each._replace(name=name) for each, name in zip(judged, judges, strict=True)]
    rng = np.random.default_rng(seed)
    rows = read_benchmark(benchmark)
    if benchmark.kind == "pairs":
        if runs := [each.name for each in judged if not each.file]:
            raise ConfigError(
                f"{benchmark.name} has pairs, {runs[0]} is a run of scores: give files of verdicts"
            )
        found = compare_verdicts(
            {each.name: read_verdicts(each.file) for each in judged},
            cast("Sequence[RatedPair]", rows),
            rng=rng,
            convention=cast("Convention", convention),
            n_resamples=permutations,
        )
        settings = f"convention:{convention}"
    else:
        rated = cast("Sequence[RatedResponse]", rows)
        found = compare_scores(
            {each.name: _scores(each) for each in judged},
            bench_gold(rated, gold_names(rated)),
            rng=rng,
            coefficient=cast("Coefficient", coefficient),
            level=cast("Level", level),
            constant=cast("Constant", constant),
            permute=cast("Permute", permute),
            n_resamples=permutations,
        )
        settings = f"coefficient:{coefficient}|level:{level}|constant:{constant}|permute:{permute}"
    print(difference_report(found, format))
    said = "|".join(f"{each.name}={each.mark}" for each in judged)
    print_after(
        [
            f"judges:{said}|benchmark:{benchmark.name}#{rows_hash(rows)}|{settings}"
            f"|permutations:{permutations}|seed:{seed}|adjudge:{version('adjudge')}"
        ],
        format,
    )


def _judged(reference: str, store: str) -> _Judged:
    """Return what a reference stands for: a file by its suffix, or a run."""
    from adjudge.experiments.bench import judged_scores
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
        scores = judged_scores(opened.judgments(found.id))
    fields = found.signature.fields
    name = f"{fields.get('judge', 'run')}:{found.id[:8]}"
    benchmark = fields.get("benchmark", "").partition("#")[0]
    return _Judged(name, found.id, benchmark, "", scores)


def _scores(judged: _Judged) -> Sequence[ScoreRow]:
    from adjudge.formats.scores import read_scores

    return read_scores(judged.file, "score") if judged.file else judged.scores


def _benchmark(judged: Sequence[_Judged], given: str) -> str:
    """Return the name of the one benchmark that all were judged on."""
    named = {given, *(each.benchmark for each in judged)} - {""}
    if not named:
        raise ConfigError("no benchmark is known of these; name it, as in --bench summeval")
    if len(named) > 1:
        raise ConfigError(f"these are of different benchmarks: {', '.join(sorted(named))}")
    return named.pop()
