"""What is declared of each benchmark fits its loader, task and criteria."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import get_args, get_type_hints
from urllib.parse import urlsplit

import pytest

from adjudge.benchmarks.base import (
    FORMATS,
    Benchmark,
    Kind,
    RatedPair,
    RatedResponse,
    find_benchmark,
    loader,
    named_benchmarks,
)
from adjudge.criteria.named import named_criteria
from adjudge.errors import ConfigError
from adjudge.schema import TASKS
from adjudge.stats.correlation import Level

NAMES = (
    "autoj-eval", "biggen-bench", "faireval", "feedback-bench", "flask", "hanna",
    "hhh-alignment", "judgebench", "llmbar", "llmbar-processed", "mt-bench", "mt-bench-human",
    "mt-bench-votes", "newsroom", "pandalm", "personachat-usr",
    "preference-bench", "summeval", "topicalchat", "vicuna-bench",
)  # fmt: skip
#: Those whose loader was built without the file at hand.
UNCHECKED = {
    "biggen-bench", "feedback-bench", "flask", "judgebench", "mt-bench-human", "mt-bench-votes",
    "pandalm", "preference-bench",
}  # fmt: skip
OWN_CRITERIA = ("prometheus-scores", "biggen")


@pytest.fixture(params=NAMES)
def benchmark(request: pytest.FixtureRequest) -> Benchmark:
    """Each benchmark in turn."""
    return find_benchmark(request.param)


def test_all_benchmarks_are_declared() -> None:
    assert tuple(named_benchmarks()) == NAMES
    assert {each.name for each in named_benchmarks().values() if not each.checked} == UNCHECKED
    assert {each.format for each in named_benchmarks().values()} == set(FORMATS)
    with pytest.raises(ConfigError, match="unknown benchmark 'sumeval': did you mean 'summeval'"):
        find_benchmark("sumeval")


def test_the_values_are_known_ones(benchmark: Benchmark) -> None:
    assert benchmark.kind in get_args(Kind)
    assert benchmark.task in TASKS
    assert benchmark.format in FORMATS
    assert benchmark.level in get_args(Level)
    assert set(benchmark.criteria) <= set(named_criteria(benchmark.task))
    assert len(set(benchmark.criteria)) == len(benchmark.criteria)
    rated = benchmark.kind == "scores" and benchmark.format not in OWN_CRITERIA
    assert bool(benchmark.criteria) == rated
    assert (benchmark.level == "pooled") == (benchmark.format in OWN_CRITERIA)


def test_the_loader_gives_what_is_declared(benchmark: Benchmark) -> None:
    record = {"scores": RatedResponse, "pairs": RatedPair}[benchmark.kind]
    assert get_type_hints(loader(benchmark))["return"] == list[record]  # type: ignore[valid-type]


def test_the_texts_are_there(benchmark: Benchmark) -> None:
    fields = ("title", "about", "scale", "gold", "licence", "citation")
    for text in (getattr(benchmark, field) for field in fields):
        assert text
        assert text == text.strip()
    assert re.search(
        r"[12]\d{3}, https://(arxiv\.org/abs/\d{4}\.\d{5}|doi\.org/10\.)", benchmark.citation
    )
    assert benchmark.checked or benchmark.note


def test_the_files_can_be_found(benchmark: Benchmark) -> None:
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", benchmark.source)
    assert re.fullmatch(r"[0-9a-f]{40}", benchmark.commit)
    assert benchmark.files
    assert len({file.path for file in benchmark.files}) == len(benchmark.files)
    for file in benchmark.files:
        for digest in (file.sha256, file.copy_sha256):
            assert re.fullmatch(r"([0-9a-f]{64})?", digest)
        assert bool(file.copy) == bool(file.copy_sha256)
        for path in filter(None, (file.path, file.copy)):
            assert not PurePosixPath(path).is_absolute()
            assert ".." not in PurePosixPath(path).parts
        url = urlsplit(benchmark.url(file))
        assert url.scheme == "https"
        if file.url:
            assert not file.sha256, "a page to fetch from by hand"
            continue
        assert url.netloc == "raw.githubusercontent.com"
        assert url.path.startswith(f"/{benchmark.source}/{benchmark.commit}/")
        assert re.fullmatch(r"[\w./%~-]+", url.path)
        assert not url.query
        assert not url.fragment


def test_groups_are_declared_where_files_are_parts() -> None:
    groups = {
        each.name: [file.group for file in each.files] for each in named_benchmarks().values()
    }
    assert groups["llmbar"] == ["Natural", "Neighbor", "GPTInst", "GPTOut", "Manual"]
    assert groups["llmbar-processed"] == ["FairEval", "LLMEval^2", "MT-Bench"]
