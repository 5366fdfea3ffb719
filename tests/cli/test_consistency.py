"""`adjudge consistency` on benchmarks of our own, with the tiny model and scripted verdicts."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adjudge.exchange import Generate, Request
from adjudge.schema import Criterion
from tests.cli.conftest import CommandLine
from tests.cli.test_bench import BENCHMARK, PAIRS, RESPONSES
from tests.scripted import ScriptedEngine, words

Run = Callable[..., tuple[int, str, str]]
NAMES = [
    "run-to-run alpha",
    "order flips",
    "pairwise accuracy",
    "accuracy by two scores",
    "cross-format gap",
    "cycles",
    "gold pairs (paper_compat)",
]
#: Three responses to each of three sources; m0 has gold 1, m1 3 and m2 5.
RATED = [
    replace(row, gold={"fluency": 1.0 + 2 * int(row.system[1:]), "coherence": 3.0})
    for row in RESPONSES
    if row.source.id in ("s0", "s1", "s2") and row.system != "m3"
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine) -> Run:
    """Run `adjudge consistency` in an empty folder: exit status, output, errors."""
    monkeypatch.chdir(tmp_path)
    own = Criterion(name="fluency", title="Own", description="Is it good?", rubric=("a",) * 5)
    pairs = replace(BENCHMARK, name="pairs", kind="pairs", criteria=())
    known: dict[str, Any] = {
        "ours": (BENCHMARK, RATED),
        "one": (replace(BENCHMARK, name="one", criteria=("fluency",)), RATED),
        "single": (replace(BENCHMARK, name="single", criteria=("fluency",)), RATED[::3]),
        "own": (
            replace(BENCHMARK, name="own", criteria=()),
            [replace(row, criterion=own) for row in RATED],
        ),
        "pairs": (pairs, PAIRS),
        "own-pairs": (
            replace(pairs, name="own-pairs"),
            [replace(row, criterion=own) for row in PAIRS],
        ),
    }
    monkeypatch.setattr("adjudge.benchmarks.base.find_benchmark", lambda name: known[name][0])
    monkeypatch.setattr(
        "adjudge.benchmarks.files.read_benchmark", lambda benchmark: known[benchmark.name][1]
    )
    return partial(command_line, "consistency")


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    """A model that knows the gold scores, but says A of m0 and m1 and wavers on m2's score."""

    def answer(request: Request) -> str:
        assert isinstance(request, Generate)
        text = words(request)
        if both := re.search(
            r"###Response A:\nSummary (\d).*\n\n###Response B:\nSummary (\d)", text
        ):
            first, second = int(both[1]), int(both[2])
            said = "A" if {first, second} == {0, 1} or first > second else "B"
            return f"Hm. [RESULT] {said}"
        one = re.search(r"###Response to evaluate:\nSummary (\d)", text)
        assert one is not None
        place = int(one[1])
        return f"Hm. [RESULT] {4 if place == 2 and request.first_sample == 1 else 1 + 2 * place}"

    engine = ScriptedEngine(answer)
    monkeypatch.setattr("adjudge.api.load_engine", lambda reference, **_: engine)
    return engine


def table(out: str) -> dict[str, dict[str, str]]:
    return {row["measure"]: row for row in csv.DictReader(io.StringIO(out))}


def tiny(model: Path, *more: str) -> list[str]:
    options = ("max_tokens=8", "retries=0", *more)
    return [
        "--model", f"{model}#threads=1", *(x for each in options for x in ("--option", each))
    ]  # fmt: skip


