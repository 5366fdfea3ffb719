"""`adjudge ladder`, and scoring with ladders and thresholds, on the tiny random model."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from adjudge.cli.main import main
from adjudge.criteria.named import named_criteria
from adjudge.formats.ladders import read_ladders, write_ladders
from adjudge.runs.store import Store
from adjudge.schema import Judgment, Ladder, Source, Status
from adjudge.stats.threshold import wilson_interval

Run = Callable[..., "Result"]

SOURCES = {"ann": "ann said so", "bob": "bob said so"}
CRITERION = named_criteria("dialogue")["coherence"]
#: The last response is empty, so that it has no score.
ROWS: list[dict[str, Any]] = [
    {"id": f"{s}{i}", "source_id": s, "system": f"sys{i}", "source": SOURCES[s], "response": text}
    for s in SOURCES
    for i, text in enumerate(["Yes, of course.", "No idea what you mean.", ""])
]
#: The random model puts next to no mass on any label.
COMPARING = ["--option", "min_coverage=0"]
FLAGS = ["--task", "dialogue", *COMPARING]


class Result:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def number(self, pattern: str) -> int:
        """Return the number in front of some text."""
        found = re.search(rf"([\d,]+) {pattern}", self.out)
        assert found, f"no {pattern!r} in:\n{self.out}\n{self.err}"
        return int(found[1].replace(",", ""))


def command(*arguments: object) -> int:
    """Run a command line in this process, and return its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        words = list(map(str, arguments))
        if words[:2] == ["ladder", "build"] and COMPARING[1] in words:  # that compares nothing
            place = words.index(COMPARING[1])
            del words[place - 1 : place + 1]
        patch.setattr(sys, "argv", ["adjudge", *words])
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]


