"""`adjudge prompt-search` on an engine whose bias is in the instruction."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from adjudge import registry
from adjudge.cli.prompt_search import _counts
from adjudge.exchange import Capability, Generate, Reply, Request
from adjudge.experiments.prompt_search import Found
from adjudge.judges.zepo_search import KEPT, Candidate
from adjudge.prompts.template import load_prompts
from adjudge.schema import Criterion
from tests.cli.conftest import CommandLine
from tests.scripted import Answer, ScriptedEngine, words

TEXTS = ("worth 1", "worth 2", "worth 4")
ROWS: list[dict[str, Any]] = [
    {"source_id": f"s{s}", "source": f"Text {s}.", "system": text, "response": text, "gold": s + i}
    for s in range(3)
    for i, text in enumerate(TEXTS)
]
SMALL = [
    "--option", "epochs=2", "--option", "prompts_per_epoch=3", "--option", "search_sources=2",
]  # fmt: skip
SEARCH = ["--criterion", "coherence", "--model", "scripted:critic", *SMALL]
#: What is drawn as the paraphrases of any instruction; the first is dropped.
SAID = ["no name", "coherence: lean 2.5 }}", 'coherence: "lean" 0.5 {{', "", "", ""]


class Scripted(ScriptedEngine):
    """Prefers what is worth more, but for the lean of the instruction."""

    capabilities = frozenset(Capability)
    #: Every engine that was made, by name.
    made: dict[str, Scripted] = {}  # noqa: RUF012 - of the class, to be looked at
    #: After so many calls the process is interrupted.
    interrupt = 0

    def __init__(self, name: str) -> None:
        able = {Capability.SCORE_LABELS} if name == "mute" else set(Capability)
        super().__init__(self._said, capabilities=frozenset(able))
        self._name = name
        self.made[name] = self

    @classmethod
    def from_reference(cls, reference: str) -> Scripted:
        return cls(reference)

    @property
    def signature(self) -> Mapping[str, str]:
        return {"engine": "scripted", "model": self._name}

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        for reply in super().run(requests):
            if len(self.asked) == Scripted.interrupt:
                os.kill(os.getpid(), signal.SIGINT)
            yield reply

    def _said(self, request: Request) -> Answer:
        if isinstance(request, Generate):
            return SAID[request.first_sample]
        found = re.search(r"lean\"? ([\d.]*\d)", words(request))
        lean = float(found[1]) if found else 9
        first, second = map(int, re.findall(r"worth (\d)", words(request)))
        return (0.6, 0.2, 0.1, 0.1) if first - second + lean > 0 else (0.1, 0.1, 0.6, 0.2)

    @property
    def n_written(self) -> int:
        return sum(isinstance(request, Generate) for request in self.asked)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows, and scripted engines to name."""
    target = "tests.cli.test_prompt_search:Scripted"
    monkeypatch.setitem(registry.engines._targets, "scripted", target)
    monkeypatch.setattr(Scripted, "made", {})
    monkeypatch.setattr(Scripted, "interrupt", 0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write("rows.jsonl", ROWS)
    return tmp_path


def write(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]


def test_the_best_instruction_is_printed_logged_and_exported(command_line: CommandLine) -> None:
    code, out, err = command_line(
        "prompt-search", "rows.jsonl", *SEARCH, "--out", "found", "--log", "log.jsonl"
    )
    assert (code, err) == (0, "")
    best = SAID[2]
    # Differences are +-1, +-2, +-3: the first place wins all, 5 of 6 with a lean of 2.5, and 3.
    assert re.search(r"coherence +1\.000 +0\.500 +0\.000 +2 *\n", out)
    assert f"coherence: {best}\n" in out
    assert "coherence: 6 instructions tried, 3 of them dropped\n" in out
    assert "judge:zepo|" in out
    assert "|model:critic|" in out
    log = read("log.jsonl")
    lost, twice = "dropped: it does not name 'Coherence'", "dropped: it was there before"
    assert [(each["a_rate"], each["outcome"]) for each in log] == [
        (1, "not better"),
        (None, lost),
        (pytest.approx(5 / 6), "kept"),
        (None, lost),
        (None, twice),
        (0.5, "kept"),
    ]
    assert [each["epoch"] for each in log] == [1, 1, 1, 2, 2, 2]
    assert out.count("prompts: found") == 2
    pairs = load_prompts("pairs", "summarization", folder="found")
    by = Criterion(name="coherence", title="Coherence", description="?")
    data = {"source": "s", "first": "f", "second": "t"}
    assert f"Question: {best}\n" in pairs.render("compare", data, criterion=by)[-1].content


def test_what_was_found_serves_other_commands(command_line: CommandLine) -> None:
    command_line("prompt-search", "rows.jsonl", *SEARCH, "--out", "found")
    lists = [
        {"source_id": f"s{s}", "source": f"Text {s}.", "responses": list(TEXTS)} for s in range(3)
    ]
    write("lists.jsonl", lists)
    usual = ["lists.jsonl", *SEARCH[:4], "--prompts", "found", "--out", "ranks.jsonl"]
    for judge, options in (
        ("pairs", []),
        ("zepo", ["--option", "epochs=1", "--option", "prompts_per_epoch=1"]),
    ):
        code, _, err = command_line("score", *usual, "--judge", judge, *options)
        assert (code, err) == (0, "")
        assert [each["ranks"] for each in read("ranks.jsonl")] == [[3, 2, 1]] * 3
        engine = Scripted.made["critic"]
        assert f"Question: {SAID[2]}\n" in words(engine.asked[-1])


def test_nothing_is_asked_twice(command_line: CommandLine) -> None:
    flags = [*SEARCH, "--log", "log.jsonl"]
    command_line("prompt-search", "rows.jsonl", *flags)
    before = Path("log.jsonl").read_bytes()
    assert Scripted.made["critic"].asked
    code, out, _ = command_line("prompt-search", "rows.jsonl", *flags)
    assert code == 0
    assert Scripted.made["critic"].asked == []
    assert Path("log.jsonl").read_bytes() == before
    assert "\n0 model calls, " in out


def test_a_search_that_was_interrupted_goes_on(command_line: CommandLine) -> None:
    whole = [*SEARCH, "--store", "whole.db", "--log", "whole.jsonl"]
    command_line("prompt-search", "rows.jsonl", *whole)
    n = len(Scripted.made["critic"].asked)
    Scripted.interrupt = 20
    flags = [*SEARCH, "--store", "again.db", "--log", "again.jsonl", "--out", "found"]
    code, out, _ = command_line("prompt-search", "rows.jsonl", *flags)
    assert code == 130
    assert "all replies so far are in again.db. Run the same command again" in out
    assert not Path("again.jsonl").exists()
    assert not list(Path("found").iterdir())
    Scripted.interrupt = 0
    code, _, _ = command_line("prompt-search", "rows.jsonl", *flags)
    assert code == 0
    assert len(Scripted.made["critic"].asked) == n - 20
    assert Path("again.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()


def test_another_model_may_write_the_paraphrases(command_line: CommandLine) -> None:
    for critic in ("critic", "mute"):
        flags = [*SEARCH[:2], *SMALL, "--model", f"scripted:{critic}", "--store", f"{critic}.db"]
        code, out, _ = command_line(
            "prompt-search", "rows.jsonl", *flags, "--ladder-model", "scripted:poet"
        )
        assert code == 0
        assert "|ladder_model:poet|" in out
        poet, other = Scripted.made["poet"], Scripted.made[critic]
        assert (poet.n_written, len(poet.asked)) == (5, 5)
        assert (other.n_written, len(other.asked)) == (0, 3 * 2 * 6)
    code, _, err = command_line(
        "prompt-search", "rows.jsonl", *SEARCH[:2], "--model", "scripted:mute"
    )
    assert code == 2
    assert "the judge 'zepo' needs generate" in err


def test_gold_is_not_read(command_line: CommandLine) -> None:
    turned = [{**row, "gold": -row["gold"]} for row in ROWS]
    bare = [{name: value for name, value in row.items() if name != "gold"} for row in ROWS]
    asked, results = [], []
    for name, rows in (("given", ROWS), ("turned", turned), ("bare", bare)):
        write("rows.jsonl", rows)
        flags = ["--store", f"{name}.db", "--log", f"{name}.jsonl", "--out", name]
        code, _, _ = command_line("prompt-search", "rows.jsonl", *SEARCH, *flags)
        assert code == 0
        asked.append([(each.id, each.text) for each in Scripted.made["critic"].asked])
        files = (
            f"{name}.jsonl",
            *(f"{name}/{each}/summarization.toml" for each in ("pairs", "zepo")),
        )
        results.append([Path(each).read_bytes() for each in files])
    assert asked[0]
    assert asked[0] == asked[1] == asked[2]
    assert results[0] == results[1] == results[2]


def test_lists_are_taken_as_they_are(command_line: CommandLine) -> None:
    lists = [
        {"source_id": f"s{s}", "source": f"Text {s}.", "responses": list(TEXTS)} for s in range(3)
    ]
    command_line("prompt-search", "rows.jsonl", *SEARCH, "--log", "rows.log.jsonl")
    write("lists.jsonl", lists)
    code, _, _ = command_line("prompt-search", "lists.jsonl", *SEARCH, "--log", "lists.log.jsonl")
    assert code == 0
    assert Scripted.made["critic"].asked == []
    assert read("lists.log.jsonl") == read("rows.log.jsonl")


@pytest.mark.parametrize(
    ("rows", "flags", "message"),
    [
        (ROWS[::3], [], "no source has two different responses to compare by 'coherence'"),
        ([{**ROWS[0], "response": ""}, ROWS[1]], [], "no source has two different responses"),
        ([{**ROWS[0], "rubric": "[Is it good?]"}], [], "has a rubric of its own: drop the column"),
        (ROWS, ["--criterion", "coherenc"], "coherence"),
        (ROWS, ["--option", "epoch=2"], "did you mean 'epochs'"),
        (ROWS, ["--out", "rows.jsonl"], "--out 'rows.jsonl' is a file: name a folder"),
        (ROWS, ["--out", ".", "--prompts", "."], "are read and would be overwritten"),
        (ROWS, ["--log", "rows.jsonl"], "is read from and would be overwritten"),
        (ROWS, ["--log", "log.txt"], "the file's suffix must be"),
        (ROWS, ["--limit", "-1"], "the limit must be 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    command_line: CommandLine, rows: list[dict[str, Any]], flags: list[str], message: str
) -> None:
    write("rows.jsonl", rows)
    code, out, err = command_line("prompt-search", "rows.jsonl", *SEARCH, *flags)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert all(engine.asked == [] for engine in Scripted.made.values())


def test_a_criterion_has_to_be_named(command_line: CommandLine) -> None:
    code, _, err = command_line("prompt-search", "rows.jsonl", "--model", "scripted:critic")
    assert code == 2
    assert "name a criterion: --criterion coherence" in err


def test_a_model_that_says_nothing_of_use(tiny_model: Path, command_line: CommandLine) -> None:
    flags = ["--criterion", "coherence", "--model", f"{tiny_model}#threads=1", *SMALL]
    flags += ["--option", "min_coverage=0", "--log", "log.jsonl"]
    code, out, err = command_line("prompt-search", "rows.jsonl", *flags)
    assert (code, err) == (0, "")
    first, *others = read("log.jsonl")
    assert 0 <= first["a_rate"] <= 1
    assert first["outcome"] == "kept"
    assert all(each["outcome"].startswith("dropped") for each in others)
    assert f"6 instructions tried, {len(others)} of them dropped" in out


def test_a_search_that_finds_nothing_better_says_so() -> None:
    initial = Candidate("coherence", 1, "Which is better?", 1.0, 0, KEPT)
    assert _counts(Found(initial, initial, 6, 2)) == (
        "none better than the initial one; 6 instructions tried, 2 of them dropped"
    )
    better = initial._replace(instruction="Which one?", a_rate=0.5)
    assert _counts(Found(better, initial, 6, 2)) == "6 instructions tried, 2 of them dropped"
