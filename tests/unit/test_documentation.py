"""Pages of the documentation that list things list what there is."""

from __future__ import annotations

from pathlib import Path

from adjudge.benchmarks.base import named_benchmarks
from adjudge.reports.methods import methods_report

DOCS = Path(__file__).parents[2] / "docs"


def test_every_benchmark_is_listed_as_declared() -> None:
    page = (DOCS / "benchmarks.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and line.count("|") == 6]
    expected = [
        f"| {name} | {each.kind} | {each.task} | {each.gold} | "
        f"{'checked' if each.checked else 'from its description'} |"
        for name, each in named_benchmarks().items()
    ]
    assert rows[2:] == expected


def test_the_methods_are_those_of_the_registry() -> None:
    page = (DOCS / "methods.md").read_text("utf-8")
    shown = page.partition("```text\n")[2].partition("\n```")[0]
    assert shown == methods_report([], "text")
