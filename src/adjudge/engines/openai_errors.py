"""What goes wrong with a server, each in one clear line."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from adjudge.engines.openai_line import Answer
from adjudge.errors import AdjudgeError, ConfigError, EngineError
from adjudge.registry import unknown_name

#: Most characters that are quoted of what a server says.
MOST = 300
#: How servers word it that a prompt is too long.
_TOO_LONG = re.compile(
    r"context.{0,20}(length|size|window)|(length|size|window) of the context|"
    r"maximum.{0,40}tokens|too many tokens|tokens.{0,40}too long|longer than the (model|maximum)|"
    r"max_new_tokens.{0,20}must be|input is too long",
    re.IGNORECASE,
)
_TLS_ADVICE = {
    "CERTIFICATE_VERIFY_FAILED": (
        "use a certificate that this machine trusts (SSL_CERT_FILE names more authorities), or "
        "http:// on a network of your own"
    ),
    "WRONG_VERSION_NUMBER": "it speaks plain HTTP: begin the URL with http://",
}


class RefusedError(Exception):
    """A server that will not do what it was asked: `status`, and `words` that say why."""

    def __init__(self, status: int, words: str) -> None:
        self.status, self.words = status, words
        super().__init__(f"the server answers {status}: {words}")


class GaveUpError(Exception):
    """A request that failed at every attempt; `status` is that of the last answer, 0 if none."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class UnusableError(Exception):
    """An answer that cannot be used; `again` says whether another may be."""

    def __init__(self, message: str, *, again: bool = False) -> None:
        self.again = again
        super().__init__(message)


def server_words(answer: Answer, redact: Callable[[str], str]) -> str:
    """Return what a server says of an error: one line, without secrets."""
    text = answer.body.decode("utf-8", "replace")
    try:
        found = _message(json.loads(text))
    except (ValueError, RecursionError):
        found = re.sub(r"<[^>]*>", " ", text)  # a page
    line = " ".join(redact(found).split())
    return f"{line[:MOST]}..." if len(line) > MOST else line or "nothing more"


def _message(value: Any) -> str:
    """Return the message inside an error, wherever servers put it."""
    if isinstance(value, dict):
        for key in ("error", "message", "detail", "msg"):
            if value.get(key):
                return _message(value[key])
        return json.dumps(value)
    if isinstance(value, list):
        return "; ".join(map(_message, value))
    return str(value)


def is_too_long(refused: RefusedError) -> bool:
    """Return whether a server says that a prompt does not fit the context."""
    return refused.status in (400, 413, 422) and bool(_TOO_LONG.search(refused.words))


def failure(refused: RefusedError, context: int | None) -> str:
    """Return what to say of one request that was refused."""
    if is_too_long(refused) or refused.status == 413:
        size = "" if context is None else f" of {context} tokens"
        return (
            f"a prompt does not fit the model's context{size}; the server says: "
            f"{refused.words}; shorten the texts that are shown, or serve the model with more"
        )
    return str(refused)


def dooming(refused: RefusedError, *, url: str, model: str, key: str) -> AdjudgeError | None:
    """Return the error for a refusal that all requests would meet, None if it is this one's.

    Parameters
    ----------
    refused
        What the server said.
    url, model
        What was asked.
    key
        The name of the environment variable that holds the key, and whether it does.
    """
    if refused.status == 401:  # some servers repeat the key here: their words are left out
        return ConfigError(f"{url} wants a key that it knows: {key}")
    if refused.status == 403:
        return ConfigError(
            f"{url} does not let this key use {model!r}, it says: {refused.words}; {key}"
        )
    if refused.status == 404:
        return ConfigError(
            f"{url} answers 404 for the model {model!r}, it says: {refused.words}; check the URL "
            "(most end in /v1) and the model's name"
        )
    if refused.status == 429:
        return EngineError(
            f"{url} says that the account has nothing left: {refused.words}",
            hint="top it up and run the same command again; what was stored is kept",
        )
    return None


def key_advice(name: str, *, is_set: bool) -> str:
    """Return what to do about the key.

    >>> key_advice("MY_KEY", is_set=False)
    'set the environment variable MY_KEY to it, or name another with #key=NAME'
    """
    if is_set:
        return f"check the one in the environment variable {name}, or name another with #key=NAME"
    return f"set the environment variable {name} to it, or name another with #key=NAME"


def unreachable(url: str, error: OSError) -> AdjudgeError:
    """Return the error for a server to which no line can be opened."""
    if isinstance(error, ssl.SSLError):
        reason = str(getattr(error, "reason", "") or error)
        detail = getattr(error, "verify_message", "")
        advice = _TLS_ADVICE.get(reason, "check that the server speaks HTTPS at this port")
        words = reason.replace("_", " ").lower() + (f" ({detail})" if detail else "")
        return ConfigError(f"{url}: no secure connection, {words}; {advice}")
    return EngineError(
        f"nothing answers at {url}: {_reason(error)}",
        retryable=True,
        hint="start the server or mend the URL, then run the same command again",
    )


def _reason(error: OSError) -> str:
    """Return the system's words for an error, without addresses and numbers."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    text = error.strerror if error.strerror and not error.strerror.startswith("Multiple") else ""
    return (text or str(error) or type(error).__name__).strip()


def wrong_path(url: str, suggestion: str | None) -> ConfigError:
    """Return the error for a URL below which no API lies."""
    if suggestion is not None:
        return ConfigError(f"{url} answers 404, but there is an API one level below: {suggestion}")
    return ConfigError(
        f"{url} answers 404: there is no OpenAI-compatible API below it (most URLs end in /v1), "
        "or it has no list of models and #model=NAME must name one"
    )


def not_served(url: str, model: str, served: Sequence[str]) -> ConfigError:
    """Return the error for a model that a server does not list."""
    return unknown_name("model", model, served, where=f"{url}: ")


def many_served(url: str, served: Sequence[str]) -> ConfigError:
    """Return the error for a URL that needs the name of a model with it."""
    if not served:
        return ConfigError(f"{url} lists no model; name one with #model=NAME")
    return ConfigError(
        f"{url} serves {len(served)} models; name one with #model=NAME: {', '.join(served[:20])}"
    )
