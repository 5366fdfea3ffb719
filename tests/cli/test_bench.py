"""`adjudge bench` on a benchmark of our own, with the tiny model and with files."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from adjudge.benchmarks.base import Benchmark, RatedPair, RatedResponse
from adjudge.schema import Criterion, Source
from tests.cli.conftest import CommandLine

Run = Callable[..., tuple[int, str, str]]

N_SOURCES, N_SYSTEMS = 6, 4
NAMES = ("coherence", "fluency")
GOLD = np.random.default_rng(5).integers(1, 6, (len(NAMES), N_SYSTEMS, N_SOURCES)).astype(float)
#: The last source has constant gold by coherence.
GOLD[0, :, -1] = 3

BENCHMARK = Benchmark(
    name="ours",
    title="Ours",
    about="made up",
    kind="scores",
    task="summarization",
    format="bartscore",
    scale="1-5",
    gold="made up",
    source="nobody/nothing",
    commit="0" * 40,
    licence="none",
    citation="none",
    files=(),
    criteria=NAMES,
)
RESPONSES = [
    RatedResponse(
        id=f"{j}/{i}",
        source=Source(id=f"s{j}", text=f"This is what article {j} says."),
        system=f"m{i}",
        response=f"Summary {i} of {j}.",
        gold={name: float(GOLD[k, i, j]) for k, name in enumerate(NAMES)},
    )
    for j in range(N_SOURCES)
    for i in range(N_SYSTEMS)
]
PAIRS = [
    RatedPair(
        id=f"p{i}",
        source=Source(id=f"q{i}", text=f"question {i}"),
        systems=("x", "y"),
        responses=("one", "other"),
        gold=gold,
        group="even" if i % 2 == 0 else "odd",
    )
    for i, gold in enumerate([1.0, -1.0, 0.0, 1.0])
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine) -> Run:
    """Run `adjudge bench` in an empty folder: exit status, output, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    known = {"ours": (BENCHMARK, RESPONSES)}
    known["pairs"] = (replace(BENCHMARK, name="pairs", kind="pairs", criteria=()), PAIRS)  # type: ignore[assignment]
    own = Criterion(name="rubric", title="Rubric", description="Is it good?", rubric=("a",) * 5)
    known["rubrics"] = (
        replace(BENCHMARK, name="rubrics", task="instruction", criteria=(), level="pooled"),
        [
            replace(row, criterion=own, gold={"rubric": row.gold["fluency"]}, system="")
            for row in RESPONSES
        ],
    )
    monkeypatch.setattr("adjudge.benchmarks.base.find_benchmark", lambda name: known[name][0])
    monkeypatch.setattr(
        "adjudge.benchmarks.files.read_benchmark", lambda benchmark: known[benchmark.name][1]
    )

    return partial(command_line, "bench")


def write(name: str, rows: list[dict[str, Any]]) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def score_rows(values: np.ndarray, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": row.id, "score": float(values[int(row.system[1:]), int(row.source.id[1:])]), **more}
        for row in RESPONSES
    ]


def judged_by(model: Path, **more: Any) -> list[Any]:
    options = {"--judge": "direct", "--model": f"{model}#threads=1", "--option": "min_coverage=0"}
    return [part for pair in (options | more).items() for part in pair]


def table(out: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(out)))


