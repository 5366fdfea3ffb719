"""Files of ladders: written, read, exported as rows and imported again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adjudge.errors import ConfigError, DataError
from adjudge.formats.ladders import (
    HUMAN,
    check_ladder_path,
    import_ladders,
    ladder_rows,
    read_ladders,
    write_ladders,
)
from adjudge.formats.rows import write_rows
from adjudge.schema import Criterion, Ladder, Source

ANN, BOB = Source(id="ann", text="Ann said so."), Source(id="bob", text="Bob\ndid not.")
WIT = Criterion(name="wit", title="Wit", description="whether it is witty")
TACT = Criterion(name="tact", title="Tact", description="whether it is tactful")
AWKWARD = (
    '"Quoted", she said',
    "two\nlines",
    "\u201cn\u00e9e\u201d \U0001f600",
    " blanks ",
    "a,b;c",
)
HEADER = {"format": "adjudge-ladders", "version": 1}


def make_ladder(
    source: Source = ANN,
    criterion: Criterion = WIT,
    rungs: tuple[str | None, ...] = AWKWARD,
    **more: Any,
) -> Ladder:
    return Ladder(
        source_id=source.id,
        source_hash=source.hash,
        criterion=criterion.name,
        criterion_hash=criterion.hash,
        rungs=rungs,
        **{"writer": "judge:ladder-build|seed:0"} | more,
    )


def write_lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def rung_rows(n: int = 3, **changed: Any) -> list[dict[str, Any]]:
    """Return the rows of a good ladder, its second row changed."""
    rows = ladder_rows([make_ladder(rungs=tuple(f"text {i}" for i in range(1, n + 1)))])
    rows[1] |= changed
    return rows


# --- files of ladders ---------------------------------------------------------------------------


def test_ladders_come_back_as_they_were_written(tmp_path: Path) -> None:
    ladders = [
        make_ladder(),
        make_ladder(criterion=TACT, rungs=("worst", "best"), writer=""),
        make_ladder(source=BOB, rungs=("a", None, "c"), problems={2: "refused"}),
    ]
    assert write_ladders(tmp_path / "l.jsonl", ladders) == 3
    assert list(read_ladders(tmp_path / "l.jsonl").items()) == [
        ((ANN.hash, "wit"), ladders[0]),
        ((ANN.hash, "tact"), ladders[1]),
        ((BOB.hash, "wit"), ladders[2]),
    ]


def test_a_ladder_given_up_half_way_comes_back(tmp_path: Path) -> None:
    # The last rung failed, so that those between were never asked for.
    ladder = make_ladder(rungs=("worst", None, None, None, None), problems={5: "empty"})
    write_ladders(tmp_path / "l.jsonl", [ladder])
    assert list(read_ladders(tmp_path / "l.jsonl").values()) == [ladder]


def test_a_file_names_its_format_and_has_a_line_per_rung(tmp_path: Path) -> None:
    ladder = make_ladder(rungs=("worst", None), problems={2: "empty"})
    write_ladders(tmp_path / "l.jsonl", [ladder])
    header, first, second = map(json.loads, (tmp_path / "l.jsonl").read_text().splitlines())
    assert header == HEADER
    assert first == {
        "source_id": "ann",
        "source_hash": ANN.hash,
        "criterion": "wit",
        "criterion_hash": WIT.hash,
        "rung": 1,
        "rungs": 2,
        "text": "worst",
        "problem": None,
        "writer": "judge:ladder-build|seed:0",
    }
    assert (second["rung"], second["text"], second["problem"]) == (2, None, "empty")


def test_rungs_may_stand_in_any_order(tmp_path: Path) -> None:
    ours, other = rung_rows(), ladder_rows([make_ladder(source=BOB)])
    mixed = [ours[2], other[4], *other[:4], ours[0], ours[1]]
    found = read_ladders(write_lines(tmp_path / "l.jsonl", HEADER, *mixed))
    assert found[ANN.hash, "wit"].rungs == ("text 1", "text 2", "text 3")
    assert found[BOB.hash, "wit"].rungs == AWKWARD


def test_what_was_there_stays_if_writing_fails(tmp_path: Path) -> None:
    write_ladders(tmp_path / "l.jsonl", [make_ladder()])
    before = (tmp_path / "l.jsonl").read_bytes()
    with pytest.raises(UnicodeEncodeError, match="surrogates"):
        write_ladders(tmp_path / "l.jsonl", [make_ladder(rungs=("\ud800", "b"))])
    assert (tmp_path / "l.jsonl").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["l.jsonl"]


@pytest.mark.parametrize("name", ["l.csv", "l.parquet", "l.json", "ladders"])
def test_a_file_of_ladders_has_one_suffix(tmp_path: Path, name: str) -> None:
    for refused in (
        lambda: check_ladder_path(tmp_path / name),
        lambda: read_ladders(tmp_path / name),
        lambda: write_ladders(tmp_path / name, [make_ladder()]),
    ):
        with pytest.raises(ConfigError, match=rf"{name}': a file of ladders ends in .jsonl"):
            refused()
    assert check_ladder_path("some/L.JSONL") == Path("some/L.JSONL")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file '.*none.jsonl'"):
        read_ladders(tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match=r"'no/l.jsonl' cannot be written: make the folder 'no'"):
        write_ladders("no/l.jsonl", [make_ladder()])


@pytest.mark.parametrize("first", [[], [{"source": "a", "response": "b"}], [{"format": "other"}]])
def test_other_files_are_said_to_be_no_ladders(tmp_path: Path, first: list[object]) -> None:
    path = write_lines(tmp_path / "l.jsonl", *first, *(rung_rows() if first else []))
    message = r"l.jsonl, line 1: no file of ladders: the first line must be .*adjudge-ladders"
    with pytest.raises(DataError, match=message):
        read_ladders(path)


@pytest.mark.parametrize("version", [2, 0, "1", None])
def test_other_versions_are_refused(tmp_path: Path, version: object) -> None:
    header = HEADER | {"version": version}
    path = write_lines(tmp_path / "l.jsonl", header, *rung_rows())
    message = rf"l.jsonl, line 1: ladders of version {version!r}; this adjudge reads version 1"
    with pytest.raises(DataError, match=message):
        read_ladders(path)


def test_a_header_alone_is_no_file_of_ladders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"l.jsonl: there are no ladders"):
        read_ladders(write_lines(tmp_path / "l.jsonl", HEADER))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rung": 1}, "line 3, column 'rung': the ladder of 'ann' by 'wit' of 3 rungs has rung 1 "),
        ({"rung": 4}, "line 3, column 'rung': the ladder of 'ann' by 'wit' of 3 rungs has rung 4 "),
        ({"rung": 0}, "line 3, column 'rung': must be a whole number from 1, not 0"),
        ({"rung": True}, "line 3, column 'rung': must be a whole number from 1, not True"),
        ({"rung": 2.0}, "line 3, column 'rung': must be a whole number from 1, not 2.0"),
        ({"rung": None}, "line 3, column 'rung': must be a whole number from 1, not None"),
        ({"rungs": "3"}, "line 3, column 'rungs': must be a whole number from 1, not '3'"),
        ({"rungs": 5}, "line 3, column 'rungs': the ladder of 'ann' by 'wit' says 5 here and 3 in "
         "line 2"),
        ({"criterion_hash": "0"}, "line 3, column 'criterion_hash': the ladder of 'ann' by 'wit' "
         "says '0' here and '"),
        ({"text": ""}, "line 3, column 'text': a rung must have a text, not ''"),
        ({"text": " \n"}, "line 3, column 'text': a rung must have a text"),
        ({"text": None}, "line 3, column 'text': a rung must have a text, not None"),
        ({"text": 5}, "line 3, column 'text': a rung must have a text, not 5"),
        ({"source_id": None}, "line 3, column 'source_id': must be text, not None"),
        ({"source_hash": 1}, "line 3, column 'source_hash': must be text, not 1"),
        ({"criterion": ["wit"]}, "line 3, column 'criterion': must be text, not"),
        ({"writer": None}, "line 3, column 'writer': must be text, not None"),
        ({"source_hash": "0"}, "line 2: the ladder of 'ann' by 'wit' lacks rung 2"),
    ],
)  # fmt: skip
def test_bad_rungs_are_named_by_file_line_and_column(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    path = write_lines(tmp_path / "l.jsonl", HEADER, *rung_rows(**changed))
    with pytest.raises(DataError, match=r"l\.jsonl, ") as raised:
        read_ladders(path)
    assert f"{path}, {message}" in str(raised.value)


def test_a_text_that_is_none_is_wrong_whatever_problem_it_has(tmp_path: Path) -> None:
    rows = rung_rows(text=5, problem="empty")
    message = r"l.jsonl, line 3, column 'text': .*not 5"
    with pytest.raises(DataError, match=message):
        read_ladders(write_lines(tmp_path / "l.jsonl", HEADER, *rows))


def test_a_missing_column_and_a_missing_rung(tmp_path: Path) -> None:
    rows = rung_rows()
    del rows[1]["writer"]
    message = r"l.jsonl, line 3, column 'writer': must be text, not None"
    with pytest.raises(DataError, match=message):
        read_ladders(write_lines(tmp_path / "l.jsonl", HEADER, *rows))
    message = r"l.jsonl, line 2: the ladder of 'ann' by 'wit' lacks rung 3"
    with pytest.raises(DataError, match=message):
        read_ladders(write_lines(tmp_path / "l.jsonl", HEADER, *rung_rows()[:2]))


def test_a_ladder_in_the_file_twice_is_refused(tmp_path: Path) -> None:
    write_ladders(tmp_path / "l.jsonl", [make_ladder(), make_ladder()])
    message = r"l.jsonl, line 7, column 'rung': .* has rung 1 once too often"
    with pytest.raises(DataError, match=message):
        read_ladders(tmp_path / "l.jsonl")


# --- rows of people -----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_exported_rungs_are_imported_as_they_were(tmp_path: Path, suffix: str) -> None:
    ladders = [make_ladder(), make_ladder(source=BOB, criterion=TACT, rungs=("a", "b", "c"))]
    path = tmp_path / f"rungs.{suffix}"
    assert write_rows(path, ladder_rows(ladders)) == 5 + 3
    marked = [replace(each, writer=f"perhaps edited: {each.writer}") for each in ladders]
    assert import_ladders(path, [ANN, BOB], [WIT, TACT]) == marked
    write_rows(path, ladder_rows(marked))
    assert import_ladders(path, [ANN, BOB], [WIT, TACT]) == marked


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_an_edited_rung_takes_the_place_of_the_old_one(tmp_path: Path, suffix: str) -> None:
    rows = ladder_rows([make_ladder()])
    edited = [rows[0], rows[1] | {"text": "edited", "writer": None}, *rows[2:]]
    path = tmp_path / f"rungs.{suffix}"
    write_rows(path, edited)
    (ladder,) = import_ladders(path, [ANN], [WIT])
    assert ladder.rungs == (AWKWARD[0], "edited", *AWKWARD[2:])


def test_a_file_of_ladders_can_be_edited_in_place(tmp_path: Path) -> None:
    write_ladders(tmp_path / "l.jsonl", [make_ladder()])
    (ladder,) = import_ladders(tmp_path / "l.jsonl", [ANN], [WIT])
    assert ladder.rungs == make_ladder().rungs


def test_rungs_of_people_need_four_columns(tmp_path: Path) -> None:
    text = "source_id,criterion,rung,text\nann,wit,3,best\nann,wit,1,worst\nann,wit, 2 ,middle\n"
    (tmp_path / "rungs.csv").write_text(text)
    assert import_ladders(tmp_path / "rungs.csv", [BOB, ANN], [TACT, WIT]) == [
        make_ladder(rungs=("worst", "middle", "best"), writer=HUMAN)
    ]


@pytest.mark.parametrize("field", ["source_hash", "criterion_hash"])
def test_rungs_for_another_text_or_meaning_are_refused(tmp_path: Path, field: str) -> None:
    source = Source(id="ann", text="another text" if field == "source_hash" else ANN.text)
    title = WIT.title if field == "source_hash" else "Wit itself"
    meant = Criterion(name="wit", title=title, description=WIT.description)
    path = write_lines(tmp_path / "rungs.jsonl", *rung_rows(n=2))
    with pytest.raises(DataError, match=f"line 1, column '{field}': the rung was written for some"):
        import_ladders(path, [source], [meant])
    bare = [{k: v for k, v in row.items() if k != field} for row in rung_rows(n=2)]
    path = write_lines(tmp_path / "bare.jsonl", *bare)
    (ladder,) = import_ladders(path, [source], [meant])
    assert (ladder.source_hash, ladder.criterion_hash) == (source.hash, meant.hash)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source_id": "eve"}, "line 2, column 'source_id': 'eve' is not known; there are: ann"),
        ({"source_id": None}, "line 2, column 'source_id': None is not known; there are: ann"),
        ({"criterion": "charm"}, "line 2, column 'criterion': 'charm' is not known; there are: "
         "wit, tact"),
        ({"rung": "two"}, "line 2, column 'rung': must be a whole number from 1, not 'two'"),
        ({"rung": "0"}, "line 2, column 'rung': must be a whole number from 1, not 0"),
        ({"rung": "-1"}, "line 2, column 'rung': must be a whole number from 1, not '-1'"),
        ({"rung": 1.5}, "line 2, column 'rung': must be a whole number from 1, not 1.5"),
        ({"rung": 1}, "line 2, column 'rung': the ladder of 'ann' by 'wit' of 3 rungs has rung 1 "
         "once too often"),
        ({"rung": 4}, "line 1: the ladder of 'ann' by 'wit' lacks rung 2"),
        ({"text": ""}, "line 2, column 'text': a rung must have a text, not ''"),
        ({"text": None}, "line 2, column 'text': a rung must have a text, not None"),
        ({"text": 7}, "line 2, column 'text': a rung must have a text, not 7"),
        ({"writer": 7}, "line 2, column 'writer': must be text, not 7"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_peoples_rungs_is_named(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    path = write_lines(tmp_path / "rungs.jsonl", *rung_rows(**changed))
    with pytest.raises(DataError, match=r"rungs\.jsonl, line ") as raised:
        import_ladders(path, [ANN], [WIT, TACT])
    assert f"{path}, {message}" in str(raised.value)


def test_an_empty_cell_and_a_missing_column_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "rungs.csv"
    path.write_text("source_id,criterion,rung,text\nann,wit,1,worst\nann,wit,2,\n")
    message = r"rungs.csv, line 3, column 'text': a rung must have a text, not None"
    with pytest.raises(DataError, match=message):
        import_ladders(path, [ANN], [WIT])
    path.write_text("source_id,criterion,text\nann,wit,worst\n")
    message = r"rungs.csv, line 2, column 'rung': must be a whole number from 1, not None"
    with pytest.raises(DataError, match=message):
        import_ladders(path, [ANN], [WIT])


def test_one_rung_is_no_ladder(tmp_path: Path) -> None:
    row = {"source_id": "ann", "criterion": "wit", "rung": 1, "text": "alone"}
    message = r"rungs.jsonl, line 1.*: the ladder of 'ann' by 'wit'"
    with pytest.raises(DataError, match=message):
        import_ladders(write_lines(tmp_path / "rungs.jsonl", row), [ANN], [WIT])
    write_ladders(tmp_path / "l.jsonl", [make_ladder(rungs=("alone",))])
    with pytest.raises(DataError, match=r"l.jsonl, line 2.*: the ladder of 'ann' by 'wit'"):
        read_ladders(tmp_path / "l.jsonl")


def test_sources_of_one_text_cannot_both_have_a_ladder(tmp_path: Path) -> None:
    twin = Source(id="twin", text=ANN.text)
    rows = [row | {"source_id": each.id} for each in (ANN, twin) for row in rung_rows(n=2)]
    path = write_lines(tmp_path / "rungs.jsonl", *rows)
    message = r"rungs.jsonl, line 3, column 'rung': .* has rung 1 once too often"
    with pytest.raises(DataError, match=message):
        import_ladders(path, [ANN, twin], [WIT])


def test_no_rungs_at_all(tmp_path: Path) -> None:
    for path in (
        write_lines(tmp_path / "none.jsonl"),
        write_lines(tmp_path / "header.jsonl", HEADER),
    ):
        with pytest.raises(DataError, match=r"\.jsonl: there are no rungs"):
            import_ladders(path, [ANN], [WIT])
    with pytest.raises(ConfigError, match="the file's suffix must be"):
        import_ladders(tmp_path / "rungs.txt", [ANN], [WIT])
