"""An engine whose replies a test decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from adjudge.engines.base import Engine
from adjudge.exchange import (
    Capability,
    Completion,
    Generate,
    Generated,
    LabelScores,
    Reply,
    Request,
    ScoreLabels,
    Usage,
)
from adjudge.schema import Criterion, Item, Source

CRITERION = Criterion(name="coherence", title="Coherence", description="whether it hangs together")

Answer = str | Sequence[float]


def words(request: Request) -> str:
    """Return the text of a request's last message."""
    return request.messages[-1].content


class ScriptedEngine(Engine):
    """Answers `Generate` with texts and `ScoreLabels` with probabilities from a function.

    `asked` holds every request in the order of the calls.
    """

    def __init__(
        self,
        answer: Callable[[Request], Answer | Reply],
        *,
        capabilities: frozenset[Capability] = frozenset(Capability),
        backwards: bool = False,
    ) -> None:
        self._answer, self._backwards = answer, backwards
        self.capabilities = capabilities
        self.asked: list[Request] = []
        self.batches: list[int] = []

    @property
    def signature(self) -> Mapping[str, str]:
        return {"engine": "scripted"}

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        self.batches.append(len(requests))
        for request in reversed(requests) if self._backwards else requests:
            self.asked.append(request)
            yield self._reply(request)

    def _reply(self, request: Request) -> Reply:
        answer = self._answer(request)
        if isinstance(request, Generate) and isinstance(answer, str):
            completion = Completion(text=answer, finish_reason="stop", n_tokens=1)
            return Generated(
                request_id=request.id, completions=(completion,), usage=Usage(prompt_tokens=1)
            )
        if isinstance(request, ScoreLabels) and isinstance(answer, Sequence):
            probabilities = [float(each) for each in answer]
            return LabelScores(
                request_id=request.id,
                logprobs=tuple(math.log(p) if p else -math.inf for p in probabilities),
                masses=tuple(probabilities),
                n_tokens=(1,) * len(probabilities),
                coverage=sum(probabilities),
                usage=Usage(prompt_tokens=1),
            )
        assert not isinstance(answer, str | Sequence)
        return answer


def make_item(
    response: str = "the response",
    *,
    item_id: str = "item",
    source: str = "the source",
    system: str = "",
) -> Item:
    """Return an item to judge by a criterion called coherence."""
    return Item(
        id=item_id,
        source=Source(id=f"source of {source}", text=source),
        systems=(system,),
        responses=(response,),
        criterion=CRITERION,
    )