def test_a_run_prints_what_scipy_says_of_its_scores(run: Run, tiny_model: Path) -> None:
    flags = judged_by(tiny_model, **{"--out": "out.jsonl", "--resamples": 20})
    code, out, err = run("run", "ours", *flags, "--format", "csv")
    assert code == 0, err
    rows = table(out)
    assert [row["criterion"] for row in rows] == [*NAMES, "average"]
    written = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    expected = []
    for k, name in enumerate(NAMES):
        scores = {row["id"]: row["score"] for row in written if row["criterion"] == name}
        groups = [
            stats.spearmanr([scores[f"{j}/{i}"] for i in range(N_SYSTEMS)], GOLD[k, :, j]).statistic
            for j in range(N_SOURCES)
            if np.ptp(GOLD[k, :, j])
        ]
        expected.append(np.mean(groups))
        assert float(rows[k]["spearman"]) == pytest.approx(expected[-1])
        assert float(rows[k]["spearman_low"]) <= float(rows[k]["spearman_high"])
        assert rows[k]["kept/total"] == f"{len(groups)}/{N_SOURCES}"
        assert (rows[k]["n"], rows[k]["failures"]) == ("24", "0")
        assert 0 <= float(rows[k]["coverage"]) <= 1
    assert rows[0]["kept/total"] == "5/6"
    assert float(rows[2]["spearman"]) == pytest.approx(np.mean(expected))


def test_a_second_run_asks_nothing_and_says_how_to_reproduce(run: Run, tiny_model: Path) -> None:
    flags = [*judged_by(tiny_model), "--resamples", 20]
    first, again = run("run", "ours", *flags)[1], run("run", "ours", *flags)[1]
    assert "48 model calls" in first
    assert "0 model calls, 48 replies reused" in again
    assert first.splitlines()[:4] == again.splitlines()[:4]
    line = again.splitlines()[-1]
    assert line.startswith("judge:direct|")
    for part in (
        r"\|benchmark:ours#[0-9a-f]{8}\|sources:all\|",
        r"\|level:sample\|constant:skip\|",
    ):
        assert re.search(part, line)


def test_some_sources_are_whole_and_nested(run: Run, tiny_model: Path) -> None:
    taken = []
    for n in (2, 4):
        flags = judged_by(tiny_model, **{"--out": f"{n}.jsonl", "--resamples": 5})
        assert run("run", "ours", *flags, "--limit-sources", n, "--criterion", "fluency")[0] == 0
        rows = [json.loads(line) for line in Path(f"{n}.jsonl").read_text().splitlines()]
        taken.append({row["source_id"] for row in rows})
        assert len(rows) == n * N_SYSTEMS
    assert len(taken[0]) == 2
    assert taken[0] < taken[1]


def test_items_with_rubrics_of_their_own(run: Run, tiny_model: Path) -> None:
    flags = judged_by(tiny_model, **{"--format": "csv", "--resamples": 5})
    code, out, err = run("run", "rubrics", *flags)
    assert code == 0, err
    (row,) = table(out)
    assert (row["criterion"], row["n"], row["kept/total"]) == ("rubric", "24", "1/1")
    code, _, err = run("run", "rubrics", *flags, "--criterion", "fluency")
    assert code == 2
    assert "every item of rubrics has a criterion of its own" in err


def test_a_file_of_scores_is_measured_without_a_model(run: Run) -> None:
    scores = score_rows(GOLD[1], criterion="fluency")[:-1]
    write("scores.jsonl", [*scores, {"id": "stray", "criterion": "fluency", "score": 1}])
    code, out, err = run("run", "ours", "--scores", "scores.jsonl", "--resamples", 20)
    assert code == 0
    assert re.search(r"fluency +23 +6/6 +1\.000", out)
    assert "coherence" not in out
    digest = hashlib.sha256(Path("scores.jsonl").read_bytes()).hexdigest()[:8]
    assert re.match(
        rf"scores:scores\.jsonl#{digest}\|benchmark:ours#[0-9a-f]{{8}}\|sources:all\|seed:0\|",
        out.splitlines()[-1],
    )
    assert "fluency: 1 scores join no gold" in err
    assert "fluency: 1 items have no score" in err
    assert re.search(r"fluency .* 1 no_score", out)


def test_scores_that_join_nothing_are_an_error(run: Run) -> None:
    write("scores.jsonl", [{"id": "stray", "criterion": "fluency", "score": 1}])
    code, _, err = run("run", "ours", "--scores", "scores.jsonl")
    assert (code, "no row joins" in err) == (2, True)


