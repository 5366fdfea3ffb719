"""The row that is written for a judgment."""

from __future__ import annotations

from typing import Any

from adjudge.schema import Judgment


def score_row(judgment: Judgment) -> dict[str, Any]:
    """Return a judgment's row of a file of scores; missing numbers are null."""
    return {
        "id": judgment.item_id,
        "source_id": judgment.source_id,
        "system": judgment.system,
        "criterion": judgment.criterion,
        "score": judgment.value,
        "raw": judgment.raw,
        "distribution": [list(row) for row in judgment.distribution],
        "coverage": judgment.coverage,
        "status": judgment.status.value,
        "n_calls": judgment.n_calls,
    }
