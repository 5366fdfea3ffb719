"""What every engine promises, and how label log-probabilities are put together."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, LabelScores, Reply, Request, ScoreLabels, Usage

Tokens = tuple[int, ...]


class Engine(ABC):
    """Runs a language model.

    Subclasses set `capabilities` and `signature` and implement `run`. Engines that know their
    tokenizer also set `context_length` and implement `prompt_tokens` and `check`, which lets
    prompts be planned and checked before anything runs.
    """

    #: What it runs, how its models are named, and what it needs to be installed: for lists.
    about: ClassVar[str] = ""
    references: ClassVar[str] = ""
    extra: ClassVar[str] = ""
    modules: ClassVar[tuple[str, ...]] = ()
    #: The kinds of request that this engine serves; of a class, with a model that can.
    capabilities: frozenset[Capability]
    #: Tokens that a prompt and its reply may have together; None if unknown.
    context_length: int | None = None

    @property
    @abstractmethod
    def signature(self) -> Mapping[str, str]:
        """What makes this engine's replies what they are; part of every stored key."""

    def signature_of(self, request: Request) -> Mapping[str, str]:
        """Return what makes the reply to this request what it is, where engines are joined."""
        del request
        return self.signature

    @abstractmethod
    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """Yield one reply per request, in completion order.

        All prompts are checked before the first one runs.

        Raises
        ------
        ConfigError
            If a prompt does not fit the context or a kind of request is not served.
        EngineError
            If the model cannot answer at all; one failed request is a `Failure` instead.
        """

    def check(self, request: Request) -> None:
        """Raise ConfigError if `run` would refuse this request."""
        check_served(self, [request])

    def prompt_tokens(self, request: Request) -> Sequence[int] | None:
        """Return the token ids of a request's prompt, or None if the engine cannot know."""
        del request
        return None

    @property
    def details(self) -> Mapping[str, str]:
        """What else there is to know of the model or its server, by name."""
        return {}

    @property
    def events(self) -> Mapping[str, int]:
        """What happened since the engine was loaded that its users should know: how often."""
        return {}

    def remarks(self) -> list[str]:
        """Return what to say under a run's table of how the engine fared."""
        return [f"{count:,} x {what}" for what, count in self.events.items()]

    def close(self) -> None:  # noqa: B027 - most engines hold nothing
        """Free what the engine holds."""


def check_served(engine: Engine, requests: Sequence[Request]) -> None:
    """Raise ConfigError if a request is of a kind that the engine does not serve."""
    for request in requests:
        if request.capability not in engine.capabilities:
            served = ", ".join(sorted(engine.capabilities))
            raise ConfigError(
                f"this engine ({engine.signature.get('engine', '?')}) serves {served}, "
                f"not {request.capability}"
            )


def check_fits(prompt: int, reply: int, context: int) -> None:
    """Raise ConfigError if a prompt and its reply have more tokens than the context."""
    if prompt + reply > context:
        raise ConfigError(
            f"a prompt of {prompt} tokens and up to {reply} tokens of reply do not fit "
            f"the context of {context} tokens; shorten the texts that are shown, or load the "
            "model with more"
        )


# --- labels -------------------------------------------------------------------------------------


def label_tokens(
    tokenize: Callable[[str], Sequence[int]], header: str, label: str, *, separator: str = ""
) -> Tokens:
    """Return the tokens of a label where it stands: straight after the assistant header.

    Parameters
    ----------
    tokenize
        Text to token ids, with special tokens read as such and none added.
    header
        The end of a rendered chat prompt.
    label
        The label's exact text.
    separator
        What the chat template puts between the header and a reply, such as a space.

    Raises
    ------
    ConfigError
        If the label is empty or the tokenizer merges its start into the header.
    """
    before, together = tuple(tokenize(header)), tuple(tokenize(header + separator + label))
    if not label or together[: len(before)] != before or len(together) == len(before):
        raise ConfigError(
            f"the label {label!r} cannot be scored: this tokenizer does not keep it apart "
            f"from what stands before it, {header[-20:]!r}; use another label"
        )
    return together[len(before) :]


class NextToken(NamedTuple):
    """What one evaluation after a prompt shows: log-probs by token id, and the rest's bound.

    `floor` bounds the log-prob of any token that is not in `logprobs` from above.
    """

    logprobs: Mapping[int, float]
    floor: float


def label_contexts(labels: Sequence[Tokens]) -> dict[Tokens, frozenset[int]]:
    """Return which next tokens are wanted after which beginnings of the labels.

    Shared beginnings are evaluated once; the order is shortest first.

    >>> label_contexts([(5, 6), (5, 7), (9,)])
    {(): frozenset({9, 5}), (5,): frozenset({6, 7})}
    """
    wanted: dict[Tokens, set[int]] = {}
    for label in labels:
        for i, token in enumerate(label):
            wanted.setdefault(label[:i], set()).add(token)
    return {context: frozenset(wanted[context]) for context in sorted(wanted, key=len)}


def score_labels(
    request: ScoreLabels,
    labels: Sequence[Tokens],
    seen: Mapping[Tokens, NextToken],
    *,
    top_tokens: Sequence[tuple[str, float]],
    usage: Usage,
) -> LabelScores:
    """Return the reply to `request` from the next-token log-probs after each label context.

    A label's log-prob is the sum over its tokens by teacher forcing. Coverage counts a label
    that begins with another one only once.

    Parameters
    ----------
    labels
        Tokens of each label, as from `label_tokens`.
    seen
        Next-token log-probs after each of `label_contexts`.
    top_tokens, usage
        Passed on.
    """
    exact = True
    logprobs = []
    for label in labels:
        total = 0.0
        for i, token in enumerate(label):
            after = seen[label[:i]]
            exact = exact and token in after.logprobs
            total += after.logprobs.get(token, after.floor)
        logprobs.append(total)
    masses = _exclusive(labels, logprobs)
    return LabelScores(
        request_id=request.id,
        logprobs=tuple(logprobs),
        masses=masses,
        n_tokens=tuple(len(label) for label in labels),
        coverage=min(1.0, math.fsum(dict(zip(labels, masses, strict=True)).values())),
        exact=exact,
        top_tokens=tuple(top_tokens),
        usage=usage,
    )


def _exclusive(labels: Sequence[Tokens], logprobs: Sequence[float]) -> tuple[float, ...]:
    """Return each label's probability without those of the labels that it begins.

    Each extension is taken off the longest label that it extends.
    """
    masses = {label: math.exp(value) for label, value in zip(labels, logprobs, strict=True)}
    inclusive = dict(masses)
    for label in masses:
        begun = [label[:i] for i in range(1, len(label)) if label[:i] in inclusive]
        if begun:
            masses[begun[-1]] -= inclusive[label]
    return tuple(max(0.0, masses[label]) for label in labels)