def test_verdicts_on_pairs(run: Run) -> None:
    said = [("A", "A"), ("A", "B"), ("tie", "tie"), (None, "A")]
    rows = [
        {"id": f"p{i}", "verdict": one, "verdict_swapped": other}
        for i, (one, other) in enumerate(said)
    ]
    write("verdicts.jsonl", rows)
    code, out, err = run(
        "run", "pairs", "--scores", "verdicts.jsonl", "--format", "csv", "--by-group"
    )
    assert code == 0, err
    found = {(row["pairs"], row["convention"], row["ties"]): row for row in table(out)}
    # Gold: A, B, tie, A. By hand, from the table of conventions in docs/statistics.md.
    expected = {
        ("plain", "counted"): (2 / 4, "4/4"),
        ("plain", "left out"): (1 / 3, "3/4"),
        ("prometheus", "counted"): (1 / 4, "4/4"),
        ("prometheus", "left out"): (1 / 3, "3/4"),
        ("fastchat", "counted"): (2 / 3, "3/4"),
        ("fastchat", "left out"): (1.0, "1/4"),
        ("autoj", "counted"): (2 / 4, "4/4"),
        ("autoj", "left out"): (1 / 3, "3/4"),
        ("llmbar", "counted"): ((1 + 0.5 + 1 + 0.5) / 4, "4/4"),
        ("llmbar", "left out"): ((1 + 0.5 + 0.5) / 3, "3/4"),
    }
    for (convention, ties), (value, kept) in expected.items():
        row = found["all", convention, ties]
        assert float(row["accuracy"]) == pytest.approx(value)
        assert row["kept/total"] == kept
        assert (row["gold ties"], row["unreadable"], row["no verdict"]) == ("1", "1", "0")
        assert float(row["orders agree"]) == 0.5
    assert float(found["even", "plain", "counted"]["accuracy"]) == 1
    assert float(found["odd", "plain", "counted"]["accuracy"]) == 0


def test_verdicts_in_one_order_allow_two_conventions(run: Run) -> None:
    write("verdicts.jsonl", [{"id": "p0", "verdict": "a"}, {"id": "zz", "verdict": "B"}])
    _, out, err = run("run", "pairs", "--scores", "verdicts.jsonl", "--format", "csv")
    assert {row["convention"] for row in table(out)} == {"plain", "prometheus"}
    assert {(row["unreadable"], row["no verdict"]) for row in table(out)} == {("0", "3")}
    assert err.splitlines()[0] == "1 verdicts join no pair, such as 'zz'"
    assert err.splitlines()[1].startswith("verdicts:verdicts.jsonl#")
    assert run("run", "pairs", "--scores", "verdicts.jsonl", "--group", "even")[0] == 0


def test_judges_are_compared(run: Run, tiny_model: Path) -> None:
    good = GOLD[1] + np.random.default_rng(1).normal(0, 0.3, GOLD[1].shape)
    write("good.jsonl", score_rows(good, criterion="fluency"))
    write("bad.jsonl", score_rows(-GOLD[1], criterion="fluency"))
    out = run("run", "ours", *judged_by(tiny_model), "--resamples", 2)[1]
    found = re.search(r"run: ([0-9a-f]{12}) in adjudge.db", out)
    assert found
    flags = ["--format", "csv", "--permutations", 500]
    code, out, err = run("compare", "good.jsonl", "bad.jsonl", found[1], *flags)
    assert code == 0, err
    rows = table(out)
    assert [(row["first"], row["second"]) for row in rows] == [
        ("good", "bad"),
        ("good", f"direct:{found[1][:8]}"),
        ("bad", f"direct:{found[1][:8]}"),
    ]
    assert {row["criterion"] for row in rows} == {"fluency"}
    first, second = (
        np.mean([stats.spearmanr(x[:, j], GOLD[1, :, j]).statistic for j in range(N_SOURCES)])
        for x in (good, -GOLD[1])
    )
    assert float(rows[0]["difference"]) == pytest.approx(first - second, abs=1e-3)
    # Four systems: of the 16 ways to swap them, 2 are as far from zero, at most.
    assert float(rows[0]["p"]) >= 2 / 16 - 0.05
    assert float(rows[0]["p (Holm)"]) >= float(rows[0]["p"])
    assert rows[0]["p (Williams)"] == ""
    sources = run(
        "compare", "good.jsonl", "bad.jsonl", "--bench", "ours", "--permute", "inputs", *flags
    )
    # Six sources: 2 of 64 ways.
    assert float(table(sources[1])[0]["p"]) == pytest.approx(2 / 64, abs=0.025)
    pooled = ["--level", "pooled", "--coefficient", "pearson", "--bench", "ours", *flags]
    assert (
        float(table(run("compare", "good.jsonl", "bad.jsonl", *pooled)[1])[0]["p (Williams)"])
        < 0.001
    )
    code, out, _ = run("compare", "good.jsonl", f"adjudge.db:{found[1]}", "--permutations", 20)
    assert code == 0
    line = out.splitlines()[-1]
    assert f"={found[1]}|benchmark:ours#" in line
    assert "|coefficient:spearman|level:sample|constant:skip|permute:both|permutations:20|" in line


