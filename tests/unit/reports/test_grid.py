"""Grids in the formats of papers and programs."""

from __future__ import annotations

import csv
import io
import json

import pytest

from adjudge.errors import ConfigError
from adjudge.reports.grid import render_grid

HEADER = ["name", "n"]
ROWS = [["a_b & 5%", "1"], ['x|"y",z', "20"]]


def test_text_is_set_in_columns() -> None:
    assert render_grid(["name", "n"], [["a", "1"], ["long", "20"]], "text").splitlines() == [
        "name   n",
        "a      1",
        "long  20",
    ]


def test_markdown_escapes_bars() -> None:
    lines = render_grid(HEADER, ROWS, "markdown").splitlines()
    assert lines[1] == "| :------- | -: |"
    assert lines[3].startswith('| x\\|"y",z |')
    assert len({len(line) for line in lines}) == 1


def test_latex_is_booktabs_with_special_characters_escaped() -> None:
    assert render_grid(HEADER, ROWS[:1], "latex").splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"name & n \\",
        r"\midrule",
        r"a\_b \& 5\% & 1 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_csv_and_json_are_read_back() -> None:
    assert list(csv.reader(io.StringIO(render_grid(HEADER, ROWS, "csv")))) == [HEADER, *ROWS]
    expected = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
    assert json.loads(render_grid(HEADER, ROWS, "json")) == expected


def test_other_styles_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown format 'md': Available: csv, json, latex"):
        render_grid(HEADER, ROWS, "md")
