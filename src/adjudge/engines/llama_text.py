"""How llama.cpp turns chats into tokens: the model's own template and tokenizer.

xllamacpp offers these only through the HTTP routes of its in-process server, so that is how they
are asked: over a Unix socket in a private folder where there are such, else over loopback.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Sequence
from threading import Lock
from typing import Any, cast

from adjudge.engines.base import Tokens
from adjudge.engines.chat import TEMPLATE_FIELDS, ChatText
from adjudge.errors import EngineError
from adjudge.exchange import Message


class LlamaText(ChatText):
    """The chat template and the tokenizer of a model that llama.cpp has loaded.

    Parameters
    ----------
    address
        Where the in-process server listens.
    name
        The model's name, for messages.
    """

    def __init__(self, address: str, name: str) -> None:
        super().__init__(name)
        self._http = _Http(address)

    def properties(self) -> dict[str, Any]:
        """Return what the server says of the model."""
        return self._http.get("/props")

    def close(self) -> None:
        """Close the line."""
        self._http.close()

    def tokenize(self, text: str, *, special: bool = False, begin: bool = False) -> Tokens:
        """See `ChatText.tokenize`."""
        body = {"content": text, "parse_special": special, "add_special": begin}
        return tuple(self._http.post("/tokenize", body)["tokens"])

    def _render(self, messages: Sequence[Message]) -> str:
        """See `ChatText._render`."""
        body = {
            "messages": [{"role": each.role, "content": each.content} for each in messages],
            "chat_template_kwargs": TEMPLATE_FIELDS,
        }
        return str(self._http.post("/apply-template", body)["prompt"])


class _Http:
    """Talks to llama.cpp's text services (templates, tokens), which have no other door."""

    def __init__(self, address: str) -> None:
        self._lock = Lock()
        if address.startswith("unix://"):
            self._connection: http.client.HTTPConnection = _UnixConnection(address[7:])
        else:
            self._connection = http.client.HTTPConnection(address.removeprefix("http://"))

    def get(self, path: str) -> dict[str, Any]:
        return self._exchange("GET", path, None)

    def post(self, path: str, body: object) -> dict[str, Any]:
        return self._exchange("POST", path, json.dumps(body))

    def close(self) -> None:
        self._connection.close()

    def _exchange(self, method: str, path: str, body: str | None) -> dict[str, Any]:
        with self._lock:  # one line, one question at a time
            return self._asked(method, path, body)

    def _asked(self, method: str, path: str, body: str | None) -> dict[str, Any]:
        try:
            response, text = self._once(method, path, body)
        except (http.client.HTTPException, OSError):  # it closes a line that was idle: dial again
            self._connection.close()
            try:
                response, text = self._once(method, path, body)
            except (http.client.HTTPException, OSError) as error:
                raise EngineError(f"llama.cpp does not answer {path}: {error!r}") from error
        if response.status != http.client.OK:
            raise EngineError(f"llama.cpp answered {path} with {response.status}: {text[:300]!r}")
        return cast("dict[str, Any]", json.loads(text))

    def _once(
        self, method: str, path: str, body: str | None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        return response, response.read()


class _UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        try:
            self.sock.connect(self._path)
        except OSError:
            self.sock.close()
            raise