def test_judges_of_pairs_are_compared(run: Run) -> None:
    for name, verdicts in (("one", "ABAA"), ("other", "BABB")):
        write(f"{name}.jsonl", [{"id": f"p{i}", "verdict": v} for i, v in enumerate(verdicts)])
    code, out, err = run(
        "compare", "one.jsonl", "other.jsonl", "--bench", "pairs", "--format", "csv"
    )
    assert code == 0, err
    (row,) = table(out)
    assert [float(row[name]) for name in ("first is", "second is", "difference")] == [0.75, 0, 0.75]
    # Three of four pairs differ: 2 of the 8 ways to flip them are as far from zero.
    assert float(row["p"]) == pytest.approx(2 / 8, abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "pairs"], "unknown criterion of summarization 'helpfulness'"),
        (
            ["run", "pairs", "--criterion", "coherence", "--criterion", "fluency"],
            "pairs are compared by one criterion: give --criterion once",
        ),
        (
            ["run", "pairs", "--scores", "a.jsonl", "--criterion", "fluency"],
            "--criterion does nothing with verdicts from a file: drop it",
        ),
        (["run", "ours", "--criterion", "coherense"], "did you mean 'coherence'"),
        (["run", "ours", "--level", "samples"], "did you mean 'sample'"),
        (["run", "ours", "--constant", "skp"], "did you mean 'skip'"),
        (["run", "ours", "--format", "tex"], "unknown format 'tex'"),
        (["run", "ours", "--limit-sources", "-1"], "limit_sources must be 0"),
        (["run", "ours", "--resamples", "0"], "resamples must be 1 or more"),
        (["run", "ours", "--group", "odd"], "unknown group 'odd'"),
        (["run", "ours", "--scores", "none.jsonl"], "there is no file 'none.jsonl'"),
        (["compare", "a.jsonl", "c.jsonl"], "no benchmark is known of these; name it"),
        (["compare", "a.jsonl", "b.jsonl"], "there is no file 'b.jsonl'"),
        (["compare", "a.jsonl", "--bench", "ours"], "takes two judges or more"),
        (
            ["compare", "abc", "def"],
            "'abc' is neither a file of scores (.jsonl, .csv, .parquet) nor",
        ),
        (["compare", "a.jsonl", "a.jsonl"], "a.jsonl is given more than once"),
        (["run", "ours", "--seed", "-1"], "the seed must be 0 or more, not -1"),
        (["run", "ours", "--by-group"], "does nothing for ours, which has no pairs; see --group"),
        (
            ["run", "ours", "--scores", "a.jsonl", "--judge", "direct"],
            "--judge does nothing with --scores",
        ),
        (
            ["run", "ours", "--scores", "a.jsonl", "--out", "b.csv"],
            "--out does nothing with --scores",
        ),
        (["run", "pairs", "--scores", "a.jsonl", "--level", "pooled"], "for the pairs of pairs"),
        (["axes", "rubrics"], "rubrics has no criteria that all its items were rated by"),
    ],
)
def test_what_cannot_be_done_is_one_line(run: Run, arguments: list[str], message: str) -> None:
    write("a.jsonl", score_rows(GOLD[1], criterion="fluency"))
    write("c.jsonl", score_rows(GOLD[0], criterion="fluency"))
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "p0", "verdict": "C"}], "verdicts.jsonl, line 1, column 'verdict': 'C' is no"),
        ([{"id": "p0"}], "line 1, column 'verdict': the column is missing"),
        ([{"id": "p0", "verdict": "A"}] * 2, "line 2: p0 comes twice, here and in line 1"),
        ([{"id": "x", "verdict": "A"}], "no verdict joins: 1 verdicts, such as on 'x'"),
        (
            [{"id": "p0", "verdict": "A", "verdict_swapped": "A"}, {"id": "p1", "verdict": "A"}],
            "some rows have verdict_swapped, some do not",
        ),
    ],
)
def test_bad_verdicts(run: Run, rows: list[dict[str, Any]], message: str) -> None:
    write("verdicts.jsonl", rows)
    code, _, err = run("run", "pairs", "--scores", "verdicts.jsonl")
    assert code == 2
    assert message in err


