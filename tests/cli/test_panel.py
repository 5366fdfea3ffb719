"""`adjudge panel`: files of several judges become one."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adjudge.formats.rows import read_rows, write_rows
from adjudge.formats.scores import read_scores
from adjudge.formats.verdicts import read_verdicts
from tests.cli.conftest import CommandLine

Run = Callable[..., tuple[int, str, str]]
SUFFIXES = pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine) -> Run:
    """Run `adjudge panel` in an empty folder: exit status, output, errors."""
    monkeypatch.chdir(tmp_path)
    return partial(command_line, "panel")


def scores(name: str, *values: float | None, **more: Any) -> str:
    """Write scores of one source per three systems."""
    rows = [
        {"id": f"i{i}", "source_id": f"s{i // 3}", "system": f"m{i % 3}", "score": value}
        for i, value in enumerate(values)
    ]
    write_rows(name, [{**row, "criterion": "wit", **more} for row in rows])
    return name


def verdicts(name: str, *values: str | None, **more: Any) -> str:
    write_rows(name, [{"id": f"p{i}", "verdict": value, **more} for i, value in enumerate(values)])
    return name


def rows(path: str) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(path)]


@SUFFIXES
def test_scores_become_one_file_that_can_be_read_again(
    run: Run, command_line: CommandLine, suffix: str
) -> None:
    files = [
        scores(f"a{suffix}", 1, 2, 3, 1, None),
        scores(f"b{suffix}", 3, 2, 5, 2, None),
        scores(f"c{suffix}", 5, 2, None, 3, None),
    ]
    code, out, err = run(*files, "--out", f"panel{suffix}")
    assert (code, err) == (0, "")
    assert f"scores: panel{suffix}" in out.splitlines()
    assert "wit: 5 items judged: 3 by 3, 1 by 2, 1 by none" in out.splitlines()
    written = rows(f"panel{suffix}")
    assert list(written[0]) == [
        "id", "source_id", "system", "criterion", "score", "sd", "n_judges", "a", "b", "c",
    ]  # fmt: skip
    assert [row["score"] for row in written if suffix != ".csv"] in ([], [3, 2, 4, 2, None])
    panel = read_scores(f"panel{suffix}", "score")
    assert [row.value for row in panel] == pytest.approx([3, 2, 4, 2, float("nan")], nan_ok=True)
    assert {row.criterion for row in panel} == {"wit"}
    sds = read_scores(f"panel{suffix}", "sd")
    assert [row.value for row in sds][:3] == pytest.approx([2, 0, 2**0.5])
    # The gold is the panel's, in tenths: it correlates fully.
    gold = scores(f"gold{suffix}", 0.3, 0.2, 0.4, 0.2, None)
    _, out, _ = command_line(
        "correlate", f"panel{suffix}", "--gold", gold, "--gold-field", "score", "--format", "json"
    )
    assert json.loads(out)[0]["pearson"] == pytest.approx(1)
    code, _, err = run(f"panel{suffix}", files[0], "--by", "median", "--out", "again.csv")
    assert code == 0, err
    assert [float(row["score"]) for row in rows("again.csv")[:3]] == [2, 2, 3.5]


def test_what_is_printed_of_scores(run: Run) -> None:
    files = [scores("a.csv", 1, 2, 3, 4), scores("b.csv", 1, 3, 2, 4), scores("c.csv", 1, 2)]
    code, out, err = run(*files, "--format", "json")
    table = {row["judges"]: row for row in json.loads(out)}
    assert code == 0
    assert list(table) == ["all", "a", "b", "c", "a - b", "a - c", "b - c"]
    assert table["a - b"]["spearman"] == pytest.approx(0.8)
    assert table["a - c"]["spearman"] == pytest.approx(1)
    assert table["all"]["spearman"] is None
    assert (table["all"]["items"], table["all"]["missing"]) == (4, 2)
    assert (table["c"]["items"], table["c"]["missing"], table["c"]["mean"]) == (4, 2, 1.5)
    # Deviations of a and b: 0, 1, 1, 0 over the root of 2.
    assert table["a - b"]["mean sd"] == pytest.approx(0.5 / 2**0.5)
    # Observed 2 * (1 + 1) / 8; expected over 1, 1, 2, 2, 3, 3, 4, 4: 80 * 2 / 56.
    assert table["a - b"]["alpha"] == pytest.approx(1 - 0.5 / (160 / 56))
    assert err.splitlines()[0] == "wit: 4 items judged: 2 by 3, 2 by 2"
    assert re.fullmatch(
        r"judges:a\.csv#[0-9a-f]{8},b\.csv#[0-9a-f]{8},c\.csv#[0-9a-f]{8}\|of:scores\|by:mean"
        r"\|adjudge:[\d.]+",
        err.splitlines()[-1],
    )


def test_nothing_is_said_of_missing_scores_where_none_are(run: Run) -> None:
    _, out, _ = run(scores("a.csv", 1, 2, 3), scores("b.csv", 3, 2, 1))
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["judges", "all", "a", "b"]
    assert lines[4].startswith("judges:a.csv#")
    assert lines[1].split()[-1] == "-1.000"


@SUFFIXES
def test_verdicts_become_one_file_that_can_be_read_again(run: Run, suffix: str) -> None:
    files = [
        verdicts(f"a{suffix}", "A", "A", "tie", None, verdict_swapped="A"),
        verdicts(f"b{suffix}", "A", "B", "tie", None, verdict_swapped="B"),
        verdicts(f"c{suffix}", "B", None, "A", None, verdict_swapped="B"),
    ]
    code, out, err = run(*files, "--out", f"panel{suffix}", "--format", "csv")
    assert code == 0, err
    table = {row["judges"]: row for row in csv.DictReader(io.StringIO(out))}
    # All three say the same of none; a and b of two of three.
    assert float(table["all"]["same verdict"]) == 0
    assert float(table["a - b"]["same verdict"]) == pytest.approx(2 / 3)
    assert (table["all"]["items"], table["all"]["missing"]) == ("4", "2")
    assert "4 items judged: 2 by 3, 1 by 2, 1 by none" in err.splitlines()
    assert "|of:verdicts|by:majority|" in err
    written = rows(f"panel{suffix}")
    assert [row["verdict"] for row in written] == ["A", "tie", "tie", None]
    assert [row["a"] for row in written] == ["A", "A", "tie", None]
    assert [int(row["n_judges"]) for row in written] == [3, 2, 3, 0]
    assert float(written[0]["share"]) == pytest.approx(2 / 3)
    panel = read_verdicts(f"panel{suffix}")
    assert [row.verdict for row in panel] == pytest.approx([1, 0, 0, float("nan")], nan_ok=True)
    assert [row.swapped for row in panel] == [-1] * 4
    code, _, err = run(f"panel{suffix}", files[0], "--by", "mean", "--out", "again.jsonl")
    assert code == 0, err
    assert [row["verdict"] for row in rows("again.jsonl")] == ["A", "A", "tie", None]


def test_an_order_that_not_all_were_asked_is_left_out_and_said(run: Run) -> None:
    files = [verdicts("a.csv", "A", verdict_swapped="B"), verdicts("b.csv", "A")]
    _, out, _ = run(*files, "--out", "panel.jsonl")
    assert "verdict_swapped is left out: b was asked in one order" in out.splitlines()
    assert "verdict_swapped" not in rows("panel.jsonl")[0]


def test_files_of_judged_pairs_have_both_columns_and_are_of_verdicts(run: Run) -> None:
    files = [verdicts(f"{name}.jsonl", "A", "B", score=1.0) for name in "ab"]
    code, _, err = run(*files, "--format", "json")
    assert code == 0
    assert "|of:verdicts|" in err


@pytest.mark.parametrize("names", [("one/same.csv", "other/same.csv"), ("score.csv", "a.csv")])
def test_stems_that_could_be_mistaken_give_way_to_paths(run: Run, names: tuple[str, str]) -> None:
    for name in names:
        Path(name).parent.mkdir(exist_ok=True)
    code, _, err = run(scores(names[0], 1), scores(names[1], 3), "--out", "panel.jsonl")
    assert code == 0, err
    (row,) = rows("panel.jsonl")
    assert (row[names[0]], row[names[1]], row["score"]) == (1, 3, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.csv"], "a panel takes two files or more, not a.csv alone"),
        (["a.csv", "./a.csv"], "./a.csv is given more than once"),
        (["a.csv", "none.csv"], "there is no file 'none.csv'"),
        (["a.csv", "v.csv"], "scores or verdicts, not both: a.csv scores, v.csv verdicts"),
        (
            ["a.csv", "x.csv"],
            "x.csv, line 2: a panel needs a column score or verdict; the row has: id",
        ),
        (["a.csv", "empty.csv"], "empty.csv: there are no rows"),
        (["a.csv", "far.csv"], "shares no id with another judge"),
        (["a.csv", "tact.csv"], "criteria differ: a has wit; tact has tact"),
        (["a.csv", "b.csv", "--by", "majority"], "scores take mean or median, not 'majority'"),
        (["v.csv", "w.csv", "--by", "median"], "verdicts take majority or mean, not 'median'"),
        (["a.csv", "b.csv", "--by", "means"], "unknown rule 'means': did you mean 'mean'"),
        (["a.csv", "b.csv", "--format", "html"], "unknown format 'html'"),
        (["a.csv", "b.csv", "--out", "a.csv"], "'a.csv' is read from and would be overwritten"),
    ],
)
def test_what_cannot_be_a_panel(run: Run, arguments: list[str], message: str) -> None:
    for name in ("a.csv", "b.csv"):
        scores(name, 1, 2, 3)
    scores("tact.csv", 1, criterion="tact")
    scores("far.csv", 1, id="far")
    verdicts("v.csv", "A")
    verdicts("w.csv", "A")
    write_rows("x.csv", [{"id": "i0"}])
    write_rows("empty.csv", [], columns=["id", "score"])
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_files_of_ranks_are_refused(command_line: CommandLine, tmp_path: Path) -> None:
    for name in ("one", "two"):
        row = {"id": "a", "criterion": "wit", "score": None, "ranks": [2, 1]}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    code, _, err = command_line("panel", tmp_path / "one.jsonl", tmp_path / "two.jsonl")
    assert (code, "holds ranks of a list; a panel takes scores or verdicts" in err) == (2, True)