@pytest.fixture(scope="session")
def built(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows, the tiny model's ladders and scores for them, and its store."""
    folder = tmp_path_factory.mktemp("built")
    write(folder / "rows.jsonl", ROWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        model = ["--criterion", "coherence", "--model", f"{tiny_model}#threads=1", *FLAGS]
        assert command("ladder", "build", "rows.jsonl", *model, "--out", "ladders.jsonl") == 0
        flags = ["--ladders", "ladders.jsonl", "--out", "scores.jsonl"]
        assert command("score", "rows.jsonl", *model, *flags) == 0
    return folder


@pytest.fixture
def run(
    built: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run a command line in a folder with the rows, ladders and scores."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def ran(*arguments: object) -> Result:
        capsys.readouterr()
        code = command(*arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return ran


@pytest.fixture
def model(tiny_model: Path) -> list[str]:
    """Flags of a judge of ladders."""
    return ["--model", f"{tiny_model}#threads=1", *FLAGS]


@pytest.fixture
def scoring(model: list[str]) -> list[str]:
    """Flags of a judge of responses."""
    return [*model, "--criterion", "coherence"]


def given(name: str = "ladders.jsonl") -> list[Ladder]:
    return list(read_ladders(name).values())


def changed(ladder: Ladder, *, to: str = "changed.jsonl", **fields: Any) -> str:
    """Write one ladder with some fields changed, and return the file's name."""
    write_ladders(to, [Ladder(**{**vars(ladder), **fields})])
    return to


def judgments_of(judge: str) -> list[Judgment]:
    """Return the judgments of the only run of a judge in the store."""
    with Store("adjudge.db") as store:
        (found,) = [each for each in store.runs() if each.signature.fields["judge"] == judge]
        return list(store.judgments(found.id))


def said_in_one_line(result: Result, message: str) -> None:
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1


# --- build --------------------------------------------------------------------------------------


def test_ladders_are_written_for_every_source(run: Run) -> None:
    header, *rows = read("ladders.jsonl")
    assert header == {"format": "adjudge-ladders", "version": 1}
    assert [(row["source_id"], row["rung"]) for row in rows] == [
        (source, rung) for source in SOURCES for rung in range(1, 6)
    ]
    for row in rows:
        source = Source(id="", text=SOURCES[row["source_id"]])
        assert row["source_hash"] == source.hash
        assert (row["criterion"], row["criterion_hash"]) == ("coherence", CRITERION.hash)
        assert (row["rungs"], row["problem"]) == (5, None)
        assert row["text"].strip()
        assert row["writer"].startswith("judge:ladder-build|rungs:5|")
        assert "|engine:llama|model:tiny|" in row["writer"]
    for ladder in given():
        assert all(a != b for a, b in zip(ladder.rungs, ladder.rungs[1:], strict=False))


def test_building_again_asks_nothing_and_fewer_rungs_are_among_more(
    run: Run, scoring: list[str]
) -> None:
    again = run("ladder", "build", "rows.jsonl", *scoring, "--out", "again.jsonl")
    assert (again.code, again.err) == (0, "")
    assert "2 ladders: again.jsonl" in again.out
    assert "status: ok 2" in again.out
    assert again.out.splitlines()[-1].startswith("judge:ladder-build|")
    assert given("again.jsonl") == given()
    with Store("adjudge.db") as store:
        before = store.n_replies()
    three = [*scoring, "--option", "rungs=3", "--out", "three.jsonl"]
    assert run("ladder", "build", "rows.jsonl", *three).code == 0
    with Store("adjudge.db") as store:
        assert store.n_replies() == before
    for short, long in zip(given("three.jsonl"), given(), strict=True):
        assert short.rungs == long.rungs[::2]


def test_some_sources_only(run: Run, scoring: list[str]) -> None:
    flags = [*scoring, "--out", "one.jsonl", "--limit-sources", 1]
    result = run("ladder", "build", "rows.jsonl", *flags)
    assert "1 ladders: one.jsonl" in result.out
    (ladder,) = given("one.jsonl")
    assert ladder in given()
    said_in_one_line(run("ladder", "build", "rows.jsonl", *flags[:-1], "-1"), "not -1")


def test_sources_need_no_responses_and_equal_texts_share_a_ladder(
    run: Run, scoring: list[str]
) -> None:
    write(Path("texts.jsonl"), [{"source_id": s, "source": SOURCES["ann"]} for s in ("x", "y")])
    result = run("ladder", "build", "texts.jsonl", *scoring, "--out", "texts-ladders.jsonl")
    assert result.code == 0
    (ladder,) = given("texts-ladders.jsonl")
    assert ladder.rungs == given()[0].rungs
    assert ladder.source_id in ("x", "y")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "name the file to write the ladders to: --out ladders.jsonl"),
        (["--out", "l.csv"], "'l.csv': a file of ladders ends in .jsonl"),
        (["--out", "rows.jsonl"], "'rows.jsonl' is read from and would be overwritten"),
        (["--out", "no/l.jsonl"], "'no/l.jsonl' cannot be written: make the folder 'no'"),
        (["--out", "l.jsonl", "--option", "rungs=4"], "has 2, 3, 5, 9, ... (2**k + 1) rungs, not"),
        (["--out", "l.jsonl", "--option", "rung=5"], "unknown option of ladders 'rung'"),
        (["--out", "l.jsonl", "--option", "repair=1"], "unknown option of ladders 'repair'"),
        (["--out", "l.jsonl", "--option", "failed={}"], "unknown option of ladders 'failed'"),
        (["--out", "l.jsonl", "--criterion", "coherense"], "did you mean 'coherence'?"),
    ],
)
def test_what_is_wrong_with_building_is_said_in_one_line(
    run: Run, model: list[str], flags: list[str], message: str
) -> None:
    criterion = [] if "--criterion" in flags else ["--criterion", "coherence"]
    said_in_one_line(run("ladder", "build", "rows.jsonl", *model, *criterion, *flags), message)
    assert not Path("l.jsonl").exists()


def test_a_criterion_must_be_named_where_the_data_have_none(run: Run, model: list[str]) -> None:
    result = run("ladder", "build", "rows.jsonl", *model, "--out", "l.jsonl")
    said_in_one_line(result, "name a criterion: --criterion coherence")
    result = run("ladder", "build", "none.jsonl", *model, "--out", "l.jsonl")
    said_in_one_line(result, "there is no file 'none.jsonl'")


# --- show, export, import -----------------------------------------------------------------------


def test_ladders_are_shown_worst_first(run: Run) -> None:
    first, second = given()
    whole = run("ladder", "show", "ladders.jsonl")
    assert whole.code == 0
    places = [whole.out.index(f"  {rung}  ") for rung in range(1, 6)]
    assert places == sorted(places)
    assert "ann, coherence; written by judge:ladder-build|" in whole.out
    assert (first.rungs[0] or "")[:20] in whole.out
    one = run("ladder", "show", "ladders.jsonl", "--source", "bob")
    assert "ann, coherence" not in one.out
    assert (second.rungs[0] or "")[:20] in one.out
    limited = run("ladder", "show", "ladders.jsonl", "--limit", 1)
    assert "... and 1 more; see --limit" in limited.out
    assert "bob, coherence" in run("ladder", "show", "ladders.jsonl", "--limit", 0).out
    for flags in (["--source", "eve"], ["--criterion", "wit"]):
        said_in_one_line(run("ladder", "show", "ladders.jsonl", *flags), "has no such ladder")


def test_a_rung_that_is_missing_is_shown_with_what_was_wrong(run: Run) -> None:
    name = changed(given()[0], rungs=("[red]worst", None), problems={2: "refused"}, writer="")
    shown = run("ladder", "show", name).out
    assert "written by nobody known" in shown
    assert "  1  [red]worst" in shown
    assert "  2  (refused)" in shown


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_exported_and_imported_ladders_are_what_they_were(run: Run, suffix: str) -> None:
    exported = run("ladder", "export", "ladders.jsonl", "--out", f"rungs.{suffix}")
    assert (exported.code, exported.out) == (0, f"rungs.{suffix}: 10 rungs of 2 ladders\n")
    flags = ["--data", "rows.jsonl", "--task", "dialogue", "--out", "back.jsonl"]
    imported = run("ladder", "import", f"rungs.{suffix}", *flags)
    assert (imported.code, imported.out) == (0, "back.jsonl: 2 ladders\n")
    for back, before in zip(given("back.jsonl"), given(), strict=True):
        assert back == replace(before, writer=f"perhaps edited: {before.writer}")


def edit(source: str, rung: int, text: str) -> None:
    """Export the ladders, edit a rung in the CSV file and import them as edited.jsonl."""
    assert command("ladder", "export", "ladders.jsonl", "--out", "rungs.csv") == 0
    with Path("rungs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        if (row["source_id"], row["rung"]) == (source, str(rung)):
            row["text"] = text
    with Path("rungs.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    flags = ["--data", "rows.jsonl", "--task", "dialogue", "--out", "edited.jsonl"]
    assert command("ladder", "import", "rungs.csv", *flags) == 0


def test_an_edited_rung_changes_the_scores_of_its_source_alone(
    run: Run, scoring: list[str]
) -> None:
    edit("bob", 3, "Said,\nedited.")
    assert given("edited.jsonl")[0].rungs == given()[0].rungs
    assert given("edited.jsonl")[1].rungs[2] == "Said,\nedited."
    before = run("score", "rows.jsonl", *scoring, "--ladders", "ladders.jsonl")
    after = run("score", "rows.jsonl", *scoring, "--ladders", "edited.jsonl", "--out", "b.jsonl")
    assert before.number("model calls") == 0
    assert after.number("model calls") == 2
    for old, new in zip(read("scores.jsonl"), read("b.jsonl"), strict=True):
        if old["source_id"] == "ann":
            assert new == old
        for rung, (p, q) in enumerate(zip(old["distribution"], new["distribution"], strict=True)):
            assert (p != q) == (old["source_id"] == "bob" and rung == 2)
    hashes = [re.findall(r"\|ladders:2#([0-9a-f]{8})@", each.out) for each in (before, after)]
    assert len({each for (each,) in hashes}) == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"source_id": "eve"}, "rungs.jsonl, line 2, column 'source_id': 'eve' is not known; there "
         "are: ann, bob"),
        ({"criterion": "wit"}, "rungs.jsonl, line 2, column 'criterion': 'wit' is not known"),
        ({"rung": 1}, "rungs.jsonl, line 2, column 'rung': the ladder of 'ann' by 'coherence'"),
        ({"rung": 3}, "rungs.jsonl, line 1: the ladder of 'ann' by 'coherence' lacks rung 2"),
        ({"text": ""}, "rungs.jsonl, line 2, column 'text': a rung must have a text"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_imported_rungs_is_said_in_one_line(
    run: Run, row: dict[str, Any], message: str
) -> None:
    base = {"source_id": "ann", "criterion": "coherence", "rung": 1, "text": "worst"}
    write(Path("rungs.jsonl"), [base, base | {"rung": 2, "text": "best"} | row])
    flags = ["--data", "rows.jsonl", "--task", "dialogue", "--out", "l.jsonl"]
    said_in_one_line(run("ladder", "import", "rungs.jsonl", *flags), message)
    assert not Path("l.jsonl").exists()


def test_ladders_by_criteria_of_ones_own(run: Run, model: list[str]) -> None:
    Path("own.toml").write_text('[wit]\ndescription = "whether it is witty"\n')
    rows = [
        {"source_id": "ann", "criterion": "wit", "rung": i, "text": text}
        for i, text in enumerate(("Dull.", "So-so.", "Funny!"), start=1)
    ]
    write(Path("rungs.jsonl"), rows)
    flags = ["--data", "rows.jsonl", "--task", "dialogue", "--out", "own.jsonl"]
    said_in_one_line(run("ladder", "import", "rungs.jsonl", *flags), "'wit' is not known")
    result = run("ladder", "import", "rungs.jsonl", *flags, "--criterion", "own.toml")
    assert result.out == "own.jsonl: 1 ladders\n"
    write(Path("ann.jsonl"), [row for row in ROWS if row["source_id"] == "ann"])
    flags = ["--criterion", "own.toml", "--ladders", "own.jsonl", "--option", "rungs=3"]
    scored = run("score", "ann.jsonl", *model, *flags, "--out", "s.jsonl")
    assert scored.number("model calls") == 2 * 3
    assert [len(row["distribution"]) for row in read("s.jsonl")] == [3, 3, 0]
    checked = run("ladder", "check", "own.jsonl", *model, "--data", "rows.jsonl", *flags[:2])
    assert checked.code == 0


# --- check --------------------------------------------------------------------------------------


def heights(judgment: Judgment) -> np.ndarray:
    """Return the heights of a ladder's rungs by the probabilities of its neighbours."""
    probabilities = np.array(judgment.distribution)
    return np.append(0, np.cumsum(probabilities[:, 0] - probabilities[:, 1]))


def test_checking_prints_what_scipy_says_of_the_comparisons(run: Run, model: list[str]) -> None:
    result = run("ladder", "check", "ladders.jsonl", *model, "--data", "rows.jsonl")
    assert (result.code, result.err) == (0, "")
    judgments, taus, inverted = judgments_of("ladder-check"), [], 0
    for ladder, judgment in zip(given(), judgments, strict=True):
        assert judgment.status is Status.OK
        assert judgment.n_calls == 2 * 4
        ours = heights(judgment)
        taus.append(stats.kendalltau(range(5), ours).statistic)
        falls = int((np.diff(ours) < 0).sum())
        inverted += falls
        words = [len((rung or "").split()) for rung in ladder.rungs]
        lengths = stats.kendalltau(range(5), words).statistic
        row = rf"{ladder.source_id} +coherence +{taus[-1]:.2f} +{falls}/4 +"
        assert re.search(rf"{row}{min(words)}-{max(words)} +{lengths:.2f} +\d+%", result.out), (
            result.out
        )
    assert f"mean tau {np.mean(taus):.2f}" in result.out
    assert f"inverted neighbours: {inverted} of 8 ({100 * inverted / 8:.1f} %)" in result.out
    assert "0 empty, 0 refused" in result.out


def test_turning_two_rungs_round_turns_their_order_round(run: Run, model: list[str]) -> None:
    (ladder, _) = given()
    ends = ladder.rungs[0], ladder.rungs[-1]
    data = ["--data", "rows.jsonl", "--store"]
    outputs = []
    for number, rungs in enumerate((ends, ends[::-1])):
        name = changed(ladder, rungs=rungs, to=f"{number}.jsonl")
        flags = [*model, *data, f"{number}.db", "--repair", "--out", f"{number}-mended.jsonl"]
        result = run("ladder", "check", name, *flags)
        assert result.code == 0
        outputs.append(result.out)
    mended = [Path(f"{number}-mended.jsonl").exists() for number in range(2)]
    assert sorted(mended) == [False, True]
    for out, was_mended in zip(outputs, mended, strict=True):
        assert ("there is nothing to mend; no file was written" in out) is not was_mended
        assert re.search(rf"ann +coherence +{'-' if was_mended else ''}1.00 +", out)


def test_mending_writes_the_failing_rungs_alone(run: Run, model: list[str]) -> None:
    (ladder, _) = given()
    rungs = (*ladder.rungs[:3], ladder.rungs[1], ladder.rungs[4])
    name = changed(ladder, rungs=rungs)
    checked = run("ladder", "check", name, *model, "--data", "rows.jsonl")
    assert "4 duplicate" in checked.out
    assert "rungs: 1 duplicates, 0 empty, 0 refused" in checked.out
    falls = np.flatnonzero(np.diff(heights(*judgments_of("ladder-check"))) < 0) + 1
    failing = {4} | {int(rung) + 1 if rung + 1 < 5 else int(rung) for rung in falls}
    flags = [*model, "--data", "rows.jsonl", "--repair", "--out", "mended.jsonl"]
    result = run("ladder", "check", name, *flags)
    assert (result.code, result.err) == (0, "")
    assert "mended 1 of the 1 that failed: mended.jsonl" in result.out
    assert "rungs: 0 duplicates" in result.out
    (mended,) = given("mended.jsonl")
    for rung, (old, new) in enumerate(zip(rungs, mended.rungs, strict=True), start=1):
        assert (old == new) is (rung not in failing)
    assert not set(rungs) & {mended.rungs[rung - 1] for rung in failing}
    assert "judge:ladder-build|" in mended.writer
    assert "|failed:" in mended.writer


def test_a_ladder_with_missing_rungs_is_mended(run: Run, model: list[str]) -> None:
    (ladder, _) = given()
    rungs = (ladder.rungs[0], None, ladder.rungs[2], ladder.rungs[3], ladder.rungs[4])
    name = changed(ladder, rungs=rungs, problems={2: "refused"})
    flags = [*model, "--data", "rows.jsonl", "--repair", "--out", "mended.jsonl"]
    result = run("ladder", "check", name, *flags)
    assert (result.code, result.err) == (0, "")
    assert "2 refused" in result.out
    (mended,) = given("mended.jsonl")
    assert (mended.rungs[0], *mended.rungs[2:]) == (rungs[0], *rungs[2:])
    assert mended.rungs[1]
    assert not mended.problems


def test_one_rung_cannot_be_compared(run: Run, model: list[str]) -> None:
    name = changed(given()[0], rungs=("alone",))
    result = run("ladder", "check", name, *model, "--data", "rows.jsonl")
    assert result.code == 2
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "say where the sources are: --data FILE"),
        (["--data", "rows.jsonl", "--repair"], "--repair writes the mended ladders to --out: give"),
        (["--data", "rows.jsonl", "--repair", "--out", "ladders.jsonl"], "'ladders.jsonl' is read "
         "from and would be overwritten"),
        (["--data", "rows.jsonl", "--repair", "--out", "m.csv"], "a file of ladders ends in"),
        (["--data", "rows.jsonl", "--option", "repair=2"], "unknown option of ladders 'repair'"),
        (["--data", "ann.jsonl"], "ann.jsonl lacks the source of 1 ladders, such as 'bob'"),
        (["--data", "other.jsonl"], "other.jsonl lacks the source of 2 ladders, such as 'ann'"),
        (["--data", "rows.jsonl", "--criterion", "own.toml"], "was written for another meaning of "
         "'coherence'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_checking_is_said_in_one_line(
    run: Run, model: list[str], flags: list[str], message: str
) -> None:
    write(Path("ann.jsonl"), ROWS[:1])
    write(Path("other.jsonl"), [row | {"source": f"{row['source']}!"} for row in ROWS])
    Path("own.toml").write_text('[coherence]\ndescription = "something else"\n')
    said_in_one_line(run("ladder", "check", "ladders.jsonl", *model, *flags), message)


def test_ladders_of_two_lengths_are_mended_one_length_at_a_time(run: Run, model: list[str]) -> None:
    first, second = given()
    twice = (second.rungs[0], second.rungs[0], second.rungs[1])
    short = Ladder(**{**vars(second), "rungs": twice})
    long = Ladder(**{**vars(first), "rungs": (*first.rungs[:4], first.rungs[0])})
    write_ladders("mixed.jsonl", [long, short])
    flags = [*model, "--data", "rows.jsonl"]
    assert run("ladder", "check", "mixed.jsonl", *flags).code == 0
    result = run("ladder", "check", "mixed.jsonl", *flags, "--repair", "--out", "m.jsonl")
    said_in_one_line(result, "has ladders of several lengths: mend each in a file of its own")


# --- score --ladders ----------------------------------------------------------------------------


def test_given_ladders_score_as_those_that_the_model_writes(run: Run, scoring: list[str]) -> None:
    own = run("score", "rows.jsonl", *scoring, "--out", "own.jsonl")
    assert (own.code, own.number("model calls")) == (0, 0)
    result = run("score", "rows.jsonl", *scoring, "--ladders", "ladders.jsonl")
    assert (result.code, result.err, result.number("model calls")) == (0, "", 0)
    model = re.search(r"\|model:([^|]*)\|", own.out)
    assert model
    assert re.search(rf"\|ladders:2#[0-9a-f]{{8}}@{re.escape(model[1])}\|", result.out)
    assert "|ladders:" not in own.out
    rows = read("scores.jsonl")
    # Ladders that are given cost no calls.
    assert [row["n_calls"] for row in rows] == [5, 5, 0] * 2
    assert [row["n_calls"] for row in read("own.jsonl")] == [10, 10, 0] * 2
    for ours, theirs in zip(rows, read("own.jsonl"), strict=True):
        assert ours == theirs | {"n_calls": ours["n_calls"]}


def test_given_ladders_are_not_planned_to_be_written(run: Run, scoring: list[str]) -> None:
    flags = [*scoring, "--ladders", "ladders.jsonl", "--store", "new.db"]
    plan = run("plan", "rows.jsonl", *flags)
    assert "20 model calls to make: 0 generations, 20 label scorings" in plan.out
    assert "~" not in plan.out


def test_shorter_ladders_are_taken_out_of_longer_ones(run: Run, scoring: list[str]) -> None:
    flags = [*scoring, "--ladders", "ladders.jsonl"]
    three = run("score", "rows.jsonl", *flags, "--option", "rungs=3", "--out", "three.jsonl")
    assert three.number("model calls") == 0
    for short, long in zip(read("three.jsonl"), read("scores.jsonl"), strict=True):
        assert short["distribution"] == long["distribution"][::2]
        if short["status"] == "ok":
            gains = [p[0] - p[1] for p in short["distribution"]]
            # 1, 3, 5 are the values of three rungs, 9 their sum
            raw = gains[0] + 3 * gains[1] + 5 * gains[2]
            assert short["score"] == pytest.approx(1 + 4 * (raw + 9) / 18)
    nine = run("score", "rows.jsonl", *flags, "--option", "rungs=9")
    said_in_one_line(nine, "a ladder of 5 rungs has none of 9 in it")


def test_a_ladder_that_could_not_be_written_has_a_status(run: Run, scoring: list[str]) -> None:
    first, second = given()
    rungs = (*first.rungs[:4], None)
    broken = Ladder(**{**vars(first), "rungs": rungs, "problems": {5: "refused"}})
    write_ladders("broken.jsonl", [broken, second])
    flags = [*scoring, "--ladders", "broken.jsonl", "--out", "s.jsonl"]
    assert run("score", "rows.jsonl", *flags).code == 0
    statuses = [row["status"] for row in read("s.jsonl")]
    assert statuses == ["refused"] * 2 + ["empty_response"] + ["ok"] * 2 + ["empty_response"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--ladders", "none.jsonl"], "there is no file 'none.jsonl'"),
        (["--ladders", "rows.jsonl"], "rows.jsonl, line 1: no file of ladders"),
        (["--ladders", "rungs.csv"], "'rungs.csv': a file of ladders ends in .jsonl"),
        (["--ladders", "ladders.jsonl", "--judge", "direct"], "the judge 'direct' uses no ladders"),
        (["--ladder-model", "none.gguf", "--judge", "direct"], "the judge 'direct', with these "
         "options, writes nothing that another model could write for it"),
        (["--ladder-model", "none.gguf", "--judge", "geval", "--option", "mode=sampled",
          "--option", "steps=generated"], "the judge 'geval', with these options, writes nothing"),
        (["--ladders", "ladders.jsonl", "--ladder-model", "none.gguf"], "--ladder-model writes "
         "ladders, --ladders has them: give one"),
        (["--ladder-model", "none.gguf"], "there is no model file 'none.gguf'"),
        (["--ladders", "ladders.jsonl", "--criterion", "fluency.toml"], "there is no ladder for "
         "the source 'ann' and the criterion 'fluency'"),
        (["--ladders", "ladders.jsonl", "--criterion", "own.toml"], "the ladder for the source "
         "'ann' was written for another meaning of 'coherence'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_given_ladders_is_said_in_one_line(
    run: Run, model: list[str], flags: list[str], message: str
) -> None:
    Path("own.toml").write_text('[coherence]\ndescription = "something else"\n')
    Path("fluency.toml").write_text('[fluency]\ndescription = "whether it flows"\n')
    criterion = [] if "--criterion" in flags else ["--criterion", "coherence"]
    said_in_one_line(run("score", "rows.jsonl", *model, *criterion, *flags), message)


def test_ladders_of_other_texts_are_refused(run: Run, scoring: list[str]) -> None:
    flags = [*scoring, "--ladders", "ladders.jsonl"]
    write(Path("other.jsonl"), [ROWS[0] | {"source": "ann said no"}])
    said_in_one_line(
        run("score", "other.jsonl", *flags),
        "there is no ladder for the source 'ann' and the criterion 'coherence'; that of "
        "'coherence' was written for another text of this id",
    )
    write(Path("more.jsonl"), [*ROWS, ROWS[0] | {"id": "e", "source_id": "eve", "source": "eve"}])
    said_in_one_line(
        run("score", "more.jsonl", *flags),
        "there is no ladder for the source 'eve' and the criterion 'coherence'; there are 2 "
        "ladders, write the missing ones with `adjudge ladder build`",
    )


# --- score --ladder-model -----------------------------------------------------------------------


def test_one_model_writes_and_another_compares(run: Run, tiny_model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    shutil.copy(tiny_model, other)
    flags = ["--criterion", "coherence", *FLAGS, "--model", f"{other}#threads=1"]
    flags += ["--ladder-model", f"{tiny_model}#threads=1"]
    plan = run("plan", "rows.jsonl", *flags)
    assert "20 model calls to make: 0 generations, 20 label scorings" in plan.out
    assert "10 replies are in the store already" in plan.out
    result = run("score", "rows.jsonl", *flags, "--out", "s.jsonl")
    assert (result.code, result.err) == (0, "")
    assert result.number("model calls") == 20
    assert "|engine:llama|model:other|" in result.out
    assert "|ladder_engine:llama|ladder_model:tiny|" in result.out
    # The same model under another name, so that the scores are those of the ladders given.
    for ours, theirs in zip(read("s.jsonl"), read("scores.jsonl"), strict=True):
        assert ours["score"] == pytest.approx(theirs["score"], abs=1e-3)


# --- score --min-score --------------------------------------------------------------------------


def known_scores() -> dict[str, float | None]:
    """Return the scores of the rows by the ladders given."""
    return {row["id"]: row["score"] for row in read("scores.jsonl")}


def second_lowest(scores: dict[str, float | None]) -> float:
    """Return a threshold that one of the scores does not reach."""
    return sorted(value for value in scores.values() if value is not None)[1]


def test_what_reaches_the_threshold_is_kept(run: Run, scoring: list[str]) -> None:
    scores = known_scores()
    chosen = second_lowest(scores)
    flags = [*scoring, "--ladders", "ladders.jsonl", "--min-score", repr(chosen)]
    result = run("score", "rows.jsonl", *flags, "--out", "s.jsonl")
    kept = [name for name, value in scores.items() if value is not None and value >= chosen]
    assert [row["id"] for row in read("s.kept.jsonl")] == kept
    assert [row["id"] for row in read("s.dropped.jsonl")] == [r for r in scores if r not in kept]
    assert read("s.jsonl") == read("scores.jsonl")
    assert len(kept) == 3
    assert f"score {chosen:g} or more: 3 kept, 3 dropped" in result.out
    assert "  3 in s.kept.jsonl" in result.out
    assert "  3 in s.dropped.jsonl" in result.out
    assert "precision" not in result.out


def test_the_parts_have_the_format_of_the_whole_and_may_be_empty(
    run: Run, scoring: list[str]
) -> None:
    flags = [*scoring, "--ladders", "ladders.jsonl", "--min-score", "6"]
    result = run("score", "rows.jsonl", *flags, "--out", "s.csv")
    assert result.code == 0
    assert "score 6 or more: 0 kept, 6 dropped" in result.out
    with Path("s.dropped.csv").open(newline="") as stream:
        assert [row["id"] for row in csv.DictReader(stream)] == [row["id"] for row in ROWS]
    with Path("s.kept.csv").open(newline="") as stream:
        assert list(csv.DictReader(stream)) == []
    unwritten = run("score", "rows.jsonl", *flags)
    assert "score 6 or more: 0 kept, 6 dropped" in unwritten.out


def test_what_is_read_is_not_written_over_by_a_part(run: Run, scoring: list[str]) -> None:
    write(Path("s.kept.jsonl"), ROWS)
    flags = [*scoring, "--ladders", "ladders.jsonl", "--out", "s.jsonl"]
    result = run("score", "s.kept.jsonl", *flags, "--min-score", "3")
    said_in_one_line(result, "'s.kept.jsonl' is read from and would be overwritten")
    assert run("score", "s.kept.jsonl", *flags).code == 0


def test_gold_gives_the_threshold_precision_and_recall(run: Run, scoring: list[str]) -> None:
    scores = known_scores()
    gold = dict(zip(scores, [5, 1, 4, None, 3, 1], strict=True))
    write(Path("rows.jsonl"), [row | {"gold": gold[row["id"]]} for row in ROWS])
    chosen = second_lowest(scores)
    flags = [*scoring, "--ladders", "ladders.jsonl", "--min-score", repr(chosen)]
    result = run("score", "rows.jsonl", *flags, "--min-gold", "3")
    counted = {name: value >= 3 for name, value in gold.items() if value is not None}
    kept = [good for name, good in counted.items() if (scores[name] or 0) >= chosen]
    precision, recall = wilson_interval(sum(kept), len(kept)), wilson_interval(sum(kept), 3)
    numbers = f"{chosen:.2f} {len(kept)} {5 - len(kept)} 3"
    shares = [f"{each.value:.3f} [{each.low:.3f}, {each.high:.3f}]" for each in (precision, recall)]
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert f"coherence: chosen {numbers} {shares[0]} {shares[1]}" in lines
    # One point of the curve for each score of a response with gold.
    points = {scores[name] for name in counted} - {None}
    assert sum(line.startswith("coherence ") for line in lines) == len(points)


@pytest.mark.parametrize(
    ("column", "flags", "message"),
    [
        ({"gold": 1}, ["--min-gold", "3"], "--min-gold says how good what --min-score keeps is"),
        ({}, ["--min-gold", "3", "--min-score", "3"], "rows.jsonl, line 1, column 'gold': the "
         "column is missing; the row has: id, source_id"),
        ({"gold": "high"}, ["--min-gold", "3", "--min-score", "3"], "rows.jsonl, line 1, column "
         "'gold': 'high' is no number"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_gold_is_said_before_anything_runs(
    run: Run, scoring: list[str], column: dict[str, Any], flags: list[str], message: str
) -> None:
    write(Path("rows.jsonl"), [row | column for row in ROWS])
    result = run("score", "rows.jsonl", *scoring, *flags, "--store", "new.db", "--out", "s.jsonl")
    said_in_one_line(result, message)
    assert not Path("new.db").exists()
    assert not Path("s.jsonl").exists()


def test_gold_that_comes_late_counts_only_as_far_as_is_read(run: Run, scoring: list[str]) -> None:
    rows = [row | ({"gold": 3} if number < 2 else {}) for number, row in enumerate(ROWS)]
    write(Path("rows.jsonl"), rows)
    flags = [*scoring, "--ladders", "ladders.jsonl", "--min-score", "1", "--min-gold", "3"]
    result = run("score", "rows.jsonl", *flags, "--limit", 2)
    assert result.code == 0
    assert "1.000 [0.342, 1.000]" in result.out
    said_in_one_line(run("score", "rows.jsonl", *flags), "line 3, column 'gold': the column is")