def test_axes(run: Run) -> None:
    code, out, _ = run("axes", "ours", "--format", "csv")
    (row,) = table(out)
    assert code == 0
    assert row["criteria"] == "coherence - fluency"
    by_source = stats.spearmanr(GOLD[0].mean(axis=0), GOLD[1].mean(axis=0)).statistic
    sample = [stats.spearmanr(GOLD[0, :, j], GOLD[1, :, j]).statistic for j in range(N_SOURCES - 1)]
    assert float(row["by source"]) == pytest.approx(by_source)
    assert float(row["sample"]) == pytest.approx(np.mean(sample))
    assert row["kept/total"] == "5/6"


@pytest.mark.parametrize("style", ["text", "markdown", "latex", "csv", "json"])
def test_every_table_comes_in_every_format(run: Run, style: str) -> None:
    write("a.jsonl", score_rows(GOLD[1], criterion="fluency"))
    write("b.jsonl", score_rows(GOLD[0], criterion="fluency"))
    for arguments in (
        ["run", "ours", "--scores", "a.jsonl", "--resamples", 3],
        ["compare", "a.jsonl", "b.jsonl", "--bench", "ours", "--permutations", 3],
        ["axes", "ours"],
    ):
        code, out, _ = run(*arguments, "--format", style)
        assert code == 0
        assert "fluency" in out
        if style == "latex":
            assert out.startswith(r"\begin{tabular}{l")
        if style == "json":
            assert isinstance(json.loads(out), list)
            assert out.count("NaN") == 0


def test_scores_that_are_missing_are_failures(run: Run) -> None:
    rows = score_rows(GOLD[1], criterion="fluency")
    for row in rows[:5]:
        row["score"] = None
    write("scores.jsonl", rows)
    _, out, _ = run("run", "ours", "--scores", "scores.jsonl", "--resamples", 3, "--format", "csv")
    assert [(row["n"], row["failures"]) for row in table(out)] == [("19", "5 no_score")]


def test_criteria_choose_among_the_scores_of_a_file(run: Run) -> None:
    both = score_rows(GOLD[1], criterion="fluency") + score_rows(GOLD[0], criterion="coherence")
    write("scores.jsonl", both)
    flags = ["--scores", "scores.jsonl", "--resamples", 3, "--format", "csv"]
    out = run("run", "ours", *flags, "--criterion", "fluency")[1]
    assert [row["criterion"] for row in table(out)] == ["fluency"]
    write("other.jsonl", score_rows(GOLD[1], criterion="Fluency"))
    code, _, err = run("run", "ours", "--scores", "other.jsonl")
    assert code == 2
    assert "the scores are by Fluency, which the benchmark was not rated by" in err


