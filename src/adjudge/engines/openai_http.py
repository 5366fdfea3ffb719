"""Any server that speaks OpenAI's HTTP protocol: vLLM, SGLang, llama-server, Ollama, hosted.

A reference is ``openai:MODEL`` for a model of the server that ``OPENAI_BASE_URL`` names (OpenAI's
own if it is not set), or ``openai:http://host:8000/v1``. Options come after ``#``:
``openai:http://127.0.0.1:8000/v1#model=NAME&connections=16&timeout=60``. The key is read from the
environment variable ``OPENAI_API_KEY``, or from the one that ``key=NAME`` names.

What a server can do is found out by asking it, once, when the engine is made. Requests go out in
the order of their texts, so that servers that keep what prompts share can use it.
"""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NoReturn, TypeVar, cast
from urllib.parse import urlsplit

from adjudge.engines.base import Engine, check_served
from adjudge.engines.models import fragment_options, whole_number
from adjudge.engines.openai_asking import Asking
from adjudge.engines.openai_bodies import Probed
from adjudge.engines.openai_client import Client, Limits, Timing
from adjudge.engines.openai_errors import (
    GaveUpError,
    RefusedError,
    UnusableError,
    dooming,
    failure,
    key_advice,
    unreachable,
)
from adjudge.engines.openai_labels import label_texts
from adjudge.engines.openai_lines import UnreachableError
from adjudge.engines.openai_loop import Background
from adjudge.engines.openai_probe import probe
from adjudge.errors import ConfigError
from adjudge.exchange import (
    Capability,
    Failure,
    Generate,
    Reply,
    Request,
    ScoreLabels,
    ScoreText,
)
from adjudge.registry import unknown_name

OPENAI_URL = "https://api.openai.com/v1"
KEY = "OPENAI_API_KEY"
OPTIONS = ("model", "key", "connections", "timeout", "rpm", "tpm", "top")
T = TypeVar("T")


