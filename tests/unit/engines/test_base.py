"""Label log-probabilities against a language model small enough to enumerate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.engines.base import (
    NextToken,
    Tokens,
    check_fits,
    label_contexts,
    label_tokens,
    score_labels,
)
from adjudge.errors import ConfigError
from adjudge.exchange import LabelScores, ScoreLabels, Usage

HEADER = "<assistant>\n"
VOCABULARY = (0, 1, 2)
LONGEST = 3


def request(n_labels: int) -> ScoreLabels:
    return ScoreLabels(messages=(), labels=tuple(f"label {i}" for i in range(n_labels)))


def scored(labels: Sequence[Tokens], seen: Mapping[Tokens, NextToken]) -> LabelScores:
    return score_labels(request(len(labels)), labels, seen, top_tokens=(), usage=Usage())


def shown(probabilities: Mapping[int, float], floor: float = 0.0) -> NextToken:
    """Return what an engine shows: natural logs, and the log of the floor."""
    return NextToken(
        {token: math.log(p) for token, p in probabilities.items()},
        math.log(floor) if floor else -math.inf,
    )


def greedy(vocabulary: Sequence[str], text: str) -> list[int]:
    """Tokenize by the longest piece that fits; characters are pieces of their own."""
    found = []
    while text:
        fits = [piece for piece in vocabulary if text.startswith(piece)]
        piece = max(fits, key=len, default=text[0])
        found.append(vocabulary.index(piece) if fits else 1000 + ord(piece))
        text = text[len(piece) :]
    return found


# --- tokens of labels ---------------------------------------------------------------------------


@given(st.text(min_size=1))
def test_a_label_of_characters_has_a_token_for_each(label: str) -> None:
    found = label_tokens(lambda text: [ord(c) for c in text], HEADER, label)
    assert found == tuple(ord(c) for c in label)


def test_a_label_may_have_one_token_or_several() -> None:
    vocabulary = (HEADER, "Better", "Sim", "ilar")
    for label, expected in (("Better", (1,)), ("Similar", (2, 3)), ("Sim", (2,))):
        assert label_tokens(lambda text: greedy(vocabulary, text), HEADER, label) == expected


def test_a_leading_space_is_part_of_the_label() -> None:
    vocabulary = (HEADER, "A", " A")
    assert label_tokens(lambda text: greedy(vocabulary, text), HEADER, " A") == (2,)
    assert label_tokens(lambda text: greedy(vocabulary, text), HEADER, "A") == (1,)


def test_a_label_that_merges_with_the_header_is_refused() -> None:
    vocabulary = ("Score:", " ", "4", " 4")
    with pytest.raises(ConfigError, match=r"the label '4' cannot be scored: .*'Score: '"):
        label_tokens(lambda text: greedy(vocabulary, text), "Score: ", "4")


def test_a_label_that_the_tokenizer_drops_is_refused() -> None:
    with pytest.raises(ConfigError, match="the label ' ' cannot be scored"):
        label_tokens(lambda text: [ord(c) for c in text.replace(" ", "")], HEADER, " ")


def test_an_empty_label_is_refused() -> None:
    with pytest.raises(ConfigError, match="the label '' cannot be scored"):
        label_tokens(lambda text: [ord(c) for c in text], HEADER, "")


# --- contexts of labels -------------------------------------------------------------------------

label_sets = st.lists(
    st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=LONGEST).map(tuple),
    min_size=1,
    max_size=5,
)


@given(label_sets)
def test_every_token_of_every_label_is_wanted_after_its_beginning(labels: list[Tokens]) -> None:
    wanted = {(label[:i], label[i]) for label in labels for i in range(len(label))}
    contexts = label_contexts(labels)
    assert {(context, token) for context, after in contexts.items() for token in after} == wanted
    assert all(contexts.values())


@given(label_sets)
def test_contexts_come_shortest_first(labels: list[Tokens]) -> None:
    lengths = [len(context) for context in label_contexts(labels)]
    assert lengths == sorted(lengths)
    assert lengths[0] == 0


def test_labels_of_one_token_need_one_evaluation() -> None:
    assert label_contexts([(1,), (2,), (3,)]) == {(): {1, 2, 3}}


# --- log-probabilities --------------------------------------------------------------------------


def test_labels_that_share_a_first_token_are_told_apart_by_the_next() -> None:
    seen = {(): shown({1: 0.5, 9: 0.25, 0: 0.25}), (1,): shown({2: 0.25, 3: 0.5, 0: 0.25})}
    reply = scored([(1, 2), (1, 3), (9,)], seen)
    assert [math.exp(value) for value in reply.logprobs] == pytest.approx([0.125, 0.25, 0.25])
    assert reply.n_tokens == (2, 2, 1)
    assert reply.coverage == pytest.approx(0.625)
    assert reply.exact


def test_a_label_that_another_one_extends_covers_both() -> None:
    seen = {(): shown({1: 0.5, 0: 0.5}), (1,): shown({2: 0.25, 0: 0.75})}
    reply = scored([(1,), (1, 2)], seen)
    assert [math.exp(value) for value in reply.logprobs] == pytest.approx([0.5, 0.125])
    assert reply.coverage == pytest.approx(0.5)


def test_chains_of_extensions_count_their_shortest_label() -> None:
    half = shown({1: 0.5, 2: 0.5})
    seen = dict.fromkeys(((), (1,), (1, 1)), half)
    assert scored([(1, 1, 2), (1, 1), (1, 2)], seen).coverage == pytest.approx(0.5)
    assert scored([(1, 1, 2), (1,), (1, 2)], seen).coverage == pytest.approx(0.5)


def test_a_label_given_twice_is_covered_once() -> None:
    reply = scored([(1,), (1,)], {(): shown({1: 0.25, 2: 0.75})})
    assert [math.exp(value) for value in reply.logprobs] == pytest.approx([0.25, 0.25])
    assert reply.coverage == pytest.approx(0.25)


def test_longer_labels_are_summed_not_averaged() -> None:
    seen = {(): shown({1: 0.1}), (1,): shown({1: 0.1}), (1, 1): shown({1: 0.1})}
    assert scored([(1, 1, 1)], seen).logprobs[0] == pytest.approx(3 * math.log(0.1))


@st.composite
def models(draw: st.DrawFn) -> dict[Tokens, dict[int, float]]:
    """Draw next-token probabilities after every beginning that labels can have."""
    model = {}
    for length in range(LONGEST):
        for context in product(VOCABULARY, repeat=length):
            weights = draw(st.lists(st.integers(1, 20), min_size=3, max_size=3))
            model[context] = {t: w / sum(weights) for t, w in enumerate(weights)}
    return model


def probability(model: Mapping[Tokens, Mapping[int, float]], text: Tokens) -> float:
    """Return the probability that the model begins with a text."""
    return math.prod(model[text[:i]][token] for i, token in enumerate(text))


@given(models(), label_sets)
def test_probabilities_and_coverage_are_those_of_all_texts_enumerated(
    model: dict[Tokens, dict[int, float]], labels: list[Tokens]
) -> None:
    texts = {text: probability(model, text) for text in product(VOCABULARY, repeat=LONGEST)}
    starts = [
        sum(p for text, p in texts.items() if text[: len(label)] == label) for label in labels
    ]
    covered = sum(
        p for text, p in texts.items() if any(text[: len(label)] == label for label in labels)
    )
    reply = scored(labels, {context: shown(after) for context, after in model.items()})
    assert [math.exp(value) for value in reply.logprobs] == pytest.approx(starts)
    assert reply.coverage == pytest.approx(covered)
    assert reply.n_tokens == tuple(len(label) for label in labels)
    assert reply.exact


@given(models(), label_sets, st.integers(1, 2))
def test_what_an_engine_does_not_show_is_bounded_by_its_floor(
    model: dict[Tokens, dict[int, float]], labels: list[Tokens], n_shown: int
) -> None:
    seen, hidden = {}, set()
    for context, after in model.items():
        ranked = sorted(after, key=lambda token: -after[token])
        kept = {token: after[token] for token in ranked[:n_shown]}
        hidden |= {(*context, token) for token in ranked[n_shown:]}
        seen[context] = shown(kept, floor=min(kept.values()))
    reply = scored(labels, seen)
    assert reply.exact == (
        not hidden & {label[: i + 1] for label in labels for i in range(len(label))}
    )
    for label, value in zip(labels, reply.logprobs, strict=True):
        assert value >= math.log(probability(model, label)) - 1e-9
    assert 0 <= reply.coverage <= 1


def test_a_label_outside_the_shown_tokens_gets_the_floor() -> None:
    seen: dict[Tokens, NextToken] = {(): shown({1: 0.6, 2: 0.2}, floor=0.2)}
    reply = scored([(1,), (3,)], seen)
    assert not reply.exact
    assert [math.exp(value) for value in reply.logprobs] == pytest.approx([0.6, 0.2])
    assert reply.coverage == pytest.approx(0.8)


def test_a_floor_in_the_middle_of_a_label_bounds_the_label() -> None:
    seen = {(): shown({1: 0.5}, floor=0.5), (1,): shown({4: 0.5}, floor=0.25)}
    reply = scored([(1, 3)], seen)
    assert not reply.exact
    assert math.exp(reply.logprobs[0]) == pytest.approx(0.125)


def test_bounds_never_cover_more_than_everything() -> None:
    seen: dict[Tokens, NextToken] = {(): shown({1: 0.5}, floor=0.5)}
    assert scored([(1,), (2,), (3,)], seen).coverage == 1.0


def test_an_impossible_label_has_log_probability_minus_infinity() -> None:
    seen = {(): NextToken({1: 0.0, 2: -math.inf}, -math.inf), (2,): shown({3: 0.5, 4: 0.5})}
    reply = scored([(1,), (2, 3)], seen)
    assert reply.logprobs == (0.0, -math.inf)
    assert reply.coverage == 1.0
    assert reply.exact


def test_a_reply_carries_what_it_is_given() -> None:
    asked, usage = request(1), Usage(prompt_tokens=7, evaluated_tokens=3)
    reply = score_labels(asked, [(1,)], {(): shown({1: 1.0})}, top_tokens=[("A", 0.0)], usage=usage)
    assert reply.request_id == asked.id
    assert reply.top_tokens == (("A", 0.0),)
    assert reply.usage == usage


# --- contexts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("prompt", "reply"), [(90, 10), (100, 0), (0, 100), (1, 1)])
def test_a_prompt_that_fits_with_its_reply_is_let_pass(prompt: int, reply: int) -> None:
    check_fits(prompt, reply, 100)


@pytest.mark.parametrize(("prompt", "reply"), [(91, 10), (90, 11), (101, 0)])
def test_one_token_too_many_is_told_with_the_numbers(prompt: int, reply: int) -> None:
    with pytest.raises(
        ConfigError,
        match=f"a prompt of {prompt} tokens and up to {reply} tokens of reply do not fit "
        "the context of 100 tokens; shorten the texts that are shown, or load the model with more$",
    ):
        check_fits(prompt, reply, 100)


def test_a_label_that_begins_another_has_its_mass_taken_off() -> None:
    """A model that is certain of 10, which this tokenizer writes as 1 and 0."""
    one, ten, two = (1,), (1, 0), (2,)
    seen = {(): shown({1: 0.9, 2: 0.1}), (1,): shown({0: 0.8})}
    request = ScoreLabels(messages=(), labels=("1", "10", "2"))
    reply = score_labels(request, [one, ten, two], seen, top_tokens=[], usage=Usage())
    assert reply.masses == pytest.approx((0.9 * 0.2, 0.9 * 0.8, 0.1))
    assert reply.coverage == pytest.approx(1.0)
    assert reply.logprobs == pytest.approx((math.log(0.9), math.log(0.72), math.log(0.1)))


def test_nested_extensions_are_taken_off_once() -> None:
    labels = [(1,), (1, 2), (1, 2, 3)]
    seen = {(): shown({1: 0.8}), (1,): shown({2: 0.5}), (1, 2): shown({3: 0.25})}
    request = ScoreLabels(messages=(), labels=("a", "ab", "abc"))
    reply = score_labels(request, labels, seen, top_tokens=[], usage=Usage())
    assert reply.masses == pytest.approx((0.4, 0.3, 0.1))
    assert sum(reply.masses) == pytest.approx(reply.coverage) == pytest.approx(0.8)
