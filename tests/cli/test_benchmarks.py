"""`adjudge benchmarks`, on declarations and files of our own."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adjudge.benchmarks import base
from adjudge.benchmarks.base import Benchmark, DataFile, LocalFile, RatedPair, RatedResponse
from adjudge.errors import DataError
from adjudge.experiments.describe import describe
from adjudge.schema import Criterion, Source
from tests.cli.conftest import CommandLine

Run = Callable[..., tuple[int, str, str]]
#: Source, system, gold and ratings; the gold of the source "b" is constant.
RESPONSES = [
    ("a", "one", 1.0, [1, 1, 1]),
    ("a", "two", 2.0, [2, 3, 1]),
    ("a", "three", 4.0, [4, 4, 4]),
    ("b", "one", 3.0, [3, 2, 4]),
    ("b", "two", 3.0, [3, 4, 2]),
    ("b", "three", None, [None, None, None]),
]
PAIRS = [("easy", 1), ("easy", 1), ("easy", -1), ("hard", 0), ("hard", None)]


def read_tiny(files: Sequence[LocalFile]) -> list[RatedResponse]:
    """Read rows of source, system, gold and ratings."""
    return [
        RatedResponse(
            id=f"{source}/{system}", source=Source(id=source, text=source), system=system,
            response="text", gold={"fun": _number(gold)},
            ratings={"fun": tuple(map(_number, ratings))}, group=file.group,
        )
        for file in files
        for source, system, gold, ratings in json.loads(file.path.read_text())
    ]  # fmt: skip


def read_tiny_pairs(files: Sequence[LocalFile]) -> list[RatedPair]:
    """Read rows of group and preference."""
    return [
        RatedPair(
            id=str(i), source=Source(id=str(i), text="?"), systems=("", ""), responses=("x", "y"),
            gold=_number(gold), group=group,
        )
        for file in files
        for i, (group, gold) in enumerate(json.loads(file.path.read_text()))
    ]  # fmt: skip


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def declared(name: str, kind: base.Kind, file: DataFile, **changes: Any) -> Benchmark:
    facts: dict[str, Any] = {
        "name": name, "title": f"The {name} study", "about": f"about {name} [bold]", "kind": kind,
        "task": "story", "format": name, "scale": "1-5", "gold": "the field gold",
        "source": "owner/repo", "commit": "c0ffee", "licence": "MIT", "citation": "Doe 2024",
        "criteria": ("fun",), "files": (file,), "note": "Mind the gap.",
    }  # fmt: skip
    return Benchmark(**facts | changes)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data of two benchmarks; a third has no hash and is not there."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ADJUDGE_DATA", str(folder))
    monkeypatch.setenv("ADJUDGE_CACHE", str(tmp_path / "cache"))
    made = {"late": declared("late", "scores", DataFile(path="late.json"), checked=False)}
    for name, rows in (("tiny", RESPONSES), ("tinypairs", PAIRS)):
        content = json.dumps(rows).encode()
        (folder / f"{name}.json").write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        file = DataFile(
            path=f"x/{name}.json",
            sha256=digest,
            copy=f"{name}.json",
            copy_sha256=digest,
            group="test",
        )
        pairs = name == "tinypairs"
        made[name] = declared(
            name, "pairs" if pairs else "scores", file, **({"criteria": ()} if pairs else {})
        )
    monkeypatch.setattr(base, "named_benchmarks", lambda: made)
    monkeypatch.setitem(base.FORMATS, "tiny", f"{__name__}:read_tiny")
    monkeypatch.setitem(base.FORMATS, "tinypairs", f"{__name__}:read_tiny_pairs")
    return folder


@pytest.fixture
def run(data: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine) -> Run:
    """Run `adjudge benchmarks`: exit status, output, errors."""
    monkeypatch.setenv("COLUMNS", "160")

    return partial(command_line, "benchmarks")


def cells(text: str, first: str) -> list[str]:
    """Return the words of the line of a table that begins with a word."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [first])


def test_the_list_says_where_the_data_is(run: Run) -> None:
    code, out, err = run("list")
    assert (code, err) == (0, "")
    assert cells(out, "tiny")[1:] == [
        "scores", "story", "ADJUDGE_DATA", "about", "tiny", "[bold]",
    ]  # fmt: skip
    assert cells(out, "late")[3:5] == ["not", "here"]
    run("pull", "tiny")
    assert cells(run("list")[1], "tiny")[3] == "pulled"


def test_everything_declared_is_shown_with_facts_of_the_data(run: Run, data: Path) -> None:
    code, out, err = run("show", "tiny")
    assert (code, err) == (0, "")
    digest = hashlib.sha256((data / "tiny.json").read_bytes()).hexdigest()
    for text in (
        "tiny: The tiny study", "about tiny [bold]", "1-5", "the field gold", "sample", "c0ffee",
        "https://github.com/owner/repo", "MIT", "Doe 2024", "x/tiny.json (test)",
        f"sha256 {digest}", "https://raw.githubusercontent.com/owner/repo/c0ffee/x/tiny.json",
        f"copy below ADJUDGE_DATA: tiny.json, sha256 {digest}",
        "checked against the published files", "Mind the gap.", "ADJUDGE_DATA",
        "6 responses, 2 sources, 3 systems",
    ):  # fmt: skip
        assert text in out
    # The agreements are means of scipy's spearmanr over the five rated responses.
    assert cells(out, "test") == ["test", "fun", "5", "1", "2.60", "2", "1", "0.755", "0.687"]


