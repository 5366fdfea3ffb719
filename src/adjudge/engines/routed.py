"""Two engines as one: one writes, the other predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from adjudge.engines.base import Engine
from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Reply, Request


class RoutedEngine(Engine):
    """Sends what is to be written to one engine, and everything else to another.

    For ladders that one model writes and another compares with (Lawrence, Williamson and Shelton
    2025, Table 3). Replies are stored under the engine that gave them, so that ladders written
    once serve every predictor.

    Parameters
    ----------
    writer
        Serves `Generate`.
    predictor
        Serves all other kinds of request.

    Raises
    ------
    ConfigError
        If the writer cannot write.
    """

    def __init__(self, *, writer: Engine, predictor: Engine) -> None:
        if Capability.GENERATE not in writer.capabilities:
            raise ConfigError(
                "the model that is to write cannot: name one that can with --ladder-model"
            )
        self._writer, self._predictor = writer, predictor
        self.capabilities = predictor.capabilities | {Capability.GENERATE}

    @property
    def signature(self) -> Mapping[str, str]:
        """The predictor's, and the writer's with ``ladder_`` before each name."""
        written = {f"ladder_{name}": value for name, value in self._writer.signature.items()}
        return {**self._predictor.signature, **written}

    def signature_of(self, request: Request) -> Mapping[str, str]:
        """See `Engine.signature_of`."""
        return self._engine(request).signature_of(request)

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """See `Engine.run`. The writer's requests come first."""
        for request in requests:
            self.check(request)
        for engine in self._engines:
            if mine := [request for request in requests if self._engine(request) is engine]:
                yield from engine.run(mine)

    def check(self, request: Request) -> None:
        """See `Engine.check`."""
        self._engine(request).check(request)

    def prompt_tokens(self, request: Request) -> Sequence[int] | None:
        """See `Engine.prompt_tokens`."""
        return self._engine(request).prompt_tokens(request)

    @property
    def events(self) -> Mapping[str, int]:
        """Those of both."""
        return dict(sum((Counter(engine.events) for engine in self._engines), Counter[str]()))

    def close(self) -> None:
        """Close both."""
        for engine in self._engines:
            engine.close()

    @property
    def _engines(self) -> tuple[Engine, ...]:
        """Both, or the one that is both."""
        same = self._writer is self._predictor
        return (self._writer,) if same else (self._writer, self._predictor)

    def _engine(self, request: Request) -> Engine:
        writes = request.capability is Capability.GENERATE
        return self._writer if writes else self._predictor
