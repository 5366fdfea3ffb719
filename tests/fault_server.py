"""An OpenAI-compatible server on loopback whose answers, and faults, a test decides."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

MODEL = "scripted"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it came: `attempt` counts from 0 those with the same path and body."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    attempt: int

    @property
    def said(self) -> str:
        """What the last message or the plain prompt says."""
        messages = self.body.get("messages")
        return str(messages[-1]["content"] if messages else self.body.get("prompt", ""))

    @property
    def question(self) -> str:
        """What the last message of the user says."""
        said = [each["content"] for each in self.body["messages"] if each["role"] == "user"]
        return str(said[-1])

    @property
    def begun(self) -> str:
        """The reply that has begun."""
        last = self.body["messages"][-1]
        return str(last["content"]) if last["role"] == "assistant" else ""


@dataclass(frozen=True, kw_only=True)
class Act:
    """What the server does: it answers, after `stall` seconds, with `body`.

    With `cut` it sends so many bytes of the answer and hangs up; with `reset` it hangs up at
    once. `chunked` sends the body in chunks.
    """

    status: int = 200
    body: object = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    stall: float = 0.0
    cut: int | None = None
    reset: bool = False
    chunked: bool = False

    def written(self) -> bytes:
        """Return the answer as it goes over the line."""
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        headers = {"Content-Type": self.kind, **self.headers}
        if self.chunked:
            headers["Transfer-Encoding"] = "chunked"
            parts = [body[i : i + 7] for i in range(0, len(body), 7)] + [b""]
            body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        else:
            headers["Content-Length"] = str(len(body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {self.status} Whatever\r\n{lines}\r\n".encode() + body


Script = Callable[[Asked], Act]


class FaultServer:
    """A server in a thread, to be used as a context; `asked` holds all requests that came."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._seen: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()))
        self.asked: list[Asked] = []
        self.in_flight = self.most_in_flight = 0

    @property
    def url(self) -> str:
        """Where it listens, with the path of the API."""
        return f"http://127.0.0.1:{self._port}/v1"

    def count(self, part: str) -> int:
        """Return how many requests came whose path ends so."""
        return sum(each.path.endswith(part) for each in self.asked)

    def __enter__(self) -> FaultServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        self._ended = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(begin, "127.0.0.1", 0, backlog=256)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ended.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while await self._answer(reader, writer):
                    pass
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False to hang up."""
        first = await reader.readexactly(1)
        if first == b"\x16":  # TLS
            writer.write(Act(status=400, body=b"not HTTP").written())
            await writer.drain()
            return False
        rest = await reader.readuntil(b"\r\n\r\n")
        head = (first + rest).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        key = f"{path} {body.decode()}"
        asked = Asked(
            method=method,
            path=path,
            headers=headers,
            body=json.loads(body or b"{}"),
            attempt=self._seen[key],
        )
        self._seen[key] += 1
        self.asked.append(asked)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            act = self._script(asked)
            if act.stall:
                await asyncio.sleep(act.stall)
        finally:
            self.in_flight -= 1
        if act.reset:
            return False
        writer.write(act.written()[: act.cut])
        await writer.drain()
        if act.cut is not None:
            writer.close()  # what was written still goes out
            return False
        return True


# --- a server that works ------------------------------------------------------------------------


def error(status: int, message: str, **headers: str) -> Act:
    """Return a refusal in the usual form; underscores in the names of headers stand for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Act(status=status, body={"error": {"message": message}}, headers=named)


def entry(token: str, logprob: float) -> dict[str, Any]:
    """Return a token as it is shown."""
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}


def chat(
    text: str,
    tokens: Mapping[str, float] | None = None,
    *,
    finish: str = "length",
    top: int = 20,
    **message: object,
) -> Act:
    """Return an answer with a text, and with the probabilities of first tokens."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **message},
        "finish_reason": finish,
    }
    if tokens is not None:
        shown = sorted(tokens.items(), key=lambda pair: -pair[1])[:top]
        entries = [entry(token, math.log(p)) for token, p in shown]
        choice["logprobs"] = {"content": [{**entries[0], "top_logprobs": entries}]}
    usage = {"prompt_tokens": 10, "completion_tokens": 1}
    return Act(body={"choices": [choice], "usage": usage})


class Working:
    """A server that does all that is probed; `reply` answers everything else.

    Parameters
    ----------
    reply
        The answer to a chat that is no probe.
    most_top
        More log-probs than that are refused.
    prefill
        Whether a begun reply is gone on with.
    models
        What is listed.
    """

    def __init__(
        self,
        reply: Script = lambda asked: chat("A", {"A": 0.5, "B": 0.25}),
        *,
        most_top: int = 20,
        prefill: bool = True,
        models: tuple[str, ...] = (MODEL,),
    ) -> None:
        self._reply, self._most_top = reply, most_top
        self._prefill, self._models = prefill, models

    def __call__(self, asked: Asked) -> Act:
        if asked.path == "/v1/models":
            listed = [
                {"id": name, "owned_by": "tests", "max_model_len": 512} for name in self._models
            ]
            return Act(body={"data": listed})
        if asked.path != "/v1/chat/completions":
            return error(404, "no such path")
        if asked.body.get("top_logprobs", 0) > self._most_top:
            return error(400, f"top_logprobs must be at most {self._most_top}")
        return self._probed(asked) or self._reply(asked)

    def _probed(self, asked: Asked) -> Act | None:
        """Return the answer to a probe."""
        if asked.question == "Write K7 Q4 Z9 again and again.":
            flagged = asked.body.get("continue_final_message")
            return chat("9 K7" if self._prefill and flagged else "K7 Q4")
        if asked.question != "Is water wet? Answer yes or no.":
            return None
        if "response_format" in asked.body:
            return chat('{"answer": "Q4"}', finish="stop")
        return chat("yes", {"yes": 0.9, "no": 0.1} if self._most_top else None)
