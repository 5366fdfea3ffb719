"""Scores in what a model wrote."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.prompts.verdict import parse_score
from adjudge.schema import Scale

FIVE = Scale()
TEN = Scale(low=1, high=10)

#: Text with no number in it and nothing that binds to one over a blank.
around = st.text(
    st.characters(categories=["L", "P", "Z"], exclude_characters="/"), max_size=30
).filter(lambda text: not re.search(r"out\s+of\s*$", text, re.I))


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("4", 4),
        (" 4\n", 4),
        ("Score: 4", 4),
        ("Score:4.", 4),
        ("**4**", 4),
        ("(4)", 4),
        ("'4'", 4),
        ("[[4]]", 4),
        ("+4", 4),
        ("4/5", 4),
        ("4 / 5", 4),
        ("4/5.0", 4),
        ("4 out of 5", 4),
        ("4 OUT OF 5", 4),
        ("I give it a 4, and 4 it stays", 4),
        ("4 and +4", 4),
        ("5/5", 5),
        ("The score (out of 5): 3", 3),
    ],
)
def test_the_one_score_of_a_text_is_read(text: str, score: int) -> None:
    assert parse_score(text, FIVE) == score


@pytest.mark.parametrize(
    "text",
    [
        "",
        "four",
        "no score",
        "3 or 4",
        "3-4",
        "between 1 and 5",
        "0",
        "6",
        "44",
        "-4",
        "4.5",
        "4,5",
        "4.5/5",
        ".4",
        "/5",
        "out of 5",
        "4th",
        "B4",
        "4a",
        "4.5x",
        "4.5分",
        "the 1.5B model",
        "4,000th",
        "4/10",
        "1/2/3",
        "9" * 5000,
        "1. The text is good. Score: 4",
    ],
)
def test_a_text_without_one_score_of_the_scale_gives_none(text: str) -> None:
    assert parse_score(text, FIVE) is None


def test_what_counts_is_the_scale_that_is_given() -> None:
    assert parse_score("10", TEN) == 10
    assert parse_score("10", FIVE) is None
    assert parse_score("0", Scale(low=0, high=1)) == 0


@given(st.one_of(st.text(max_size=60), st.text("0123456789.,/+- outfscre\n", max_size=30)))
def test_any_text_gives_a_score_of_the_scale_or_none(text: str) -> None:
    assert parse_score(text, FIVE) in (None, *FIVE.scores)


@given(around, st.sampled_from(TEN.scores), around)
def test_text_around_a_score_does_not_matter(before: str, score: int, after: str) -> None:
    assert parse_score(f"{before} {score} {after}", TEN) == score


@given(around, around, around, st.permutations(TEN.scores))
def test_two_different_scores_give_none(
    before: str, between: str, after: str, scores: list[int]
) -> None:
    assert parse_score(f"{before} {scores[0]} {between} {scores[1]} {after}", TEN) is None


@given(around)
def test_text_without_a_number_gives_none(text: str) -> None:
    assert parse_score(text, TEN) is None
