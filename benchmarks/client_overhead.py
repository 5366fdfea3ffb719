"""What asking a server costs: this package's client beside those of others, in one run.

A stub server on loopback answers every request 20 ms after it came. 5,000 label requests go
through `OpenAIEngine.run` with 64 in flight; then as many through `openai`'s asynchronous client
and `litellm`, each in a virtual environment of its own, which is made at the first run. Ideal are
64 requests every 20 ms. Prints the throughput of each against that, and the CPU time of its
process for each request, the reading of the log-probs with it. Bare streams of asyncio with one
prepared request, which is read but not used, show what the machine gives at the time.

    python benchmarks/client_overhead.py [--requests 5000] [--environments FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import socket
import subprocess
import sys
import time
import venv
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

CONNECTIONS, LATENCY = 64, 0.02
LABELS = ("Better", "Worse", "Similar")
OTHERS = {"openai": "openai==3.57.0", "litellm": "litellm==1.110.2"}
PROMPT = "Which of the two summaries hangs together better? " * 40
TOP = 20


class Cost(NamedTuple):
    """Seconds for all requests, and of CPU time."""

    seconds: float
    cpu: float


# --- the stub -----------------------------------------------------------------------------------


def stub() -> None:
    """Serve for ever: print the port, answer everything after the latency.

    Plain sockets: an event loop would cost more than what is measured, and wait whole
    milliseconds only.
    """
    answer, models = _answers()
    server = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(server.getsockname()[1], flush=True)
    data: dict[socket.socket, bytes] = {}
    due: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        while due and due[0][0] <= time.perf_counter():
            _, line, written = due.popleft()
            if line in data:
                line.sendall(written)
        wait = max(0.0, due[0][0] - time.perf_counter()) if due else None
        for line in select.select([server, *data], [], [], wait)[0]:
            if line is server:
                opened = server.accept()[0]
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                data[opened] = b""
                continue
            received = line.recv(1 << 16)
            if not received:
                del data[line]
                line.close()
                continue
            data[line] += received
            head, end, body = data[line].partition(b"\r\n\r\n")
            if end and len(body) >= _length(head):
                data[line] = b""
                written = models if head.startswith(b"GET") else answer
                due.append((time.perf_counter() + LATENCY, line, written))


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


def _answers() -> tuple[bytes, bytes]:
    """Return the answer to a chat, and the list of models."""
    tokens = [*LABELS, *(chr(ord("a") + i) for i in range(TOP - len(LABELS)))]
    shown = [
        {"token": token, "logprob": -0.5 - i, "bytes": list(token.encode())}
        for i, token in enumerate(tokens)
    ]
    choice = {
        "index": 0,
        "finish_reason": "length",
        "message": {"role": "assistant", "content": tokens[0]},
        "logprobs": {"content": [{**shown[0], "top_logprobs": shown}]},
    }
    chat = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "stub",
        "choices": [choice],
        "usage": {"prompt_tokens": 400, "completion_tokens": 1, "total_tokens": 401},
    }
    return _http(chat), _http({"object": "list", "data": [{"id": "stub", "object": "model"}]})


def _http(value: object) -> bytes:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


# --- the clients --------------------------------------------------------------------------------


def ask_adjudge(url: str, n: int) -> Cost:
    """Ask through this package's engine."""
    from adjudge.engines.openai_http import OpenAIEngine
    from adjudge.exchange import LabelScores, Message, ScoreLabels

    engine = OpenAIEngine.from_reference(f"{url}#connections={CONNECTIONS}&top={TOP}")
    requests = [
        ScoreLabels(messages=(Message(role="user", content=f"{PROMPT}{i}"),), labels=LABELS)
        for i in range(n)
    ]
    assert len({request.id for request in requests}) == n
    started, cpu = time.perf_counter(), time.process_time()
    scored = sum(isinstance(reply, LabelScores) for reply in engine.run(requests))
    cost = Cost(time.perf_counter() - started, time.process_time() - cpu)
    engine.close()
    assert scored == n
    return cost


def ask_openai(url: str, n: int) -> Cost:
    """Ask through OpenAI's client."""
    openai: Any = import_module("openai")

    async def asked() -> Cost:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            return await _gathered(client.chat.completions.create, n)

    return asyncio.run(asked())


