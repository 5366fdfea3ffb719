"""Asks a server, again where that can help, and no faster than it likes."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from adjudge.engines.openai_errors import GaveUpError, RefusedError, server_words
from adjudge.engines.openai_line import Answer, DroppedError
from adjudge.engines.openai_lines import Lines, UnreachableError
from adjudge.engines.openai_pace import Bucket, Window

#: Statuses after which the same request may succeed, besides all from 500 up.
RETRIED = frozenset({408, 409, 425, 429})
#: Statuses that say that the server has too much to do.
OVERLOADED = frozenset({429, 503, 529})
#: Never waited for longer than this, in seconds, whatever a server says.
LONGEST_WAIT = 300.0
REPEATED = "request sent again"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How hard a server may be asked.

    Attributes
    ----------
    connections
        Most requests in flight.
    timeout
        Seconds for one attempt.
    attempts
        Most attempts for one request.
    rpm, tpm
        Most requests and tokens per minute; None: no limit.
    backoff, longest
        The wait before a new attempt is drawn from [0, min(longest, backoff * 2**n)] seconds.
    """

    connections: int = 64
    timeout: float = 120.0
    attempts: int = 6
    rpm: int | None = None
    tpm: int | None = None
    backoff: float = 0.5
    longest: float = 30.0


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Clocks, waits and chance, to be exchanged in tests.

    `now` counts seconds, `wall` gives the time of day, `draw` a number in an interval.
    """

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    # A wait changes no result, so this chance needs no seed.
    draw: Callable[[float, float], float] = field(default_factory=lambda: random.Random().uniform)


class _Trouble(NamedTuple):
    """An attempt that failed, and how long to wait at least before the next."""

    reason: str
    wait: float = 0.0
    status: int = 0
    unreachable: UnreachableError | None = None


class Client:
    """A server that is asked for JSON.

    Parameters
    ----------
    url
        What its paths begin with, ``http://127.0.0.1:8000/v1``.
    key
        Sent with every request, and cut out of everything that the server says.
    limits, timing
        How hard it is asked.
    """

    def __init__(
        self, url: str, *, key: str | None, limits: Limits, timing: Timing | None = None
    ) -> None:
        self._timing = timing or Timing()
        self._key, self._limits = key, limits
        self._path = urlsplit(url).path
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers["User-Agent"] = "adjudge"
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._lines = Lines(url, headers)
        #: What happened that is worth telling, and how often.
        self.events: Counter[str] = Counter()
        self.window = Window(limits.connections, self._timing.now)
        self._requests = Bucket(limits.rpm, self._timing.now) if limits.rpm else None
        self._tokens = Bucket(limits.tpm, self._timing.now) if limits.tpm else None

    async def post(
        self, path: str, body: Mapping[str, Any], *, n_tokens: int = 0
    ) -> dict[str, Any]:
        """Return the server's answer to a request below its URL.

        Parameters
        ----------
        path
            What comes after the URL.
        body
            Sent as JSON.
        n_tokens
            About how many tokens it takes, for the limit per minute.

        Raises
        ------
        RefusedError
            If it can never succeed.
        GaveUpError
            If every attempt failed.
        UnreachableError
            If no attempt even reached the server.
        """
        payload = json.dumps(body).encode()
        return await self._asked("POST", self._path + path, payload, n_tokens)

    async def get(self, path: str, *, below_url: bool = True) -> dict[str, Any]:
        """Return what the server has at a path, below its URL or at its root; see `post`."""
        return await self._asked("GET", self._path + path if below_url else path, b"", 0)

    def close(self) -> None:
        """Close all lines."""
        self._lines.close()

    def redact(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self._key, "[key]") if self._key else text

    # --- attempts -------------------------------------------------------------------------------

    async def _asked(self, method: str, path: str, body: bytes, n_tokens: int) -> dict[str, Any]:
        troubles: list[_Trouble] = []
        while len(troubles) < self._limits.attempts:
            if troubles:
                await self._timing.sleep(self._wait(len(troubles), troubles[-1].wait))
            if self._requests or self._tokens:
                await self._allowed(n_tokens)
            outcome = await self._attempt(method, path, body)
            if not isinstance(outcome, _Trouble):
                return outcome
            troubles.append(outcome)
            self.events[REPEATED] += len(troubles) < self._limits.attempts
            if outcome.wait > LONGEST_WAIT:
                raise GaveUpError(f"the server asks to wait {outcome.wait:.0f} s: {outcome.reason}")
        last = troubles[-1]
        if last.unreachable and all(trouble.unreachable for trouble in troubles):
            raise last.unreachable
        raise GaveUpError(
            f"gave up after {len(troubles)} attempts; the last: {last.reason}", last.status
        )

    def _wait(self, n_failed: int, at_least: float) -> float:
        """Return the seconds before the next attempt: full jitter, after what the server asks."""
        most = min(self._limits.longest, self._limits.backoff * 2.0 ** (n_failed - 1))
        return at_least + self._timing.draw(0.0, most)

    async def _allowed(self, n_tokens: int) -> None:
        """Wait until the limits per minute allow one more request."""
        waits = [bucket.take(n) for bucket, n in self._buckets(n_tokens) if bucket]
        if (wait := max(waits)) > 0:
            await self._timing.sleep(wait)

    def _buckets(self, n_tokens: int) -> tuple[tuple[Bucket | None, int], ...]:
        return (self._requests, 1), (self._tokens, n_tokens)

    async def _attempt(self, method: str, path: str, body: bytes) -> dict[str, Any] | _Trouble:
        window = self.window
        await window.enter()
        sent = self._timing.now()
        try:
            async with asyncio.timeout(self._limits.timeout):
                answer = await self._lines.exchange(method, path, body)
        except TimeoutError:
            window.overloaded(sent)
            return _Trouble(f"no answer within {self._limits.timeout:g} s")
        except DroppedError as error:
            return _Trouble(str(error))
        except UnreachableError as error:
            if isinstance(error.error, ssl.SSLError):
                raise
            return _Trouble(f"no connection: {error}", unreachable=error)
        finally:
            window.leave()
        if answer.status in OVERLOADED:
            window.overloaded(sent)
        outcome = self._read(answer)
        if not isinstance(outcome, _Trouble):
            window.answered()
        return outcome

    def _read(self, answer: Answer) -> dict[str, Any] | _Trouble:
        status = answer.status
        if 200 <= status < 300:
            return _parsed(answer)
        words = server_words(answer, self.redact)
        used_up = status == 429 and b"insufficient_quota" in answer.body
        if (status in RETRIED or status >= 500) and status != 501 and not used_up:
            wait = _retry_after(answer.headers.get("retry-after", ""), self._timing.wall())
            return _Trouble(f"the server answers {status}: {words}", wait, status)
        if 300 <= status < 400:
            words = f"it is elsewhere: {self.redact(answer.headers.get('location', '?'))}"
        raise RefusedError(status, words)


def _parsed(answer: Answer) -> dict[str, Any] | _Trouble:
    kind = answer.headers.get("content-type", "application/json")
    if "json" not in kind:
        return _Trouble(f"the answer is {kind.partition(';')[0]}, not JSON")
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        return _Trouble("the answer is no whole JSON")
    return value if isinstance(value, dict) else _Trouble("the answer is no JSON object")


def _retry_after(text: str, now: float) -> float:
    """Return the seconds that a ``Retry-After`` asks to wait: a number or a date.

    >>> _retry_after("3", 0.0), _retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 50.0)
    (3.0, 10.0)
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return seconds if 0 < seconds < float("inf") else 0.0
