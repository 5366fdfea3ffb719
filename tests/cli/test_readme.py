"""What the README says is executed."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from adjudge.cli.main import main
from adjudge.prompts.template import load_prompts

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def commands() -> list[str]:
    """Return every `adjudge` command of the shell blocks, one line each."""
    text = "\n".join(blocks("sh")).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.startswith("adjudge ")]


def test_the_python_block_runs(
    embedded_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = blocks("python")
    monkeypatch.chdir(ROOT)
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\[[\d. ]+\]", printed[0])
    assert printed[1].startswith("judge:ladder|rungs:5|")


def test_there_are_commands_to_check() -> None:
    assert len(commands()) >= 4


@pytest.mark.parametrize("command", commands())
def test_the_flags_of_every_command_exist(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(command, comments=True)
    flags = {word.partition("=")[0] for word in words if word.startswith("--")}
    verbs = [word for word in words[1:3] if word.isalpha()]
    monkeypatch.setattr(sys, "argv", ["adjudge", *verbs, "--help"])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    listed = capsys.readouterr().out
    assert all(re.search(rf"{flag}\b", listed) for flag in flags), (verbs, flags)


def test_files_that_are_named_are_there() -> None:
    for name in re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", README):
        assert (ROOT / name).exists(), name
    for command in commands():
        for word in shlex.split(command, comments=True):
            if word.startswith("examples/"):
                assert (ROOT / word).exists(), word


def test_the_output_that_is_shown_is_that_of_the_prompts_there_are() -> None:
    assert f"prompt:{load_prompts('ladder', 'summarization').reference}" in README


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150