def ask_litellm(url: str, n: int) -> Cost:
    """Ask through litellm."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    litellm: Any = import_module("litellm")

    def create(**body: Any) -> Awaitable[Any]:
        body["model"] = "openai/stub"
        found: Awaitable[Any] = litellm.acompletion(api_base=url, api_key="none", **body)
        return found

    return asyncio.run(_gathered(create, n))


async def _gathered(create: Callable[..., Awaitable[Any]], n: int) -> Cost:
    """Ask n times, as many at once as there are connections, and read the log-probs."""
    gate = asyncio.Semaphore(CONNECTIONS)

    async def one(i: int) -> int:
        async with gate:
            answer = await create(
                model="stub",
                messages=[{"role": "user", "content": f"{PROMPT}{i}"}],
                max_tokens=1,
                temperature=0.0,
                logprobs=True,
                top_logprobs=TOP,
            )
        shown = answer.choices[0].logprobs.content[0].top_logprobs
        return sum(each.token in LABELS for each in shown)

    await one(-1)
    started, cpu = time.perf_counter(), time.process_time()
    found = await asyncio.gather(*(one(i) for i in range(n)))
    assert sum(found) == n * len(LABELS)
    return Cost(time.perf_counter() - started, time.process_time() - cpu)


def ask_bare(url: str, n: int) -> Cost:
    """Ask over bare asyncio streams, with one prepared request: as much as the machine gives."""
    host, port = url.split("/")[2].split(":")
    message = {"role": "user", "content": PROMPT}
    body = json.dumps({"model": "stub", "messages": [message], "top_logprobs": TOP}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}"
    request = f"{head}\r\n\r\n".encode() + body
    numbers = iter(range(n))

    async def line() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for _ in numbers:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            json.loads(await reader.readexactly(_length(answer)))
        writer.close()

    async def lines() -> Cost:
        started, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(line() for _ in range(CONNECTIONS)))
        return Cost(time.perf_counter() - started, time.process_time() - cpu)

    return asyncio.run(lines())


CLIENTS = {
    "bare streams": ask_bare,
    "adjudge": ask_adjudge,
    "openai": ask_openai,
    "litellm": ask_litellm,
}


# --- the run ------------------------------------------------------------------------------------


@contextmanager
def served() -> Iterator[str]:
    """Run the stub in a process of its own and yield its URL."""
    command = [sys.executable, __file__, "--stub"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


def python_with(name: str, folder: Path) -> str:
    """Return the interpreter of an environment that has a client, made if need be."""
    if name not in OTHERS:
        return sys.executable
    home = folder / OTHERS[name]
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (home / "done").exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", OTHERS[name]], check=True)
        (home / "done").touch()
    return str(python)


def measured(name: str, folder: Path, n: int) -> Cost:
    """Return what a client costs, in a process of its own."""
    with served() as url:
        command = [python_with(name, folder), __file__, "--client", name, "--url", url]
        done = subprocess.run(
            [*command, "--requests", str(n)], stdout=subprocess.PIPE, text=True, check=True
        )
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--environments", type=Path)
    parser.add_argument("--stub", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ["NO_PROXY"] = "127.0.0.1"
    if arguments.stub:
        stub()
    elif arguments.client:
        print(json.dumps(CLIENTS[arguments.client](arguments.url, arguments.requests)))
    else:
        compare(arguments.requests, arguments.environments)


def compare(n: int, folder: Path | None) -> None:
    """Print the costs of all clients."""
    from adjudge.cache import cache_folder

    folder = folder or cache_folder() / "clients"
    ideal = CONNECTIONS / LATENCY
    print(f"{n:,} label requests, {CONNECTIONS} in flight, {LATENCY * 1000:.0f} ms each:")
    for name in CLIENTS:
        cost = measured(name, folder, n)
        rate = n / cost.seconds
        print(
            f"  {OTHERS.get(name, name):18} {rate:6,.0f} requests/s, {rate / ideal:6.1%} of ideal, "
            f"{cost.cpu / n * 1000:5.2f} ms of CPU each"
        )


if __name__ == "__main__":
    main()
