"""`adjudge correlate`: scores against gold, no model involved."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from adjudge.cli.options import check_known
from adjudge.cli.report import hashed_file, print_after


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("correlate")(correlate)


def correlate(
    scores: Annotated[str, typer.Argument(help="Scores: .jsonl, .csv or .parquet with id")],
    gold: Annotated[str, typer.Option(help="Gold numbers: a file with the same ids")],
    score_field: Annotated[str, typer.Option(help="The column of the scores")] = "score",
    gold_field: Annotated[str, typer.Option(help="The column of the gold numbers")] = "gold",
    level: Annotated[str, typer.Option(help="sample, system, pooled or by_source")] = "sample",
    constant: Annotated[
        str, typer.Option(help="Groups without an order: skip, zero or one")
    ] = "skip",
    resamples: Annotated[int, typer.Option(help="Resamples of the 95 % intervals", min=1)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the resamples", min=0)] = 0,
    format: Annotated[  # noqa: A002 - the flag's name
        str, typer.Option(help="text, markdown, latex, csv or json")
    ] = "text",
) -> None:
    """Correlate scores with gold numbers, for every criterion, with 95 % intervals."""
    from importlib.metadata import version
    from typing import cast, get_args

    import numpy as np

    from adjudge.experiments.correlate import correlate as run
    from adjudge.formats.scores import read_scores
    from adjudge.reports.correlations import correlation_report
    from adjudge.reports.grid import Style
    from adjudge.stats.correlation import Constant, Level

    for name, value, kinds in (
        ("level", level, get_args(Level)),
        ("policy for constant groups", constant, get_args(Constant)),
        ("format", format, get_args(Style)),
    ):
        check_known(name, value, kinds)
    results = run(
        read_scores(scores, score_field),
        read_scores(gold, gold_field),
        rng=np.random.default_rng(seed),
        level=cast("Level", level),
        constant=cast("Constant", constant),
        n_resamples=resamples,
    )
    print(correlation_report(results, format))
    for each in results:
        if each.note:
            print(f"{each.criterion or 'all'}: {each.note}", file=sys.stderr)
    print_after(
        [
            f"scores:{hashed_file(scores)}|gold:{hashed_file(gold)}|level:{level}"
            f"|constant:{constant}|resamples:{resamples} of sources and systems|seed:{seed}"
            f"|adjudge:{version('adjudge')}"
        ],
        format,
    )