def test_all_is_measured_and_a_second_call_asks_nothing(run: Run, scripted: ScriptedEngine) -> None:
    code, out, err = run("one", "--format", "csv", "--out", "out.jsonl")
    assert code == 0, err
    found = table(out)
    assert list(found) == NAMES
    assert all("not measured" not in row["note"] for row in found.values())
    # Of three pairs of a source, that of m0 and m1 flips to the one shown first.
    flips = found["order flips"]
    assert float(flips["value"]) == pytest.approx(1 / 3)
    assert (flips["kept/total"], flips["ties"], flips["unreadable"]) == ("9/9", "0", "0")
    assert flips["note"] == "3 of 3 flips to the response shown first"
    assert (flips["of"], flips["better"]) == ("share of pairs", "lower")
    # By scores every pair is right; as pairs two of three are for sure.
    assert float(found["accuracy by two scores"]["value"]) == 1
    pairwise = float(found["pairwise accuracy"]["value"])
    assert 6 / 9 <= pairwise <= 1
    assert float(found["cross-format gap"]["value"]) == pytest.approx(1 - pairwise)
    # m2 beats both others: no cycle. The pair of m0 and m2 differs by 4, weight 3; the others by
    # 2, weight 1.
    assert (float(found["cycles"]["value"]), found["cycles"]["kept/total"]) == (0, "3/3")
    n_right = round(9 * pairwise) - 6
    paper = float(found["gold pairs (paper_compat)"]["value"])
    assert paper == pytest.approx((3 * (3 + 1) + n_right) / 15)
    assert float(found["run-to-run alpha"]["value"]) == pytest.approx(ordinal_alpha(), abs=1e-12)
    assert found["run-to-run alpha"]["kept/total"] == "9/9"
    assert "prometheus-absolute: of 27 verdicts: ok 27 (100.0%); 0 texts drawn again" in err
    assert "prometheus-relative: of 18 verdicts: ok 18 (100.0%); 0 texts drawn again" in err
    assert "prometheus-absolute: 27 model calls, 0 replies reused" in err
    written = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [row["measure"] for row in written] == NAMES
    assert written[1]["value"] == pytest.approx(1 / 3)
    n_asked = len(scripted.asked)
    assert n_asked == 27 + 18
    code, again, err = run("one", "--format", "csv")
    assert (code, again) == (0, out)
    assert len(scripted.asked) == n_asked
    # Scores of two runs are among those of three.
    assert run("one", "--runs", 2)[0] == 0
    assert len(scripted.asked) == n_asked


def ordinal_alpha() -> float:
    """Return alpha of 1 1 1, 3 3 3 and 5 4 5, each three times, from squared rank distances."""
    ranks = {1: (1 + 9) / 2, 3: (10 + 18) / 2, 4: (19 + 21) / 2, 5: (22 + 27) / 2}
    units = [[1, 1, 1], [3, 3, 3], [5, 4, 5]] * 3
    within = [
        (ranks[a] - ranks[b]) ** 2 / 2
        for unit in units
        for i, a in enumerate(unit)
        for j, b in enumerate(unit)
        if i != j
    ]
    values = [value for unit in units for value in unit]
    between = [
        (ranks[a] - ranks[b]) ** 2
        for i, a in enumerate(values)
        for j, b in enumerate(values)
        if i != j
    ]
    return 1 - (sum(within) / 27) / (sum(between) / (27 * 26))


def test_signatures_of_both_formats(run: Run, scripted: ScriptedEngine) -> None:
    code, out, err = run("one", "--limit-sources", 2, "--seed", 4, "--option", "scale=1-7")
    assert code == 0, err
    first, second = out.splitlines()[-2:]
    assert first.startswith("judge:prometheus-absolute|score_mode:text|runs:3|")
    assert second.startswith("judge:prometheus-relative|score_mode:text|runs:1|")
    assert "|orders:both|" in second
    assert ("|scale:1-7|" in first, "scale" in second) == (True, False)
    for line in (first, second):
        assert re.search(r"\|seed:4\|.*\|benchmark:one#[0-9a-f]{8}\|sources:2\|", line)
        assert line.endswith("|convention:prometheus|gold_ties:left_out|resamples:1000 of sources")
    assert re.search(r"prometheus-relative: run: [0-9a-f]{12} in adjudge\.db", out)


def test_the_tiny_model_runs_all_parts_once(run: Run, tiny_model: Path) -> None:
    flags = [*tiny(tiny_model), "--criterion", "fluency", "--limit-sources", 2]
    code, out, err = run("ours", *flags)
    assert code == 0, err
    assert [line.split("  ")[0] for line in out.splitlines()[1:8]] == NAMES
    assert "prometheus-absolute: 18 model calls, 0 replies reused" in out
    assert "prometheus-relative: 12 model calls, 0 replies reused" in out
    assert "prometheus-absolute: of 18 verdicts: truncated 18 (100.0%)" in out
    assert "not measured: no response has a score in two runs" in out
    assert "not measured: no verdict of one of the formats can be read" in out
    again = run("ours", *flags)[1]
    assert re.findall(r"(\d+) model calls, (\d+) replies", again) == [("0", "18"), ("0", "12")]
    assert again.splitlines()[:8] == out.splitlines()[:8]


