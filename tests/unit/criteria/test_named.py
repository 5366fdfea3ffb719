"""Criteria by name and from files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adjudge.criteria.named import load_criterion, named_criteria
from adjudge.errors import ConfigError, DataError
from adjudge.schema import TASKS, Criterion

TWO = """
[wit]
title = "Wit"
description = "how funny it is"

[plain_style]
description = "how plain it is"
"""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(TWO, "utf-8")
    return path


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_criteria_that_say_what_they_mean(task: str) -> None:
    criteria = named_criteria(task)
    assert criteria
    for name, criterion in criteria.items():
        assert criterion.name == name
        assert criterion.title.strip()
        assert criterion.description.strip()


def test_summaries_have_the_four_qualities_of_summeval() -> None:
    assert {"coherence", "consistency", "fluency", "relevance"} <= named_criteria(
        "summarization"
    ).keys()


def test_an_unknown_task_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown task 'storey': did you mean 'story'\?"):
        named_criteria("storey")


def test_a_path_is_no_task() -> None:
    with pytest.raises(ConfigError, match=r"unknown task '\.\./data/story'"):
        named_criteria("../data/story")


def test_a_name_means_what_the_task_says() -> None:
    for task in ("summarization", "dialogue"):
        assert load_criterion("coherence", task) == named_criteria(task)["coherence"]
    assert load_criterion("coherence", "summarization") != load_criterion("coherence", "dialogue")


def test_an_unknown_name_is_told_with_the_nearest_and_the_way_out() -> None:
    with pytest.raises(
        ConfigError,
        match=r"unknown criterion of summarization 'coherance': did you mean 'coherence'\?"
        r".*Or a TOML file",
    ):
        load_criterion("coherance", "summarization")


def test_a_name_of_another_task_is_unknown() -> None:
    with pytest.raises(ConfigError, match="unknown criterion of summarization 'engagingness'"):
        load_criterion("engagingness", "summarization")


def test_a_file_with_one_criterion_needs_no_name(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[wit]\ntitle = "Wit"\ndescription = "how funny it is"\n', "utf-8")
    wit = Criterion(name="wit", title="Wit", description="how funny it is")
    assert load_criterion(str(path), "story") == wit
    assert load_criterion(f"{path}:wit", "story") == wit


def test_a_criterion_without_title_is_titled_by_its_name(two: Path) -> None:
    assert load_criterion(f"{two}:plain_style", "story") == Criterion(
        name="plain_style", title="Plain style", description="how plain it is"
    )


def test_one_of_two_criteria_must_be_named(two: Path) -> None:
    with pytest.raises(ConfigError, match=r"own\.toml holds 2 criteria: name one, as in .*:wit"):
        load_criterion(str(two), "story")


def test_a_name_that_the_file_lacks_is_told_with_the_nearest(two: Path) -> None:
    with pytest.raises(ConfigError, match=r"'witt': did you mean 'wit'\?"):
        load_criterion(f"{two}:witt", "story")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(ConfigError, match=f"there is no file '{re.escape(str(path))}'"):
        load_criterion(f"{path}:wit", "story")


def test_a_longer_suffix_is_no_toml_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(TWO, "utf-8")
    with pytest.raises(ConfigError, match=r"unknown criterion of story '.*c\.tomlx'"):
        load_criterion(str(tmp_path / "c.tomlx"), "story")


def test_a_file_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(TWO.encode() + b"# caf\xe9\n")
    with pytest.raises(DataError, match=r"own\.toml: cannot be read: 'utf-8' codec"):
        load_criterion(f"{path}:wit", "story")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[wit\n", "own.toml: not TOML: "),
        ('[wit]\ntitle = "Wit"\n', "own.toml, column 'wit': a criterion needs a description"),
        ('[wit]\ndescription = " "\n', "own.toml, column 'wit': a criterion needs a description"),
        ("[wit]\ndescription = 3\n", "own.toml, column 'wit': a criterion needs a description"),
        ('wit = "how funny"\n', "own.toml, column 'wit': a criterion needs a description"),
        (
            '[wit]\ntitle = 3\ndescription = "how funny"\n',
            "own.toml, column 'wit': a criterion needs a title",
        ),
        (
            '[wit]\ntitle = ""\ndescription = "how funny"\n',
            "own.toml, column 'wit': a criterion needs a title",
        ),
        (
            '[wit]\ndescription = "how funny"\nrubric = "none"\n',
            "own.toml, column 'wit': unknown key 'rubric'",
        ),
    ],
)
def test_a_file_that_holds_no_criteria_is_told_with_the_place(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(DataError, match=re.escape(message)):
        load_criterion(f"{path}:wit", "story")
