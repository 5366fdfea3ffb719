"""adjudge: scores generated text with language models, and says how far to trust the scores."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adjudge.api import BoundJudge, Scores, judge, load_engine
    from adjudge.engines.base import Engine
    from adjudge.engines.replay import RecordingEngine, ReplayEngine
    from adjudge.errors import (
        AdjudgeError,
        BudgetError,
        ConfigError,
        DataError,
        EngineError,
        StoreError,
    )
    from adjudge.grading import Grader
    from adjudge.runs.store import Store
    from adjudge.schema import Criterion, Judgment, Signature, Status

_EXPORTS = {
    "AdjudgeError": "adjudge.errors",
    "BoundJudge": "adjudge.api",
    "BudgetError": "adjudge.errors",
    "ConfigError": "adjudge.errors",
    "Criterion": "adjudge.schema",
    "DataError": "adjudge.errors",
    "Engine": "adjudge.engines.base",
    "EngineError": "adjudge.errors",
    "Grader": "adjudge.grading",
    "Judgment": "adjudge.schema",
    "RecordingEngine": "adjudge.engines.replay",
    "ReplayEngine": "adjudge.engines.replay",
    "Scores": "adjudge.api",
    "Signature": "adjudge.schema",
    "Status": "adjudge.schema",
    "Store": "adjudge.runs.store",
    "StoreError": "adjudge.errors",
    "judge": "adjudge.api",
    "load_engine": "adjudge.api",
}

__all__ = [
    "AdjudgeError",
    "BoundJudge",
    "BudgetError",
    "ConfigError",
    "Criterion",
    "DataError",
    "Engine",
    "EngineError",
    "Grader",
    "Judgment",
    "RecordingEngine",
    "ReplayEngine",
    "Scores",
    "Signature",
    "Status",
    "Store",
    "StoreError",
    "judge",
    "load_engine",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'adjudge' has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted([*_EXPORTS, "__all__", "__doc__", "__file__", "__name__", "__path__"])
