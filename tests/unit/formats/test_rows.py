"""Rows in and out of JSON Lines, CSV and Parquet."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.errors import ConfigError, DataError
from adjudge.formats.responses import ResponseRow, read_responses
from adjudge.formats.rows import (
    SUFFIXES,
    check_suffix,
    check_writable,
    read_rows,
    write_rows,
)
from adjudge.schema import Source

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return what writes a file and gives its path."""

    def written(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def source_id(text: str) -> str:
    """Return the id that a text gets by itself."""
    return f"source-{hashlib.sha256(json.dumps(text).encode()).hexdigest()[:8]}"


# --- responses ----------------------------------------------------------------------------------


def test_a_row_is_read_with_its_ids(write: Write) -> None:
    path = write(
        "a.jsonl",
        jsonl({"id": "x", "source_id": "s", "system": "m", "source": "text", "response": "r"}),
    )
    assert read_responses(path) == [ResponseRow("x", Source(id="s", text="text"), ("m",), ("r",))]


def test_a_row_without_ids_gets_them_from_what_it_has(write: Write) -> None:
    path = write(
        "a.jsonl",
        jsonl(
            {"source": "text", "response": "r"},
            {"source": "text", "response": "r", "system": "m"},
            {"source": "other", "source_id": "s", "response": "r", "system": "m"},
        ),
    )
    rows = read_responses(path)
    assert [row.id for row in rows] == ["row-1", f"{source_id('text')}/m", "s/m"]
    assert [row.source.id for row in rows] == [source_id("text"), source_id("text"), "s"]
    assert [row.systems for row in rows] == [("",), ("m",), ("m",)]


def test_an_instruction_is_a_source(write: Write) -> None:
    rows = read_responses(write("a.jsonl", jsonl({"instruction": "do it", "response": "r"})))
    assert rows[0].source.text == "do it"


def test_a_null_stands_for_the_other_of_source_and_instruction(write: Write) -> None:
    path = write("a.jsonl", jsonl({"source": None, "instruction": "do it", "response": "r"}))
    assert read_responses(path)[0].source.text == "do it"


def test_other_columns_are_let_be(write: Write) -> None:
    path = write("a.jsonl", jsonl({"source": "s", "response": "r", "gold": [1, {"a": 2}]}))
    assert read_responses(path)[0].responses == ("r",)


@pytest.mark.parametrize("response", ["", None])
def test_an_empty_response_is_a_response(write: Write, response: str | None) -> None:
    path = write("a.jsonl", jsonl({"source": "s", "response": response}))
    assert read_responses(path)[0].responses == ("",)


def test_an_empty_cell_of_a_csv_file_is_a_response(write: Write) -> None:
    assert read_responses(write("a.csv", "source,response\ns,\n"))[0].responses == ("",)


def test_an_empty_cell_stands_for_the_other_of_source_and_instruction(write: Write) -> None:
    path = write("a.csv", "source,instruction,response\ns,,r\n,i,r\n")
    assert [row.source.text for row in read_responses(path)] == ["s", "i"]


@pytest.mark.parametrize(("cell", "text"), [(7, "7"), (0, "0"), (1.5, "1.5")])
def test_numbers_are_let_pass_as_text(write: Write, cell: float, text: str) -> None:
    path = write("a.jsonl", jsonl({"id": cell, "source": "s", "response": cell}))
    (row,) = read_responses(path)
    assert (row.id, row.responses) == (text, (text,))


def test_responses_of_one_text_share_its_source(write: Write) -> None:
    path = write("a.csv", "source,response\ntext,a\ntext,b\nother,c\n")
    sources = [row.source for row in read_responses(path)]
    assert sources[0] == sources[1]
    assert sources[0] != sources[2]


def test_only_the_first_rows_are_read_if_so_asked(write: Write) -> None:
    path = write("a.jsonl", jsonl(*({"source": "s", "response": r} for r in "abc")) + "{broken\n")
    assert [row.responses for row in read_responses(path, limit=2)] == [("a",), ("b",)]
    with pytest.raises(DataError, match=r"a\.jsonl, line 4: not a JSON line"):
        read_responses(path)


def test_a_negative_limit_is_refused(write: Write) -> None:
    path = write("a.jsonl", jsonl({"source": "s", "response": "r"}))
    with pytest.raises(ConfigError, match=r"the limit must be 0 \(all rows\) or more, not -1"):
        read_responses(path, limit=-1)


# --- bad rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [{"source": "s", "text": "r"}, {"source": "s"}])
def test_a_row_without_response_names_file_line_and_column(
    write: Write, row: dict[str, str]
) -> None:
    path = write("a.jsonl", jsonl({"source": "s", "response": "r"}, row))
    place = re.escape(f"{path}, line 2, column 'response': the column is missing")
    with pytest.raises(DataError, match=place) as caught:
        read_responses(path)
    assert (caught.value.path, caught.value.line, caught.value.field) == (path, 2, "response")


def test_a_csv_file_without_a_response_column_names_the_columns_it_has(write: Write) -> None:
    with pytest.raises(
        DataError, match=r"a\.csv, line 2, column 'response': .*the row has: source, answer"
    ):
        read_responses(write("a.csv", "source,answer\ns,r\n"))


def test_a_row_without_source_and_instruction_names_the_columns_it_has(write: Write) -> None:
    with pytest.raises(
        DataError, match=r"line 1, column 'source': .*this one has: article, response"
    ):
        read_responses(write("a.jsonl", jsonl({"article": "s", "response": "r"})))


def test_an_empty_row_is_told_to_have_nothing(write: Write) -> None:
    with pytest.raises(DataError, match=r"line 1, column 'source': .*this one has: nothing"):
        read_responses(write("a.jsonl", "{}\n"))


@pytest.mark.parametrize("name", ["source", "instruction"])
def test_a_blank_source_is_told_with_its_column(write: Write, name: str) -> None:
    with pytest.raises(DataError, match=f"line 1, column '{name}': the text is empty"):
        read_responses(write("a.jsonl", jsonl({name: " \n", "response": "r"})))


def test_source_and_instruction_together_are_refused(write: Write) -> None:
    with pytest.raises(
        DataError, match="line 1, column 'instruction': a row has source or instruction, not both"
    ):
        read_responses(
            write("a.jsonl", jsonl({"source": "s", "instruction": "i", "response": "r"}))
        )


@pytest.mark.parametrize("column", ["id", "source_id", "system", "source", "response"])
@pytest.mark.parametrize(
    ("cell", "kind"), [(["a"], "list"), ({"a": 1}, "dict"), (True, "bool"), (float("nan"), "float")]
)
def test_a_cell_that_is_no_text_is_told_with_its_kind(
    write: Write, column: str, cell: object, kind: str
) -> None:
    row = {"source": "s", "response": "r"} | {column: cell}
    with pytest.raises(DataError, match=f"line 1, column '{column}': must be text, not {kind}"):
        read_responses(write("a.jsonl", jsonl(row)))


def test_two_rows_with_one_id_name_both_lines(write: Write) -> None:
    row = {"id": "x", "source": "s", "response": "r"}
    path = write("a.jsonl", "\n" + jsonl(row, row | {"id": "y"}) + "\n" + jsonl(row))
    with pytest.raises(
        DataError,
        match=r"line 5, column 'id': the id 'x' is also that of line 2: give each row its own id",
    ):
        read_responses(path)


def test_a_zero_that_is_given_twice_is_an_id_given_twice(write: Write) -> None:
    row = {"id": 0, "source": "s", "response": "r"}
    with pytest.raises(DataError, match=r"the id '0' is also .*: give each row its own id"):
        read_responses(write("a.jsonl", jsonl(row, row)))


@pytest.mark.parametrize("column", ["id", "source_id", "system", "source", "response"])
def test_half_of_a_surrogate_pair_is_told_with_line_and_column(write: Write, column: str) -> None:
    row = {"source": "s", "response": "r"}
    path = write("a.jsonl", jsonl(row, row | {column: "half \ud83d"}))
    with pytest.raises(DataError, match=f"line 2, column '{column}': holds half of a surrogate"):
        read_responses(path)


def test_two_rows_of_one_system_and_source_need_ids(write: Write) -> None:
    row = {"source": "s", "source_id": "a", "system": "m", "response": "r"}
    with pytest.raises(
        DataError,
        match=r"line 2, column 'id': the id 'a/m' is also that of line 1: add a column id",
    ):
        read_responses(write("a.jsonl", jsonl(row, row)))


def test_two_texts_with_one_source_id_name_both_lines(write: Write) -> None:
    path = write("a.csv", "source_id,source,response\na,one,r\nb,two,r\na,three,r\n")
    with pytest.raises(
        DataError, match=r"line 4, column 'source_id': 'a' stands for another text than in line 2"
    ):
        read_responses(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", ""), ("a.jsonl", "\n \n"), ("a.csv", ""), ("a.csv", "source,response\n")],
)
def test_a_file_without_rows_is_refused(write: Write, name: str, content: str) -> None:
    path = write(name, content)
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}: there are no rows$"):
        read_responses(path)


