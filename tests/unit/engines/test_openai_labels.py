"""Label scores from shown tokens, by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.engines.base import NextToken, label_contexts, score_labels
from adjudge.engines.openai_answers import Shown
from adjudge.engines.openai_labels import label_steps, label_texts
from adjudge.errors import ConfigError
from adjudge.exchange import (
    LabelScores,
    Message,
    ScoreLabels,
    Usage,
    reply_from_json,
    reply_to_json,
)

MESSAGES = (Message(role="user", content="Which?"),)
Model = Mapping[str, Mapping[str, float]]


def shown(tokens: Mapping[str, float], top: int = 1000) -> Shown:
    more = {**tokens, "~": 1e-9}
    ranked = sorted(((token, math.log(p)) for token, p in more.items()), key=lambda t: -t[1])
    return Shown(tuple(ranked[:top]), ranked[:top][-1][1])


def scored(
    labels: tuple[str, ...], model: Model, *, can_continue: bool = True, top: int = 1000
) -> tuple[LabelScores, list[str]]:
    """Return the scores under a model of next tokens by what came before, and what was asked."""
    request = ScoreLabels(messages=MESSAGES, labels=labels)
    steps = label_steps(request, can_continue=can_continue)
    begun, asked = next(steps), []
    while True:
        asked.append(begun)
        try:
            begun = steps.send(shown(model[begun], top))
        except StopIteration as end:
            return cast("LabelScores", end.value), asked


def test_a_label_of_one_token_has_its_probability() -> None:
    reply, asked = scored(("Better", "Worse"), {"": {"Better": 0.5, "Worse": 0.25, "I": 0.2}})
    assert reply.logprobs == pytest.approx((math.log(0.5), math.log(0.25)))
    assert reply.masses == pytest.approx((0.5, 0.25))
    assert reply.coverage == pytest.approx(0.75)
    assert reply.exact
    assert reply.n_tokens == (1, 1)
    assert reply.merged == ()
    assert asked == [""]
    assert [token for token, _ in reply.top_tokens] == ["Better", "Worse", "I", "~"]


def test_tokens_that_equal_a_label_up_to_leading_white_space_are_merged_and_reported() -> None:
    tokens = {"Better": 0.25, " Better": 0.125, "\nBetter": 0.0625, " Worse": 0.25, "better": 0.2}
    reply, _ = scored(("Better", "Worse"), {"": tokens})
    assert reply.masses == pytest.approx((0.4375, 0.25))
    assert sorted(reply.merged) == ["\nBetter", " Better", " Worse"]
    assert reply.exact


def test_a_label_with_a_leading_blank_is_the_token_without_it_too() -> None:
    reply, _ = scored((" A", " B"), {"": {" A": 0.5, "A": 0.125, " B": 0.25}})
    assert reply.masses == pytest.approx((0.625, 0.25))
    assert reply.merged == ("A",)


def test_a_label_that_is_not_shown_is_bounded_by_the_least_that_is() -> None:
    reply, _ = scored(
        ("Better", "Worse"), {"": {"Better": 0.5, "I": 0.25, "x": 0.1, "y": 0.05}}, top=3
    )
    assert reply.logprobs == pytest.approx((math.log(0.5), math.log(0.1)))
    assert not reply.exact


def test_a_beginning_bounds_its_label_where_the_server_does_not_go_on() -> None:
    model = {"": {"Better": 0.5, "W": 0.25, "I": 0.2}}
    reply, asked = scored(("Better", "Worse"), model, can_continue=False)
    assert reply.logprobs[1] == pytest.approx(math.log(0.25))
    assert reply.masses == pytest.approx((0.5, 0.25))
    assert not reply.exact
    assert asked == [""]


def test_a_beginning_is_followed_where_the_server_goes_on() -> None:
    model = {"": {"Better": 0.5, "W": 0.25, "I": 0.2}, "W": {"orse": 0.5, "ell": 0.25}}
    reply, asked = scored(("Better", "Worse"), model)
    assert reply.masses == pytest.approx((0.5, 0.125))
    assert reply.exact
    assert reply.n_tokens == (1, 2)
    assert asked == ["", "W"]


def test_a_beginning_with_a_leading_blank_is_one_with_that_without() -> None:
    model = {"": {"W": 0.25, " W": 0.25, "I": 0.2}, "W": {"orse": 0.5, " orse": 0.25}}
    reply, asked = scored(("Worse",), model)
    assert reply.masses == pytest.approx((0.25,))
    assert asked == ["", "W"]


def test_it_is_asked_about_as_its_likelier_spelling() -> None:
    model = {
        "": {"W": 0.125, " W": 0.25},
        " W": {"or": 0.5, "x": 0.25},
        " Wor": {"se": 0.5, "x": 0.1},
    }
    reply, asked = scored(("Worse",), model)
    assert reply.masses == pytest.approx((0.375 * 0.5 * 0.5,))
    assert asked == ["", " W", " Wor"]


def test_a_shared_beginning_is_asked_about_once() -> None:
    model = {
        "": {"W": 0.5, "I": 0.25},
        "W": {"orse": 0.5, "or": 0.25, "x": 0.1},
        "Wor": {"st": 0.5, "se": 0.25, "x": 0.1},
    }
    reply, asked = scored(("Worse", "Worst"), model)
    assert reply.masses == pytest.approx((0.5 * (0.5 + 0.25 * 0.25), 0.5 * 0.25 * 0.5))
    assert reply.n_tokens == (2, 3)
    assert asked == ["", "W", "Wor"]


def test_a_shared_beginning_that_cannot_be_followed_is_counted_once() -> None:
    reply, _ = scored(("Worse", "Worst"), {"": {"W": 0.5, "I": 0.25}}, can_continue=False)
    assert reply.logprobs == pytest.approx((math.log(0.5), math.log(0.5)))
    assert reply.coverage == pytest.approx(0.5)
    assert sum(reply.masses) == pytest.approx(0.5)
    assert not reply.exact


def test_a_negligible_beginning_is_not_followed() -> None:
    reply, asked = scored(("Better",), {"": {"Better": 0.5, "B": 0.0004, "I": 0.2}})
    assert asked == [""]
    assert reply.exact
    assert reply.masses[0] == pytest.approx(0.5, rel=1e-3)


def test_white_space_alone_begins_no_label() -> None:
    reply, asked = scored(("Better",), {"": {"Better": 0.25, " ": 0.5, "\n\n": 0.125}})
    assert asked == [""]
    assert reply.masses == pytest.approx((0.25,))


def test_what_is_missing_after_a_beginning_is_bounded_there() -> None:
    model = {"": {"W": 0.5, "I": 0.25}, "W": {"x": 0.5, "y": 0.25}}
    reply, _ = scored(("Worse",), model, top=2)
    # "orse" after "W", or "Worse" at once: either as likely as the least shown.
    assert reply.logprobs == pytest.approx((math.log(0.5 * 0.25 + 0.25),))
    assert reply.masses == pytest.approx((0.5 * 0.25,))
    assert not reply.exact


def test_a_label_that_may_be_a_token_of_its_own_which_is_not_shown() -> None:
    model = {"": {"W": 0.5, "I": 0.01, "x": 0.001}, "W": {"orse": 0.5, "x": 1e-6}}
    reply, _ = scored(("Worse",), model, top=2)
    assert reply.logprobs == pytest.approx((math.log(0.25 + 0.01),))
    assert not reply.exact
    reply, _ = scored(("Worse",), model, top=3)
    assert reply.logprobs == pytest.approx((math.log(0.25 + 0.001),))


TREE = {
    "": {"A": 0.5, "B": 0.25, "C": 0.125},
    "A": {"B": 0.5, "C": 0.25},
    "AB": {"C": 0.5, "A": 0.25},
    "B": {"A": 0.5, "B": 0.25},
    "C": {"A": 0.5, "C": 0.25},
    "BA": {"C": 0.5, "A": 0.25},
}


@given(st.sets(st.sampled_from(["A", "AB", "ABC", "BA", "BAC", "C", "AC"]), min_size=1))
def test_where_tokens_are_letters_the_scores_are_those_of_known_tokens(labels: set[str]) -> None:
    """One token a letter is the tokenizer of `score_labels`, which all other engines use."""
    names = tuple(sorted(labels))
    reply, _ = scored(names, TREE)
    tokens = [tuple(map(ord, name)) for name in names]
    seen = {
        context: NextToken(
            {ord(t): math.log(p) for t, p in TREE["".join(map(chr, context))].items()}, -50.0
        )
        for context in label_contexts(tokens)
    }
    request = ScoreLabels(messages=MESSAGES, labels=names)
    expected = score_labels(request, tokens, seen, top_tokens=(), usage=Usage())
    assert reply.exact
    assert expected.exact
    assert reply.logprobs == pytest.approx(expected.logprobs)
    assert reply.masses == pytest.approx(expected.masses)
    assert reply.n_tokens == expected.n_tokens
    assert reply.coverage == pytest.approx(expected.coverage)


@pytest.mark.parametrize("labels", [("",), (" ", "B"), ("A", "A")])
def test_labels_that_cannot_be_told_apart_are_an_error(labels: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="one of them is blank, or given twice"):
        label_texts(labels)


def test_labels_that_differ_in_a_leading_blank_alone_are_each_what_they_are() -> None:
    model = {
        "": {" A": 0.5, "A": 0.125, "B": 0.0625, " ": 0.25},
        " ": {"B": 0.75, "A": 0.125},
    }
    reply, asked = scored(("A", " A", "B", " B"), model)
    assert asked == ["", " "]
    expected = (0.125, 0.5 + 0.25 * 0.125, 0.0625, 0.25 * 0.75)
    assert reply.masses == pytest.approx(expected, abs=1e-6)
    assert reply.merged == ()


def test_merged_tokens_are_stored_and_older_replies_still_read() -> None:
    reply, _ = scored(("A",), {"": {" A": 0.5, "A": 0.25}})
    text = reply_to_json(reply)
    assert reply_from_json(text) == reply
    older = text.replace(', "merged": [" A"]', "")
    assert older != text
    read = reply_from_json(older)
    assert isinstance(read, LabelScores)
    assert read.merged == ()
