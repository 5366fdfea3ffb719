"""`adjudge bench` on real benchmarks gives numbers that are known from elsewhere.

Auto-J: 835 of 1,392 verdicts of its stored example are gold, counted by its own script. LLMBar: its
paper. Axes: means per article or correlations per article with scipy, of the published ratings; the
tables of arXiv 2509.05440 print the first within .02 of these.

The data are not part of the project: these tests run where ADJUDGE_DATA names their folder.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from adjudge.cli.main import main

Run = Callable[..., list[dict[str, str]]]


@pytest.fixture
def run(
    tmp_path: Path,
    adjudge_data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run `adjudge bench` in an empty folder and return the rows of its table."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: object) -> list[dict[str, str]]:
        words = ["adjudge", "bench", *map(str, arguments), "--format", "csv"]
        monkeypatch.setattr(sys, "argv", words)
        capsys.readouterr()
        with pytest.raises(SystemExit, match="0"):
            main()
        return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    return command


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_auto_j_in_one_order(run: Run, adjudge_data: Path, tmp_path: Path) -> None:
    stored = adjudge_data / "prometheus/pairwise_example_output.jsonl"
    said = [json.loads(line)["output"] for line in stored.read_text().splitlines()]
    rows: list[dict[str, object]] = [
        {"id": f"autoj-{i}", "verdict": {0: "A", 1: "B", 2: "tie"}.get(each)}
        for i, each in enumerate(said, start=1)
    ]
    found = run("run", "autoj-eval", "--scores", write(tmp_path / "v.jsonl", rows))
    plain = next(
        each for each in found if (each["convention"], each["ties"]) == ("plain", "counted")
    )
    assert round(float(plain["accuracy"]), 4) == 0.5999
    assert (plain["kept/total"], plain["gold ties"], plain["judge ties"]) == (
        "1392/1392",
        "373",
        "57",
    )


@pytest.mark.parametrize(
    ("group", "folder", "accuracy", "agreement"),
    [("Natural", "Natural", 0.955, 0.950), ("Neighbor", "Adversarial/Neighbor", 0.787, 0.933)],
)
def test_llmbar_gpt4(
    run: Run, adjudge_data: Path, tmp_path: Path, group: str, folder: str, accuracy: float,
    agreement: float,
) -> None:  # fmt: skip
    # LLMBar, arXiv 2310.07641: GPT-4 with the Vanilla prompt
    from adjudge.benchmarks.base import RatedPair, find_benchmark
    from adjudge.benchmarks.files import read_benchmark

    stored = adjudge_data / "llmbar/LLMBar" / folder / "evaluators/GPT-4/Vanilla/result.json"
    letter = {"1": "A", "2": "B"}
    pairs = [
        row
        for row in read_benchmark(find_benchmark("llmbar"))
        if isinstance(row, RatedPair) and row.group == group
    ]
    rows: list[dict[str, object]] = [
        {
            "id": pair.id,
            "verdict": letter.get(result["results"][0]["swap = False"]["winner"]),
            "verdict_swapped": letter.get(result["results"][0]["swap = True"]["winner"]),
        }
        for pair, result in zip(pairs, json.loads(stored.read_text()), strict=True)
    ]
    given = write(tmp_path / "v.jsonl", rows)
    found = run("run", "llmbar", "--group", group, "--scores", given)
    mean = next(
        each for each in found if (each["convention"], each["ties"]) == ("llmbar", "counted")
    )
    assert float(mean["accuracy"]) == pytest.approx(accuracy, abs=5e-4)
    assert float(mean["orders agree"]) == pytest.approx(agreement, abs=5e-4)


@pytest.mark.parametrize(
    ("name", "by_source", "sample"),
    [
        (
            "summeval",
            {"coherence - fluency": 0.198, "coherence - consistency": 0.393,
             "coherence - relevance": 0.786, "consistency - fluency": 0.332,
             "fluency - relevance": 0.279, "consistency - relevance": 0.465},
            {"coherence - fluency": 0.359, "coherence - consistency": 0.299,
             "coherence - relevance": 0.591, "consistency - fluency": 0.438,
             "fluency - relevance": 0.290, "consistency - relevance": 0.339},
        ),
        (
            "newsroom",
            {"coherence - fluency": 0.789, "coherence - informativeness": 0.748,
             "coherence - relevance": 0.560, "fluency - informativeness": 0.671,
             "fluency - relevance": 0.548, "informativeness - relevance": 0.635},
            {"coherence - fluency": 0.809, "coherence - informativeness": 0.770,
             "coherence - relevance": 0.664, "fluency - informativeness": 0.694,
             "fluency - relevance": 0.645, "informativeness - relevance": 0.778},
        ),
    ],
)  # fmt: skip
def test_both_readings_of_the_axis_tables(
    run: Run, name: str, by_source: dict[str, float], sample: dict[str, float]
) -> None:
    found = {row["criteria"]: row for row in run("axes", name)}
    assert set(found) == set(by_source)
    for criteria, row in found.items():
        assert float(row["by source"]) == pytest.approx(by_source[criteria], abs=1.1e-3)
        assert float(row["sample"]) == pytest.approx(sample[criteria], abs=1.1e-3)


def test_gpt4_as_a_judge_of_vicuna_bench(run: Run, tmp_path: Path) -> None:
    # GPT-4's first score against the mean of its three, over all responses
    from adjudge.benchmarks.base import RatedResponse, find_benchmark
    from adjudge.benchmarks.files import read_benchmark

    rows = [
        row
        for row in read_benchmark(find_benchmark("vicuna-bench"))
        if isinstance(row, RatedResponse)
    ]
    given: list[dict[str, object]] = [
        {"id": row.id, "criterion": "rubric", "score": row.ratings["rubric"][0]} for row in rows
    ]
    found = run(
        "run", "vicuna-bench", "--scores", write(tmp_path / "s.jsonl", given), "--resamples", 20
    )
    (row,) = found
    assert (row["n"], row["kept/total"]) == ("320", "1/1")
    assert float(row["pearson"]) > 0.9