def test_a_judge_that_joins_nothing_is_not_left_out_unseen(run: Run) -> None:
    write("one.jsonl", score_rows(GOLD[1], criterion="fluency"))
    write("other.jsonl", score_rows(GOLD[0], criterion="fluency"))
    write("stray.jsonl", [{"id": "zz", "criterion": "fluency", "score": 1}])
    write("bare.jsonl", score_rows(GOLD[0]))
    for third, message in (
        ("stray.jsonl", "no score of stray joins the benchmark: it has 1, such as 'zz'"),
        ("bare.jsonl", "the scores of bare name no criterion, gold has coherence, fluency"),
    ):
        code, _, err = run("compare", "one.jsonl", "other.jsonl", third, "--bench", "ours")
        assert code == 2
        assert message in err


def test_pairs_that_one_judge_lacks_do_not_count(run: Run) -> None:
    write("whole.jsonl", [{"id": f"p{i}", "verdict": "A"} for i in range(4)])
    write("part.jsonl", [{"id": "p0", "verdict": "A"}, {"id": "p1", "verdict": None}])
    flags = ["--bench", "pairs", "--format", "csv", "--permutations", 50]
    (row,) = table(run("compare", "whole.jsonl", "part.jsonl", *flags)[1])
    # Of p0 (gold A) and p1 (gold B): the whole one has one right, so has the part.
    assert (row["n"], float(row["first is"]), float(row["second is"])) == ("2", 0.5, 0.5)
    code, _, err = run("compare", "whole.jsonl", "part.jsonl", *flags, "--convention", "llmbar")
    assert code == 2
    assert "'llmbar' takes verdicts in both orders; whole has no verdict_swapped" in err


def test_numbers_of_any_size_can_be_compared(run: Run) -> None:
    write("small.jsonl", score_rows(GOLD[1], criterion="fluency"))
    write("huge.jsonl", score_rows(GOLD[1] * 3e307, criterion="fluency"))
    for level in ("sample", "system", "by_source"):
        flags = ["--level", level, "--format", "csv"]
        out = run("run", "ours", "--scores", "huge.jsonl", "--resamples", 3, *flags)[1]
        assert float(table(out)[0]["pearson"]) == pytest.approx(1)
        files = ["small.jsonl", "huge.jsonl", "--bench", "ours", "--permutations", 9]
        assert float(table(run("compare", *files, *flags)[1])[0]["p"]) == 1


def test_an_unfinished_run_is_not_compared(run: Run, tiny_model: Path) -> None:
    write("one.jsonl", score_rows(GOLD[1], criterion="fluency"))
    out = run("run", "ours", *judged_by(tiny_model), "--resamples", 2)[1]
    found = re.search(r"run: ([0-9a-f]{12})", out)
    assert found
    with sqlite3.connect("adjudge.db") as store:
        store.execute("DELETE FROM judgments WHERE position > 3")
    code, _, err = run("compare", "one.jsonl", found[1])
    assert code == 2
    assert "has 4 of 48 judgments: run its command again to finish it" in err


def test_a_plan_of_a_run_counts_its_calls(run: Run, tiny_model: Path) -> None:
    flags = [*judged_by(tiny_model), "--limit-sources", 2]
    code, out, err = run("plan", "ours", *flags)
    assert code == 0, err
    assert "16 items; 0 replies are in the store already" in out
    assert "16 model calls to make: 0 generations, 16 label scorings" in out
    run("run", "ours", *flags, "--resamples", 2)
    assert "16 items; 16 replies are in the store already" in run("plan", "ours", *flags)[1]
    code, out, err = run("plan", "pairs", *flags, "--criterion", "fluency")
    assert code == 0, err
    assert "4 model calls to make: 0 generations, 4 label scorings" in out


