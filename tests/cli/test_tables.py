"""`adjudge bench table` on benchmarks of our own: scripted, and with the tiny model."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
from scipy import stats

from adjudge import api
from adjudge.benchmarks.base import Benchmark, RatedPair, RatedResponse, Rows
from adjudge.engines.replay import RecordingEngine
from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Message, Request
from adjudge.experiments.bench import bench_items, pair_items
from adjudge.experiments.tables import load_table
from adjudge.judges.by_scores import PairsByScores
from adjudge.runs.runner import Runner
from adjudge.runs.store import Store
from adjudge.schema import Criterion, Item, Source
from tests.cli.conftest import CommandLine
from tests.scripted import ScriptedEngine

Run = Callable[..., tuple[int, str, str]]

WRITES = frozenset({Capability.GENERATE})
OWN = Criterion(
    name="rubric", title="Rubric", description="Is it good?",
    rubric=("bad", "poor", "fair", "good", "best"), levels=(1, 2, 3, 4, 5),
)  # fmt: skip


def responses(golds: Sequence[Mapping[str, float]], *, text: str = "") -> list[RatedResponse]:
    """Return two responses to each source, with gold."""
    return [
        RatedResponse(
            id=f"{i}", source=Source(id=f"s{i // 2}", text=f"Question {i // 2}? {text}"), system="",
            response=f"Answer {i}.", gold=gold, criterion=OWN, reference_answers=("The best one.",),
        )
        for i, gold in enumerate(golds)
    ]  # fmt: skip


def pairs(golds: Sequence[float], *, criterion: Criterion | None = OWN) -> list[RatedPair]:
    return [
        RatedPair(
            id=f"{i}", source=Source(id=f"q{i}", text=f"Question {i}?"), systems=("", ""),
            responses=(f"One {i}.", f"Other {i}."), gold=gold, criterion=criterion,
        )
        for i, gold in enumerate(golds)
    ]  # fmt: skip


#: By benchmark; the others are not here.
DATA: dict[str, Rows] = {
    "vicuna-bench": responses([{"rubric": each} for each in (1.0, 5.0, 2.0, 4.0)]),
    "flask": responses(
        [{"rubric": people, "gpt4": model} for people, model in ((1, 2), (3, 2), (4, 5), (2, 1))]
    ),
    "hhh-alignment": pairs([1, -1, 1, 1]),
    "autoj-eval": pairs([1, -1, 0, 1], criterion=None),
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine) -> Run:
    """Run `adjudge bench table` in an empty folder: exit status, output, errors."""
    monkeypatch.chdir(tmp_path)

    def read(benchmark: Benchmark) -> Rows:
        if benchmark.name not in DATA:
            raise ConfigError(f"{benchmark.name} is not here: `adjudge benchmarks pull`")
        return DATA[benchmark.name]

    monkeypatch.setattr("adjudge.benchmarks.files.read_benchmark", read)
    return partial(command_line, "bench", "table")


def recorded(table: str, judge: str, items: Sequence[Item], say: Callable[[Item], str]) -> str:
    """Record what a judge of a table asks, answered by `say`; return the model's reference."""
    preset, path = load_table(table), Path("replies.jsonl")
    method = api.judge_method(
        preset.judges[judge].judge, task="instruction", options=preset.options(judge, {}),
        pairs=preset.measure == "accuracy",
    ).fitted(WRITES)  # fmt: skip
    asked: dict[tuple[Message, ...], str] = {}
    for item in items:
        single = [item]
        if isinstance(method, PairsByScores):
            single = [Item(id="", source=item.source, systems=("",), responses=(response,),
                           criterion=item.criterion) for response in item.responses]  # fmt: skip
        scorer = method.scorer if isinstance(method, PairsByScores) else method
        for each in single:
            asked[next(scorer.judge(each))[0].messages] = say(each)

    def answer(request: Request) -> str:
        return f"Here is why. [RESULT] {asked[request.messages]}"

    engine = RecordingEngine(ScriptedEngine(answer, capabilities=WRITES), path)
    for _ in Runner(method, engine, Store()).run(items):
        pass
    return f"replay:{path}"


def scores_of(said: str) -> Callable[[Item], str]:
    """Return what gives the response with a number the score at that place."""
    return lambda item: said[int(item.response.split()[1].rstrip("."))]


def table(out: str) -> dict[tuple[str, str], dict[str, str]]:
    rows = csv.DictReader(io.StringIO(out))
    return {(row["evaluator"], row["figures"]): row for row in rows}


