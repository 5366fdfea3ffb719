"""Recording an engine's replies and answering from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import adjudge
from adjudge.errors import ConfigError, DataError, EngineError
from adjudge.exchange import Failure, Generate, Message, Request, ScoreLabels
from tests.scripted import ScriptedEngine

MESSAGES = (Message(role="user", content="Is it?"),)
REQUESTS = [
    ScoreLabels(messages=MESSAGES, labels=("Yes", "No")),
    Generate(messages=MESSAGES, max_tokens=5),
]


def answer(request: Request) -> str | tuple[float, float]:
    return "It is \u2014 \U0001f600." if isinstance(request, Generate) else (0.25, 0.5)


def recorded(path: Path) -> list[object]:
    engine = adjudge.RecordingEngine(ScriptedEngine(answer), path)
    return list(engine.run(REQUESTS))


def test_replies_are_those_that_were_recorded(tmp_path: Path) -> None:
    replies = recorded(tmp_path / "r.jsonl")
    replay = adjudge.ReplayEngine(tmp_path / "r.jsonl")
    assert list(replay.run(REQUESTS)) == replies
    assert replay.signature == {"engine": "scripted"}
    assert list(replay.run(REQUESTS[::-1])) == replies[::-1]


def test_recording_goes_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorded(path)
    path.write_text(path.read_text() + '{"kind": "Gener')
    more = Generate(messages=MESSAGES, max_tokens=6)
    list(adjudge.RecordingEngine(ScriptedEngine(answer), path).run([more]))
    assert len(list(adjudge.ReplayEngine(path).run([*REQUESTS, more]))) == 3


def test_another_engine_is_not_recorded_into_the_same_file(tmp_path: Path) -> None:
    class Other(ScriptedEngine):
        @property
        def signature(self) -> Mapping[str, str]:
            return {"engine": "other"}

    recorded(tmp_path / "r.jsonl")
    with pytest.raises(ConfigError, match="was recorded from another engine"):
        adjudge.RecordingEngine(Other(answer), tmp_path / "r.jsonl")


def test_what_was_not_recorded_is_an_error(tmp_path: Path) -> None:
    recorded(tmp_path / "r.jsonl")
    replay = adjudge.ReplayEngine(tmp_path / "r.jsonl")
    with pytest.raises(EngineError, match="has no reply to a generate request; record again"):
        list(replay.run([Generate(messages=MESSAGES, max_tokens=7)]))


def test_failures_are_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    failing = ScriptedEngine(lambda request: Failure(request_id=request.id, message="no"))
    list(adjudge.RecordingEngine(failing, path).run(REQUESTS))
    assert len(path.read_text().splitlines()) == 1


def test_a_recording_that_was_cut_off_loses_its_last_line_only(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    first, _ = recorded(path)
    path.write_text(path.read_text()[:-20])
    replay = adjudge.ReplayEngine(path)
    assert list(replay.run(REQUESTS[:1])) == [first]
    with pytest.raises(EngineError, match="no reply to a generate request"):
        list(replay.run(REQUESTS[1:]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: not a file of recorded replies"),
        ('{"id": 1}\n', "line 1: not a file of recorded replies"),
        ('{"format": "adjudge-replies", "version": 1}\n', "line 1: not a file of recorded replies"),
        ("null\n", "line 1: not a file of recorded replies"),
        (json.dumps({"format": "adjudge-replies", "version": 9}) + "\n", "version 9, not of"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "r.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        adjudge.ReplayEngine(tmp_path / "r.jsonl")


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorded(path)
    lines = path.read_text().splitlines()
    for broken in ("{broken", "null", '{"kind": "Generated"}', "[" * 100_000):
        path.write_text("\n".join([lines[0], broken, lines[1]]) + "\n")
        with pytest.raises(DataError, match="line 2: not a reply"):
            adjudge.ReplayEngine(path)
