"""Rows of scores."""

from __future__ import annotations

import json

from adjudge.formats.scores import score_row
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
    assert score_row(judgment) == {
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
    }


def test_a_failure_has_a_status_and_no_number() -> None:
    judgment = Judgment(
        item_id="i", source_id="s", system="", criterion="wit", status=Status.NO_LABEL_MASS
    )
    row = score_row(judgment)
    assert (row["score"], row["raw"], row["coverage"]) == (None, None, None)
    assert row["distribution"] == []
    assert json.loads(json.dumps(row))["status"] == "no_label_mass"
    assert type(row["status"]) is str