def test_direct_assessment_by_hand(run: Run) -> None:
    vicuna, flask = (bench_items(DATA[name], []) for name in ("vicuna-bench", "flask"))  # type: ignore[arg-type]
    # The prompts of both are the same.
    model = recorded("prometheus-direct", "scores", [*vicuna, *flask], scores_of("1532"))
    code, out, err = run(
        "prometheus-direct", "--model", f"prometheus-2-7b={model}", "--format", "csv"
    )
    assert code == 0, err
    rows = table(out)
    assert len(rows) == 12
    assert rows["Prometheus-2-7B", "printed"]["FLASK, humans"] == "0.545"
    assert rows["Auto-J (13B)", "printed, not run"]["FLASK, humans"] == "0.473"
    ours = rows["Prometheus-2-7B", "ours"]
    for column, gold in (
        ("Vicuna Bench, GPT-4", [1, 5, 2, 4]),
        ("FLASK, GPT-4", [2, 2, 5, 1]),
        ("FLASK, humans", [1, 3, 4, 2]),
    ):
        expected = stats.pearsonr([1, 5, 3, 2], gold).statistic
        assert float(ours[column]) == pytest.approx(expected)
        low, high = float(ours[f"{column}_low"]), float(ours[f"{column}_high"])
        assert low - 1e-9 <= expected <= high + 1e-9
    assert {ours[name] for name in ours if name.endswith("Claude-3")} == {"no data"}
    assert (ours["MT Bench, GPT-4"], ours["failed"]) == ("no data", "0")
    assert err.count("mt-bench is not here: `adjudge benchmarks pull`") == 1
    assert err.count("the files have no scores of Claude-3") == 1
    assert re.search(r"table:prometheus-direct\|benchmarks:vicuna-bench#[0-9a-f]{8},flask#", err)
    assert "|coefficient:pearson|level:pooled|resamples:1000 of sources|seed:0;" in err
    runs = re.findall(r"prometheus-2-7b, (.+): 4 of 4 items; run ([0-9a-f]{12}), failed: none", err)
    assert [name for name, _ in runs] == ["Vicuna Bench, GPT-4", "FLASK, GPT-4", "FLASK, humans"]
    assert runs[1][1] == runs[2][1] != runs[0][1]


def test_accuracies_and_how_far_apart_they_are_by_hand(run: Run) -> None:
    criterion = api.load_criteria(["helpfulness"], "instruction")[0]
    items = [*pair_items(DATA["hhh-alignment"], None), *pair_items(DATA["autoj-eval"], criterion)]  # type: ignore[arg-type]
    verdict = {f"One {i}.": said for i, said in enumerate("AAAB")}
    model = recorded(
        "prometheus-pairwise", "as pairs", items, lambda item: verdict[item.responses[0]]
    )
    # Scores of the first responses and of the second: 5 > 1, 2 < 3, 4 = 4, 5 > 1.
    score = dict(zip([f"One {i}." for i in range(4)], "5245", strict=True))
    score |= dict(zip([f"Other {i}." for i in range(4)], "1341", strict=True))
    recorded("prometheus-consistency", "by scores", items, lambda item: score[item.response])
    flags = ["--model", f"mine={model}", "--format", "csv"]
    code, out, err = run("prometheus-pairwise", *flags)
    assert code == 0, err
    ours = table(out)["mine", "ours"]
    # Verdicts A A A B against gold A B A A, and against A B tie A.
    assert float(ours["HHH, total"]) == 50
    assert float(ours["Auto-J Eval, with ties"]) == 25
    assert float(ours["Auto-J Eval, without ties"]) == pytest.approx(100 / 3)
    assert ours["Preference Bench"] == "no data"
    assert "|convention:prometheus|" in err
    code, out, err = run("prometheus-consistency", *flags)
    assert code == 0, err
    ours = table(out)["mine", "ours"]
    # By scores A B tie A: 3 of 4 right, and of the three without a tie all.
    assert float(ours["HHH"]) == 25
    assert float(ours["Auto-J Eval"]) == pytest.approx(200 / 3)
    assert ours["Preference Collection, transitivity"] == "not run"
    assert "mine, HHH: by scores 75.00; as pairs 50.00; 4 of 4 items; run " in err
    assert "mine, Auto-J Eval: by scores 100.00; as pairs 33.33; 3 of 4 items; run " in err
    assert "transitivity: it takes verdicts on all pairs" in err


