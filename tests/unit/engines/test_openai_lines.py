"""HTTP over open lines, against raw servers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence

import pytest

from adjudge.engines.openai_line import Answer, DroppedError
from adjudge.engines.openai_lines import Lines, UnreachableError
from tests.fault_server import Act, Asked, FaultServer

pytestmark = pytest.mark.usefixtures("loopback")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Raw:
    """A server that sends given bytes for each request, in pieces, and counts connections."""

    def __init__(self, *answers: bytes, piece: int = 1 << 20, hang_up: bool = False) -> None:
        self._answers, self._piece, self._hang_up = list(answers), piece, hang_up
        self.connections = 0
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode())
                answer = self._answers.pop(0)
                for start in range(0, len(answer), self._piece):
                    writer.write(answer[start : start + self._piece])
                    await writer.drain()
                    await asyncio.sleep(0)
                if self._hang_up:
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


def asked(
    raw: Raw, n: int = 1, url: Callable[[int], str] = lambda port: f"http://127.0.0.1:{port}"
) -> list[Answer | Exception]:
    """Return what n requests in turn give."""

    async def run() -> list[Answer | Exception]:
        server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
        lines = Lines(url(server.sockets[0].getsockname()[1]), {"X-Test": "yes"})
        found: list[Answer | Exception] = []
        for _ in range(n):
            try:
                found.append(await asyncio.wait_for(lines.exchange("GET", "/path"), 10))
            except (DroppedError, UnreachableError) as error:
                found.append(error)
        lines.close()
        server.close()
        await asyncio.sleep(0.01)
        return found

    return asyncio.run(run())


def bodies(found: Sequence[Answer | Exception]) -> list[bytes]:
    assert all(isinstance(each, Answer) for each in found), found
    return [each.body for each in found if isinstance(each, Answer)]


@pytest.mark.parametrize("piece", [1, 5, 1 << 20])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (OK, b"ok"),
        (b"HTTP/1.1 200\r\ncontent-length:  2 \r\n\r\nok", b"ok"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"A;x=y\r\n0123456789\r\n1\r\n!\r\n0\r\nTrailer: 1\r\n\r\n",
            b"0123456789!",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
def test_answers_are_read_whole_in_any_pieces_on_one_line(
    answer: bytes, expected: bytes, piece: int
) -> None:
    raw = Raw(answer, answer, answer, piece=piece)
    assert bodies(asked(raw, 3)) == [expected] * 3
    assert raw.connections == 1


def test_a_body_may_end_with_the_connection() -> None:
    raw = Raw(b"HTTP/1.1 200 OK\r\n\r\nall of", b"HTTP/1.1 200 OK\r\n\r\nit", hang_up=True)
    assert bodies(asked(raw, 2)) == [b"all of", b"it"]
    assert raw.connections == 2


@pytest.mark.parametrize("word", [b"HTTP/1.1 200 OK\r\nConnection: close", b"HTTP/1.0 200 OK"])
def test_a_line_that_is_not_to_last_is_not_used_again(word: bytes) -> None:
    answer = word + b"\r\nContent-Length: 2\r\n\r\nok"
    raw = Raw(answer, answer)
    assert bodies(asked(raw, 2)) == [b"ok", b"ok"]
    assert raw.connections == 2


def test_a_line_that_the_server_closed_meanwhile_is_opened_again() -> None:
    raw = Raw(OK, OK, hang_up=True)
    assert bodies(asked(raw, 2)) == [b"ok", b"ok"]
    assert raw.connections == 2


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (OK[:-1], "in the middle of the answer"),
        (OK[:20], "in the middle of the answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "in the middle"),
        (b"", "without an answer"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not HTTP: it begins with 'SSH-2.0-OpenSSH'"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "not HTTP: its length is -1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "not HTTP: invalid literal"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not HTTP: invalid"),
        (b"x" * 70_000, "not HTTP: its head does not end"),
    ],
)
def test_broken_answers_are_told_as_such(answer: bytes, match: str) -> None:
    (found,) = asked(Raw(answer, hang_up=True))
    assert isinstance(found, DroppedError)
    with pytest.raises(DroppedError, match=match):
        raise found


def test_the_head_of_a_request() -> None:
    raw = Raw(OK)
    asked(raw)
    lines = raw.heads[0].split("\r\n")
    assert lines[0] == "GET /path HTTP/1.1"
    assert {"X-Test: yes", "Content-Length: 0", "Accept-Encoding: identity"} < set(lines)
    assert any(line.startswith("Host: 127.0.0.1:") for line in lines)


def test_nobody_listens() -> None:
    (found,) = asked(Raw(), url=lambda port: "http://127.0.0.1:9")
    assert isinstance(found, UnreachableError)
    assert isinstance(found.error, ConnectionRefusedError)


def test_https_to_a_server_of_plain_http() -> None:
    with FaultServer(lambda asked: Act()) as server:
        url = server.url.replace("http", "https")
        (found,) = asked(Raw(), url=lambda port: url)
    assert isinstance(found, UnreachableError)
    assert isinstance(found.error, ssl.SSLError)


def test_plain_requests_go_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    def relay(asked: Asked) -> Act:
        assert asked.path == "http://example.invalid:8000/path"
        assert asked.headers["host"] == "example.invalid:8000"
        assert asked.headers["proxy-authorization"] == "Basic bWU6cEBzcw=="  # me:p@ss
        return Act(body=b"from afar")

    with FaultServer(relay) as proxy:
        address = proxy.url.removeprefix("http://").removesuffix("/v1")
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@{address}")
        found = asked(Raw(), url=lambda port: "http://example.invalid:8000")
    assert bodies(found) == [b"from afar"]


@pytest.mark.parametrize("status", [407, 200])
def test_secure_requests_ask_the_proxy_for_a_tunnel(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    seen = []

    def relay(asked: Asked) -> Act:  # and hangs up, so that nothing secure can follow
        seen.append((asked.method, asked.path))
        return Act(status=status, body=b"", cut=1000)

    with FaultServer(relay) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.removesuffix("/v1"))
        (found,) = asked(Raw(), url=lambda port: "https://example.invalid")
    assert seen == [("CONNECT", "example.invalid:443")]
    assert isinstance(found, UnreachableError)
    refused = str(found) == "the proxy 127.0.0.1 answers 407"
    assert refused == (status == 407)


def test_a_cancelled_exchange_leaves_no_line_behind() -> None:
    raw = Raw(OK[:-1], OK)

    async def run() -> Answer:
        server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
        lines = Lines(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", {})
        with pytest.raises(TimeoutError, match=r"^$"):
            async with asyncio.timeout(0.05):
                await lines.exchange("GET", "/")
        answer = await lines.exchange("GET", "/")
        lines.close()
        server.close()
        await asyncio.sleep(0.01)
        return answer

    assert asyncio.run(run()).body == b"ok"
    assert raw.connections == 2
