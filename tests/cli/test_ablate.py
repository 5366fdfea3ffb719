"""`adjudge ablate` on a benchmark of our own with the tiny model."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from adjudge.experiments.ablate import AblationRow, Preset
from tests.cli.conftest import CommandLine
from tests.cli.test_bench import BENCHMARK, RESPONSES

Run = Callable[..., tuple[int, str, str]]
PRESET = Preset(
    name="ours",
    title="A table",
    source="Nobody 2000",
    models={"famous": "Famous 1B"},
    benchmarks={"ours": ["coherence", "fluency"]},
    rows=(
        AblationRow(
            label="Direct", judge="direct", printed={"ours": {"famous": (0.25, 0.35, 0.3)}}
        ),
        AblationRow(
            label="Sampled", judge="ladder", options={"samples": "3", "rungs": "2"}, trials=2,
            printed={"ours": {"famous": (0.1,)}}, printed_sd=0.02,
        ),
        AblationRow(label="Two rungs", judge="ladder", options={"rungs": "2"}),
        AblationRow(label="Famous alone", judge="direct", model="famous"),
        AblationRow(label="Not built", judge="nonesuch"),
    ),
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine) -> Run:
    """Run `adjudge ablate` in an empty folder: exit status, output, errors."""
    monkeypatch.chdir(tmp_path)
    rows = [row for row in RESPONSES if row.source.id in ("s0", "s1")]
    monkeypatch.setattr("adjudge.benchmarks.base.find_benchmark", lambda name: BENCHMARK)
    monkeypatch.setattr("adjudge.benchmarks.files.read_benchmark", lambda benchmark: rows)
    monkeypatch.setattr("adjudge.experiments.ablate.load_preset", lambda name: PRESET)

    return partial(command_line, "ablate")


def test_rows_are_run_beside_the_printed_figures(run: Run, tiny_model: Path) -> None:
    flags = ["--model", f"mine={tiny_model}#threads=1", "--option", "min_coverage=0"]
    code, out, err = run("ours", *flags, "--format", "csv")
    assert code == 0, err
    rows = {
        (row["row"].removesuffix(", min_coverage=0"), row["model"]): row
        for row in csv.DictReader(io.StringIO(out))
    }
    assert "Direct, min_coverage=0" in out
    printed = {name: row["printed: Famous 1B"] for (name, _), row in rows.items()}
    assert printed["Direct"] == "0.3 (0.25 0.35)"
    assert printed["Sampled"] == "0.1 ± 0.02"
    direct = rows["Direct", "mine"]
    mean = (float(direct["coherence"]) + float(direct["fluency"])) / 2
    assert float(direct["average"]) == pytest.approx(mean)
    assert direct["sd"] == ""
    assert rows["Sampled", "mine"]["sd"] != ""
    assert ("Famous alone", "not run: needs Famous 1B") in rows
    assert ("Not built", "not run: there is no judge 'nonesuch'") in rows
    assert rows["Not built", "not run: there is no judge 'nonesuch'"]["average"] == ""
    assert ("mine predicts, mine writes", "mine") in rows
    # Two rungs are part of the ladder of five: the same two texts, written once.
    two, five = rows["Two rungs", "mine"], rows["mine predicts, mine writes", "mine"]
    assert 0 < float(two["written"]) < float(five["written"])
    assert 0 < float(two["unique"]) < float(two["tokens"])
    again = run("ours", *flags, "--format", "csv")
    assert again[1] == out
    assert "Nobody 2000" in again[2]
    assert len(re.findall(r": run [0-9a-f]{12}", again[2])) == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ours"], "name a model: --model mine=model.gguf"),
        (["ours", "--model", "some.gguf"], "a model is given as NAME=VALUE, not 'some.gguf'"),
        (["other", "--model", "m=x.gguf"], "unknown benchmark of ours 'other'"),
        (["ours", "--model", "m=x.gguf", "--criterion", "wit"], "unknown criterion of ours 'wit'"),
        (["ours", "--model", "m=none.gguf"], "there is no model file"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_rows_of_one_judge_can_be_limited_and_say_so(
    run: Run, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (
        AblationRow(label="Direct", judge="direct"),
        AblationRow(label="PairS", judge="pairs", options={"method": "greedy"}),
        AblationRow(label="Of an encoder", judge="bertscore", only="encoder"),
        AblationRow(label="GPTScore", judge="gptscore"),
    )
    monkeypatch.setattr(
        "adjudge.experiments.ablate.load_preset", lambda name: replace(PRESET, rows=rows)
    )
    flags = ["--model", f"mine={tiny_model}#threads=1", "--option", "calibrate=false"]
    flags += ["--option", "min_coverage=0", "--limit-row", "pairs=1", "--format", "csv"]
    code, out, err = run("ours", *flags)
    assert code == 0, err
    found = {row["row"]: row for row in csv.DictReader(io.StringIO(out))}
    assert found["Direct, min_coverage=0"]["kept/total"] == "4/4"
    (label,) = [name for name in found if name.startswith("PairS")]
    assert label == "PairS, calibrate=false, min_coverage=0, 1 source"
    assert found[label]["kept/total"] == "2/2"
    # 4 responses: 4 or 5 comparisons by each of two criteria, for 8 responses and criteria.
    assert 8 / 8 <= float(found[label]["calls"]) <= 10 / 8
    average = float(found[label]["average"])
    assert float(found[label]["average_low"]) <= average <= float(found[label]["average_high"])
    assert found["Of an encoder"]["model"] == "not run: needs the model encoder"
    assert found["GPTScore"]["model"] == "not run: mine does not serve score_text"
    for extra, message in (
        (["--limit-row", "pears=1"], "unknown judge of ours 'pears': did you mean 'pairs'"),
        (["--option", "gab=0.1"], "unknown option of the judges of ours 'gab'"),
        (["--option", "beam_size=0"], "beam_size must be from 1"),
    ):
        code, out, err = run("ours", *flags, *extra)
        assert (code, out) == (2, "")
        assert message in err
    code, out, err = run("ours", *flags, "--limit-row", "direct=0")
    assert (code, out) == (2, "")
    assert "--limit-row direct=0: a limit is a whole number from 1" in err


def test_a_row_whose_items_lack_what_it_needs_is_not_run_and_the_others_are(
    run: Run, tiny_model: Path, tiny_encoder_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (
        AblationRow(label="BERTScore", judge="bertscore"),
        AblationRow(label="Direct", judge="direct"),
    )
    monkeypatch.setattr(
        "adjudge.experiments.ablate.load_preset", lambda name: replace(PRESET, rows=rows)
    )
    flags = ["--model", f"encoder=hf:{tiny_encoder_folder}", "--option", "min_coverage=0"]
    flags += ["--model", f"mine={tiny_model}#threads=1", "--format", "csv"]
    code, out, err = run("ours", *flags)
    assert code == 0, err
    found = [(row["row"], row["model"]) for row in csv.DictReader(io.StringIO(out))]
    assert ("Direct, min_coverage=0", "mine") in found
    (why,) = [model for label, model in found if "has no reference answer" in model]
    assert why.startswith("not run: the item '")