def test_pairs_are_counted_by_group(run: Run) -> None:
    code, out, _ = run("show", "tinypairs")
    assert code == 0
    assert "5 pairs, 5 sources, systems not named" in out
    assert cells(out, "easy") == ["easy", "3", "2", "1", "0", "0"]
    assert cells(out, "hard") == ["hard", "2", "0", "0", "1", "1"]
    assert cells(out, "(all)") == ["(all)", "5", "2", "1", "1", "1"]


def test_a_benchmark_that_is_not_here_says_how_to_get_it(run: Run) -> None:
    code, out, _ = run("show", "late")
    assert code == 0
    assert "not here" in out
    assert "built from the documented format; not yet tried" in out
    assert "sha256 not declared" in out
    assert "by hand from https://raw.githubusercontent.com/owner/repo/c0ffee/late.json" in out


def test_damaged_data_is_one_line_after_what_is_declared(run: Run, data: Path) -> None:
    (data / "tiny.json").write_text("[]")
    code, out, err = run("show", "tiny")
    assert code == 2
    assert "Doe 2024" in out
    assert err.startswith(f"adjudge: {data / 'tiny.json'} has the sha256 ")
    assert err.count("\n") == 1


def test_pull_prints_where_the_files_are(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "cache" / "benchmarks" / "tiny" / "copies" / "tiny.json"
    for _ in range(2):
        assert run("pull", "tiny") == (0, f"tiny: {place}\n", "")
    assert json.loads(place.read_text())[0][1] == "one"


def test_pull_takes_a_file_that_the_user_fetched(run: Run, tmp_path: Path) -> None:
    code, _, err = run("pull", "late")
    assert code == 2
    assert "give it with `adjudge benchmarks pull late --file PATH`" in err
    mine = tmp_path / "mine.json"
    mine.write_text("[]")
    place = tmp_path / "cache" / "benchmarks" / "late" / "late.json"
    assert run("pull", "late", "--file", mine)[:2] == (0, f"late: {place}\n")
    assert place.with_name("late.json.sha256").read_text() == hashlib.sha256(b"[]").hexdigest()


@pytest.mark.parametrize("verb", ["show", "pull"])
def test_a_wrong_name_lists_the_nearest(run: Run, verb: str) -> None:
    code, out, err = run(verb, "tinny")
    assert (code, out) == (2, "")
    assert "unknown benchmark 'tinny': did you mean 'tiny'" in err


# --- what is counted ----------------------------------------------------------------------------


def rated(source: str, gold: dict[str, float], **changes: Any) -> RatedResponse:
    facts: dict[str, Any] = {
        "id": source, "source": Source(id=source, text="?"), "system": "s", "response": "r",
        "gold": gold,
    }  # fmt: skip
    return RatedResponse(**facts | changes)


def test_items_with_their_own_criteria_are_counted_together() -> None:
    own = [Criterion(name=name, title=name, description="") for name in ("tact", "wit")]
    rows = [rated("a", {each.name: 3.0}, criterion=each) for each in own]
    benchmark = declared("tiny", "scores", DataFile(path="x"), criteria=())
    (facts,) = describe(benchmark, rows).gold
    assert facts[:7] == ("", "", 2, 0, 3.0, 1, 1)
    assert facts.raters is None


def test_groups_and_criteria_are_told_apart_and_noise_makes_no_order() -> None:
    rows = [
        rated("a", {"fun": 0.3, "wit": 1.0}, group="train"),
        rated("a", {"fun": 0.1 + 0.2}, group="train"),
        rated("a", {"fun": 0.3}, group="test"),
    ]
    benchmark = declared("tiny", "scores", DataFile(path="x"))
    facts = describe(benchmark, rows)
    assert facts.n_sources == 2
    assert [(*each[:4], *each[5:7]) for each in facts.gold] == [
        ("train", "fun", 2, 0, 1, 1),
        ("train", "wit", 1, 1, 0, 0),
        ("test", "fun", 1, 0, 0, 0),
        ("test", "wit", 0, 1, 0, 0),
        ("(all)", "fun", 3, 0, 1, 1),
        ("(all)", "wit", 1, 2, 0, 0),
    ]
    assert math.isnan(facts.gold[3].mean)


def test_files_without_items_are_an_error() -> None:
    with pytest.raises(DataError, match="'tiny' hold no item"):
        describe(declared("tiny", "scores", DataFile(path="x")), [])


def test_items_are_exported_with_their_ids(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("export", "tiny", "--out", tmp_path / "items.jsonl")
    assert (code, out.strip().endswith("6 items of tiny")) == (0, True)
    rows = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert len({row["id"] for row in rows}) == 6
    assert all(row["source"] and "response" in row for row in rows)
    assert not any(name.startswith("gold") for row in rows for name in row)
    run("export", "tiny", "--out", tmp_path / "gold.csv", "--gold")
    header = (tmp_path / "gold.csv").read_text().partition("\n")[0]
    assert "gold_" in header
