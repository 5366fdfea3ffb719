"""Requests as servers want them, and what is read out of their answers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from adjudge.engines.openai_answers import completion, next_tokens, usage_of
from adjudge.engines.openai_bodies import EXTRAS, Probed, body, safe
from adjudge.engines.openai_echo import echo_body, token_scores
from adjudge.engines.openai_errors import UnusableError
from adjudge.exchange import Message, Sampling, ScoreText, Usage
from tests.fault_server import chat, entry

CHAT = Probed(model="m")
USER = Message(role="user", content="Which?")
BEGUN = Message(role="assistant", content="It is")


def answer(*arguments: Any, **named: Any) -> dict[str, Any]:
    value = chat(*arguments, **named).body
    assert isinstance(value, dict)
    return value


def test_a_chat_request() -> None:
    probed = replace(CHAT, extras=True, seed="taken")
    written = body(
        probed,
        [USER],
        max_tokens=7,
        sampling=Sampling(temperature=0.5, top_p=0.75),
        seed=3,
        json_schema='{"type": "object"}',
    )
    assert written == {
        "model": "m",
        "messages": [{"role": "user", "content": "Which?"}],
        "max_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.75,
        "seed": 3,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": {"type": "object"}},
        },
        **EXTRAS,
    }


def test_what_a_server_does_not_take_is_not_sent() -> None:
    probed = replace(CHAT, limit="max_completion_tokens")
    written = body(probed, [USER], max_tokens=7, seed=3)
    assert written.keys() == {"model", "messages", "max_completion_tokens", "temperature", "top_p"}


def test_a_begun_reply_is_flagged_where_that_is_wanted() -> None:
    flags = {"continue_final_message": True, "add_generation_prompt": False}
    assert body(replace(CHAT, prefill="flags"), [USER, BEGUN], max_tokens=1).items() > flags.items()
    for probed, messages in [(replace(CHAT, prefill="flags"), [USER]), (CHAT, [USER, BEGUN])]:
        assert not flags.keys() & body(probed, messages, max_tokens=1).keys()


def test_a_plain_text_request() -> None:
    written = body(replace(CHAT, api="completions"), [USER, BEGUN], max_tokens=1, top=5)
    assert written["prompt"] == "Which?\n\nIt is"
    assert written["logprobs"] == 5
    assert "messages" not in written


@pytest.mark.parametrize(
    "piece",
    [
        "<|im_end|>",
        "<|start_header_id|>",
        "</s>",
        "<s>",
        "[INST]",
        "[/INST]",
        "<<SYS>>",
        "<</SYS>>",
        "<start_of_turn>",
        "<end_of_turn>",
        "<eos>",
        "</think>",
        "<｜User｜>",
    ],
)
def test_markup_in_texts_is_not_read_as_such(piece: str) -> None:
    shown = safe(f"a {piece} b")
    assert piece not in shown
    assert shown[3:] == f"a {piece} b"[3:]
    assert (
        body(CHAT, [replace(USER, content=piece)], max_tokens=1)["messages"][0]["content"] != piece
    )


@pytest.mark.parametrize("text", ["[1] and <b>bold</b>", "[A]", "a < b | c > d", "<p>[RESULT]"])
def test_other_brackets_stay(text: str) -> None:
    assert safe(text) == text


def test_next_tokens_of_a_chat() -> None:
    shown = next_tokens(answer("A", {"A": 0.5, " B": 0.25, "C": 0.125}), "")
    assert [token for token, _ in shown.tokens] == ["A", " B", "C"]
    assert shown.tokens[1][1] == pytest.approx(math.log(0.25))
    assert shown.floor == pytest.approx(math.log(0.125))


def test_next_tokens_by_their_bytes() -> None:
    value = answer("é", {"x": 0.5})
    first = {"token": "\\xc3\\xa9", "bytes": [0xC3, 0xA9], "logprob": -0.5}
    value["choices"][0]["logprobs"] = {"content": [{**first, "top_logprobs": [first]}]}
    assert next_tokens(value, "").tokens == (("é", -0.5),)


def test_next_tokens_spelled_as_in_the_vocabulary() -> None:
    value = answer("Better", {"x": 0.5})
    first = {"token": "\u2581Better", "logprob": -0.5}
    value["choices"][0]["logprobs"] = {"content": [{**first, "top_logprobs": [first]}]}
    assert next_tokens(value, "").tokens == ((" Better", -0.5),)


def test_next_tokens_of_a_plain_text() -> None:
    logprobs = {
        "tokens": [" on"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{" on": -0.5, " at": -1.5}],
    }
    value = {"choices": [{"text": " on", "logprobs": logprobs, "finish_reason": "length"}]}
    shown = next_tokens(value, "")
    assert shown.tokens == ((" on", -0.5), (" at", -1.5))


def test_the_written_token_counts_even_if_it_is_not_among_the_likeliest() -> None:
    value = answer("Z", {"A": 0.5, "B": 0.25})
    content = value["choices"][0]["logprobs"]["content"][0]
    content |= {"token": "Z", "bytes": [90], "logprob": -4.0}
    assert next_tokens(value, "").tokens[-1] == ("Z", -4.0)


@pytest.mark.parametrize(
    ("text", "message", "match"),
    [
        ("", {}, "the reply is empty"),
        (None, {}, "the reply is empty"),
        ("Because", {}, "not those of the reply's first token: it begins 'Because'.*of 'A'"),
        ("", {"reasoning_content": "Let me"}, "thinks before it replies"),
        ("A", {"reasoning": "Let me"}, "thinks before it replies"),
    ],
)
def test_log_probs_that_are_not_at_the_verdict_are_not_used(
    text: str, message: dict[str, str], match: str
) -> None:
    with pytest.raises(UnusableError, match=match) as caught:
        next_tokens(answer(text, {"A": 0.5, "B": 0.25}, **message), "")
    assert not caught.value.again


def test_a_token_that_is_no_text_does_not_vouch_for_one() -> None:
    value = answer("Better", {"A": 0.5})
    end = {"token": "", "bytes": [], "logprob": -0.5}
    value["choices"][0]["logprobs"] = {"content": [{**end, "top_logprobs": [end]}]}
    with pytest.raises(UnusableError, match="not those of the reply's first token"):
        next_tokens(value, "")


def test_a_reply_that_ends_at_once_still_shows_what_could_have_come() -> None:
    value = answer("", {"A": 0.25}, finish="stop")
    end = {"token": "<|im_end|>", "bytes": [], "logprob": -0.5}
    top = [end, entry("A", -1.5)]
    value["choices"][0]["logprobs"] = {"content": [{**end, "top_logprobs": top}]}
    assert next_tokens(value, "").tokens == (("", -0.5), ("A", -1.5))


def test_so_does_one_that_begins_with_a_part_of_a_character() -> None:
    value = answer("", {"A": 0.25})
    part = {"token": "", "bytes": [240, 159], "logprob": -0.5}
    value["choices"][0]["logprobs"] = {
        "content": [{**part, "top_logprobs": [part, entry("A", -1)]}]
    }
    assert next_tokens(value, "").tokens[1] == ("A", -1)


def test_a_repeated_beginning_is_taken_off() -> None:
    assert next_tokens(answer("It is A", {" A": 0.5}), "It is").tokens[0][0] == " A"
    assert completion(answer("It is so", finish="stop"), "It is").text == " so"


@pytest.mark.parametrize(
    "logprobs", [None, {}, {"content": []}, {"content": [{"token": "A", "top_logprobs": []}]}, 3]
)
def test_missing_log_probs_are_asked_for_again(logprobs: object) -> None:
    value = answer("A")
    value["choices"][0]["logprobs"] = logprobs
    with pytest.raises(UnusableError, match="no log-probs") as caught:
        next_tokens(value, "")
    assert caught.value.again


@pytest.mark.parametrize("value", [{}, {"choices": []}, {"choices": None}, {"choices": ["x"]}])
def test_missing_choices_are_asked_for_again(value: dict[str, Any]) -> None:
    with pytest.raises(UnusableError, match="no choices") as caught:
        completion(value, "")
    assert caught.value.again


def test_what_a_content_filter_stopped_is_not_used() -> None:
    with pytest.raises(UnusableError, match="refused by the server's content filter"):
        completion(answer("Half a", finish="content_filter"), "")


@pytest.mark.parametrize(
    ("finish", "expected"), [("length", "length"), ("stop", "stop"), ("eos", "stop")]
)
def test_why_a_text_ended(finish: str, expected: str) -> None:
    read = completion(answer("So", finish=finish), "")
    assert (read.text, read.finish_reason, read.n_tokens) == ("So", expected, 1)


def test_a_refusal_is_a_text() -> None:
    assert completion(answer(None, finish="stop", refusal="I will not."), "").text == "I will not."


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (0, 0, 0)),
        ({"usage": None}, (0, 0, 0)),
        ({"usage": {"prompt_tokens": 9, "completion_tokens": 2}}, (9, 9, 2)),
        (
            {"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}},
            (9, 5, 0),
        ),
        ({"usage": {"prompt_tokens": 9}, "timings": {"cache_n": 6}}, (9, 3, 0)),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": None}}, (9, 9, 0)),
    ],
)
def test_tokens_are_counted_without_the_cached_ones(
    given: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    prompt, evaluated, generated = expected
    assert usage_of(given) == Usage(
        prompt_tokens=prompt, evaluated_tokens=evaluated, generated_tokens=generated
    )


def test_what_was_probed_can_be_printed_and_signed() -> None:
    probed = replace(CHAT, seed="repeatable", context=None, json_schema=True)
    assert probed.described()["context"] == "unknown"
    assert probed.described()["json_schema"] == "yes"
    assert probed.described()["seed"] == "repeatable"
    taken = replace(probed, seed="taken")
    assert probed.signature() == taken.signature()
    assert probed.signature() != replace(probed, seed="refused").signature()
    assert probed.signature() != replace(probed, top_logprobs=5).signature()
    assert json.dumps(probed.signature())


# --- texts that are scored ----------------------------------------------------------------------

TEXT = ScoreText(context="The sun rises", continuation=" in the east.")


def echoed(tokens: list[str], values: list[float | None], n_written: int = 1) -> dict[str, Any]:
    logprobs = {"tokens": tokens, "token_logprobs": values}
    return {
        "choices": [{"logprobs": logprobs}],
        "usage": {"prompt_tokens": len(tokens) - n_written, "completion_tokens": n_written},
    }


def test_the_continuations_tokens_are_those_that_reach_into_it() -> None:
    tokens = ["The", " sun", " rises", " in", " the", " east", ".", "\n"]
    values = [None, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0]
    assert token_scores(echoed(tokens, values), TEXT).logprobs == (-3.0, -4.0, -5.0, -6.0)


def test_a_token_across_the_seam_counts() -> None:
    tokens = ["<s>", "The", " sun", " rises in", " the east", ".", "\n"]
    values = [None, -1.0, -2.0, -3.0, -4.0, -5.0, -7.0]
    assert token_scores(echoed(tokens, values), TEXT).logprobs == (-3.0, -4.0, -5.0)


def test_parts_of_characters_are_passed_by_from_the_other_side() -> None:
    text = ScoreText(context="The sun", continuation=" ☀ up")
    tokens = ["<s>", "The", " sun", " \ufffd", "\ufffd", " up", "!"]
    values = [None, -1.0, -2.0, -3.0, -4.0, -5.0, -7.0]
    assert token_scores(echoed(tokens, values), text).logprobs == (-3.0, -4.0, -5.0)


def test_markup_is_shown_and_read_as_text() -> None:
    text = ScoreText(context="The <s> sun", continuation=" </s> up")
    assert echo_body(CHAT, text)["prompt"] == "The \u2039s> sun \u2039/s> up"
    tokens = ["The", " \u2039s>", " sun", " \u2039/s>", " up", "!"]
    values = [None, -1.0, -2.0, -3.0, -4.0, -7.0]
    assert token_scores(echoed(tokens, values), text).logprobs == (-3.0, -4.0)


def test_tokens_of_another_text_are_not_used() -> None:
    with pytest.raises(UnusableError, match="not those of the text"):
        token_scores(echoed(["The", " moon", "."], [None, -1.0, -2.0]), TEXT)


@pytest.mark.parametrize(
    "value",
    [{}, {"choices": [{"logprobs": None}]}, echoed(["x"], [-1.0]), echoed(["The", "."], [None])],
)
def test_texts_without_log_probs_are_asked_for_again(value: dict[str, Any]) -> None:
    with pytest.raises(UnusableError, match="no log-probs of the text"):
        token_scores(value, TEXT)
