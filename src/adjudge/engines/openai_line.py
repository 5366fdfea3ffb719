"""One connection to a server, and HTTP/1.1 as it is spoken on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

#: Most bytes of the head of an answer, and of its body.
MOST_HEAD, MOST_BODY = 1 << 16, 1 << 28


class Answer(NamedTuple):
    """What a server answered: its status, its headers by their names in small letters, the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class DroppedError(Exception):
    """A line broke before a whole answer had come."""


class Line(asyncio.Protocol):
    """One connection.

    `lost` says whether it is closed, `lasting` whether it may be used again, `answering` whether
    any of the last answer came.
    """

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._data, self._body = bytearray(), bytearray()
        self._headers: dict[str, str] | None = None
        self._status, self._left = 0, 0
        self._answer: asyncio.Future[Answer] | None = None
        self._bodiless = False
        self._opened = False
        self.lost = self.answering = False
        self.lasting = True

    async def exchange(self, payload: bytes, *, bodiless: bool = False) -> Answer:
        """Send a request and return its answer."""
        if self.lost:
            raise DroppedError("the server closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self._headers, self._bodiless, self.answering = None, bodiless, False
        self.transport.write(payload)
        return await self._answer

    def abort(self) -> None:
        """Close at once."""
        self.lost = True
        if self._opened:
            self.transport.abort()

    # --- what asyncio calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self.transport, self._opened = transport, True

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._answer is None or self._answer.done():  # nobody asked
            self.abort()
            return
        self.answering = True
        self._data += data
        try:
            done = self._headers is not None or self._read_head()
            done = done and self._read_body()
        except ValueError as error:
            self._fail(f"what came is not HTTP: {error}")
        else:
            if done:
                self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.lost = True
        if self._headers is not None and self._left == -1 and error is None:
            self._finish()
        elif self.answering:
            self._fail("the connection broke in the middle of the answer")
        else:
            self._fail("the server closed the connection without an answer")

    # --- reading --------------------------------------------------------------------------------

    def _read_head(self) -> bool:
        """Take the head off the data; False while it is not whole."""
        while True:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                if len(self._data) > MOST_HEAD:
                    raise ValueError("its head does not end")
                return False
            first, *rest = self._data[:end].decode("latin-1").split("\r\n")
            del self._data[: end + 4]
            if not first.startswith("HTTP/1.") or not first[9:12].isdecimal():
                raise ValueError(f"it begins with {first[:40]!r}")
            self._status = int(first[9:12])
            if self._status >= 200:
                break  # what came before was a word in between
        headers = {}
        for line in rest:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        self._headers = headers
        self._body.clear()
        self.lasting = first[7] == "1" and "close" not in headers.get("connection", "").lower()
        self._left = self._length(headers)
        return True

    def _length(self, headers: Mapping[str, str]) -> int:
        """Return how long the body is; -1 if it ends with the connection, -2 if it is in chunks."""
        if self._bodiless or self._status in (204, 304):
            return 0
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return -2
        if "content-length" not in headers:
            self.lasting = False
            return -1
        length = int(headers["content-length"])
        if not 0 <= length <= MOST_BODY:
            raise ValueError(f"its length is {length}")
        return length

    def _read_body(self) -> bool:
        """Take what has come of the body off the data; False while it is not whole."""
        if self._left == -2:
            return self._read_chunks()
        if len(self._body) + len(self._data) > MOST_BODY:
            raise ValueError("its body does not end")
        if self._left == -1:
            self._body += self._data
            self._data.clear()
            return False
        if len(self._data) < self._left:
            return False
        self._body += self._data[: self._left]
        del self._data[: self._left]
        return True

    def _read_chunks(self) -> bool:
        while True:
            end = self._data.find(b"\r\n")
            if end < 0:
                return False
            size = int(self._data[:end].partition(b";")[0], 16)
            if size < 0 or len(self._body) + size > MOST_BODY:
                raise ValueError(f"a part of it has the length {size}")
            if size == 0:  # then come trailers, which nobody reads, and an empty line
                last = self._data.find(b"\r\n\r\n", end)
                if last < 0:
                    return False
                del self._data[: last + 4]
                return True
            if len(self._data) < end + size + 4:
                return False
            self._body += self._data[end + 2 : end + 2 + size]
            del self._data[: end + size + 4]

    def _finish(self) -> None:
        if self._answer is not None and not self._answer.done():
            if self._data:
                self.lasting = False
            headers = self._headers or {}
            self._answer.set_result(Answer(self._status, headers, bytes(self._body)))

    def _fail(self, reason: str) -> None:
        self.lasting = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(DroppedError(reason))
