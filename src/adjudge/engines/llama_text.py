"""How llama.cpp turns chats into tokens: the model's own template and tokenizer.

xllamacpp offers these only through the HTTP routes of its in-process server, so that is how they
are asked: over a Unix socket in a private folder where there are such, else over loopback.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any, cast

from adjudge.engines.base import Tokens, label_tokens
from adjudge.errors import ConfigError, EngineError
from adjudge.exchange import Message
from adjudge.schema import content_hash

#: What may be chat markup or a special token: <|im_end|>, </s>, [/INST], <<SYS>>.
_MARKUP = re.compile(r"<<?[^<>\n]{1,60}>|\[[^\[\]\n]{1,60}\]")
#: How many of the last characters of a begun reply can move the tokens of what follows.
ENOUGH = 16


class LlamaText:
    """The chat template and the tokenizer of a model that llama.cpp has loaded.

    Parameters
    ----------
    address
        Where the in-process server listens.
    name
        The model's name, for messages.
    """

    def __init__(self, address: str, name: str) -> None:
        self._http, self._name = _Http(address), name
        self._label_cache: dict[tuple[str, str], Tokens] = {}
        self._markup_cache: dict[str, str] = {}

    def properties(self) -> dict[str, Any]:
        """Return what the server says of the model."""
        return self._http.get("/props")

    def close(self) -> None:
        """Close the line."""
        self._http.close()

    def prompt(self, messages: Sequence[Message]) -> Tokens:
        """Return the token ids of a chat prompt, up to and with the assistant header.

        A last message of the assistant is a reply that has begun: it stands after the header,
        and nothing closes it. Text inside a message that spells chat markup or a special token
        stays text: its first character is exchanged.
        """
        safe = [Message(role=each.role, content=self._safe(each.content)) for each in messages]
        begun = safe.pop().content if safe[-1].role == "assistant" else ""
        text = self._render(safe) + (self._header[1] + begun if begun else "")
        return self.tokenize(text, special=True, begin=True)

    def label(self, label: str, messages: Sequence[Message]) -> Tokens:
        """Return the token ids of a label where it goes on after these messages."""
        last = messages[-1]
        begun = self._safe(last.content)[-ENOUGH:] if last.role == "assistant" else ""
        key = label, begun
        if key not in self._label_cache:
            header, separator = (begun, "") if begun else self._header
            self._label_cache[key] = label_tokens(
                lambda text: self.tokenize(text, special=True), header, label, separator=separator
            )
        return self._label_cache[key]

    def tokenize(self, text: str, *, special: bool = False, begin: bool = False) -> Tokens:
        """Return the token ids of a text.

        Parameters
        ----------
        text
            The text.
        special
            Whether what spells a special token is one.
        begin
            Whether to add what the model wants at the beginning.
        """
        body = {"content": text, "parse_special": special, "add_special": begin}
        return tuple(self._http.post("/tokenize", body)["tokens"])

    def _render(self, messages: Sequence[Message]) -> str:
        """Return the chat prompt as the model's own template writes it.

        The date is a fixed one, or prompts would change by the day; models that can think
        before they reply are told not to.
        """
        body = {
            "messages": [{"role": each.role, "content": each.content} for each in messages],
            "chat_template_kwargs": {
                "date_string": "26 Jul 2024",
                "datetime": "Jul 26 2024",
                "enable_thinking": False,
            },
        }
        return str(self._http.post("/apply-template", body)["prompt"])

    @cached_property
    def markup(self) -> tuple[str, ...]:
        """What the chat template puts around a question, a reply and the next question.

        The second part stands between a question and its reply.
        """
        marks = [f"text-{i}-{content_hash(i)}" for i in range(3)]
        roles = ("user", "assistant", "user")
        rest = self._render(
            [Message(role=role, content=mark) for role, mark in zip(roles, marks, strict=True)]  # type: ignore[arg-type]
        )
        parts = []
        for mark in marks:
            before, found, rest = rest.partition(mark)
            if not found:
                raise ConfigError(
                    f"the chat template of {self._name} does not write messages as they are; "
                    "this model cannot be used"
                )
            parts.append(before)
        return (*parts, rest)

    @cached_property
    def _header(self) -> tuple[str, str]:
        """How a prompt ends, and what the template puts between that and a reply."""
        mark = f"text-{content_hash(0)}"
        header = self._render([Message(role="user", content=mark)]).partition(mark)[2]
        if re.search(r"<think[^<]*\Z", header):
            raise ConfigError(
                f"the chat template of {self._name} makes it think before it replies, so that "
                "no label can come first; use a model that replies at once"
            )
        begins = self.markup[1].startswith(header)
        return header, self.markup[1][len(header) :] if begins else ""

    def _safe(self, text: str) -> str:
        """Return a text in which nothing is read as chat markup or a special token."""
        safe = _MARKUP.sub(lambda found: self._safe_markup(found[0]), text)
        if self.tokenize(safe) != self.tokenize(safe, special=True):
            safe = safe.replace("<", "\u2039").replace("[", "\u2045")
        if self.tokenize(safe) != self.tokenize(safe, special=True):
            raise ConfigError(
                f"a text spells special tokens of {self._name} in a way that cannot be "
                f"neutralised: {text[:80]!r}; remove them"
            )
        return safe

    def _safe_markup(self, piece: str) -> str:
        if piece not in self._markup_cache:
            spelled = any(piece in part for part in self.markup)
            special = self.tokenize(piece) != self.tokenize(piece, special=True)
            exchanged = ("\u2039" if piece[0] == "<" else "\u2045") + piece[1:]
            self._markup_cache[piece] = exchanged if spelled or special else piece
        return self._markup_cache[piece]


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
