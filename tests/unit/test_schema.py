"""Records, their identities and their JSON."""

from __future__ import annotations

import hashlib
import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.errors import ConfigError
from adjudge.exchange import (
    Capability,
    Completion,
    Embed,
    Embedded,
    Failure,
    Generate,
    Generated,
    LabelScores,
    Message,
    Reply,
    Request,
    Sampling,
    ScoreLabels,
    ScoreText,
    TextScore,
    Usage,
    reply_from_json,
    reply_to_json,
)
from adjudge.schema import Scale, Signature, Source, Status, content_hash

USER = (Message(role="user", content="which is better?"),)
GENERATE = Generate(messages=USER, max_tokens=8)
SCORE = ScoreLabels(messages=USER, labels=("A", "B"))

small = st.integers(0, 3)
messages = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["system", "user", "assistant"]),
        content=st.sampled_from(["", "a", "b", "a b", '"', "é"]),
    ),
    max_size=2,
).map(tuple)
requests: st.SearchStrategy[Request] = st.one_of(
    st.builds(
        Generate,
        messages=messages,
        max_tokens=st.integers(1, 3),
        sampling=st.builds(Sampling, temperature=st.sampled_from([0.0, 0.5]), seed=small),
        n=st.integers(1, 3),
        first_sample=small,
        json_schema=st.sampled_from([None, "", "{}"]),
    ),
    st.builds(
        ScoreLabels,
        messages=messages,
        labels=st.lists(st.sampled_from(["A", "B", "AB", ""]), min_size=1, max_size=2).map(tuple),
    ),
)

numbers = st.floats(allow_nan=False)
usages = st.builds(Usage, prompt_tokens=st.integers(0), evaluated_tokens=st.integers(0))
replies: st.SearchStrategy[Reply] = st.one_of(
    st.builds(
        Generated,
        request_id=st.text(),
        completions=st.lists(
            st.builds(
                Completion,
                text=st.text(),
                finish_reason=st.sampled_from(["stop", "length"]),
                n_tokens=st.integers(0),
            ),
            max_size=3,
        ).map(tuple),
        usage=usages,
    ),
    st.builds(
        LabelScores,
        request_id=st.text(),
        logprobs=st.lists(numbers, max_size=3).map(tuple),
        masses=st.lists(numbers, max_size=3).map(tuple),
        n_tokens=st.lists(st.integers(1), max_size=3).map(tuple),
        coverage=numbers,
        exact=st.booleans(),
        top_tokens=st.lists(st.tuples(st.text(), numbers), max_size=3).map(tuple),
        usage=usages,
    ),
    st.builds(
        Failure,
        request_id=st.text(),
        message=st.text(),
        usage=usages,
    ),
)


# --- hashes -------------------------------------------------------------------------------------


def test_content_hash_is_the_sha256_of_compact_sorted_json() -> None:
    text = '{"a":[1,null,"é"],"b":true}'
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert content_hash({"b": True, "a": [1, None, "é"]}) == expected


def test_content_hash_tells_text_from_number() -> None:
    assert content_hash("1") != content_hash(1)


@pytest.mark.parametrize("text", ["", "an article", "ü\n", "half of a pair: \ud83d"])
def test_a_source_is_hashed_by_its_text_alone(text: str) -> None:
    expected = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    assert Source(id="a", text=text).hash == Source(id="b", text=text).hash == expected


# --- scale --------------------------------------------------------------------------------------


def test_a_scale_holds_both_ends() -> None:
    assert Scale().scores == (1, 2, 3, 4, 5)
    assert Scale(low=0, high=2).scores == (0, 1, 2)


def test_a_scale_prints_its_ends() -> None:
    assert str(Scale(low=1, high=10)) == "1-10"


@pytest.mark.parametrize(("low", "high"), [(5, 1), (3, 3)])
def test_a_scale_without_room_is_refused(low: int, high: int) -> None:
    with pytest.raises(ConfigError, match=f"the scale {low}-{high} has no room"):
        Scale(low=low, high=high)


# --- requests -----------------------------------------------------------------------------------


@given(requests, requests)
def test_requests_have_equal_ids_exactly_if_they_are_equal(a: Request, b: Request) -> None:
    assert (a.id == b.id) == (a == b)


@pytest.mark.parametrize(
    "change",
    [
        {"messages": ()},
        {"messages": (Message(role="system", content="which is better?"),)},
        {"messages": (Message(role="user", content="which is better? "),)},
        {"max_tokens": 9},
        {"sampling": Sampling(temperature=0.1)},
        {"sampling": Sampling(top_p=0.9)},
        {"sampling": Sampling(seed=1)},
        {"n": 2},
        {"first_sample": 1},
        {"json_schema": "{}"},
    ],
)
def test_every_field_of_a_generate_request_changes_its_id(change: dict[str, Any]) -> None:
    assert replace(GENERATE, **change).id != GENERATE.id


