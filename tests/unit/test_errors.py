"""The exception tree and its messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjudge.errors import AdjudgeError, ConfigError, DataError, EngineError, StoreError


@pytest.mark.parametrize("kind", [ConfigError, DataError, EngineError, StoreError])
def test_every_error_is_caught_as_an_adjudge_error(kind: type[AdjudgeError]) -> None:
    with pytest.raises(AdjudgeError, match=r"^what is wrong$"):
        raise kind("what is wrong")


def test_errors_of_one_kind_are_not_errors_of_another() -> None:
    kinds = (ConfigError, DataError, EngineError, StoreError)
    assert [[issubclass(a, b) for b in kinds] for a in kinds] == [
        [True, False, False, False],
        [False, True, False, False],
        [False, False, True, False],
        [False, False, False, True],
    ]


@pytest.mark.parametrize(
    ("path", "line", "field", "message"),
    [
        (None, None, None, "bad"),
        ("a.csv", None, None, "a.csv: bad"),
        (Path("b/a.csv"), 3, None, "b/a.csv, line 3: bad"),
        ("a.csv", 3, "id", "a.csv, line 3, column 'id': bad"),
        ("a.csv", None, "id", "a.csv, column 'id': bad"),
        (None, 7, "id", "line 7, column 'id': bad"),
    ],
)
def test_a_data_error_says_where_as_far_as_known(
    path: str | Path | None, line: int | None, field: str | None, message: str
) -> None:
    error = DataError("bad", path=path, line=line, field=field)
    assert str(error) == message
    assert (error.path, error.line, error.field) == (path, line, field)


def test_an_engine_error_ends_with_its_hint() -> None:
    error = EngineError("the server is gone", retryable=True, hint="start it again")
    assert str(error) == "the server is gone; start it again"
    assert error.retryable
    assert error.hint == "start it again"


def test_an_engine_error_is_not_retryable_unless_told() -> None:
    error = EngineError("the server is gone")
    assert str(error) == "the server is gone"
    assert not error.retryable
