"""What every judge promises: a generator without I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

import numpy as np

from adjudge.errors import ConfigError
from adjudge.prompts.template import PromptSet
from adjudge.schema import (
    Capability,
    Generated,
    Item,
    Judgment,
    LabelScores,
    Reply,
    Request,
    Status,
    content_hash,
)

#: Yields batches of requests, is sent their replies in the same order, returns a result.
Steps = Generator[Sequence[Request], Sequence[Reply], Judgment]


@dataclass(frozen=True, kw_only=True)
class Judge(ABC):
    """A scoring method; its fields are its prompts and its options.

    A judge sees no client, thread, clock or file: it yields batches of requests and is sent one
    reply for each, in order. Failed requests never reach it. All its randomness comes from seeds
    derived from its own seed and what is judged.
    """

    #: The name in the registry.
    name: ClassVar[str]
    #: Where the method is published.
    url: ClassVar[str]
    #: Fields that are no options.
    not_options: ClassVar[tuple[str, ...]] = ("prompts", "seed")

    prompts: PromptSet
    seed: int = 0

    def __post_init__(self) -> None:
        limit = self.prompts.settings.get("max_tokens")
        if not (isinstance(limit, int) and limit > 0):
            raise ConfigError(
                f"the prompts {self.prompts.reference} need max_tokens, a whole number from 1, "
                f"not {limit!r}"
            )

    @property
    @abstractmethod
    def needs(self) -> frozenset[Capability]:
        """What the engine must serve for this judge as configured."""

    @property
    def signature(self) -> Mapping[str, str]:
        """Every option, and the prompts: what makes this judge's numbers what they are."""
        names = [each.name for each in fields(self) if each.name not in self.not_options]
        return {
            "judge": self.name,
            **{name: str(getattr(self, name)) for name in names},
            "prompt": self.prompts.reference,
            **self.conventions,
            "seed": str(self.seed),
        }

    @property
    def conventions(self) -> Mapping[str, str]:
        """What else belongs into the signature though it is no option."""
        return {}

    @abstractmethod
    def judge(self, item: Item) -> Steps:
        """Judge one item."""


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise ConfigError if an option is not a number from `low` to `high`."""
    if not low <= value <= high:
        raise ConfigError(f"{name} must be from {low:g} to {high:g}, not {value}")


def derived_seed(*parts: object) -> int:
    """Return a seed in [0, 2**32) that depends on every part."""
    return int(content_hash([str(part) for part in parts])[:8], 16)


def judgment(item: Item, status: Status, **fields: Any) -> Judgment:
    """Return a judgment of `item`."""
    return Judgment(
        item_id=item.id,
        source_id=item.source.id,
        system=item.system,
        criterion=item.criterion.name,
        status=status,
        **fields,
    )


def softmax(logprobs: Sequence[float]) -> np.ndarray:
    """Return probabilities that sum to one: ``(n,)`` log-probs in, ``(n,)`` out."""
    values = np.asarray(logprobs, dtype=float)
    weights = np.exp(values - values.max())
    return cast("np.ndarray", weights / weights.sum())


def generated(replies: Sequence[Reply]) -> list[Generated]:
    """Return replies to `Generate` requests under their own type."""
    return cast("list[Generated]", list(replies))


def label_scores(replies: Sequence[Reply]) -> list[LabelScores]:
    """Return replies to `ScoreLabels` requests under their own type."""
    return cast("list[LabelScores]", list(replies))
