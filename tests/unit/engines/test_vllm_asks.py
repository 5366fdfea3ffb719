"""What requests ask of vLLM and how its answers are read, without vLLM."""

from __future__ import annotations

import math

import pytest

from adjudge.engines.vllm_asks import AskedDraws, AskedLabels, AskedText
from adjudge.engines.vllm_core import AT_ONCE, TOP, Answer
from adjudge.exchange import (
    Completion,
    Failure,
    Generate,
    Generated,
    LabelScores,
    Message,
    Sampling,
    ScoreLabels,
    ScoreText,
    TextScore,
)
from adjudge.schema import content_hash

USER = (Message(role="user", content="Which?"),)
PROMPT = (1, 2, 3)


def labels(*tokens: tuple[int, ...], exact: bool = True) -> AskedLabels:
    request = ScoreLabels(messages=USER, labels=tuple(map(str, tokens)))
    return AskedLabels(request, PROMPT, tokens, piece=lambda token: f"<{token}>", exact=exact)


def test_labels_ask_for_one_token_after_each_of_their_beginnings() -> None:
    asked = labels((7,), (5, 8), (5, 9))
    assert [ask.tokens for ask in asked.asks] == [PROMPT, (*PROMPT, 5)]
    assert [dict(ask.how) for ask in asked.asks] == [
        {"max_tokens": 1, "temperature": 0.0, "logprob_token_ids": [5, 7]},
        {"max_tokens": 1, "temperature": 0.0, "logprob_token_ids": [8, 9]},
    ]


def test_log_probs_of_labels_are_sums_over_their_tokens() -> None:
    asked = labels((7,), (5, 8), (5, 9))
    # The token that is written, 4, is shown beside those that were asked for.
    first = Answer(tokens=(4,), logprobs={4: -0.5, 5: -1.0, 7: -2.0}, n_evaluated=3)
    second = Answer(tokens=(8,), logprobs={8: -0.25, 9: -4.0}, n_evaluated=1)
    assert not asked.take(1, second)
    assert asked.take(0, first)
    reply = asked.reply()
    assert isinstance(reply, LabelScores)
    assert reply.logprobs == (-2.0, -1.25, -5.0)
    assert reply.coverage == pytest.approx(math.exp(-2) + math.exp(-1.25) + math.exp(-5))
    assert reply.n_tokens == (1, 2, 2)
    assert reply.exact
    assert reply.top_tokens == (("<4>", -0.5),)
    assert (reply.usage.prompt_tokens, reply.usage.evaluated_tokens) == (3, 4)


def test_more_tokens_than_can_be_asked_for_at_once_are_asked_for_in_parts() -> None:
    asked = labels(*((token,) for token in range(AT_ONCE + 2)))
    parts = [ask.how["logprob_token_ids"] for ask in asked.asks]
    assert parts == [list(range(AT_ONCE)), [AT_ONCE, AT_ONCE + 1]]
    asked.take(0, Answer(logprobs=dict.fromkeys(range(AT_ONCE), -5.0)))
    asked.take(1, Answer(logprobs={AT_ONCE: -6.0, AT_ONCE + 1: -7.0, 0: -5.0}))
    reply = asked.reply()
    assert isinstance(reply, LabelScores)
    assert reply.logprobs == (*[-5.0] * AT_ONCE, -6.0, -7.0)


def test_where_only_the_likeliest_are_shown_the_last_bounds_a_label_that_is_not() -> None:
    asked = labels((7,), (5,), exact=False)
    assert dict(asked.asks[0].how) == {"max_tokens": 1, "temperature": 0.0, "logprobs": TOP}
    asked.take(0, Answer(tokens=(7,), logprobs={7: -0.1, 3: -3.0, 4: -2.5}))
    reply = asked.reply()
    assert isinstance(reply, LabelScores)
    assert reply.logprobs == (-0.1, -3.0)
    assert not reply.exact
    assert reply.top_tokens == (("<7>", -0.1), ("<4>", -2.5), ("<3>", -3.0))


def test_a_refused_ask_makes_its_request_fail() -> None:
    asked = labels((7,), (5, 8))
    asked.take(0, Answer(tokens=(7,), logprobs={7: -1.0, 5: -2.0}))
    assert asked.take(1, Answer(refused="vLLM refused a request: too long"))
    reply = asked.reply()
    assert reply == Failure(request_id=asked.request.id, message="vLLM refused a request: too long")


def test_a_text_has_the_log_probs_of_its_prompt_from_where_it_starts() -> None:
    asked = AskedText(ScoreText(context="a b", continuation=" c d"), (1, 2, 3, 4), 2)
    assert [dict(ask.how) for ask in asked.asks] == [
        {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
    ]
    asked.take(0, Answer(tokens=(9,), prompt=(math.nan, -1.0, -2.0, -3.0), n_evaluated=4))
    reply = asked.reply()
    assert isinstance(reply, TextScore)
    assert reply.logprobs == (-2.0, -3.0)
    assert (reply.usage.prompt_tokens, reply.usage.evaluated_tokens) == (4, 4)


def test_each_draw_is_asked_for_with_a_seed_of_its_own() -> None:
    sampling = Sampling(temperature=0.7, top_p=0.9, seed=3)
    request = Generate(
        messages=USER, max_tokens=8, n=2, first_sample=4, sampling=sampling, json_schema="{}"
    )
    asked = AskedDraws(request, PROMPT, written=str)
    for ask, sample in zip(asked.asks, (4, 5), strict=True):
        assert ask.tokens == PROMPT
        assert ask.json_schema == "{}"
        assert dict(ask.how) == {
            "max_tokens": 8,
            "temperature": 0.7,
            "top_p": 0.9,
            "seed": int(content_hash([3, sample])[:8], 16),
        }


def test_the_token_that_ends_a_text_is_counted_and_not_read() -> None:
    asked = AskedDraws(Generate(messages=USER, max_tokens=2, n=2), PROMPT, written=str)
    asked.take(1, Answer(tokens=(8, 9), n_evaluated=1))
    asked.take(0, Answer(tokens=(7, 0), ended=True, n_evaluated=3))
    reply = asked.reply()
    assert isinstance(reply, Generated)
    assert reply.completions == (
        Completion(text="(7,)", finish_reason="stop", n_tokens=2),
        Completion(text="(8, 9)", finish_reason="length", n_tokens=2),
    )
    usage = reply.usage
    assert (usage.prompt_tokens, usage.evaluated_tokens, usage.generated_tokens) == (6, 4, 4)
