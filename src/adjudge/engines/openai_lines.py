"""HTTP/1.1 over asyncio: lines that stay open, with one exchange at a time on each.

General HTTP clients take from 0.2 to several milliseconds of CPU for an exchange, which is more
than a fast server on the same machine leaves; ``benchmarks/client_overhead.py`` has the numbers.
What an engine asks is plain: a method, a path and a body, and an answer that is read whole.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import urllib.request
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from adjudge.engines.openai_line import Answer, DroppedError, Line


class UnreachableError(Exception):
    """No line to the server could be opened; `error` says why."""

    def __init__(self, error: OSError) -> None:
        self.error = error
        super().__init__(str(error))


class Lines:
    """Open lines to one server.

    Parameters
    ----------
    url
        The server: scheme, host and port; what comes after is left out.
    headers
        Sent with every exchange.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        server = urlsplit(url)
        self._host = server.hostname or ""
        self._port = server.port or (443 if server.scheme == "https" else 80)
        self._tls = _tls() if server.scheme == "https" else None
        self._proxy = _proxy(server)
        self._idle: list[Line] = []
        self._all: set[Line] = set()
        # An absolute target is what a proxy for plain HTTP wants.
        relayed = self._proxy is not None and self._tls is None
        self._before_path = f"http://{server.netloc}" if relayed else ""
        sent = {"Host": server.netloc, "Accept-Encoding": "identity", **headers}
        if relayed and self._proxy is not None:
            sent |= _proxy_headers(self._proxy)
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in sent.items())

    async def exchange(self, method: str, path: str, body: bytes = b"") -> Answer:
        """Return the answer to one request.

        Raises
        ------
        UnreachableError
            If no line can be opened.
        DroppedError
            If the line breaks, or what comes is not HTTP.
        """
        head = (
            f"{method} {self._before_path}{path} HTTP/1.1\r\n"
            f"{self._headers}Content-Length: {len(body)}\r\n\r\n"
        )
        payload = head.encode("latin-1") + body
        while self._idle:
            line = self._idle.pop()
            if not line.lost:
                return await self._on(line, payload)
        return await self._on(await self._dial(), payload)

    def close(self) -> None:
        """Close all lines."""
        self._idle.clear()
        while self._all:
            self._all.pop().abort()

    async def _on(self, line: Line, payload: bytes) -> Answer:
        try:
            answer = await line.exchange(payload)
        except BaseException:
            self._all.discard(line)
            line.abort()
            raise
        if line.lasting:
            self._idle.append(line)
        else:
            self._all.discard(line)
            line.abort()
        return answer

    async def _dial(self) -> Line:
        loop = asyncio.get_running_loop()
        line = Line()
        try:
            if self._proxy is None:
                name = self._host if self._tls else None
                await loop.create_connection(
                    lambda: line, self._host, self._port, ssl=self._tls, server_hostname=name
                )
            else:
                await self._dial_proxy(loop, line, self._proxy)
        except OSError as error:
            line.abort()
            raise UnreachableError(error) from error
        except BaseException:
            line.abort()
            raise
        self._all.add(line)
        return line

    async def _dial_proxy(
        self, loop: asyncio.AbstractEventLoop, line: Line, proxy: SplitResult
    ) -> None:
        await loop.create_connection(lambda: line, proxy.hostname or "", proxy.port or 80)
        if self._tls is None:
            return
        target = f"{self._host}:{self._port}"
        headers = {"Host": target, **_proxy_headers(proxy)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"CONNECT {target} HTTP/1.1\r\n{lines}\r\n"
        try:
            answer = await line.exchange(request.encode("latin-1"), bodiless=True)
        except DroppedError as error:
            raise OSError(f"the proxy {proxy.hostname} does not answer: {error}") from error
        if answer.status != 200:
            raise OSError(f"the proxy {proxy.hostname} answers {answer.status}")
        line.transport = await loop.start_tls(  # type: ignore[assignment]
            line.transport, line, self._tls, server_hostname=self._host
        )


def _tls() -> ssl.SSLContext:
    """Return the settings of TLS, with the authorities of this machine or else certifi's."""
    context = ssl.create_default_context()
    places = ssl.get_default_verify_paths()
    if not (places.cafile or places.capath):
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def _proxy(server: SplitResult) -> SplitResult | None:
    """Return the proxy that the environment names for a server."""
    found = urllib.request.getproxies().get(server.scheme)
    if not found or urllib.request.proxy_bypass(server.netloc.rpartition("@")[2]):
        return None
    return urlsplit(found if "://" in found else f"http://{found}")


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
