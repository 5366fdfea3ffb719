"""What the loaders find in the published files.

The data are not part of the project: these tests run where ADJUDGE_DATA names their folder.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from adjudge.benchmarks.base import (
    Benchmark,
    LocalFile,
    RatedPair,
    RatedResponse,
    find_benchmark,
    loader,
    named_benchmarks,
)
from adjudge.cache import sha256_of

MARKERS = (
    "###The instruction to evaluate:",
    "###Response to evaluate:",
    "###Reference Answer (Score 5):",
    "###Score Rubrics:",
    "###Feedback:",
)
COPIED = [name for name, each in named_benchmarks().items() if each.files[0].copy]


def read(folder: Path, name: str) -> list[RatedResponse] | list[RatedPair]:
    """Read a benchmark from its copies."""
    benchmark = find_benchmark(name)
    files = [LocalFile(folder / file.copy, file.group) for file in benchmark.files]
    return cast("list[RatedResponse] | list[RatedPair]", loader(benchmark)(files))


def responses(folder: Path, name: str) -> list[RatedResponse]:
    return cast("list[RatedResponse]", read(folder, name))


def pairs(folder: Path, name: str) -> list[RatedPair]:
    return cast("list[RatedPair]", read(folder, name))


def limits(benchmark: Benchmark, criterion: str) -> tuple[float, float]:
    """Return the scale of a criterion."""
    if benchmark.task != "dialogue" or criterion == "overall":
        return 1, 5
    return (0, 1) if criterion in ("groundedness", "understandability") else (1, 3)


@pytest.mark.parametrize("name", COPIED)
def test_copies_are_the_declared_ones(adjudge_data: Path, name: str) -> None:
    for file in find_benchmark(name).files:
        assert sha256_of(adjudge_data / file.copy) == file.copy_sha256


@pytest.mark.parametrize("name", COPIED)
def test_ids_are_unique_and_stand_for_one_text(adjudge_data: Path, name: str) -> None:
    found = read(adjudge_data, name)
    assert len({each.id for each in found}) == len(found)
    texts = {(each.source.id, each.source.text) for each in found}
    assert len({source_id for source_id, _ in texts}) == len(texts)
    assert len({text for _, text in texts}) == len(texts)
    assert all(text.strip() for _, text in texts)


@pytest.mark.parametrize(
    ("name", "n", "n_sources", "n_systems"),
    [
        ("summeval", 1600, 100, 16),
        ("newsroom", 420, 60, 7),
        ("topicalchat", 360, 60, 6),
        ("personachat-usr", 300, 60, 5),
        ("hanna", 1056, 96, 11),
    ],
)
def test_each_system_answers_each_source(
    adjudge_data: Path, name: str, n: int, n_sources: int, n_systems: int
) -> None:
    benchmark, found = find_benchmark(name), responses(adjudge_data, name)
    assert len(found) == n == n_sources * n_systems
    assert len({each.source.id for each in found}) == n_sources
    assert len({each.system for each in found}) == n_systems
    for each in found:
        assert set(each.gold) == set(benchmark.criteria)
        for criterion, value in each.gold.items():
            low, high = limits(benchmark, criterion)
            assert low <= value <= high


@pytest.mark.parametrize("name", ["newsroom", "personachat-usr", "hanna"])
def test_gold_is_the_mean_of_three_ratings(adjudge_data: Path, name: str) -> None:
    for each in responses(adjudge_data, name):
        assert set(each.ratings) == set(each.gold)
        for criterion, single in each.ratings.items():
            assert len(single) == 3
            assert each.gold[criterion] == pytest.approx(sum(single) / 3, abs=1e-9)


def test_references_are_there(adjudge_data: Path) -> None:
    assert {len(each.reference_answers) for each in responses(adjudge_data, "summeval")} == {11}
    assert {len(each.reference_answers) for each in responses(adjudge_data, "newsroom")} == {1}
    for each in responses(adjudge_data, "hanna"):
        assert len(each.reference_answers) == (0 if each.system == "Human" else 1)


@pytest.mark.parametrize(("name", "n_sources"), [("vicuna-bench", 80), ("mt-bench", 318)])
def test_filled_prompts_are_split(adjudge_data: Path, name: str, n_sources: int) -> None:
    found = responses(adjudge_data, name)
    assert len(found) == 320
    assert len({each.source.text for each in found}) == n_sources
    assert len({each.system for each in found}) == 4
    for each in found:
        assert each.criterion is not None
        assert len(each.criterion.rubric) == 5
        assert len(each.ratings["rubric"]) == 3
        assert len(each.reference_answers) == 1
        parts = (each.source.text, each.response, *each.reference_answers)
        rubric = (each.criterion.description, *each.criterion.rubric)
        assert all(parts)
        assert all(rubric)
        assert not any(marker in text for text in (*parts, *rubric) for marker in MARKERS)
        assert not any("Score" in text[:6] or "\n" in text for text in rubric)


@pytest.mark.parametrize("name", ["vicuna-bench", "mt-bench"])
def test_no_word_of_a_prompt_is_lost(adjudge_data: Path, name: str) -> None:
    (file,) = find_benchmark(name).files
    rows = json.loads((adjudge_data / file.copy).read_text("utf-8"))
    for row, each in zip(rows, responses(adjudge_data, name), strict=True):
        assert each.criterion is not None
        parts = (
            each.source.text,
            MARKERS[1],
            each.response,
            MARKERS[2],
            *each.reference_answers,
            MARKERS[3],
            f"[{each.criterion.description}]",
            *(f"Score {i}: {text}" for i, text in enumerate(each.criterion.rubric, start=1)),
            MARKERS[4],
        )
        prompt = row["instruction"].partition(MARKERS[0])[2]
        assert prompt.split() == " ".join(parts).split()


def test_hhh_alignment_has_its_groups(adjudge_data: Path) -> None:
    found = pairs(adjudge_data, "hhh-alignment")
    assert len(found) == 221
    groups = {"honest": 61, "helpful": 59, "harmless": 58, "other": 43}
    assert Counter(each.group for each in found) == groups
    assert Counter(each.gold for each in found) == {1: 107, -1: 114}
    for each in found:
        assert each.criterion is not None
        assert len(each.criterion.rubric) == 5
        assert not each.reference_answers


def test_autoj_has_its_labels(adjudge_data: Path) -> None:
    found = pairs(adjudge_data, "autoj-eval")
    assert len(found) == 1392
    assert Counter(each.gold for each in found) == {1: 520, -1: 499, 0: 373}
    assert len({each.group for each in found}) == 58


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("llmbar", {"Natural": 100, "Neighbor": 134, "GPTInst": 92, "GPTOut": 47, "Manual": 46}),
        ("llmbar-processed", {"FairEval": 66, "LLMEval^2": 200, "MT-Bench": 200}),
    ],
)
def test_llmbar_has_its_groups(adjudge_data: Path, name: str, groups: dict[str, int]) -> None:
    found = pairs(adjudge_data, name)
    assert Counter(each.group for each in found) == groups
    assert {each.gold for each in found} == {1, -1}


def test_fair_eval_has_its_verdicts(adjudge_data: Path) -> None:
    found = pairs(adjudge_data, "faireval")
    assert Counter(each.gold for each in found) == {1: 41, -1: 25, 0: 14}
    (systems,) = {each.systems for each in found}
    assert systems[0].startswith("gpt-3.5-turbo")
    assert systems[1].startswith("vicuna-13b")
    # The set that LLMBar made of it has the same pairs without the ties.
    processed = pairs(adjudge_data, "llmbar-processed")[:66]
    decided = [each for each in found if each.gold]
    assert [each.gold for each in decided] == [each.gold for each in processed]
    assert [each.source.text for each in decided] == [each.source.text for each in processed]
