"""Rows of tokens: what is wanted of them, and which are evaluated together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from adjudge.engines.base import NextToken, Tokens, label_contexts, score_labels
from adjudge.exchange import LabelScores, ScoreLabels, ScoreText, Usage


class Row(NamedTuple):
    """Tokens, and what is wanted of them: pairs of a place and a token that may come after it."""

    tokens: Tokens
    wanted: tuple[tuple[int, int], ...]

    @property
    def places(self) -> list[int]:
        """The places, in order."""
        return sorted({place for place, _ in self.wanted})


class Scored(NamedTuple):
    """The log-probs that a row wants, and the likeliest tokens after its first place.

    `n_evaluated` counts the tokens evaluated for it that no row before it had paid for.
    """

    row: int
    logprobs: npt.NDArray[np.float32]
    top: tuple[tuple[int, float], ...]
    n_evaluated: int


@dataclass(eq=False)
class AskedLabels:
    """A request for labels, and what has been seen of its reply."""

    request: ScoreLabels
    prompt: Tokens
    labels: list[Tokens]
    seen: dict[Tokens, dict[int, float]] = field(default_factory=dict)
    top: tuple[tuple[int, float], ...] = ()
    n_evaluated: int = 0

    def __post_init__(self) -> None:
        self.contexts = label_contexts(self.labels)
        #: The contexts that begin no other: a row for each shows the others too.
        self.longest = [
            context
            for context in self.contexts
            if sum(other[: len(context)] == context for other in self.contexts) == 1
        ]
        self.waiting = len(self.longest)

    def row(self, context: Tokens) -> Row:
        """Return the row of a longest context, with all that is wanted in it."""
        return Row(self.prompt + context, tuple(self._wanted(context)))

    def take(self, context: Tokens, scored: Scored) -> None:
        """Keep what was seen in the row of a longest context."""
        for (place, token), value in zip(self._wanted(context), scored.logprobs, strict=True):
            beginning = context[: place + 1 - len(self.prompt)]
            self.seen.setdefault(beginning, {})[token] = float(value)
        self.top = self.top or scored.top
        self.n_evaluated += scored.n_evaluated
        self.waiting -= 1

    def reply(self, piece: Callable[[int], str]) -> LabelScores:
        """Return the reply, once nothing is waiting; `piece` says how a token is written."""
        return score_labels(
            self.request,
            self.labels,
            {context: NextToken(after, 0.0) for context, after in self.seen.items()},
            top_tokens=[(piece(token), value) for token, value in self.top],
            usage=Usage(prompt_tokens=len(self.prompt), evaluated_tokens=self.n_evaluated),
        )

    def _wanted(self, context: Tokens) -> list[tuple[int, int]]:
        """Return places in the row of a context, each with a token that is wanted after it."""
        return [
            (len(self.prompt) - 1 + i, token)
            for i in range(len(context) + 1)
            for token in sorted(self.contexts[context[:i]])
        ]


def batches(lengths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Yield indices of rows to evaluate together, longest first, padded to at most `limit` tokens.

    >>> list(batches([2, 9, 3, 1], 6))
    [[1], [2, 0], [3]]
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > limit:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def unscorable(request: ScoreText, start: int) -> str:
    """Return why none of a text's tokens has a log-prob, by where its continuation starts."""
    if start:
        return f"the tokenizer writes {request.continuation[:40]!r} without any token"
    return (
        f"there is nothing before {request.continuation[:40]!r}: this model needs a context to "
        "say how likely a text is"
    )