def test_a_parquet_file_without_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    polars.DataFrame(schema={"source": polars.String}).write_parquet(path)
    with pytest.raises(DataError, match="there are no rows"):
        read_responses(path)


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_file_is_told(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"none{suffix}"
    with pytest.raises(ConfigError, match=f"there is no file '{re.escape(str(path))}'"):
        read_rows(path)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.json", "a.jsonl.gz", ".csv"])
def test_an_unknown_suffix_is_told_with_the_known_ones(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    message = f"{str(path)!r}: the file's suffix must be .jsonl, .csv, .parquet"
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_rows(path)
    with pytest.raises(ConfigError, match=re.escape(message)):
        write_rows(path, [])
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_suffix(path)


def test_a_suffix_may_be_in_upper_case(write: Write) -> None:
    assert list(read_rows(write("A.JSONL", '{"a": 1}\n'))) == [(1, {"a": 1})]


# --- JSON Lines ---------------------------------------------------------------------------------


def test_blank_lines_count_but_are_no_rows(write: Write) -> None:
    path = write("a.jsonl", '\n{"a": 1}\r\n   \n{"a": 2}')
    assert list(read_rows(path)) == [(2, {"a": 1}), (4, {"a": 2})]


def test_a_byte_order_mark_before_json_is_no_text(write: Write) -> None:
    assert list(read_rows(write("a.jsonl", b'\xef\xbb\xbf{"a": 1}\n'))) == [(1, {"a": 1})]


def test_a_line_separator_inside_json_ends_no_line(write: Write) -> None:
    assert list(read_rows(write("a.jsonl", '{"a": "x\u2028y\x85z"}\n{"a": ""}\n'))) == [
        (1, {"a": "x\u2028y\x85z"}),
        (2, {"a": ""}),
    ]


@pytest.mark.parametrize(
    "bad", [b"{broken", b'{"a": 1} {"a": 2}', b"'a'", b'{"a": ' + b"[" * 100_000]
)
def test_a_line_that_is_not_json_is_told_with_its_number(write: Write, bad: bytes) -> None:
    rows = read_rows(write("a.jsonl", b'{"a": 1}\n\n' + bad + b'\n{"a": 2}\n'))
    assert next(rows) == (1, {"a": 1})
    with pytest.raises(DataError, match=r"a\.jsonl, line 3: not a JSON line: "):
        next(rows)


def test_a_json_line_that_is_not_utf_8_is_told_with_its_number(write: Write) -> None:
    rows = read_rows(write("a.jsonl", b'{"a": 1}\n\n{"a": "\xff"}\n'))
    assert next(rows) == (1, {"a": 1})
    with pytest.raises(DataError, match=r"a\.jsonl, line 3: not UTF-8: .* byte 0xff"):
        next(rows)


@pytest.mark.parametrize("bad", ["[1]", "3", '"text"', "null"])
def test_json_that_is_no_object_is_told_with_its_line(write: Write, bad: str) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: a row must be a JSON object"):
        list(read_rows(write("a.jsonl", f'{{"a": 1}}\n{bad}\n')))


# --- CSV ----------------------------------------------------------------------------------------


def test_a_byte_order_mark_before_csv_is_no_part_of_the_first_column(write: Write) -> None:
    path = write("a.csv", b"\xef\xbb\xbfsource,response\r\ns,r\r\n")
    assert list(read_rows(path)) == [(2, {"source": "s", "response": "r"})]


def test_a_row_is_told_by_its_first_line_after_quoted_newlines(write: Write) -> None:
    path = write("a.csv", 'source,response\n"two\nlines",a\n"three\r\nmore\nlines",b\nlast,c\n')
    assert list(read_rows(path)) == [
        (2, {"source": "two\nlines", "response": "a"}),
        (4, {"source": "three\r\nmore\nlines", "response": "b"}),
        (7, {"source": "last", "response": "c"}),
    ]


def test_a_header_may_have_quoted_newlines(write: Write) -> None:
    path = write("a.csv", '"the\nsource",response\ns,r\n')
    assert list(read_rows(path)) == [(3, {"the\nsource": "s", "response": "r"})]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_of_a_csv_file_count_but_are_no_rows(write: Write, end: str) -> None:
    path = write("a.csv", end.join(["", "", "source,response", "", "s,a", "", "", "t,b", ""]))
    assert list(read_rows(path)) == [
        (5, {"source": "s", "response": "a"}),
        (8, {"source": "t", "response": "b"}),
    ]


def test_an_empty_cell_is_null(write: Write) -> None:
    path = write("a.csv", 'source,response\n,""\n')
    assert list(read_rows(path)) == [(2, {"source": None, "response": None})]


def test_a_bad_row_after_quoted_newlines_is_told_by_its_first_line(write: Write) -> None:
    rows = read_rows(write("a.csv", 'source,response\n"two\nlines",a\n"bad"x,b\n'))
    assert next(rows)[0] == 2
    with pytest.raises(DataError, match=r"a\.csv, line 4: not a CSV row: "):
        next(rows)


def test_a_quote_that_is_never_closed_is_told_by_its_first_line(write: Write) -> None:
    with pytest.raises(DataError, match=r"a\.csv, line 3: not a CSV row: unexpected end of data"):
        list(read_rows(write("a.csv", 'source,response\ns,a\n"never,closed\nr,b\n')))


def test_a_bad_header_is_told_by_its_line(write: Write) -> None:
    with pytest.raises(DataError, match=r"a\.csv, line 1: not a CSV row: "):
        list(read_rows(write("a.csv", '"source"x,response\ns,r\n')))


@pytest.mark.parametrize(("row", "n_cells"), [("s,r,more", 3), ("s", 1), ("s,r,", 3)])
def test_a_row_with_too_many_or_few_cells_is_told_by_its_line(
    write: Write, row: str, n_cells: int
) -> None:
    rows = read_rows(write("a.csv", f"source,response\ns,r\n{row}\n"))
    assert next(rows)[0] == 2
    with pytest.raises(DataError, match=rf"a\.csv, line 3: {n_cells} cells for 2 columns$"):
        next(rows)


def test_two_columns_of_one_name_are_refused(write: Write) -> None:
    with pytest.raises(
        DataError, match=r"a\.csv, line 1, column 'source': two columns have this name"
    ):
        list(read_rows(write("a.csv", "source,response,source\ns,r,t\n")))


def test_a_csv_line_that_is_not_utf_8_is_told_with_its_number(write: Write) -> None:
    rows = read_rows(write("a.csv", "source,response\ns,r\ns,caf\xe9\ns,r\n".encode("latin-1")))
    assert next(rows)[0] == 2
    with pytest.raises(DataError, match=r"a\.csv, line 3: not UTF-8: .* byte 0xe9"):
        next(rows)


# --- Parquet ------------------------------------------------------------------------------------


def test_rows_of_a_parquet_file_are_numbered_from_one(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    polars.DataFrame({"id": [7, 8], "source": ["s", "t"]}).write_parquet(path)
    assert list(read_rows(path)) == [
        (1, {"id": 7, "source": "s"}),
        (2, {"id": 8, "source": "t"}),
    ]


def test_brackets_in_the_name_of_a_parquet_file_are_no_pattern(tmp_path: Path) -> None:
    for name in ("data[1]", "data1"):
        polars.DataFrame({"a": [name]}).write_parquet(tmp_path / f"{name}.parquet")
    assert list(read_rows(tmp_path / "data[1].parquet")) == [(1, {"a": "data[1]"})]


@pytest.mark.parametrize("content", [b"", b"garbage" * 50, b"PAR1" + b"garbage" * 50 + b"PAR1"])
def test_bytes_that_are_no_parquet_file_are_refused(write: Write, content: bytes) -> None:
    path = write("a.parquet", content)
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}: not a Parquet file: "):
        read_rows(path)


# --- writing ------------------------------------------------------------------------------------

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=10)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
cells = {
    polars.String: st.none() | st.text(max_size=10),
    polars.Int64: st.none() | st.integers(-(2**63), 2**63 - 1),
    polars.Float64: st.none() | st.floats(allow_nan=False),
}


def written_and_read(name: str, rows: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        assert write_rows(path, rows) == len(rows)
        assert [each.name for each in Path(folder).iterdir()] == [name]
        return list(read_rows(path))


@given(st.lists(st.dictionaries(st.text(max_size=5), values, max_size=3), max_size=4))
def test_any_json_survives_json_lines(rows: list[dict[str, Any]]) -> None:
    assert written_and_read("a.jsonl", rows) == list(enumerate(rows, start=1))


@given(st.lists(st.tuples(st.text(max_size=10), st.text(max_size=10)), min_size=1, max_size=4))
def test_any_text_survives_csv_but_empty_text_becomes_null(pairs: list[tuple[str, str]]) -> None:
    rows = [{"id": one, "the, response": other} for one, other in pairs]
    expected = [{name: cell or None for name, cell in row.items()} for row in rows]
    assert [row for _, row in written_and_read("a.csv", rows)] == expected


@given(st.data())
def test_text_and_numbers_survive_parquet(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(cells)), min_size=1, max_size=3))
    columns = {f"c{i}": cells[kind] for i, kind in enumerate(kinds)}
    rows = data.draw(st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=4))
    assert written_and_read("a.parquet", rows) == list(enumerate(rows, start=1))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_nested_values_become_json_text(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_rows(path, [{"id": "x", "list": [1, [2.5, None]], "map": {"ä": True}, "pair": (1, 2)}])
    ((_, row),) = read_rows(path)
    assert row["id"] == "x"
    assert json.loads(row["list"]) == [1, [2.5, None]]
    assert row["map"] == '{"ä": true}'
    assert json.loads(row["pair"]) == [1, 2]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rows_may_have_different_columns(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_rows(path, [{"b": "1", "a": "2"}, {"a": "3", "c": "4"}])
    rows = [row for _, row in read_rows(path)]
    assert rows == [{"b": "1", "a": "2", "c": None}, {"b": None, "a": "3", "c": "4"}]
    assert [list(row) for row in rows] == [["b", "a", "c"]] * 2


def test_whole_numbers_and_fractions_share_a_parquet_column(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_rows(path, [{"score": None}] * 200 + [{"score": 3}, {"score": 2.5}])
    assert [row["score"] for _, row in read_rows(path)] == [None] * 200 + [3.0, 2.5]


def test_csv_is_written_as_spreadsheets_read_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_rows(path, [{"id": 1, "text": 'a "b", c'}, {"id": None, "text": "d\ne"}])
    assert path.read_bytes() == b'id,text\r\n1,"a ""b"", c"\r\n,"d\ne"\r\n'
    with path.open(newline="") as stream:
        assert len(list(csv.reader(stream))) == 3


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_rows_make_a_file_without_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    assert write_rows(path, []) == 0
    assert list(read_rows(path)) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_there_is_replaced(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_rows(path, [{"a": "old"}, {"a": "old"}])
    write_rows(path, [{"a": "new"}])
    assert [row for _, row in read_rows(path)] == [{"a": "new"}]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_that_fail_leave_the_old_file_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    def failing() -> Iterator[dict[str, str]]:
        yield {"a": "new"}
        raise RuntimeError("no more rows")

    path = tmp_path / f"a{suffix}"
    write_rows(path, [{"a": "old"}])
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="no more rows"):
        write_rows(path, failing())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_the_rights_that_new_files_have(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "a.jsonl"
    before = os.umask(mask)
    try:
        write_rows(path, [{"a": 1}])
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


# --- places that cannot be written --------------------------------------------------------------


def test_a_missing_folder_is_told_before_and_when_writing(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.jsonl"
    with pytest.raises(
        ConfigError,
        match=re.escape(f"{str(path)!r} cannot be written: make the folder {str(path.parent)!r}"),
    ):
        check_writable(path)
    with pytest.raises(ConfigError, match=r"none/a\.jsonl' cannot be written: No such file"):
        write_rows(path, [])


def test_a_folder_in_place_of_the_file_is_told_before_and_when_writing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.mkdir()
    with pytest.raises(ConfigError, match=r"a\.jsonl' is a folder: name a file in it"):
        check_writable(path)
    with pytest.raises(ConfigError, match=r"a\.jsonl' cannot be written: Is a directory"):
        write_rows(path, [])
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"cannot be written: make the folder '.*file'"):
        check_writable(tmp_path / "file" / "a.jsonl")


def test_a_read_only_file_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.jsonl", "old")
    path.chmod(0o444)
    if os.access(path, os.W_OK):  # root may write it: be somebody else
        monkeypatch.setattr(os, "access", lambda name, mode: not (Path(name) == path and mode))
    with pytest.raises(ConfigError, match="cannot be written: the file is there and read-only"):
        check_writable(path)


def test_a_read_only_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):  # root may write into it: be somebody else

        def refuse(**_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    with pytest.raises(ConfigError, match="cannot be written: Permission denied"):
        check_writable(folder / "a.jsonl")


def test_checking_a_place_changes_nothing(write: Write, tmp_path: Path) -> None:
    path = write("a.jsonl", "old")
    check_writable(path)
    check_writable(tmp_path / "new.csv")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "old"


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_a_file_without_rows_can_be_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"empty{suffix}"
    assert write_rows(path, [], columns=["id", "score"]) == 0
    assert list(read_rows(path)) == []
    if suffix != ".jsonl":
        read = polars.read_csv if suffix == ".csv" else polars.read_parquet
        assert read(path).columns == ["id", "score"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ()),
        ({"reference_answer": " good "}, ("good",)),
        ({"reference_answers": ["good", " ", "better"]}, ("good", "better")),
        ({"reference_answers": []}, ()),
        ({"reference_answers": ["good"], "reference_answer": ""}, ("good",)),
        ({"reference_answers": None, "reference_answer": "good"}, ("good",)),
    ],
)
def test_rows_have_any_number_of_reference_answers(
    write: Write, given: dict[str, Any], expected: tuple[str, ...]
) -> None:
    path = write("r.jsonl", json.dumps({"source": "s", "response": "r"} | given))
    (row,) = read_responses(path)
    assert row.reference_answers == expected


def test_reference_answers_come_in_one_column(write: Write) -> None:
    both = {"reference_answer": "a", "reference_answers": ["b"]}
    path = write("r.jsonl", json.dumps({"source": "s", "response": "r"} | both))
    with pytest.raises(DataError, match="reference_answer or reference_answers: drop one"):
        read_responses(path)


def test_a_list_in_the_column_of_one_reference_answer_is_told_its_place(write: Write) -> None:
    row = {"source": "s", "response": "r", "reference_answer": ["a"]}
    with pytest.raises(DataError, match="is a list: call the column reference_answers"):
        read_responses(write("r.jsonl", json.dumps(row)))
