"""Attempts, waits and limits, with a server on loopback and no real waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from adjudge.engines.openai_client import Client, Limits, Timing
from adjudge.engines.openai_errors import GaveUpError, RefusedError
from adjudge.engines.openai_lines import UnreachableError
from tests.fault_server import Act, Asked, FaultServer, error

pytestmark = pytest.mark.usefixtures("loopback")
T = TypeVar("T")
GOOD = Act(body={"fine": True})
LIMITS = Limits(timeout=0.2, connections=8)


class Slept:
    """Notes waits instead of waiting; jitter is the upper bound, or its `part`."""

    def __init__(self, part: float = 1.0) -> None:
        self.waits: list[float] = []
        self.time = 0.0
        self.timing = Timing(
            now=lambda: self.time,
            wall=lambda: 1_700_000_000.0,
            sleep=self._sleep,
            draw=lambda low, high: low + part * (high - low),
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds


def asked(
    script: Callable[[Asked], Act],
    *,
    limits: Limits = LIMITS,
    slept: Slept | None = None,
    work: Callable[[Client], Awaitable[T]] | None = None,
    key: str | None = None,
) -> tuple[Any, FaultServer]:
    """Return what a client gets, and the server that it asked."""
    slept = slept or Slept()

    async def run(url: str) -> Any:
        client = Client(url, key=key, limits=limits, timing=slept.timing)
        try:
            return await (work(client) if work else client.post("/chat", {"say": "it"}))
        finally:
            client.close()
            await asyncio.sleep(0)

    with FaultServer(script) as server:
        return asyncio.run(run(server.url)), server


def first(*acts: Act) -> Callable[[Asked], Act]:
    """Return a script that goes through these, then answers well."""
    return lambda asked: acts[asked.attempt] if asked.attempt < len(acts) else GOOD


FAULTS = {
    "429": error(429, "slow down"),
    "408": error(408, "too slow"),
    "409": error(409, "conflict"),
    "425": error(425, "too early"),
    "500": error(500, "oh"),
    "503": error(503, "busy"),
    "stall": Act(stall=5.0),
    "half a body": Act(body={"fine": True}, cut=90),
    "half a head": Act(body={"fine": True}, cut=20),
    "half of chunks": Act(body={"fine": True}, chunked=True, cut=110),
    "wrong type": Act(body=b"<html>hello</html>", kind="text/html"),
    "truncated JSON": Act(body=b'{"fine": tr'),
    "no object": Act(body=b"[1]"),
    "reset": Act(reset=True),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_may_pass_is_tried_again(fault: Act) -> None:
    slept = Slept()
    answer, server = asked(first(fault, fault), slept=slept)
    assert answer == {"fine": True}
    assert len(server.asked) == 3
    assert slept.waits == [0.5, 1.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501])
def test_what_cannot_pass_is_not(status: int) -> None:
    with FaultServer(lambda asked: error(status, "never")) as server:

        async def run() -> None:
            client = Client(server.url, key=None, limits=LIMITS, timing=Slept().timing)
            try:
                await client.post("/chat", {})
            finally:
                client.close()
                await asyncio.sleep(0)

        with pytest.raises(RefusedError, match=f"^the server answers {status}: never$") as caught:
            asyncio.run(run())
    assert caught.value.status == status
    assert len(server.asked) == 1


def test_a_redirection_is_told_and_not_followed() -> None:
    moved = Act(status=307, headers={"Location": "https://elsewhere/v1/chat"})
    with pytest.raises(RefusedError, match="307: it is elsewhere: https://elsewhere/v1/chat"):
        asked(lambda asked: moved)


def test_it_gives_up_after_so_many_attempts_with_the_last_reason() -> None:
    slept = Slept()
    with pytest.raises(
        GaveUpError, match=r"^gave up after 6 attempts; the last: the server answers 500: oh$"
    ) as caught:
        asked(lambda asked: FAULTS["500"], slept=slept)
    assert caught.value.status == 500
    assert slept.waits == [0.5, 1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("stall", "no answer within 0.2 s"),
        ("half a body", "the connection broke in the middle of the answer"),
        ("reset", "the server closed the connection without an answer"),
        ("wrong type", "the answer is text/html, not JSON"),
        ("truncated JSON", "the answer is no whole JSON"),
        ("no object", "the answer is no JSON object"),
        ("429", "the server answers 429: slow down"),
    ],
)
def test_the_reason_says_what_happened(fault: str, reason: str) -> None:
    with pytest.raises(GaveUpError, match=f"the last: {reason}$"):
        asked(lambda asked: FAULTS[fault], limits=Limits(timeout=0.2, attempts=2))


def test_waits_are_drawn_from_the_whole_interval_and_bounded() -> None:
    slept = Slept(part=0.25)
    limits = Limits(attempts=9, longest=4.0)
    with pytest.raises(GaveUpError, match="9 attempts"):
        asked(lambda asked: FAULTS["500"], slept=slept, limits=limits)
    assert slept.waits == [0.125, 0.25, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0),  # ten seconds after 1,700,000,000
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0.0),
        ("soon", 0.0),
        ("-3", 0.0),
        ("inf", 0.0),
        ("nan", 0.0),
    ],
)
def test_retry_after_is_waited_for_and_jitter_comes_on_top(header: str, seconds: float) -> None:
    slept = Slept()
    asked(first(error(429, "slow down", Retry_After=header)), slept=slept)
    assert slept.waits == pytest.approx([seconds + 0.5])


def test_a_very_long_retry_after_is_not_waited_for() -> None:
    slept = Slept()
    with pytest.raises(GaveUpError, match="asks to wait 86400 s: the server answers 429"):
        asked(lambda asked: error(429, "tomorrow", Retry_After="86400"), slept=slept)
    assert slept.waits == []


def test_an_account_with_nothing_left_is_not_asked_again() -> None:
    body = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    with pytest.raises(RefusedError, match="429: You exceeded your quota"):
        asked(lambda asked: Act(status=429, body=body))


def test_a_server_that_nobody_reaches() -> None:
    async def run() -> None:
        client = Client("http://127.0.0.1:9", key=None, limits=LIMITS, timing=Slept().timing)
        await client.post("/chat", {})

    with pytest.raises(UnreachableError, match="9") as caught:
        asyncio.run(run())
    assert isinstance(caught.value.error, ConnectionRefusedError)


def test_the_key_goes_out_and_never_comes_back() -> None:
    key = "sk-very-secret"

    def script(asked: Asked) -> Act:
        assert asked.headers["authorization"] == f"Bearer {key}"
        return error(400, f"the key {key} may not")

    with pytest.raises(RefusedError, match=r"the key \[key\] may not"):
        asked(script, key=key)


def test_no_key_no_header() -> None:
    _, server = asked(first())
    assert "authorization" not in server.asked[0].headers
    assert server.asked[0].path == "/v1/chat"
    assert server.asked[0].body == {"say": "it"}


async def many(client: Client, n: int) -> list[dict[str, Any]]:
    return await asyncio.gather(*(client.post("/chat", {"n": i}) for i in range(n)))


def test_no_more_are_in_flight_than_connections() -> None:
    answers, server = asked(lambda asked: Act(stall=0.01), work=lambda client: many(client, 40))
    assert len(answers) == 40
    assert server.most_in_flight == 8


@pytest.mark.parametrize("fault", ["429", "503", "stall"])
def test_overload_halves_what_is_in_flight_once(fault: str) -> None:
    sizes = []

    async def work(client: Client) -> None:
        await many(client, 8)
        sizes.append(client.window.size)

    clock = iter(range(10_000))
    timing = Timing(now=lambda: float(next(clock)), sleep=lambda _: asyncio.sleep(0))

    def script(asked: Asked) -> Act:
        return GOOD if asked.attempt else FAULTS[fault]

    slept = Slept()
    slept.timing = timing
    asked(script, slept=slept, work=work, limits=Limits(connections=8, timeout=0.5))
    expected = 4.0
    for _ in range(8):  # answers
        expected += 1 / expected
    assert sizes[0] == pytest.approx(expected)


def test_other_faults_do_not() -> None:
    async def work(client: Client) -> float:
        await many(client, 8)
        return client.window.size

    size, _ = asked(first(FAULTS["500"]), work=work)
    assert size == 8


def test_requests_and_tokens_per_minute() -> None:
    slept = Slept()

    async def work(client: Client) -> None:
        for i in range(4):
            await client.post("/chat", {"n": i}, n_tokens=100)

    asked(first(), slept=slept, work=work, limits=Limits(rpm=60, tpm=600_000))
    assert slept.waits == []  # six at once
    asked(first(), slept=slept, work=work, limits=Limits(rpm=60, tpm=1200))
    # 120 tokens at once, then 20 a second.
    assert slept.waits == pytest.approx([4.0, 5.0, 5.0])