@pytest.mark.parametrize(
    ("judge", "orders", "options"),
    [
        ("direct", 1, []),
        ("prometheus-absolute", 1, ["max_tokens=8", "score_mode=logprobs", "min_coverage=0"]),
        ("prometheus-relative", 2, ["max_tokens=8", "orders=both", "min_coverage=0"]),
        ("prometheus-relative", 1, ["max_tokens=8", "score_mode=text", "retries=1"]),
    ],
)
def test_pairs_are_judged(
    run: Run, tiny_model: Path, judge: str, orders: int, options: list[str]
) -> None:
    flags = ["--model", f"{tiny_model}#threads=1", "--judge", judge, "--criterion", "fluency"]
    flags += [part for option in options for part in ("--option", option)]
    code, out, err = run("run", "pairs", *flags, "--format", "csv", "--out", "out.jsonl")
    assert code == 0, err
    found = {(row["convention"], row["ties"]): row for row in table(out)}
    assert len(found) == (10 if orders == 2 else 4)
    written = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [row["id"] for row in written] == ["p0", "p1", "p2", "p3"]
    assert all(("verdict_swapped" in row) == (orders == 2) for row in written)
    (started,) = re.findall(r"run: (\w+) in", err)
    code, _, err2 = run("compare", started, "out.jsonl", "--bench", "pairs", "--format", "csv")
    assert code == 0, err2
    read = table(run("run", "pairs", "--scores", "out.jsonl", "--format", "csv")[1])
    for row in read:
        assert row["accuracy"] == found[row["convention"], row["ties"]]["accuracy"]
        assert row["unreadable"] == found[row["convention"], row["ties"]]["unreadable"]
    if judge == "direct":
        assert "pairs:by_scores|tie_margin:0" in err


def test_cut_sources_are_counted_and_signed(run: Run, tiny_model: Path) -> None:
    flags = [*judged_by(tiny_model), "--resamples", 2, "--truncate-source", 4]
    out = run("run", "ours", *flags)[1]
    assert "6 sources were cut to 4 tokens" in out
    assert "|truncate_source:4|" in out.splitlines()[-1]
    assert "truncate_source" not in run("run", "ours", *flags[:-2])[1]


def test_a_judge_of_lists_ranks_the_responses_to_each_source(run: Run, tiny_model: Path) -> None:
    flags = ["--judge", "pairs", "--model", f"{tiny_model}#threads=1", "--out", "scores.jsonl"]
    flags += ["--option", "min_coverage=0", "--option", "method=greedy", "--format", "json"]
    code, out, err = run("run", "ours", *flags)
    assert code == 0, err
    written = [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]
    assert len(written) == N_SOURCES * N_SYSTEMS * len(NAMES)
    for j in range(N_SOURCES):
        for name in NAMES:
            mine = [r for r in written if r["source_id"] == f"s{j}" and r["criterion"] == name]
            assert {row["system"] for row in mine} == {f"m{i}" for i in range(N_SYSTEMS)}
            # No ties: the shares of three others that are beaten.
            assert sorted(row["score"] for row in mine) == pytest.approx([0, 1 / 3, 2 / 3, 1])
            assert sorted(row["raw"] for row in mine) == [1, 2, 3, 4]
    for k, name in enumerate(NAMES):
        rows = {row["id"]: row["score"] for row in written if row["criterion"] == name}
        expected = [
            stats.spearmanr([rows[f"{j}/{i}"] for i in range(N_SYSTEMS)], GOLD[k, :, j]).statistic
            for j in range(N_SOURCES)
            if np.ptp(GOLD[k, :, j])
        ]
        (found,) = [row for row in json.loads(out) if row["criterion"] == name]
        assert found["spearman"] == pytest.approx(np.mean(expected))
    code, _, err = run("run", "pairs", *flags[:4], "--criterion", "coherence")
    assert code == 2
    assert "'pairs' ranks lists, and this benchmark holds pairs" in err
