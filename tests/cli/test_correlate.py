"""`adjudge correlate`: two files of numbers."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.cli.conftest import CommandLine

Run = Callable[..., tuple[int, str, str]]
#: Four systems by three sources; the third source has constant gold.
SCORES = np.array([[1.0, 2.0, 1.0], [2.0, 1.0, 2.0], [3.0, 4.0, 3.0], [4.0, 3.0, 4.0]])
GOLD = np.array([[1, 1, 3], [3, 2, 3], [2, 3, 3], [4, 4, 3]], dtype=float)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine) -> Run:
    """Run `adjudge correlate` in an empty folder: exit status, output, errors."""
    monkeypatch.chdir(tmp_path)

    return partial(command_line, "correlate")


def rows(values: np.ndarray, field: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"{i}/{j}", "source_id": f"s{j}", "system": f"m{i}", field: float(value), **more}
        for i, row in enumerate(values)
        for j, value in enumerate(row)
    ]


def write(name: str, content: list[dict[str, Any]]) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in content))
    return name


def files(**changes: Any) -> list[str]:
    scores = write("scores.jsonl", changes.get("scores", rows(SCORES, "score", criterion="c")))
    gold = write("gold.jsonl", changes.get("gold", rows(GOLD, "gold")))
    return [scores, "--gold", gold, "--resamples", "50"]


def test_the_numbers_are_those_of_scipy(run: Run) -> None:
    code, out, errors = run(*files(), "--format", "json")
    assert code == 0
    assert errors.startswith("scores:scores.jsonl#")
    (row,) = json.loads(out)
    kept = [0, 1]
    for name, function in (
        ("pearson", stats.pearsonr),
        ("spearman", stats.spearmanr),
        ("kendall_tau_b", stats.kendalltau),
    ):
        expected = np.mean([function(SCORES[:, j], GOLD[:, j]).statistic for j in kept])
        assert row[name] == pytest.approx(expected)
        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
    assert (row["criterion"], row["n"], row["kept/total"]) == ("c", 12, "2/3")
    _, out, _ = run(*files())
    assert re.search(rf"{row['pearson']:.3f} \[-?[01]\.\d{{3}}, -?[01]\.\d{{3}}\]", out)


def test_levels_and_policies(run: Run) -> None:
    _, out, _ = run(*files(), "--level", "pooled", "--format", "json")
    expected = stats.spearmanr(SCORES.ravel(), GOLD.ravel()).statistic
    assert json.loads(out)[0]["spearman"] == pytest.approx(expected)
    _, out, _ = run(*files(), "--constant", "one", "--format", "json")
    assert json.loads(out)[0]["kept/total"] == "3/3"


def test_what_does_not_join_is_counted(run: Run) -> None:
    scores = rows(SCORES, "score", criterion="c")[1:]
    scores[0]["score"] = None
    gold = rows(GOLD, "gold")[:-1]
    gold[5]["gold"] = None
    code, out, _ = run(*files(scores=scores, gold=gold), "--format", "json")
    assert code == 0
    (row,) = json.loads(out)
    assert (row["n"], row["no score"], row["no gold"], row["not joined"]) == (8, 1, 1, 2)


def test_every_criterion_has_a_row_and_its_own_gold(run: Run) -> None:
    scores = rows(SCORES, "score", criterion="a") + rows(-SCORES, "score", criterion="b")
    gold = rows(SCORES, "gold", criterion="a") + rows(SCORES, "gold", criterion="b")
    _, out, _ = run(*files(scores=scores, gold=gold), "--format", "csv")
    table = list(csv.DictReader(io.StringIO(out)))
    assert [row["criterion"] for row in table] == ["a", "b"]
    assert [float(row["spearman"]) for row in table] == pytest.approx([1, -1])


def test_criteria_without_a_partner_are_shown_not_dropped(run: Run) -> None:
    scores = rows(SCORES, "score", criterion="a") + rows(SCORES, "score", criterion="b")
    gold = rows(GOLD, "gold", criterion="a") + rows(GOLD, "gold", criterion="c")
    code, out, errors = run(*files(scores=scores, gold=gold), "--format", "json")
    table = {row["criterion"]: row for row in json.loads(out)}
    assert code == 0
    assert {name: (row["n"], row["not joined"]) for name, row in table.items()} == {
        "a": (12, 0),
        "b": (0, 12),
        "c": (0, 12),
    }
    assert errors.splitlines()[:2] == ["b: no row joins", "c: no row joins"]


def test_scores_without_a_criterion_join_gold_of_one(run: Run) -> None:
    bare = rows(SCORES, "score")
    one = rows(GOLD, "gold", criterion="a")
    _, out, _ = run(*files(scores=bare, gold=one), "--format", "json")
    assert json.loads(out)[0]["n"] == 12
    code, _, errors = run(*files(scores=bare, gold=one + rows(GOLD, "gold", criterion="b")))
    assert code == 2
    assert "the scores name no criterion, gold has a, b" in errors


def test_source_and_system_may_stand_in_gold_alone(run: Run) -> None:
    bare = [{"id": row["id"], "score": row["score"]} for row in rows(SCORES, "score")]
    assert run(*files(scores=bare))[0] == 0
    code, _, errors = run(
        *files(scores=bare, gold=[{"id": r["id"], "gold": r["gold"]} for r in rows(GOLD, "gold")])
    )
    assert code == 2
    assert "'0/0' has no source_id, and neither file has it for all items" in errors


def test_sources_of_two_files_are_not_mixed(run: Run) -> None:
    scores = rows(SCORES, "score", criterion="c")
    for row in scores[::2]:
        del row["source_id"]
    gold = [{**row, "source_id": f"other {row['source_id']}"} for row in rows(GOLD, "gold")]
    _, out, _ = run(*files(scores=scores, gold=gold), "--format", "json")
    assert json.loads(out)[0]["kept/total"] == "2/3"


@pytest.mark.parametrize(
    ("cut", "level", "note"),
    [
        (np.s_[:1, :], "sample", "one system only: the level sample needs two"),
        (np.s_[:, :1], "by_source", "one source only: the level by_source needs two"),
        (np.s_[:, 2:], "sample", "all gold numbers are the same"),
        (np.s_[:1, :1], "pooled", "all gold numbers are the same"),
    ],
)
def test_why_there_is_no_correlation(run: Run, cut: Any, level: str, note: str) -> None:
    given = files(scores=rows(SCORES[cut], "score"), gold=rows(GOLD[cut], "gold"))
    code, out, errors = run(*given, "--level", level, "--format", "json")
    assert code == 0
    assert json.loads(out)[0]["spearman"] is None
    assert note in errors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gold": [{"id": "x", "gold": 1}]}, "no row joins: 12 rows of scores"),
        ({"gold": [{"id": "0/0", "gold": "high"}]}, "gold.jsonl, line 1, column 'gold': 'high'"),
        ({"gold": [{"id": "0/0", "gold": True}]}, "column 'gold': True is no number"),
        ({"gold": [{"id": "0/0", "gold": "1_0"}]}, "'1_0' is no number"),
        ({"gold": [{"id": "0/0", "gold": 1e999}]}, "the number is infinite"),
        ({"gold": [{"id": "0/0", "rating": 1}]}, "line 1, column 'gold': the column is missing"),
        ({"gold": [{"gold": 1}]}, "line 1, column 'id': the column is missing"),
        ({"gold": rows(GOLD, "gold")[:1] * 2}, "line 2: id 0/0 comes twice, here and in line 1"),
        (
            {"scores": [{**row, "system": "m"} for row in rows(SCORES[:2, :1], "score")]},
            "line 2: s0 m comes twice, here and in line 1",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    run: Run, changes: dict[str, Any], message: str
) -> None:
    code, _, errors = run(*files(**changes))
    assert code == 2
    assert message in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--level", "samples", "unknown level 'samples': did you mean 'sample'"),
        ("--constant", "drop", "unknown policy for constant groups 'drop'"),
        ("--format", "html", "unknown format 'html'"),
    ],
)
def test_unknown_choices(run: Run, flag: str, value: str, message: str) -> None:
    code, _, errors = run(*files(), flag, value)
    assert code == 2
    assert message in errors


def test_text_says_how_to_reproduce_it(run: Run) -> None:
    _, out, _ = run(*files(), "--seed", "7")
    assert re.fullmatch(
        r"scores:scores\.jsonl#[0-9a-f]{8}\|gold:gold\.jsonl#[0-9a-f]{8}\|level:sample\|constant:skip"
        r"\|resamples:50 of sources and systems\|seed:7\|adjudge:[\d.]+",
        out.splitlines()[-1],
    )
    assert run(*files(), "--seed", "7")[1] == out
