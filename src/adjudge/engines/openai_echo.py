"""Log-probs of a plain text's own tokens, by servers that echo them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adjudge.engines.openai_answers import PART
from adjudge.engines.openai_bodies import Probed, safe
from adjudge.engines.openai_errors import UnusableError
from adjudge.exchange import ScoreText, TextScore


def echo_body(probed: Probed, request: ScoreText) -> dict[str, Any]:
    """Return the request for a text's log-probs; one more token is written, and left out."""
    return {
        "model": probed.model,
        "prompt": safe(request.text),
        "max_tokens": 1,
        "temperature": 0.0,
        "echo": True,
        "logprobs": 1,
    }


def token_scores(answer: Mapping[str, Any], request: ScoreText) -> TextScore:
    """Return the log-probs of the continuation's tokens.

    Raises
    ------
    UnusableError
        If the answer does not hold them.
    """
    try:
        logprobs = answer["choices"][0]["logprobs"]
        tokens, values = list(logprobs["tokens"]), list(logprobs["token_logprobs"])
        n_written = int(answer["usage"]["completion_tokens"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UnusableError(
            "the server's answer has no log-probs of the text", again=True
        ) from error
    n_prompt = len(tokens) - n_written
    if n_prompt < 1 or len(values) != len(tokens) or not all(isinstance(t, str) for t in tokens):
        raise UnusableError("the server's answer has no log-probs of the text", again=True)
    n_own = _own_tokens(tokens[:n_prompt], request)
    own = values[n_prompt - n_own : n_prompt]
    if not all(isinstance(value, int | float) for value in own):
        raise UnusableError("the server shows no log-prob of the text's first token")
    return TextScore(request_id=request.id, logprobs=tuple(map(float, own)))


def _own_tokens(tokens: Sequence[str], request: ScoreText) -> int:
    """Return how many of the last tokens reach into the continuation.

    Counted from the end, or from the beginning where tokens of the continuation are parts of
    characters, whose length nobody can tell.
    """
    wrong = UnusableError("the tokens that the server shows are not those of the text")
    text = safe(request.text)  # of the same length
    end = len(text)
    for count, token in enumerate(reversed(tokens), start=1):
        if PART in token:
            break
        if not text.endswith(token, 0, end):
            raise wrong
        end -= len(token)
        if end <= len(request.context):
            return count
    end = 0
    for index, token in enumerate(tokens):
        if index == 0 and not text.startswith(token):
            continue  # what begins every prompt
        start, end = end, end + len(token)
        if start >= len(request.context):
            return len(tokens) - index
        if PART in token or not text.startswith(token, start):
            raise wrong
        if end > len(request.context):
            return len(tokens) - index
    raise wrong