class OpenAIEngine(Engine):
    """A model behind an OpenAI-compatible HTTP server.

    Parameters
    ----------
    model
        The model's name on the server; None: the only one that it lists.
    url
        What the server's paths begin with; None: what ``OPENAI_BASE_URL`` says, or OpenAI's own.
    key
        The name of the environment variable that holds the key.
    limits
        How hard the server may be asked.
    top
        How many of the likeliest tokens to ask for; None: as many as it shows, at most 100.
    timing
        Clocks and waits, for tests.

    Raises
    ------
    ConfigError
        If the URL, the key or the model is wrong, or no secure connection can be made.
    EngineError
        If nothing answers.
    """

    about = "models behind OpenAI-compatible servers: vLLM, SGLang, llama-server, Ollama, hosted"
    references = "openai:MODEL, openai:http://HOST:PORT/v1"
    capabilities = frozenset({Capability.GENERATE, Capability.SCORE_LABELS, Capability.SCORE_TEXT})

    def __init__(
        self,
        model: str | None = None,
        *,
        url: str | None = None,
        key: str = KEY,
        limits: Limits | None = None,
        top: int | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._url = _checked_url(url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
        self._limits = limits or Limits()
        secret = _key(key)
        self._key_advice = key_advice(key, is_set=secret is not None)
        self._model = model
        client = Client(self._url, key=secret, limits=self._limits, timing=timing)
        background = Background()
        self._client, self._background = client, background
        self._close = weakref.finalize(self, background.close, client.close)
        try:
            self.probed: Probed = self._tried(
                lambda: background.result(probe(client, self._url, model, top))
            )
        except BaseException:
            self.close()
            raise
        self.context_length = self.probed.context
        self.capabilities = frozenset(
            {Capability.GENERATE}
            | ({Capability.SCORE_LABELS} if self.probed.top_logprobs else set())
            | ({Capability.SCORE_TEXT} if self.probed.echo else set())
        )

    @classmethod
    def from_reference(cls, reference: str) -> OpenAIEngine:
        """Return the engine for what comes after ``openai:``; see the module."""
        name, _, fragment = reference.partition("#")
        options = fragment_options(fragment, reference)
        for option in options.keys() - set(OPTIONS):
            raise unknown_name("model option", option, OPTIONS)
        url = name if name.startswith(("http://", "https://")) else None
        if url is None and "model" in options:
            raise ConfigError(
                f"{reference!r}: #model= goes with a URL; write openai:{options['model']}"
            )
        if not name:
            raise ConfigError("write openai:MODEL or openai:http://HOST:PORT/v1")
        limits = Limits(
            connections=whole_number(options, "connections", reference, 1, 4096)
            or Limits.connections,
            timeout=whole_number(options, "timeout", reference, 1, 86_400) or Limits.timeout,
            rpm=whole_number(options, "rpm", reference, 1, 10**9),
            tpm=whole_number(options, "tpm", reference, 1, 10**10),
        )
        return cls(
            options.get("model") if url else name,
            url=url,
            key=options.get("key", KEY),
            limits=limits,
            top=whole_number(options, "top", reference, 1, 1 << 20),
        )

    @cached_property
    def signature(self) -> Mapping[str, str]:
        """The server, the model and what was probed.

        A server says little of what it runs: after other weights under the same name, replies
        that were stored before are still taken.
        """
        return {"engine": "openai", "server": self._url, **self.probed.signature()}

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """Yield replies as they come; see `Engine.run`.

        Whether a prompt fits the context only the server knows: one that does not is a `Failure`.
        """
        if not self._close.alive:
            raise ConfigError("this engine is closed; load it again")
        for request in requests:
            self.check(request)
        order = sorted(requests, key=_shared_first)
        waiting = iter(order)
        n_workers = min(self._limits.connections, len(order))

        async def produce(emit: Callable[[Reply], None]) -> None:
            async def work() -> None:
                for request in waiting:
                    emit(await self._reply(request))

            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(n_workers):
                        group.create_task(work())
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None

        yield from self._tried_all(self._background.stream(produce))

    def check(self, request: Request) -> None:
        """See `Engine.check`."""
        probed = self.probed
        if request.capability is Capability.SCORE_LABELS and not probed.top_logprobs:
            why = "thinks before it replies" if probed.thinks else "shows no log-probs"
            raise ConfigError(
                f"{probed.model!r} at {self._url} {why}, so that labels cannot be scored; use "
                "--score-mode text, or another engine"
            )
        check_served(self, [request])
        begun = bool(request.messages) and request.messages[-1].role == "assistant"
        if begun and not probed.continues:
            raise ConfigError(
                f"{self._url} does not go on with a begun reply, which this judge needs; use a "
                "server that does (vLLM, SGLang, llama-server), or another judge"
            )
        if isinstance(request, ScoreLabels):
            label_texts(request.labels)
        if isinstance(request, Generate) and request.json_schema is not None:
            if not probed.json_schema:
                raise ConfigError(f"{self._url} does not keep to a JSON schema; use another engine")
            _check_json(request.json_schema)

    @property
    def details(self) -> Mapping[str, str]:
        """See `Engine.details`: what was probed."""
        return self.probed.described()

    @property
    def events(self) -> Mapping[str, int]:
        """See `Engine.events`."""
        return {what: n for what, n in self._client.events.items() if n}

    def close(self) -> None:
        """Close all connections."""
        self._close()

    # --- asking ---------------------------------------------------------------------------------

    async def _reply(self, request: Request) -> Reply:
        asking = Asking(self._client, self.probed)
        try:
            if isinstance(request, ScoreLabels):
                return await asking.labels(request)
            if isinstance(request, ScoreText):
                return await asking.text(request)
            return await asking.generated(cast("Generate", request))
        except RefusedError as refused:
            if self._dooming(refused) is not None:
                raise
            message = failure(refused, self.context_length)
        except (GaveUpError, UnusableError) as error:
            message = str(error)
        return Failure(request_id=request.id, message=message, usage=asking.usage())

    def _tried(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, its errors as those that users see."""
        try:
            return work()
        except (RefusedError, GaveUpError, UnreachableError, UnusableError) as error:
            self._raise(error)

    def _tried_all(self, replies: Iterator[Reply]) -> Iterator[Reply]:
        try:
            yield from replies
        except (RefusedError, UnreachableError) as error:
            self._raise(error)

    def _raise(self, error: Exception) -> NoReturn:
        if isinstance(error, UnreachableError):
            raise unreachable(self._url, error.error) from error
        doom = self._dooming(error) if isinstance(error, RefusedError) else None
        raise doom or ConfigError(f"{self._url} cannot be used: {error}") from error

    def _dooming(self, refused: RefusedError) -> Exception | None:
        """Return the error for a refusal that every request would meet."""
        model = self.probed.model if hasattr(self, "probed") else self._model or "?"
        return dooming(refused, url=self._url, model=model, key=self._key_advice)


def _shared_first(request: Request) -> tuple[str, ...]:
    """Return what puts requests next to those that they share most with."""
    if isinstance(request, ScoreText):
        return (request.text,)
    return tuple(message.content for message in request.messages)


def _checked_url(url: str) -> str:
    """Return a server's URL without a slash at its end."""
    url = url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        plain = url.isascii() and url.isprintable() and " " not in url
        valid = plain and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        raise ConfigError(f"not a URL of a server: {url!r}; write http://HOST:PORT/v1") from None
    if parts.username or parts.password or parts.query:
        raise ConfigError(
            "the URL of a server holds no name, password or query; keep the key in an "
            f"environment variable and name that with #key=NAME (default: {KEY})"
        )
    if not valid:
        raise ConfigError(f"not a URL of a server: {url!r}; write http://HOST:PORT/v1")
    return url


def _key(name: str) -> str | None:
    """Return the key that an environment variable holds; none is fine under the usual name."""
    value = os.environ.get(name, "").strip()
    if not value:
        if name != KEY:
            raise ConfigError(f"the environment variable {name}, named as the key's, is not set")
        return None
    if not (value.isascii() and value.isprintable()):
        raise ConfigError(f"the environment variable {name} holds no key: it has odd characters")
    return value


def _check_json(json_schema: str) -> None:
    try:
        json.loads(json_schema)
    except ValueError as error:
        raise ConfigError(f"the JSON schema is not JSON: {error}") from error