def test_reference_answers_by_hand(run: Run) -> None:
    items = bench_items(DATA["flask"], [])  # type: ignore[arg-type]
    model = recorded("prometheus-reference", "without reference", items, scores_of("2531"))
    recorded("prometheus-reference", "with reference", items, scores_of("1452"))
    code, out, err = run("prometheus-reference", "--model", f"mine={model}", "--format", "csv")
    assert code == 0, err
    ours = table(out)["mine", "ours"]
    gold = [1, 3, 4, 2]
    without = stats.pearsonr([2, 5, 3, 1], gold).statistic
    shown = stats.pearsonr([1, 4, 5, 2], gold).statistic
    assert float(ours["FLASK, without"]) == pytest.approx(without)
    assert float(ours["FLASK, with"]) == pytest.approx(shown)
    assert float(ours["FLASK, difference"]) == pytest.approx(shown - without)
    assert float(ours["FLASK, difference_low"]) <= shown - without + 1e-9
    assert ours["BiGGen Bench, difference"] == "no data"


def tiny_flags(model: Path) -> list[str]:
    options = ["runs=1", "max_tokens=8", "min_coverage=0", "score_mode=logprobs"]
    flags = [part for option in options for part in ("--option", option)]
    return ["--model", f"mine={model}#threads=1", *flags, "--store", "a.db"]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("prometheus-direct", "FLASK, humans"),
        ("prometheus-pairwise", "HHH, total"),
        ("prometheus-consistency", "HHH"),
        ("prometheus-reference", "FLASK, difference"),
    ],
)
def test_every_table_runs_and_runs_again(
    run: Run, tiny_model: Path, name: str, column: str
) -> None:
    flags = [*tiny_flags(tiny_model), "--format", "csv"]
    code, out, err = run(name, *flags)
    assert code == 0, err
    assert float(table(out)["mine", "ours"][column]) <= 100
    assert Path("a.db").exists()
    assert run(name, *flags)[1] == out
    code, out, err = run(name, *flags, "--limit-sources", 1)
    assert code == 0, err
    assert f"table:{name}|runs:1|max_tokens:8|" in err
    assert "|sources:1|" in err
    items = re.findall(r": (?:.+; )?\d of (\d) items", err)
    assert set(items) == (
        {"1"} if name in ("prometheus-pairwise", "prometheus-consistency") else {"2"}
    )
    assert table(out)["mine", "ours"][f"{column}_low"] == ""


def test_a_benchmark_that_fails_does_not_stop_the_others(
    run: Run, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DATA, "vicuna-bench", responses([{"rubric": 1.0}] * 2, text="long " * 5000))
    code, out, err = run("prometheus-direct", *tiny_flags(tiny_model), "--format", "csv")
    assert code == 1
    ours = table(out)["mine", "ours"]
    assert ours["Vicuna Bench, GPT-4"] == "failed"
    assert float(ours["FLASK, humans"]) <= 1
    assert re.search(r"\nfailed: mine, Vicuna Bench, GPT-4: .*do not fit the context", err)


def test_nothing_is_loaded_where_no_data_are_here(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(DATA):
        monkeypatch.delitem(DATA, name)
    code, out, _ = run("prometheus-direct", "--model", "mine=none.gguf", "--format", "text")
    assert code == 0
    assert "Prometheus-2-8x7B" in out
    assert "not here: `adjudge benchmarks pull`" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prometheus-drect", "--model", "m=x.gguf"], "did you mean 'prometheus-direct'"),
        (["prometheus-direct"], "name a model: --model NAME=MODEL, as in --model mine=model.gguf"),
        (["prometheus-direct"], "stand for rows of prometheus-direct: llama2-chat-7b, "),
        (["prometheus-direct", "--model", "x.gguf"], "a model is given as NAME=VALUE"),
        (
            ["prometheus-direct", "--model", "m=x.gguf", "--model", "m=y.gguf"],
            "a model 'm' is given more than once",
        ),
        (["prometheus-direct", "--model", "m=none.gguf"], "there is no model file"),
        (
            ["prometheus-direct", "--model", "m=x.gguf", "--criterion", "helpfulness"],
            "--criterion does nothing for a table",
        ),
        (
            ["prometheus-reference", "--model", "m=x.gguf", "--option", "use_reference=true"],
            "prometheus-reference sets the option 'use_reference' itself: drop it",
        ),
        (
            ["prometheus-direct", "--model", "m=x.gguf", "--option", "runs=many"],
            "option of prometheus-absolute 'runs'",
        ),
        (["prometheus-direct", "--model", "m=x.gguf", "--format", "tex"], "unknown format 'tex'"),
        (
            ["prometheus-direct", "--model", "m=x.gguf", "--limit-sources", "-1"],
            "limit_sources must be 0",
        ),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
