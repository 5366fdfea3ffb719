"""Names, near misses and values by type."""

from __future__ import annotations

import sys
from collections import OrderedDict
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.errors import ConfigError
from adjudge.registry import Registry, engines, judges, unknown_name
from adjudge.runs.config import checked_fields


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fields of the types that options have."""

    kind: ClassVar[str] = "options"
    count: int = 1
    ratio: float = 0.5
    name: str = ""
    flag: bool = False
    names: tuple[str, ...] = ()


# --- unknown names ------------------------------------------------------------------------------


def test_a_near_miss_is_told_before_all_names() -> None:
    error = unknown_name("judge", "lader", ["ladder", "direct"])
    assert str(error) == ("unknown judge 'lader': did you mean 'ladder'? Available: direct, ladder")


def test_several_near_misses_are_joined() -> None:
    text = str(unknown_name("model", "model-c", ["model-a", "model-b", "zebra"]))
    assert "did you mean 'model-a' or 'model-b'? " in text or (
        "did you mean 'model-b' or 'model-a'? " in text
    )


def test_at_most_three_near_misses_are_told() -> None:
    text = str(unknown_name("model", "model-x", [f"model-{i}" for i in range(9)]))
    assert text.partition("?")[0].count("model-") == 4


def test_a_name_like_no_other_gets_no_guess() -> None:
    error = unknown_name("judge", "zzzz", ["ladder", "direct"], hint="See the list")
    assert str(error) == "unknown judge 'zzzz': Available: direct, ladder. See the list"


def test_that_nothing_is_available_is_said() -> None:
    assert str(unknown_name("judge", "x", [])) == "unknown judge 'x': Available: none"


# --- checked fields -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given_value", "value"),
    [
        ("count", "12", 12),
        ("count", -3, -3),
        ("ratio", "0.25", 0.25),
        ("ratio", 2, 2.0),
        ("name", "12", "12"),
        ("flag", "true", True),
        ("flag", "false", False),
        ("names", ["a", "b"], ("a", "b")),
    ],
)
def test_values_become_what_the_field_is(name: str, given_value: object, value: object) -> None:
    found = checked_fields(Options, {name: given_value}, what="option")
    assert found == {name: value}
    assert type(found[name]) is type(value)


def test_fields_that_are_not_given_are_left_out() -> None:
    assert checked_fields(Options, {}, what="option") == {}


@given(st.integers())
def test_a_whole_number_is_read_back_from_its_text(number: int) -> None:
    assert checked_fields(Options, {"count": str(number)}, what="option") == {"count": number}


def test_an_unknown_field_is_told_with_the_nearest() -> None:
    with pytest.raises(
        ConfigError,
        match=r"unknown option 'cuont': did you mean 'count'\? Available: count, flag, name, names",
    ):
        checked_fields(Options, {"cuont": 1}, what="option")


def test_a_class_variable_is_no_field() -> None:
    with pytest.raises(ConfigError, match="unknown option 'kind'"):
        checked_fields(Options, {"kind": "x"}, what="option")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("count", "many", "valid integer"),
        ("count", 1.5, "valid integer"),
        ("ratio", "half", "valid number"),
        ("name", 3, "valid string"),
        ("flag", "perhaps", "valid boolean"),
        ("names", "a", "valid tuple"),
        ("names", [1], "valid string"),
    ],
)
def test_a_value_of_the_wrong_type_is_told_with_its_name(
    name: str, value: Any, problem: str
) -> None:
    with pytest.raises(ConfigError, match=f"^option '{name}': .*{problem}.*, not ") as caught:
        checked_fields(Options, {name: value}, what="option")
    assert str(caught.value).endswith(f"not {value!r}")


# --- registry -----------------------------------------------------------------------------------


def no_plugins(*, group: str) -> list[EntryPoint]:
    return []


@pytest.fixture
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjudge.registry.entry_points", no_plugins)


@pytest.mark.usefixtures("without_plugins")
def test_a_part_is_imported_when_it_is_asked_for() -> None:
    parts = Registry("part", {"ordered": "collections:OrderedDict"})
    assert parts.load("ordered") is OrderedDict


@pytest.mark.usefixtures("without_plugins")
def test_a_part_that_is_not_asked_for_is_not_imported() -> None:
    parts = Registry("part", {"a": "no_such_module:A", "b": "collections:OrderedDict"})
    parts.load("b")
    assert "a" in parts.targets()
    assert "no_such_module" not in sys.modules


@pytest.mark.usefixtures("without_plugins")
def test_an_unknown_part_is_told_with_the_nearest() -> None:
    parts = Registry("part", {"ordered": "collections:OrderedDict"})
    assert "orderd" not in parts.targets()
    with pytest.raises(ConfigError, match=r"unknown part 'orderd': did you mean 'ordered'\?"):
        parts.load("orderd")


def test_other_packages_add_parts_but_replace_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def found(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [
            EntryPoint("counter", "collections:Counter", group),
            EntryPoint("ordered", "collections:deque", group),
        ]

    monkeypatch.setattr("adjudge.registry.entry_points", found)
    parts = Registry("part", {"ordered": "collections:OrderedDict"})
    assert parts.targets() == {
        "ordered": "collections:OrderedDict",
        "counter": "collections:Counter",
    }
    assert parts.load("ordered") is OrderedDict
    assert "counter" in parts.targets()
    assert asked == ["adjudge.parts"]


@pytest.mark.parametrize("registry", [judges, engines], ids=["judges", "engines"])
def test_built_in_targets_are_a_module_and_a_class(registry: Registry) -> None:
    for target in registry.targets().values():
        module, colon, name = target.partition(":")
        assert module
        assert colon
        assert name.isidentifier()
