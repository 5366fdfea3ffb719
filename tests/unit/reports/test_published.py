"""A paper's table with our figures in it, and what goes below."""

from __future__ import annotations

import csv
import io
import math

from adjudge.experiments.figures import Figure, TableCell
from adjudge.experiments.tables import TableColumn, TableJudge, TablePreset, TableRow
from adjudge.reports.published import published_lines, published_report

PRESET = TablePreset(
    name="table",
    title="A table",
    source="Nobody 2000",
    measure="pearson",
    note="As published.",
    judges={name: TableJudge(judge="prometheus-absolute") for name in ("without", "with")},
    columns=(
        TableColumn(name="X", benchmark="x", judges=("without",), gold="rubric"),
        TableColumn(name="X, difference", benchmark="x", judges=("without", "with"), gold="rubric"),
        TableColumn(name="Y", instead="no data", why="nobody has it"),
        TableColumn(name="Z", instead="no data", why="nobody has it"),
    ),
    rows=(
        TableRow(label="Famous 1B", name="famous", printed=("0.100", "+0.020", "–", "")),
        TableRow(
            label="Other 2B", name="other", printed=("0.3", "0.4", "", ""), note="elsewhere .2"
        ),
    ),
)  # fmt: skip
NOTHING = (
    TableCell("Y", instead="no data", why="nobody has it"),
    TableCell("Z", instead="no data", why="nobody has it"),
)
RUNS: dict[str, dict[str, int]] = {"r1": {"truncated": 1, "parse_failed": 2}, "r2": {}}
CELLS = {
    "mine": (
        TableCell("X", Figure(math.nan, math.nan, math.nan, (), 1, 9), {"r3": {"refused": 8}}),
        TableCell("X, difference", instead="failed", why="it does not fit"),
        *NOTHING,
    ),
    "famous": (
        TableCell("X", Figure(0.5, 0.25, 0.75, (), 7, 9), {"r1": RUNS["r1"]}),
        TableCell("X, difference", Figure(0.125, -0.5, 0.5, (0.5, 0.625), 6, 9), RUNS),
        *NOTHING,
    ),
}


def test_ours_stand_below_what_is_printed() -> None:
    rows = list(csv.DictReader(io.StringIO(published_report(PRESET, CELLS, "csv"))))
    assert [(row["evaluator"], row["figures"]) for row in rows] == [
        ("Famous 1B", "printed"),
        ("Famous 1B", "ours"),
        ("Other 2B", "printed, not run"),
        ("mine", "ours"),
    ]
    printed, ours, _, mine = rows
    assert [printed[name] for name in ("X", "X, difference", "Y", "Z")] == [
        "0.100", "+0.020", "–", "",
    ]  # fmt: skip
    assert [ours[f"X{end}"] for end in ("", "_low", "_high")] == ["0.5", "0.25", "0.75"]
    assert (ours["X, difference"], ours["Y"]) == ("0.125", "no data")
    # The run r1 is in two cells, and its failures count once.
    assert (printed["failed"], ours["failed"], mine["failed"]) == ("", "3", "8")
    assert (mine["X"], mine["X, difference"]) == ("", "failed")
    text = published_report(PRESET, CELLS, "text")
    assert "0.500 [0.250, 0.750]" in text


def test_reasons_are_given_once_and_figures_say_what_they_rest_on() -> None:
    assert published_lines(PRESET, CELLS) == [
        "A table: Nobody 2000",
        "As published.",
        "Other 2B: elsewhere .2",
        "failed: mine, X, difference: it does not fit",
        "no data: Y; Z: nobody has it",
        "mine, X: 1 of 9 items; too few items, or all their numbers are the same; "
        "run r3, failed: 8 refused",
        "famous, X: 7 of 9 items; run r1, failed: 2 parse_failed, 1 truncated",
        "famous, X, difference: without 0.500; with 0.625; 6 of 9 items; "
        "run r1, failed: 2 parse_failed, 1 truncated; run r2, failed: none",
    ]
