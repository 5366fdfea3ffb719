"""Engines that record another engine's replies in a file, and answer from such a file.

The file is JSON Lines: first what the recorded engine was, then one reply a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from adjudge.engines.base import Engine, check_served
from adjudge.errors import ConfigError, DataError, EngineError
from adjudge.exchange import (
    Capability,
    Failure,
    LabelScores,
    Reply,
    Request,
    ScoreLabels,
    reply_from_json,
    reply_to_json,
)

FORMAT = "adjudge-replies"
VERSION = 1
#: What reading a damaged line may raise.
BROKEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class RecordingEngine(Engine):
    """Passes requests to another engine and appends its replies to a file.

    Parameters
    ----------
    engine
        The engine that answers.
    path
        The file to make or to go on with; going on needs the same engine signature.

    Raises
    ------
    ConfigError
        If the file was recorded from another engine.
    """

    def __init__(self, engine: Engine, path: str | Path) -> None:
        self._engine, self._path = engine, Path(path)
        self.capabilities = engine.capabilities
        self.context_length = engine.context_length
        if self._path.exists():
            recorded = ReplayEngine(self._path).signature
            if dict(recorded) != dict(engine.signature):
                raise ConfigError(f"{self._path} was recorded from another engine: {recorded}")
            _drop_partial_line(self._path)
        else:
            header = {
                "format": FORMAT,
                "version": VERSION,
                "signature": dict(engine.signature),
                "capabilities": sorted(engine.capabilities),
            }
            self._path.write_text(json.dumps(header) + "\n", "utf-8")

    @property
    def signature(self) -> Mapping[str, str]:
        """The signature of the engine that answers."""
        return self._engine.signature

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """Yield the engine's replies, each written to the file first; see `Engine.run`."""
        with self._path.open("a", encoding="utf-8") as stream:
            for reply in self._engine.run(requests):
                if not isinstance(reply, Failure):
                    stream.write(reply_to_json(reply) + "\n")
                    stream.flush()
                yield reply

    def prompt_tokens(self, request: Request) -> Sequence[int] | None:
        """See `Engine.prompt_tokens`."""
        return self._engine.prompt_tokens(request)

    def close(self) -> None:
        """Close the engine that answers."""
        self._engine.close()


class ReplayEngine(Engine):
    """Answers from a recorded file, under the signature of the engine that was recorded.

    Parameters
    ----------
    path
        A file that `RecordingEngine` wrote.

    Raises
    ------
    ConfigError
        If the file is not there.
    DataError
        If it is not such a file.
    """

    about = "replies that were recorded before, without a model"
    references = "replay:FILE.jsonl"
    capabilities = frozenset(Capability)

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        if not self._path.is_file():
            raise ConfigError(f"there is no file {str(path)!r} with recorded replies")
        try:
            lines = self._path.read_text("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8: {error}", path=path) from error
        header = self._header(lines[0])
        self._signature: dict[str, str] = header["signature"]
        self.capabilities = frozenset(header["capabilities"])
        self._replies: dict[str, Reply] = {}
        for number, line in enumerate(lines[1:], start=2):
            if not line:
                continue
            try:
                reply = reply_from_json(line)
            except BROKEN as error:
                if number == len(lines):  # a recording that was cut off: its last line is lost
                    continue
                raise DataError(f"not a reply: {error}", path=path, line=number) from error
            self._replies[reply.request_id] = reply

    @classmethod
    def from_reference(cls, reference: str) -> ReplayEngine:
        """Return the engine for a path."""
        return cls(reference)

    @property
    def signature(self) -> Mapping[str, str]:
        """The signature of the engine that was recorded."""
        return self._signature

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """Yield the recorded replies in the order of the requests.

        Raises
        ------
        EngineError
            If one was not recorded.
        """
        check_served(self, requests)
        for request in requests:
            if request.id not in self._replies:
                raise EngineError(
                    f"{self._path} has no reply to a {request.capability} request",
                    hint="record again: the prompts, the data or the options differ",
                )
            reply = self._replies[request.id]
            if isinstance(reply, LabelScores) != isinstance(request, ScoreLabels):
                raise EngineError(f"{self._path} has a reply of another kind for a request")
            yield reply

    def _header(self, line: str) -> dict[str, Any]:
        try:
            header: dict[str, Any] = json.loads(line)
            right = (header["format"], header["version"]) == (FORMAT, VERSION)
            if right:
                header["signature"] = dict(header["signature"])
                header["capabilities"] = list(map(Capability, header["capabilities"]))
        except BROKEN as error:
            raise DataError("not a file of recorded replies", path=self._path, line=1) from error
        if not right:
            raise DataError(
                f"a file of {header['format']} version {header['version']}, "
                f"not of {FORMAT} version {VERSION}",
                path=self._path,
                line=1,
            )
        return header


def _drop_partial_line(path: Path) -> None:
    """Shorten a file by its last line if that one was cut off."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end != len(content):
        with path.open("r+b") as stream:
            stream.truncate(end)
