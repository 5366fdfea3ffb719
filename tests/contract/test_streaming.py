"""Memory does not grow with the number of items."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "streaming.py"


@pytest.mark.parametrize("n", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_judging_many_items_takes_little_memory(n: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ADJUDGE_DATA"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--items", str(n)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    grown = re.search(r"memory grew by (\d+) MB", done.stdout)
    assert grown, done.stdout
    assert int(grown[1]) < 100
