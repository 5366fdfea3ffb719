"""`adjudge score` and its relatives, on the tiny random model and on recorded replies."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest

from adjudge.runs.store import APPLICATION_ID, Store
from tests.cli.conftest import CommandLine

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., "Result"]


class Result:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def number(self, pattern: str) -> int:
        """Return the number in front of some text."""
        found = re.search(rf"([\d,]+) {pattern}", self.out)
        assert found, f"no {pattern!r} in:\n{self.out}\n{self.err}"
        return int(found[1].replace(",", ""))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine) -> Run:
    """Run a command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: Result(*command_line(*arguments))


@pytest.fixture(scope="session")
def recorded(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replies of the tiny model to everything that a run over the rows below asks."""
    import adjudge
    from adjudge.engines.llama import LlamaEngine
    from adjudge.formats.responses import read_responses

    folder = tmp_path_factory.mktemp("recorded")
    engine = adjudge.RecordingEngine(LlamaEngine(tiny_model, threads=1), folder / "replies.jsonl")
    rows = read_responses(write(folder / "rows.jsonl", ROWS))
    for name in ("ladder", "direct"):
        judge = adjudge.judge(name, criterion="coherence", task="dialogue", engine=engine)
        with Store() as store:
            list(judge.run(rows, store)[2])
    engine.close()
    return folder / "replies.jsonl"


ROWS = [
    {"id": f"{s}{i}", "source_id": s, "system": f"sys{i}", "source": f"{s} said so", "response": t}
    for s in ("ann", "bob")
    for i, t in enumerate(["Yes, of course.", "No idea what you mean.", ""])
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


#: The random model puts next to no mass on any label.
ANY_COVERAGE = ["--option", "min_coverage=0"]


def flags(recorded: Path) -> list[str]:
    model = ["--task", "dialogue", "--model", f"replay:{recorded}"]
    return ["--criterion", "coherence", *model, *ANY_COVERAGE]


def test_scores_are_written_and_summed_up(run: Run, recorded: Path, tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    result = run("score", "rows.jsonl", *flags(recorded), "--out", "scores.jsonl")
    assert (result.code, result.err) == (0, "")
    rows = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [row["id"] for row in ROWS]
    assert list(rows[0]) == [
        "id", "source_id", "system", "criterion", "score", "raw", "distribution", "coverage",
        "status", "n_calls",
    ]  # fmt: skip
    for row in rows:
        if row["system"] == "sys2":
            assert (row["status"], row["score"], row["n_calls"]) == ("empty_response", None, 0)
            continue
        assert row["status"] == "ok"
        assert row["n_calls"] == 10
        raw = sum(i * (p[0] - p[1]) for i, p in enumerate(row["distribution"], start=1))
        assert row["raw"] == pytest.approx(raw)
        assert row["score"] == pytest.approx(1 + 4 * (raw + 15) / 30)
        assert all(sum(p) == pytest.approx(1) for p in row["distribution"])
    means = {s: [r["score"] for r in rows if r["system"] == s] for s in ("sys0", "sys1")}
    for system, values in means.items():
        assert re.search(rf"{system} +coherence +{sum(values) / 2:.2f} +2/2", result.out)
    assert "status: empty_response 2, ok 4" in result.out
    assert "judge:ladder|rungs:5|temperature:0.7|top_p:0.9|" in result.out
    assert "criterion:coherence#" in result.out
    assert result.number("model calls") == 2 * 5 + 4 * 5


def test_a_second_run_makes_no_calls_and_says_so(run: Run, recorded: Path, tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    first = run("score", "rows.jsonl", *flags(recorded), "--store", "s.db", "--out", "a.jsonl")
    again = run("score", "rows.jsonl", *flags(recorded), "--store", "s.db", "--out", "b.jsonl")
    assert first.number("model calls") == 30
    assert again.number("model calls") == 0
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_other_formats_in_and_out(run: Run, recorded: Path, tmp_path: Path, suffix: str) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    if suffix == "csv":
        with (tmp_path / "rows.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(ROWS[0]))
            writer.writeheader()
            writer.writerows(ROWS)
    else:
        polars.DataFrame(ROWS).write_parquet(tmp_path / "rows.parquet")
    assert run("score", "rows.jsonl", *flags(recorded), "--out", "a.jsonl").code == 0
    assert run("score", f"rows.{suffix}", *flags(recorded), "--out", f"b.{suffix}").code == 0
    expected = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    if suffix == "csv":
        with (tmp_path / "b.csv").open(newline="") as stream:
            rows: list[dict[str, Any]] = list(csv.DictReader(stream))
    else:
        rows = polars.read_parquet(tmp_path / "b.parquet").to_dicts()
    assert [row["id"] for row in rows] == [row["id"] for row in expected]
    for row, other in zip(rows, expected, strict=True):
        assert json.loads(row["distribution"]) == other["distribution"]
        score = float(row["score"]) if row["score"] else None
        assert score == other["score"]


def test_the_direct_judge_and_its_options(run: Run, recorded: Path, tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    result = run("score", "rows.jsonl", *flags(recorded), "--judge", "direct", "--out", "s.jsonl")
    assert result.code == 0
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    for row in (row for row in rows if row["status"] == "ok"):
        (probabilities,) = row["distribution"]
        assert row["score"] == pytest.approx(
            sum(i * p for i, p in enumerate(probabilities, start=1))
        )
    assert "judge:direct|mode:logprobs" in result.out
    bad = run("score", "rows.jsonl", *flags(recorded), "--judge", "direct", "--option", "mode=x")
    assert bad.code == 2
    assert "option of direct 'mode': Input should be 'logprobs' or 'sampled'" in bad.err


def test_limit_and_seed(run: Run, recorded: Path, tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    result = run("score", "rows.jsonl", *flags(recorded), "--limit", 2, "--out", "s.jsonl")
    assert len((tmp_path / "s.jsonl").read_text().splitlines()) == 2
    assert result.number("model calls") == 5 + 10
    other = run("score", "rows.jsonl", *flags(recorded), "--limit", 2, "--seed", 1)
    assert other.code == 2
    assert "has no reply to a generate request" in other.err


def test_flags_override_the_configuration_file(run: Run, recorded: Path, tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    (tmp_path / "run.toml").write_text(
        f'criterion = "coherence"\ntask = "dialogue"\nmodel = "replay:{recorded}"\n'
        'limit = 1\njudge = "direct"\nout = "from-file.jsonl"\n'
    )
    assert run("score", "rows.jsonl", "--config", "run.toml").code == 0
    assert len((tmp_path / "from-file.jsonl").read_text().splitlines()) == 1
    run("score", "rows.jsonl", "--config", "run.toml", "--limit", 3, "--out", "flag.jsonl")
    assert len((tmp_path / "flag.jsonl").read_text().splitlines()) == 3


def test_plan_says_what_a_run_will_cost_and_asks_nothing(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    model = ["--criterion", "coherence", "--task", "dialogue", "--model"]
    model += [f"{tiny_model}#threads=1", "--store", "s.db"]
    plan = run("plan", "rows.jsonl", *model)
    assert plan.code == 0
    assert "0 replies are in the store already" in plan.out
    assert "30 model calls to make: 10 generations, 20 label scorings" in plan.out
    assert "up to 1,200 written" in plan.out
    total, unique = re.findall(r"~([\d,]+)", plan.out)[:2]
    assert int(unique.replace(",", "")) < int(total.replace(",", ""))
    assert not (tmp_path / "s.db").exists()
    assert run("score", "rows.jsonl", *model, "--limit", 3).code == 0
    plan = run("plan", "rows.jsonl", *model)
    assert "15 model calls to make: 5 generations, 10 label scorings" in plan.out
    assert "15 replies are in the store already" in plan.out
    first = run("score", "rows.jsonl", *model, "--limit", 4)
    rows = [*ROWS[:4], {**ROWS[3], "id": "new", "system": "new", "response": "Another reply."}]
    write(tmp_path / "rows.jsonl", rows)
    exact = run("plan", "rows.jsonl", *model)
    assert "5 model calls to make: 0 generations, 5 label scorings" in exact.out
    assert "~" not in exact.out
    total, unique = (exact.number("in all"), exact.number("unique"))
    second = run("score", "rows.jsonl", *model)
    evaluated = second.number("prompt tokens evaluated")
    assert first.code == second.code == 0
    assert evaluated + second.number("saved") == total
    assert unique <= evaluated <= 1.15 * unique


def test_runs_are_listed_shown_and_exported(run: Run, recorded: Path, tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    run("score", "rows.jsonl", *flags(recorded), "--store", "s.db", "--out", "a.jsonl")
    with Store(tmp_path / "s.db") as store:
        (stored,) = store.runs()
    listed = run("runs", "list", "--store", "s.db")
    assert stored.id in listed.out
    assert "6/6" in listed.out
    shown = run("runs", "show", stored.id[:4], "--store", "s.db")
    assert "ann0" in shown.out
    assert "judge:ladder" in shown.out
    done = run("runs", "export", stored.id, "--store", "s.db", "--out", "b.jsonl")
    assert done.code == 0
    assert (tmp_path / "b.jsonl").read_text() == (tmp_path / "a.jsonl").read_text()
    missing = run("runs", "show", "zzz", "--store", "s.db")
    assert missing.code == 2
    assert f"no run in s.db begins with 'zzz'; runs: {stored.id}" in missing.err
    assert run("runs", "list", "--store", "none.db").code == 2


def test_catalogues(run: Run) -> None:
    judges = run("judges")
    assert "ladder" in judges.out
    assert "https://arxiv.org/abs/2509.05440" in judges.out
    assert "smollm2-135m" in run("models", "list").out
    criteria = run("criteria", "--task", "story").out
    assert all(name in criteria for name in ("empathy", "surprise", "complexity"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--criterion", "coherense"], "unknown criterion of dialogue 'coherense': did you mean "
         "'coherence'?"),
        (["--judge", "laddr"], "unknown judge 'laddr': did you mean 'ladder'?"),
        (["--model", "smollm2-35m"], "unknown model 'smollm2-35m': did you mean 'smollm2-135m'?"),
        (["--model", "nowhere.gguf"], "there is no model file 'nowhere.gguf'"),
        (["--model", "replay:none"], "there is no file 'none' with recorded replies"),
        (["--model", "turbo:x"], "unknown engine 'turbo'"),
        (["--task", "poetry"], "unknown task 'poetry'"),
        (["--out", "s.txt"], "'s.txt': the file's suffix must be .jsonl, .csv, .parquet"),
        (["--out", "no/s.csv"], "'no/s.csv' cannot be written: make the folder 'no'"),
        (["--store", "no/s.db"], "no/s.db cannot be opened as a store"),
        (["--option", "rungs=4"], "a ladder has 2, 3, 5, 9, ... (2**k + 1) rungs, not 4"),
        (["--option", "rung=5"], "unknown option of ladder 'rung': did you mean 'rungs'?"),
        (["--option", "rungs"], "a judge's option is given as NAME=VALUE, not 'rungs'"),
        (["--limit", "-1"], "the limit must be 0 (all rows) or more, not -1"),
        (["--config", "none.toml"], "the configuration 'none.toml' cannot be read"),
        (["--out", "rows.jsonl"], "'rows.jsonl' is read from and would be overwritten"),
        (["--prompts", "none"], "there is no folder 'none' with prompts"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(
    run: Run, recorded: Path, tmp_path: Path, changed: list[str], message: str
) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    result = run("score", "rows.jsonl", *flags(recorded), *changed)
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"source": "a"}\n', "rows.jsonl, line 1, column 'response': the column is missing"),
        ('{"source": "a", "response": "b"}\n{"source": "a", \n', "rows.jsonl, line 2: not a JSON"),
        ('{"id": 1, "source": "a", "response": "b"}\n' * 2, "line 2, column 'id': the id '1'"),
        ("", "rows.jsonl: there are no rows"),
    ],
)
def test_bad_rows_are_named_by_file_and_line(
    run: Run, recorded: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    result = run("score", "rows.jsonl", *flags(recorded))
    assert result.code == 2
    assert message in result.err


def test_a_store_of_a_newer_schema_is_left_alone(run: Run, recorded: Path, tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    result = run("score", "rows.jsonl", *flags(recorded), "--store", "s.db")
    assert result.code == 2
    assert "s.db is a store of version 99" in result.err


def test_a_prompt_beyond_the_context_stops_before_anything_runs(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    rows = [{"source": "fine", "response": "r"}, {"source": "long " * 700, "response": "r"}]
    write(tmp_path / "rows.jsonl", rows)
    arguments = ["--criterion", "coherence", "--model", f"{tiny_model}#threads=1&ctx=512"]
    result = run("score", "rows.jsonl", *arguments, "--store", "s.db")
    assert result.code == 2
    assert re.search(r"a prompt of \d+ tokens .* do not fit the context of 512 tokens", result.err)
    with Store(tmp_path / "s.db") as store:
        assert store.n_replies() == 0


def test_a_link_keeps_pointing_and_other_things_are_refused(
    run: Run, recorded: Path, tmp_path: Path
) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    (tmp_path / "real.jsonl").write_text("old\n")
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    assert run("score", "rows.jsonl", *flags(recorded), "--out", "link.jsonl").code == 0
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len((tmp_path / "real.jsonl").read_text().splitlines()) == len(ROWS)
    os.mkfifo(tmp_path / "pipe.jsonl")
    result = run("score", "rows.jsonl", *flags(recorded), "--out", "pipe.jsonl")
    assert result.code == 2
    assert "'pipe.jsonl' is no ordinary file" in result.err


def test_a_damaged_store_is_said_to_be_one(run: Run, recorded: Path, tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    run("score", "rows.jsonl", *flags(recorded), "--store", "s.db")
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.execute("UPDATE replies SET reply = 'garbage'")
    connection.commit()
    connection.close()
    result = run("score", "rows.jsonl", *flags(recorded), "--store", "s.db")
    assert result.code == 2
    assert "s.db holds a reply that cannot be read" in result.err


def test_parquet_files_are_alike_whatever_failed(run: Run, recorded: Path, tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", ROWS)
    write(tmp_path / "empty.jsonl", [{"source": "x", "response": ""}])
    for name in ("rows", "empty"):
        run("score", f"{name}.jsonl", *flags(recorded), "--out", f"{name}.parquet")
    frame = polars.read_parquet([tmp_path / "rows.parquet", tmp_path / "empty.parquet"])
    assert len(frame) == len(ROWS) + 1


def test_control_characters_do_not_reach_the_terminal(
    run: Run, recorded: Path, tmp_path: Path
) -> None:
    write(tmp_path / "rows.jsonl", [{**ROWS[0], "id": "\x1b[31mred", "response": ""}])
    result = run("score", "rows.jsonl", *flags(recorded))
    assert result.code == 0
    assert "\x1b" not in result.out


def test_the_version_is_printed(run: Run) -> None:
    assert re.fullmatch(r"adjudge \d+\.\d+\.\d+\n", run("--version").out)


def test_prompts_are_printed_as_a_file_to_edit(run: Run) -> None:
    assert run("prompts", "ladder", "story").out.startswith('id = "ladder/story"\n')


# --- broken off ---------------------------------------------------------------------------------


def start(tiny_model: Path, folder: Path) -> subprocess.Popen[str]:
    """Start a run that takes a few seconds."""
    command = [sys.executable, "-m", "adjudge", *long_run(tiny_model)]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def long_run(tiny_model: Path) -> list[str]:
    return [
        "score", "rows.jsonl", "--criterion", "coherence", "--task", "dialogue",
        "--model", f"{tiny_model}#threads=1", "--store", "s.db", "--out", "scores.jsonl",
        *ANY_COVERAGE,
    ]  # fmt: skip


def long_rows(n_sources: int = 2, n_systems: int = 9) -> list[dict[str, Any]]:
    text = (EXAMPLES / "story.jsonl").read_text("utf-8").splitlines()
    stories = [json.loads(line)["response"] for line in text]
    return [
        {"id": f"{s}/{i}", "source": f"{s}: {stories[s]}", "response": f"{i}: {stories[i % 4]}"}
        for s in range(n_sources)
        for i in range(n_systems)
    ]


#: Two ladders of five rungs, and nine comparisons with each rung.
LONG_RUN_CALLS = 2 * 5 + 2 * 9 * 5


def replies_in(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        return dict(connection.execute("SELECT key, reply FROM replies").fetchall())
    except sqlite3.OperationalError:
        return {}
    finally:
        connection.close()


def wait_for_replies(process: subprocess.Popen[str], path: Path, n: int) -> None:
    deadline = time.monotonic() + 120
    while len(replies_in(path)) < n:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def scores_in(path: Path) -> dict[str, float]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(row["status"] == "ok" for row in rows)
    return {row["id"]: row["score"] for row in rows}


def test_a_killed_run_resumes_to_the_scores_of_an_unbroken_one(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    unbroken = tmp_path / "unbroken"
    unbroken.mkdir()
    for folder in (tmp_path, unbroken):
        write(folder / "rows.jsonl", long_rows())
    process = start(tiny_model, unbroken)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    expected, all_replies = scores_in(unbroken / "scores.jsonl"), replies_in(unbroken / "s.db")
    assert len(all_replies) == LONG_RUN_CALLS

    process = start(tiny_model, tmp_path)
    wait_for_replies(process, tmp_path / "s.db", 40)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = replies_in(tmp_path / "s.db")
    assert 40 <= len(before) < len(all_replies)
    assert not (tmp_path / "scores.jsonl").exists()

    resumed = run(*long_run(tiny_model))
    assert resumed.code == 0
    assert resumed.number("model calls") == len(all_replies) - len(before)
    after = replies_in(tmp_path / "s.db")
    assert before.items() <= after.items()
    assert after.keys() == all_replies.keys()
    assert scores_in(tmp_path / "scores.jsonl") == pytest.approx(expected, abs=1e-3)


def test_ctrl_c_keeps_what_came_and_says_how_to_go_on(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    write(tmp_path / "rows.jsonl", long_rows())
    process = start(tiny_model, tmp_path)
    wait_for_replies(process, tmp_path / "s.db", 20)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted" in out
    assert "Run the same command again" in out
    assert "Traceback" not in errors
    assert not list(tmp_path.glob(".scores*"))
    before = replies_in(tmp_path / "s.db")
    assert 20 <= len(before) < LONG_RUN_CALLS
    resumed = run(*long_run(tiny_model))
    assert resumed.number("model calls") == LONG_RUN_CALLS - len(before)


def test_sixteen_systems_of_one_source_cause_five_rung_generations(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    write(tmp_path / "rows.jsonl", long_rows(n_sources=1, n_systems=16))
    result = run(*long_run(tiny_model))
    assert result.number("model calls") == 5 + 16 * 5
    kinds = [json.loads(reply)["kind"] for reply in replies_in(tmp_path / "s.db").values()]
    assert kinds.count("Generated") == 5
    assert kinds.count("LabelScores") == 80
