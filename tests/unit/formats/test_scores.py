"""Rows of scores."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from adjudge.formats.scores import score_rows
from adjudge.schema import Judgment, Status


def test_a_row_has_every_number_of_the_judgment() -> None:
    judgment = Judgment(
        item_id="i",
        source_id="s",
        system="m",
        criterion="wit",
        status=Status.OK,
        value=3.5,
        raw=0.25,
        distribution=((0.5, 0.5), (0.25, 0.75)),
        coverage=0.9,
        feedback="good",
        evidence={"rungs": ["a"]},
        n_calls=4,
    )
    assert score_rows([judgment])[0] == {
        "id": "i",
        "source_id": "s",
        "system": "m",
        "criterion": "wit",
        "score": 3.5,
        "raw": 0.25,
        "distribution": [[0.5, 0.5], [0.25, 0.75]],
        "coverage": 0.9,
        "status": "ok",
        "n_calls": 4,
        "feedback": "good",
    }


def test_columns_that_no_row_fills_are_left_out() -> None:
    common: dict[str, Any] = {"source_id": "s", "system": "", "criterion": "wit"}
    pairs = [
        Judgment(
            item_id="a", status=Status.OK, value=1.0, evidence={"orders": [1.0, 0.0]}, **common
        ),
        Judgment(
            item_id="b", status=Status.OK, value=-0.2, evidence={"orders": [-0.2, None]}, **common
        ),
        Judgment(item_id="c", status=Status.ENGINE_ERROR, **common),
    ]
    rows = score_rows(pairs)
    assert [row["verdict"] for row in rows] == ["A", "B", None]
    assert [row["verdict_swapped"] for row in rows] == ["tie", None, None]
    assert not {"sd", "ranks", "feedback"} & rows[0].keys()
    one = replace(pairs[0], evidence={}, sd=0.5, ranks=(2.0, 1.0))
    (row,) = score_rows([one])
    assert (row["sd"], row["ranks"]) == (0.5, [2.0, 1.0])
    assert "verdict" not in row


def test_a_failure_has_a_status_and_no_number() -> None:
    judgment = Judgment(
        item_id="i", source_id="s", system="", criterion="wit", status=Status.NO_LABEL_MASS
    )
    row = score_rows([judgment])[0]
    assert (row["score"], row["raw"], row["coverage"]) == (None, None, None)
    assert row["distribution"] == []
    assert json.loads(json.dumps(row))["status"] == "no_label_mass"
    assert type(row["status"]) is str
