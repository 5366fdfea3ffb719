"""Seconds that `import adjudge` and `adjudge --help` take beyond the interpreter's own start.

Each is run several times in turn with `python -c pass`; medians are compared.

    python benchmarks/startup.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import adjudge": [sys.executable, "-c", "import adjudge"],
    "adjudge --help": [str(Path(sys.executable).with_name("adjudge")), "--help"],
}


def main() -> None:
    """Measure and print."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            taken[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    base = medians["python -c pass"]
    for name, seconds in medians.items():
        print(f"{name}: {seconds:.3f} s, {seconds - base:+.3f} s, {seconds / base:.1f} x")


if __name__ == "__main__":
    main()
