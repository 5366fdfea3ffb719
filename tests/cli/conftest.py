"""What tests of commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from adjudge.cli.main import main

CommandLine = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """Run `adjudge` in this process: exit status, output, errors."""

    def ran(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["adjudge", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return ran
