"""`adjudge panel`: several judges become one, no model involved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from adjudge.cli.options import check_known
from adjudge.cli.report import hashed_file, print_after
from adjudge.errors import ConfigError, DataError

if TYPE_CHECKING:
    from adjudge.experiments.panel import PanelScore, PanelVerdict, ScoreRule, VerdictRule

RULES = ("mean", "median", "majority")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("panel")(panel)


def panel(
    files: Annotated[
        list[str], typer.Argument(help="Files of scores, or of verdicts: one of each judge")
    ],
    by: Annotated[
        str, typer.Option(help="Scores: mean (default) or median; verdicts: majority or mean")
    ] = "",
    out: Annotated[str, typer.Option(help="File to write: .jsonl, .csv or .parquet")] = "",
    format: Annotated[  # noqa: A002 - the flag's name
        str, typer.Option(help="text, markdown, latex, csv or json")
    ] = "text",
) -> None:
    """Combine the scores or verdicts of several judges, and print how far they agree."""
    from importlib.metadata import version

    from adjudge.experiments.panel import panel_agreement, panel_rows
    from adjudge.formats.rows import check_writable, write_rows
    from adjudge.reports.grid import check_style
    from adjudge.reports.panel import missing_lines, panel_scores_report, panel_verdicts_report

    check_style(format)
    if by:
        check_known("rule", by, RULES)
    _check_files(files)
    if out:
        check_writable(out, never=files)
    kind = _kind(files)
    rule = by or {"scores": "mean", "verdicts": "majority"}[kind]
    combined, after = (_scores if kind == "scores" else _verdicts)(files, rule)
    found = panel_agreement(combined)
    report = panel_scores_report if kind == "scores" else panel_verdicts_report
    print(report(found, format))
    after = [*missing_lines(found), *after]
    if out:
        write_rows(out, panel_rows(combined))
        after.append(f"{kind}: {out}")
    judges = ",".join(map(hashed_file, files))
    after.append(f"judges:{judges}|of:{kind}|by:{rule}|adjudge:{version('adjudge')}")
    print_after(after, format)


def _scores(files: Sequence[str], rule: str) -> tuple[list[PanelScore], list[str]]:
    """Return the panel's scores."""
    from adjudge.experiments.panel import combine_scores
    from adjudge.formats.scores import read_scores

    judges = dict(zip(_names(files), (read_scores(each, "score") for each in files), strict=True))
    return combine_scores(judges, by=cast("ScoreRule", rule)), []


def _verdicts(files: Sequence[str], rule: str) -> tuple[list[PanelVerdict], list[str]]:
    """Return the panel's verdicts, and what to say of them."""
    from adjudge.experiments.panel import combine_verdicts
    from adjudge.formats.verdicts import read_verdicts

    judges = dict(zip(_names(files), map(read_verdicts, files), strict=True))
    one_order = [name for name, rows in judges.items() if rows[0].swapped is None]
    lines = []
    if 0 < len(one_order) < len(judges):
        lines = [f"verdict_swapped is left out: {', '.join(one_order)} was asked in one order"]
    return combine_verdicts(judges, by=cast("VerdictRule", rule)), lines


def _names(files: Sequence[str]) -> list[str]:
    """Return the judges' names: the files' stems, or paths where stems could be mistaken."""
    from adjudge.experiments.panel import COLUMNS

    stems = [Path(each).stem for each in files]
    clear = len(set(stems)) == len(stems) and COLUMNS.isdisjoint(stems)
    return stems if clear else list(files)


def _check_files(files: Sequence[str]) -> None:
    """Raise ConfigError unless there are two files or more, none of them twice."""
    if len(files) < 2:
        raise ConfigError(f"a panel takes two files or more, not {files[0]} alone: add another")
    known: set[Path] = set()
    for file in files:
        if (whole := Path(file).resolve()) in known:
            raise ConfigError(f"{file} is given more than once: a judge has one say")
        known.add(whole)


def _kind(files: Sequence[str]) -> str:
    """Return what all files hold: scores or verdicts."""
    kinds = {file: _kind_of(file) for file in files}
    if len(set(kinds.values())) > 1:
        shown = ", ".join(f"{file} {kind}" for file, kind in kinds.items())
        raise ConfigError(f"a panel takes scores or verdicts, not both: {shown}")
    return kinds[files[0]]


def _kind_of(file: str) -> str:
    """Return what a file holds; files of judged pairs have both columns, and are of verdicts."""
    from adjudge.formats.rows import read_rows

    for line, row in read_rows(file):
        if "ranks" in row:
            raise DataError(
                "the row holds ranks of a list; a panel takes scores or verdicts",
                path=file,
                line=line,
                field="ranks",
            )
        for column in ("verdict", "score"):
            if column in row:
                return f"{column}s"
        raise DataError(
            f"a panel needs a column score or verdict; the row has: {', '.join(row) or 'nothing'}",
            path=file,
            line=line,
        )
    raise DataError("there are no rows", path=file)
