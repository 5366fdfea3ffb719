"""What every judge promises: a generator without I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeAlias, TypeVar, cast

import numpy as np

from adjudge.errors import ConfigError
from adjudge.exchange import (
    Capability,
    Embedded,
    Generate,
    Generated,
    LabelScores,
    Reply,
    Request,
    TextScore,
)
from adjudge.prompts.template import Prompts
from adjudge.schema import Item, Judgment, Status, content_hash

Result = TypeVar("Result")
#: Yields batches of requests, is sent their replies in the same order, returns a result.
Work: TypeAlias = Generator[Sequence[Request], Sequence[Reply], Result]
#: What judges an item.
Steps = Work[Judgment]
#: What an item holds: one response, a pair of them, or a list of any length.
Takes = Literal["response", "pair", "list"]


class NoPrompts:
    """Stands for the prompts of a judge that shows none."""

    def __init__(self) -> None:
        self.id = self.reference = "none"
        self.settings: dict[str, Any] = {}

    def render(self, name: str, data: Mapping[str, str], /, **fields: object) -> NoReturn:
        """Raise ConfigError: there is nothing to render."""
        del data, fields
        raise ConfigError(f"this judge has no prompts, so none called {name!r} either")


NO_PROMPTS = NoPrompts()


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
    #: What other options need besides, in words.
    may_need: ClassVar[str] = ""
    #: Where it differs from the published method; empty: nowhere that is known.
    differs: ClassVar[str] = ""
    #: Calls of the model for an item, in words.
    calls: ClassVar[str] = "1"
    #: What its items hold.
    takes: ClassVar[Takes] = "response"
    #: Fields that are no options.
    not_options: ClassVar[tuple[str, ...]] = ("prompts", "seed")
    #: Whether it shows the model prompts of its own.
    has_prompts: ClassVar[bool] = True

    prompts: Prompts
    seed: int = 0

    def __post_init__(self) -> None:
        if Capability.GENERATE not in self.needs:
            return
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
    def adapts(self) -> bool:
        """Whether how much it asks depends on what it was told, so that a plan is an estimate."""
        return False

    @property
    def has_writer(self) -> bool:
        """Whether all that it has written serves many items, so that another model may write it."""
        return False

    def fitted(self, capabilities: frozenset[Capability], model: str = "") -> Self:
        """Return this judge with what is left to the engine decided by what that serves.

        `model` is what the engine calls the model that it runs.
        """
        del capabilities, model
        return self

    def prepared(self, items: Sequence[Item]) -> Work[Self]:
        """Look through all that will be judged, and return the judge that is ready for it.

        Its numbers follow from its signature and the items.
        """
        del items
        yield from ()
        return self

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

    def stand_in(self, item: Item, request: Generate) -> str:
        """Return a text as long as allowed that stands in for a reply while a run is planned."""
        del item
        return f"{request.id[:8]} {'word ' * request.max_tokens}".strip()

    @abstractmethod
    def judge(self, item: Item) -> Steps:
        """Judge one item."""


def together(works: Sequence[Work[Result]]) -> Work[list[Result]]:
    """Do several works at once: the requests of a step are one batch; return their results."""
    results: dict[int, Result] = {}
    waiting = dict(enumerate(works))
    replies: dict[int, Sequence[Reply] | None] = dict.fromkeys(waiting)
    while waiting:
        asked: dict[int, Sequence[Request]] = {}
        for i, work in list(waiting.items()):
            try:
                asked[i] = work.send(replies[i])  # type: ignore[arg-type]
            except StopIteration as end:
                results[i] = end.value
                del waiting[i]
        if not asked:
            continue
        came = iter((yield [request for batch in asked.values() for request in batch]))
        replies = {i: [next(came) for _ in batch] for i, batch in asked.items()}
    return [results[i] for i in range(len(works))]


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise ConfigError if an option is not a number from `low` to `high`."""
    if not low <= value <= high:
        raise ConfigError(f"{name} must be from {low:g} to {high:g}, not {value}")


def derived_seed(*parts: object) -> int:
    """Return a seed in [0, 2**32) that depends on every part."""
    return int(content_hash([str(part) for part in parts])[:8], 16)


def different_texts(item: Item, seed: int) -> tuple[str, ...]:
    """Return the different responses that are not empty, in an order that the seed decides."""
    texts = {response.strip() for response in item.responses} - {""}
    return tuple(sorted(texts, key=lambda text: (derived_seed(seed, item.source.hash, text), text)))


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


def text_scores(replies: Sequence[Reply]) -> list[TextScore]:
    """Return replies to `ScoreText` requests under their own type."""
    return cast("list[TextScore]", list(replies))


def embedded(replies: Sequence[Reply]) -> list[Embedded]:
    """Return replies to `Embed` requests under their own type."""
    return cast("list[Embedded]", list(replies))


def label_scores(replies: Sequence[Reply]) -> list[LabelScores]:
    """Return replies to `ScoreLabels` requests under their own type."""
    return cast("list[LabelScores]", list(replies))