def test_pairs_may_be_read_from_log_probs(run: Run, tiny_model: Path) -> None:
    flags = tiny(tiny_model, "score_mode=logprobs", "min_coverage=0")
    code, out, err = run("pairs", *flags, "--criterion", "fluency", "--format", "csv")
    assert code == 0, err
    found = table(out)
    assert found["order flips"]["kept/total"] == "4/4"
    assert found["order flips"]["unreadable"] == "0"
    assert found["accuracy by two scores"]["unreadable"] == "4"
    assert found["cycles"]["note"] == (
        "not measured: no three responses of a source were all compared"
    )
    assert found["gold pairs (paper_compat)"]["note"] == "not measured: there are no gold scores"
    # p2 is a gold tie.
    assert found["pairwise accuracy"]["kept/total"] == "3/4"
    absolute, relative = err.splitlines()[-2:]
    assert "|score_mode:text|" in absolute
    assert "|score_mode:logprobs|" in relative


def test_a_response_for_each_source_leaves_runs_alone(run: Run, scripted: ScriptedEngine) -> None:
    code, out, err = run("single", "--format", "json")
    assert code == 0, err
    found = {row["measure"]: row for row in json.loads(out)}
    assert list(found) == NAMES
    assert found.pop("run-to-run alpha")["note"].startswith("not measured: all scores are equal")
    assert {row["note"] for row in found.values()} == {
        "not measured: no source has two different responses"
    }
    assert {row["value"] for row in found.values()} == {None}
    assert "judge:prometheus-relative" not in err
    assert len(scripted.asked) == 3 * 3


def test_one_run_leaves_alpha_out(run: Run, scripted: ScriptedEngine) -> None:
    code, out, err = run("own", "--runs", 1, "--format", "csv")
    assert code == 0, err
    found = table(out)
    assert found["run-to-run alpha"]["note"] == (
        "not measured: one run of each response; it takes two or more"
    )
    assert found["run-to-run alpha"]["value"] == ""
    assert float(found["accuracy by two scores"]["value"]) == 1
    assert "pairs of equal texts" not in err


def test_equal_texts_are_said(run: Run, monkeypatch: pytest.MonkeyPatch, scripted: Any) -> None:
    rows = [*RATED, replace(RATED[0], id="twin", system="m7")]
    monkeypatch.setattr("adjudge.benchmarks.files.read_benchmark", lambda benchmark: rows)
    out = run("one")[1]
    assert "1 pairs of equal texts are left out: there is nothing to prefer" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ours"], "choose one with --criterion; there are coherence, fluency"),
        (["ours", "--criterion", "fluencey"], "did you mean 'fluency'"),
        (
            ["ours", "--criterion", "fluency", "--criterion", "coherence"],
            "consistency is measured by one criterion: give --criterion once",
        ),
        (["own", "--criterion", "fluency"], "every item of own has a criterion of its own"),
        (["own-pairs", "--criterion", "fluency"], "every item of own-pairs has a criterion"),
        (["pairs"], "unknown criterion of summarization 'helpfulness'"),
        (["one", "--runs", "0"], "runs must be from 1 to 1000, not 0"),
        (
            ["one", "--option", "runs=2"],
            "the option runs is no choice of this command: give --runs",
        ),
        (["one", "--option", "orders=one"], "drop it: both orders are always asked"),
        (["one", "--option", "rungs=2"], "unknown option of either judge 'rungs'"),
        (["one", "--option", "temperature=0"], "3 runs at temperature 0 would all be the same"),
        (["one", "--format", "tex"], "unknown format 'tex'"),
        (["one", "--limit-sources", "-1"], "limit_sources must be 0"),
        (["one", "--model", "none.gguf"], "there is no model file"),
    ],
)
def test_what_cannot_be_done_is_one_line(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_an_unknown_benchmark_is_said(command_line: CommandLine) -> None:
    code, out, err = command_line("consistency", "sumeval")
    assert (code, out) == (2, "")
    assert "unknown benchmark 'sumeval'" in err
    assert "did you mean 'summeval'" in err
