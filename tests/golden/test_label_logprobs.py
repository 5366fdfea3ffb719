"""The embedded engine's label log-probs against those of transformers on the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adjudge.engines.llama import LlamaEngine
from adjudge.exchange import LabelScores, Message, ScoreLabels

GOLDEN: dict[str, Any] = json.loads(
    Path(__file__).with_name("label_logprobs.json").read_text("utf-8")
)


def test_label_log_probs_are_those_of_transformers(embedded_model: Path) -> None:
    engine = LlamaEngine(embedded_model)
    for case in GOLDEN["cases"]:
        request = ScoreLabels(
            messages=(Message(role="user", content=case["prompt"]),),
            labels=tuple(case["logprobs"]),
        )
        assert len(engine.prompt_tokens(request)) == case["n_tokens"]
        (reply,) = engine.run([request])
        assert isinstance(reply, LabelScores)
        expected = list(case["logprobs"].values())
        assert reply.logprobs == pytest.approx(expected, abs=GOLDEN["tolerance"])
        assert reply.exact
    engine.close()
