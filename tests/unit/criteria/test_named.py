"""Criteria by name and from files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adjudge.criteria.named import load_criterion, named_criteria
from adjudge.errors import ConfigError, DataError
from adjudge.schema import TASKS, Criterion, Question

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
            '[wit]\ndescription = "how funny"\nscale = "none"\n',
            "own.toml, column 'wit': unknown key 'scale'; a criterion has title, description, "
            "rubric, questions",
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


# --- rubrics and questions ----------------------------------------------------------------------


def wit(tmp_path: Path, more: str) -> Criterion:
    """Return a criterion from a file with more lines."""
    path = tmp_path / "own.toml"
    path.write_text(f'[wit]\ndescription = "how funny"\n{more}\n', "utf-8")
    return load_criterion(str(path), "story")


@pytest.mark.parametrize(
    "more",
    [
        'rubric.1 = "none"\nrubric.2 = " some "\nrubric.3 = "much"',
        'rubric.3 = "much"\nrubric.1 = "none"\nrubric.2 = "some"',
        '[wit.rubric]\n1 = "none"\n2 = "some"\n3 = "much"',
    ],
)
def test_a_rubric_describes_the_scores_that_it_names(tmp_path: Path, more: str) -> None:
    assert wit(tmp_path, more) == Criterion(
        name="wit",
        title="Wit",
        description="how funny",
        rubric=("none", "some", "much"),
        levels=(1, 2, 3),
    )


def test_a_list_of_descriptions_names_no_scores(tmp_path: Path) -> None:
    found = wit(tmp_path, 'rubric = ["none", "some", "much"]')
    assert (found.rubric, found.levels) == (("none", "some", "much"), ())
    named = wit(tmp_path, 'rubric.1 = "none"\nrubric.2 = "some"\nrubric.3 = "much"')
    assert found.hash == named.hash


def test_a_rubric_of_other_scores_has_them_as_levels(tmp_path: Path) -> None:
    found = wit(tmp_path, 'rubric.1 = "much"\nrubric."0.5" = "some"\nrubric.0 = "none"')
    assert found.rubric == ("none", "some", "much")
    assert found.levels == (0, 0.5, 1)


def test_questions_weigh_1_if_not_said(tmp_path: Path) -> None:
    more = (
        'questions = ["Is it new? ", { text = "Is it kind?", weight = 2.5 }, { text = "Funny?" }]'
    )
    assert wit(tmp_path, more).questions == (
        Question(text="Is it new?"),
        Question(text="Is it kind?", weight=2.5),
        Question(text="Funny?"),
    )


def test_equal_weights_are_one_criterion_however_written(tmp_path: Path) -> None:
    hashes = {
        wit(tmp_path, f"questions = [{each}]").hash
        for each in ('"New?"', '{ text = "New?", weight = 1 }', '{ text = "New?", weight = 1.0 }')
    }
    assert hashes == {
        Criterion(
            name="x", title="Wit", description="how funny", questions=(Question(text="New?"),)
        ).hash
    }


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            'rubric = "none"',
            "the rubric of 'wit' must be a table of score -> description or a list",
        ),
        ("rubric = []", "the rubric of 'wit' must be a table of score -> description or a list"),
        ('rubric.low = "none"', "the rubric of 'wit' describes 'low', which is no number"),
        ('rubric.1 = "a"\nrubric.2 = " "', "the rubric of 'wit' has no text for the score 2"),
        ('rubric = ["a", 3]', "the rubric of 'wit' has no text for the score 2"),
        ('rubric.1 = "a"\nrubric.01 = "b"', "the rubric of 'wit' describes the score 1 twice"),
        ('questions = "New?"', "questions must be a list with one question or more, not 'New?'"),
        ("questions = []", "questions must be a list with one question or more, not []"),
        ('questions = ["New?", ""]', "question 2 has no text"),
        ("questions = [{ weight = 2 }]", "question 1 has no text"),
        ("questions = [7]", "question 1 has no text"),
        ('questions = [{ text = "New?", weigth = 2 }]', "question 1 has an unknown key 'weigth'"),
        ('questions = [{ text = "New?", weight = 0 }]', "question 1 must have a weight above 0"),
        ('questions = [{ text = "New?", weight = nan }]', "question 1 must have a weight above 0"),
        ('questions = [{ text = "New?", weight = "2" }]', "a weight above 0, not '2'"),
        ('questions = [{ text = "New?", weight = true }]', "a weight above 0, not True"),
        (
            'questions = [{ text = "New?", weight = inf }]',
            "must be from 0.000001 to 1000000, not inf",
        ),
        ('questions = ["New?", "Old?", "New? "]', "question 3 repeats an earlier one, 'New?'"),
    ],
)
def test_a_wrong_rubric_or_question_is_told_with_the_place(
    tmp_path: Path, more: str, message: str
) -> None:
    with pytest.raises(DataError, match=rf"own\.toml, column 'wit': .*{re.escape(message)}"):
        wit(tmp_path, more)