def test_equal_numbers_give_equal_ids_however_they_are_written() -> None:
    samplings = [Sampling(temperature=zero, top_p=1) for zero in (0, 0.0, -0.0)]
    assert {replace(GENERATE, sampling=sampling).id for sampling in samplings} == {GENERATE.id}


@pytest.mark.parametrize("labels", [("B", "A"), ("A",), ("A", "B", "C"), ("AB",), (" A", "B")])
def test_the_labels_and_their_order_change_a_request_id(labels: tuple[str, ...]) -> None:
    assert replace(SCORE, labels=labels).id != SCORE.id


def test_requests_of_different_kinds_never_share_an_id() -> None:
    assert len({GENERATE.id, SCORE.id, ScoreLabels(messages=USER, labels=("",)).id}) == 3


def test_requests_say_which_capability_they_need() -> None:
    assert GENERATE.capability is Capability.GENERATE
    assert SCORE.capability is Capability.SCORE_LABELS


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'content'"):
        USER[0].content = "another"  # type: ignore[misc]


def test_a_record_takes_no_positional_fields() -> None:
    with pytest.raises(TypeError, match="positional argument"):
        Message("user", "text")  # type: ignore[call-arg]


def test_draws_are_single_requests_numbered_from_the_first() -> None:
    sampling = Sampling(temperature=0.7, top_p=0.9, seed=5)
    request = replace(GENERATE, n=3, first_sample=2, json_schema="{}", sampling=sampling)
    assert request.draws() == tuple(
        replace(request, n=1, first_sample=number) for number in (2, 3, 4)
    )


def test_two_more_draws_complete_three_to_five() -> None:
    five = replace(GENERATE, n=5).draws()
    assert replace(GENERATE, n=3).draws() + replace(GENERATE, n=2, first_sample=3).draws() == five
    assert len({draw.id for draw in five}) == 5


def test_a_single_draw_is_the_request_itself() -> None:
    assert GENERATE.draws() == (GENERATE,)
    assert GENERATE.draws()[0].id == GENERATE.id


# --- replies ------------------------------------------------------------------------------------


@given(replies)
def test_a_reply_survives_json(reply: Reply) -> None:
    assert reply_from_json(reply_to_json(reply)) == reply


@given(replies)
def test_the_json_of_a_reply_is_one_line(reply: Reply) -> None:
    assert not {"\n", "\r"} & set(reply_to_json(reply))


def test_a_label_without_probability_survives_json() -> None:
    reply = LabelScores(
        request_id="r",
        logprobs=(-math.inf, 0.0),
        masses=(0.0, 1.0),
        n_tokens=(1, 2),
        coverage=1.0,
    )
    assert reply_from_json(reply_to_json(reply)) == reply


# --- judgments ----------------------------------------------------------------------------------


def test_statuses_are_their_names_in_lower_case() -> None:
    assert {status.value for status in Status} == {status.name.lower() for status in Status}


def test_a_signature_prints_its_fields_in_order() -> None:
    assert str(Signature({"judge": "ladder", "model": "m", "a": "1"})) == "judge:ladder|model:m|a:1"


def test_a_signature_gives_its_names_and_values() -> None:
    assert list(Signature({"b": "2", "a": "1"})) == [("b", "2"), ("a", "1")]


def test_more_fields_come_last_and_replace_equal_names_in_place() -> None:
    before = Signature({"judge": "ladder", "seed": "0"})
    assert str(before | {"seed": "1", "version": "2"}) == "judge:ladder|seed:1|version:2"
    assert str(before) == "judge:ladder|seed:0"


@pytest.mark.parametrize("n_tokens", [0, 3])
def test_vectors_survive_json_bit_by_bit(n_tokens: int) -> None:
    vectors = np.random.default_rng(1).normal(size=(n_tokens, 4)).astype(np.float32)
    reply = Embedded(
        request_id="r",
        tokens=tuple(range(n_tokens)),
        special=(True,) * n_tokens,
        vectors=vectors,
        n_cut=2,
        usage=Usage(prompt_tokens=3),
    )
    again = reply_from_json(reply_to_json(reply))
    assert isinstance(again, Embedded)
    assert again.vectors.shape == (n_tokens, 4)
    assert again.vectors.tobytes() == vectors.tobytes()
    assert (again.tokens, again.special, again.n_cut) == (reply.tokens, reply.special, 2)
    assert again.usage == reply.usage


def test_log_probs_of_a_text_survive_json() -> None:
    reply = TextScore(request_id="r", logprobs=(-0.1, -1e-9, -30.0))
    assert reply_from_json(reply_to_json(reply)) == reply


def test_texts_and_vectors_are_asked_for_by_content() -> None:
    text = ScoreText(context="A cat", continuation=" sat")
    assert text.id != ScoreText(context="A", continuation=" cat sat").id
    assert text.text == "A cat sat"
    assert Embed(content="x").id != Embed(content="x", layer=1).id
    assert (text.kept, Embed(content="x").kept) == (True, False)
    with pytest.raises(ConfigError, match="there is no text to score"):
        ScoreText(context="A", continuation=" ")
