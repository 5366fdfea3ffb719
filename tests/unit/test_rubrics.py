"""Rubrics as text and as mappings, and which scores they describe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.benchmarks.base import LocalFile
from adjudge.benchmarks.prometheus import read_scores
from adjudge.errors import ConfigError
from adjudge.rubrics import described_levels, parse_rubric, rubric_levels, rubric_text
from adjudge.schema import Criterion, Scale

FIVE = ("poor", "weak", "fair", "good", "great")
TEXT = """[Is it witty?]
Score 1: poor
Score 2: weak
Score 3: fair
Score 4: good
Score 5: great"""
WITTY = Criterion(
    name="rubric", title="Rubric", description="Is it witty?", rubric=FIVE, levels=(1, 2, 3, 4, 5)
)


def criterion(*rubric: str, levels: tuple[float, ...] = ()) -> Criterion:
    return Criterion(name="wit", title="Wit", description="fun", rubric=rubric, levels=levels)


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rubric",
    [
        TEXT,
        TEXT.replace("[", "").replace("]", ""),
        TEXT.replace("\n", "\r\n"),
        f"\n\n {TEXT}\n",
        TEXT.replace("\n", "\n\n  "),
        TEXT.replace("Score ", "Score  ").replace(":", " :"),
        "\n".join([TEXT.splitlines()[0], *reversed(TEXT.splitlines()[1:])]),
        {"criteria": "Is it witty?"}
        | {f"score{i}_description": f" {text}\n" for i, text in enumerate(FIVE, start=1)},
        {"criteria": "Is it witty?", "scores": dict(enumerate(FIVE, start=1))},
        {"criteria": "Is it witty?", "scores": {str(i + 1): FIVE[i] for i in range(5)}},
        {"criteria": "Is it witty?", "scores": list(FIVE)},
        {"criteria": "Is it witty?", "scores": list(FIVE[:4]), "score5_description": "great"},
    ],
)
def test_every_form_of_a_rubric_is_one_criterion(rubric: str | dict[str, object]) -> None:
    assert parse_rubric(rubric) == WITTY


def test_it_is_the_criterion_that_a_benchmark_with_this_rubric_has(tmp_path: Path) -> None:
    prompt = (
        "###The instruction to evaluate:\nTell a joke.\n\n###Response to evaluate:\nNo.\n\n"
        f"###Score Rubrics:\n{TEXT}\n\n###Feedback: "
    )
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"instruction": prompt, "orig_score": 2}), "utf-8")
    (row,) = read_scores([LocalFile(path, group="x")])
    assert row.criterion is not None
    assert row.criterion == parse_rubric(TEXT)
    assert row.criterion.hash == parse_rubric(TEXT).hash


def test_parts_may_go_over_several_lines() -> None:
    found = parse_rubric(
        "[Is it witty?\n\nAnd kind?]\nScore 1: poor,\nas in Score 3: no\nScore 2: b"
    )
    assert found.description == "Is it witty?\n\nAnd kind?"
    assert found.rubric == ("poor,\nas in Score 3: no", "b")


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("[Is it witty?]", "Is it witty?"),
        ("Is it witty?", "Is it witty?"),
        ("[a] or [b]", "[a] or [b]"),
        ("[see [1]]", "see [1]"),
        ("[see ] here]", "see ] here"),
        ("[one] of them", "[one] of them"),
    ],
)
def test_brackets_go_where_they_are_around_the_whole(text: str, description: str) -> None:
    found = parse_rubric(text, name="wit", title="Wit")
    assert found == Criterion(name="wit", title="Wit", description=description)


def test_scores_other_than_1_to_n_are_levels() -> None:
    found = parse_rubric("fun\nScore 10: much\nScore -1: none\nScore 0.5: some")
    assert found.rubric == ("none", "some", "much")
    assert found.levels == (-1, 0.5, 10)


@pytest.mark.parametrize("scores", [(0, 1, 2), (1, 2, 3), (1, 3), (1, 1.5, 2)])
def test_scores_that_are_said_are_levels(scores: tuple[float, ...]) -> None:
    assert described_levels(dict.fromkeys(scores, "a")) == (("a",) * len(scores), scores)
    assert described_levels(["a", "b"]) == (("a", "b"), ())


def test_said_scores_are_not_moved_to_those_of_another_scale() -> None:
    with pytest.raises(ConfigError, match="describes 5, which the scale 0-4 does not have"):
        rubric_levels(parse_rubric(TEXT), Scale(low=0, high=4))


def test_equal_scores_have_equal_hashes_however_written() -> None:
    forms = [{0: "a", 5: "b"}, {0.0: "a", 5.0: "b"}, {"0": "a", "5.0": "b"}, {-0.0: "a", "5": "b"}]
    hashes = {parse_rubric({"criteria": "fun", "scores": scores}).hash for scores in forms}
    assert hashes == {parse_rubric("fun\nScore 5: b\nScore 0: a").hash}


@pytest.mark.parametrize(
    ("rubric", "message"),
    [
        ("", "the rubric 'wit' does not say what is judged"),
        (" \n", "the rubric 'wit' does not say what is judged"),
        ("[ ]\nScore 1: a", "the rubric 'wit' does not say what is judged"),
        ("Score 1: a\nScore 2: b", "the rubric 'wit' does not say what is judged"),
        ({}, "the rubric 'wit' does not say what is judged"),
        ({"criteria": 3}, "the rubric 'wit' does not say what is judged"),
        ("fun\nScore 3: a\nScore 3: b", "the rubric of 'wit' describes the score 3 twice: drop"),
        (
            {"criteria": "fun", "scores": ["a"], "score1_description": "b"},
            "the rubric of 'wit' describes the score 1 twice",
        ),
        (
            "fun\nScore 1: a\nScore 2:\nScore 3: b",
            "the rubric of 'wit' has no text for the score 2",
        ),
        ("fun\nScore 1: a\nScore 2: ", "the rubric of 'wit' has no text for the score 2"),
        (
            {"criteria": "fun", "score1_description": None},
            "the rubric of 'wit' has no text for the score 1: say what deserves it, not None",
        ),
        (
            {"criteria": "fun", "score_1": "a"},
            "the rubric 'wit' has an unknown field 'score_1': it has criteria and either scores",
        ),
        (
            {"criteria": "fun", "scores": {"low": "a"}},
            "the rubric of 'wit' describes 'low', which is no number",
        ),
        (
            {"criteria": "fun", "scores": {True: "a"}},
            "the rubric of 'wit' describes True, which is no number",
        ),
        (
            {"criteria": "fun", "scores": "a"},
            "the rubric of 'wit' must be a table of score -> description or a list",
        ),
        (
            {"criteria": "fun", "scores": {}},
            "the rubric of 'wit' must be a table of score -> description or a list",
        ),
    ],
)
def test_a_wrong_rubric_is_told_by_name(rubric: str | dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        parse_rubric(rubric, name="wit")


# --- levels -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "given", "scores"),
    [
        ("1-3", criterion("a", "b", "c"), (1, 2, 3)),
        ("0-2", criterion("a", "b", "c"), (0, 1, 2)),
        ("1,5,9", criterion("a", "b", "c"), (1, 5, 9)),
        ("1..3", criterion("a", "b", "c"), (1, 2, 3)),
        ("0.5..1.5", criterion("a", "b"), (0.5, 1.5)),
        ("0-2", criterion("a", "b", "c", levels=(0, 1, 2)), (0, 1, 2)),
        ("0..1", criterion("a", "b", "c", levels=(0, 0.25, 1)), (0, 0.25, 1)),
        ("1-100", criterion("a", "b", "c", levels=(1, 30, 100)), (1, 30, 100)),
        ("0-10", criterion("a", "b", levels=(0, 10)), (0, 10)),
    ],
)
def test_descriptions_go_to_their_levels_or_to_the_scale_in_turn(
    scale: str, given: Criterion, scores: tuple[float, ...]
) -> None:
    assert rubric_levels(given, Scale.of(scale)) == tuple(zip(scores, given.rubric, strict=True))


def test_levels_in_any_order_come_lowest_first() -> None:
    given = criterion("c", "a", "b", levels=(3, 1, 2))
    assert rubric_levels(given, Scale(low=1, high=3)) == ((1, "a"), (2, "b"), (3, "c"))


@pytest.mark.parametrize("scale", ["1-5", "0..1", "1-100"])
def test_a_criterion_without_a_rubric_has_no_levels(scale: str) -> None:
    assert rubric_levels(criterion(), Scale.of(scale)) == ()


@pytest.mark.parametrize(
    ("scale", "given", "message"),
    [
        (
            "1-5",
            criterion(*"abcd", levels=(1, 2, 4, 5)),
            "the rubric of 'wit' describes 1, 2, 4 and 5 of the scale 1-5 and not 3: describe it "
            "too or take another scale",
        ),
        ("1-5", criterion(*"abc"), "describes 1, 2 and 3 of the scale 1-5 and not 4 and 5: d"),
        ("1-5", criterion("a"), "describes 1 of the scale 1-5 and not 2, 3, 4 and 5: "),
        ("1-10", criterion(*"ab", levels=(1, 10)), "and not 2, 3, 4, 5, 6, 7, 8 and 9: "),
        ("1-100", criterion(*"abcde"), "describes 1, 2, 3, 4 and 5 of the scale 1-100 and not 100"),
        ("0-10", criterion(*"ab", levels=(1, 9)), "and not 0 and 10: describe them too"),
        (
            "0..1",
            criterion(*"ab", levels=(0.5, 1)),
            "describes 0.5 and 1 of the scale 0..1 and not 0",
        ),
        (
            "1-3",
            criterion(*"abcd"),
            "the rubric of 'wit' has 4 descriptions and the scale 1-3 has 3 scores: drop some",
        ),
        (
            "1-5",
            criterion(*"abcdef", levels=(0, 1, 2, 3, 4, 5)),
            "the rubric of 'wit' describes 0, which the scale 1-5 does not have",
        ),
        ("1,3,5", criterion(*"abc", levels=(1, 2, 5)), "describes 2, which the scale 1,3,5 does"),
        ("1-2", criterion(*"abc", levels=(1, 1.5, 2)), "describes 1.5, which the scale 1-2 does"),
        ("0..1", criterion(*"abc"), "describes 2, which the scale 0..1 does not have"),
        ("1-2", criterion(*"abc", levels=(1, 2)), "has 3 descriptions and 2 levels"),
        ("1-2", criterion(*"abc", levels=(1, 2, 2)), "describes the score 2 twice"),
        ("1-2", criterion("a", " "), "has no text for the score 2"),
    ],
)
def test_a_rubric_that_does_not_fit_the_scale_is_told(
    scale: str, given: Criterion, message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        rubric_levels(given, Scale.of(scale))


# --- writing ------------------------------------------------------------------------------------


def test_a_criterion_is_written_as_it_was_read() -> None:
    assert rubric_text(WITTY, Scale()) == TEXT


def test_a_criterion_without_a_rubric_is_written_as_its_first_line() -> None:
    assert rubric_text(criterion(), Scale()) == "[fun]"


def test_levels_are_written_as_numbers_are() -> None:
    given = criterion("a", "b", "c", levels=(0, 0.25, 123456))
    text = rubric_text(given, Scale(low=0, high=123456, continuous=True))
    assert text == "[fun]\nScore 0: a\nScore 0.25: b\nScore 123456: c"


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(
    lambda text: text == text.strip() != "" and not re.search(r"Score\s", text)
)


@given(
    words.filter(lambda text: not re.fullmatch(r"[^\[\]]*\].*\[[^\[\]]*", text, re.DOTALL)),
    st.lists(words, min_size=2, max_size=10),
)
def test_what_is_written_is_read_back(description: str, rubric: list[str]) -> None:
    levels = tuple(range(1, len(rubric) + 1))
    asked = Criterion(
        name="wit", title="Wit", description=description, rubric=tuple(rubric), levels=levels
    )
    scale = Scale(low=1, high=len(rubric))
    assert parse_rubric(rubric_text(asked, scale), name="wit", title="Wit") == asked


@pytest.mark.parametrize("scale", ["0-2", "-1,4,9", "0..2"])
def test_what_is_written_on_another_scale_describes_the_same_scores(scale: str) -> None:
    asked, on = criterion("a", "b", "c"), Scale.of(scale)
    again = parse_rubric(rubric_text(asked, on))
    assert rubric_levels(again, on) == rubric_levels(asked, on)
    assert len(again.levels) == 3
