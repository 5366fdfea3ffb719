"""What is read out of a server's answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from adjudge.engines.openai_errors import UnusableError
from adjudge.exchange import Completion, Usage

#: What stands for a part of a character.
PART = "\ufffd"
#: What stands for a blank before a token where a server shows the vocabulary's own spelling.
_BLANKS = ("\u2581", "\u0120")


class Shown(NamedTuple):
    """The likeliest next tokens as texts, best first, and the bound of all others' log-probs."""

    tokens: tuple[tuple[str, float], ...]
    floor: float


def first_choice(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the one choice of an answer."""
    choices = answer.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        raise UnusableError("the server's answer has no choices", again=True)
    choice: dict[str, Any] = choices[0]
    if choice.get("finish_reason") == "content_filter":
        raise UnusableError("refused by the server's content filter")
    return choice


def text_of(choice: Mapping[str, Any], begun: str) -> str:
    """Return the text of a choice, without a begun reply that it repeats."""
    message = choice.get("message")
    said = message if isinstance(message, dict) else {"content": choice.get("text")}
    text = said.get("content") or said.get("refusal") or ""
    if not isinstance(text, str):
        raise UnusableError("the server's answer holds no text", again=True)
    return text.removeprefix(begun)


def thoughts_of(choice: Mapping[str, Any]) -> str:
    """Return what the model thought before its reply."""
    message = choice.get("message")
    said = message if isinstance(message, dict) else {}
    return str(said.get("reasoning_content") or said.get("reasoning") or "")


def completion(answer: Mapping[str, Any], begun: str) -> Completion:
    """Return the text that an answer holds."""
    choice = first_choice(answer)
    return Completion(
        text=text_of(choice, begun),
        finish_reason="length" if choice.get("finish_reason") == "length" else "stop",
        n_tokens=_count(answer.get("usage"), "completion_tokens"),
    )


def next_tokens(answer: Mapping[str, Any], begun: str) -> Shown:
    """Return the likeliest first tokens of a reply.

    Raises
    ------
    UnusableError
        If there are none, or they are not those of the first token of the reply.
    """
    choice = first_choice(answer)
    if thoughts_of(choice):
        raise UnusableError(
            "the model thinks before it replies, so that the log-probs are not those of its "
            "reply; serve it without thinking, or use --score-mode text"
        )
    token, entries, n_written = _entries(choice.get("logprobs"))
    text = text_of(choice, begun)
    # A single token that ends the reply, or is part of a character, is no text yet.
    silent = n_written == 1 and (choice.get("finish_reason") == "stop" or PART in token)
    if not text and not silent:
        raise UnusableError(
            "the reply is empty, so that there is nothing that the log-probs could belong to"
        )
    if text and not _begins(text, token, alone=n_written == 1):
        raise UnusableError(
            f"the log-probs are not those of the reply's first token: it begins {text[:20]!r}, "
            f"they are of {token[:20]!r}"
        )
    tokens = sorted(entries.items(), key=lambda entry: -entry[1])
    return Shown(tuple(tokens), tokens[-1][1])


def _begins(text: str, token: str, *, alone: bool) -> bool:
    """Return whether a text begins with a token, or is it if alone, up to white space."""
    whole = token.split(PART, maxsplit=1)[0]
    if not whole.strip():
        return bool(token) and text.startswith(whole)
    if alone and whole == token:
        return text.strip() == whole.strip()
    return text.lstrip().startswith(whole.lstrip())


def _entries(logprobs: Any) -> tuple[str, dict[str, float], int]:
    """Return the first token that was written, those shown for it, and how many were written."""
    try:
        if logprobs.get("content"):
            written = logprobs["content"]
            token, shown = _token(written[0]), written[0]["top_logprobs"]
            pairs = [(_token(each), each["logprob"]) for each in (*shown, written[0])]
        else:
            written, shown = logprobs["tokens"], logprobs["top_logprobs"][0]
            token = _spelled(written[0])
            pairs = [(_spelled(each), value) for each, value in shown.items()]
        entries = {
            text: float(value)
            for text, value in reversed(pairs)
            if value is not None and math.isfinite(value)
        }
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UnusableError("the server's answer has no log-probs", again=True) from error
    if not shown or not entries:
        raise UnusableError("the server's answer has no log-probs", again=True)
    return token, entries, len(written)


def _token(entry: Mapping[str, Any]) -> str:
    """Return a token as text, by its bytes where they are given."""
    given = entry.get("bytes")
    if given is None:
        return _spelled(entry["token"])
    return bytes(given).decode("utf-8", "replace")


def _spelled(token: str) -> str:
    """Return a token as text where blanks may be spelled as in a vocabulary."""
    return f" {token[1:]}" if token.startswith(_BLANKS) else token


def usage_of(answer: Mapping[str, Any]) -> Usage:
    """Return the tokens that a server says an answer took; the cached ones were not evaluated."""
    usage, timings = answer.get("usage"), answer.get("timings")
    prompt = _count(usage, "prompt_tokens")
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    cached = _count(details, "cached_tokens") or _count(timings, "cache_n")
    return Usage(
        prompt_tokens=prompt,
        evaluated_tokens=max(0, prompt - cached),
        generated_tokens=_count(usage, "completion_tokens"),
    )


def _count(values: Any, name: str) -> int:
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, int) and value > 0 else 0
