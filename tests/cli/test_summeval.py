"""The ladder judge end to end on real articles and the embedded model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import adjudge
from adjudge.engines.llama import LlamaEngine


def summeval(folder: Path, n_articles: int, n_systems: int) -> tuple[list[str], list[str]]:
    """Return sources and responses."""
    data = json.loads((folder / "summeval" / "summeval_bartscore.json").read_text("utf-8"))
    sources, responses = [], []
    for document in list(data.values())[:n_articles]:
        for system in list(document["sys_summs"].values())[:n_systems]:
            sources.append(document["src"])
            responses.append(system["sys_summ"])
    return sources, responses


def check(folder: Path, model: Path, n_articles: int, n_systems: int) -> None:
    sources, responses = summeval(folder, n_articles, n_systems)
    engine = LlamaEngine(model)
    judge = adjudge.judge("ladder", criterion="coherence", task="summarization", engine=engine)
    scores = judge.score(sources=sources, responses=responses)
    engine.close()
    assert [each.status for each in scores.judgments] == ["ok"] * len(responses)
    assert np.all((scores.values >= 1) & (scores.values <= 5))
    for judgment in scores.judgments:
        p = np.array(judgment.distribution)
        assert p.shape == (5, 3)
        assert judgment.raw == pytest.approx(np.arange(1, 6) @ (p[:, 0] - p[:, 1]))
        assert len(set(judgment.evidence["rungs"])) > 1
    distinct = len(set(zip(sources, responses, strict=True)))
    assert scores.counters.calls <= n_articles * 10 + distinct * 5
    assert scores.counters.evaluated_tokens < scores.counters.prompt_tokens / 2


def test_one_article_and_four_systems(adjudge_data: Path, embedded_model: Path) -> None:
    check(adjudge_data, embedded_model, 1, 4)


@pytest.mark.slow
def test_two_articles_and_all_systems(adjudge_data: Path, embedded_model: Path) -> None:
    check(adjudge_data, embedded_model, 2, 16)
