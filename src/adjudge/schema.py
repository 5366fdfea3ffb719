"""The records that pass between the parts: texts, requests, replies, judgments.

All are frozen, and all but `Signature` keyword-only. Requests are content-addressed: two
requests that ask the same thing have the same ``id``, which is how replies are matched, shared
and stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Literal

from adjudge.errors import ConfigError

#: What responses can be: each has its own prompts and named criteria.
TASKS = ("summarization", "dialogue", "story", "instruction")


def _plain(value: object) -> object:
    """Return a record as dictionaries and lists: what `asdict` gives, without copying texts."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    assert is_dataclass(value)
    return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}


def content_hash(value: object) -> str:
    """Return the sha256 hex digest of a JSON-like value, the same on every machine."""
    return text_hash(canonical_json(value))


def canonical_json(value: object) -> str:
    """Return a JSON-like value as one text, the same on every machine."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def text_hash(text: str) -> str:
    """Return the sha256 hex digest of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- what is judged -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a response answers: an article, a dialogue context, a story prompt, an instruction."""

    id: str
    text: str

    @cached_property
    def hash(self) -> str:
        """The text's sha256: ladders belong to the text, whatever its id."""
        return text_hash(self.text)


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A quality to judge by: its name as asked for, its title and what it means.

    `rubric` describes each score in turn, lowest first; empty where there is none.
    """

    name: str
    title: str
    description: str
    rubric: tuple[str, ...] = ()

    @cached_property
    def hash(self) -> str:
        """The sha256 of what it says, whatever its name: ladders belong to the meaning."""
        return content_hash([self.title, self.description, *self.rubric])


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The allowed scores: the whole numbers from `low` to `high`."""

    low: int = 1
    high: int = 5

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ConfigError(
                f"the scale {self.low}-{self.high} has no room: low must be below high"
            )

    @property
    def scores(self) -> tuple[int, ...]:
        """All scores, lowest first."""
        return tuple(range(self.low, self.high + 1))

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"


@dataclass(frozen=True, kw_only=True)
class Item:
    """One response to judge, with its source and the criterion to judge it by."""

    id: str
    source: Source
    system: str
    response: str
    criterion: Criterion


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """Synthetic examples for one source and criterion, worst to best.

    Attributes
    ----------
    source_id, source_hash
        The source, and the sha256 of its text.
    criterion, criterion_hash
        The criterion's name, and its `Criterion.hash`.
    rungs
        The texts; None where one could not be written.
    problems
        Rung (from 1) -> what is wrong with it.
    writer
        Who wrote them: a judge's and an engine's signature, or "human".
    """

    source_id: str
    source_hash: str
    criterion: str
    criterion_hash: str
    rungs: tuple[str | None, ...]
    problems: Mapping[int, str] = field(default_factory=dict)
    writer: str = ""


# --- requests and replies -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Message:
    """One turn of a chat: ``system``, ``user`` or ``assistant``, and what it says."""

    role: Literal["system", "user", "assistant"]
    content: str


class Capability(StrEnum):
    """What an engine can be asked for; a judge declares which it needs."""

    GENERATE = "generate"
    SCORE_LABELS = "score_labels"


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How text is drawn: `temperature` 0 is greedy; `seed` makes a draw repeatable."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        # Equal numbers must be written alike, or equal requests would have different ids.
        object.__setattr__(self, "temperature", float(self.temperature) + 0.0)
        object.__setattr__(self, "top_p", float(self.top_p) + 0.0)
        object.__setattr__(self, "seed", int(self.seed))


class Request:
    """What an engine is asked. Equal content, equal ``id``."""

    capability: ClassVar[Capability]
    messages: tuple[Message, ...]

    @cached_property
    def id(self) -> str:
        """A sha256 over the kind and every field."""
        return content_hash([type(self).__name__, _plain(self)])


@dataclass(frozen=True, kw_only=True)
class Generate(Request):
    """Ask for `n` texts of at most `max_tokens` tokens each.

    The draws are numbered from `first_sample`, so that n=5 after n=3 asks for two more.
    `json_schema` (JSON text) constrains what may be written.
    """

    capability = Capability.GENERATE
    messages: tuple[Message, ...]
    max_tokens: int
    sampling: Sampling = Sampling()
    n: int = 1
    first_sample: int = 0
    json_schema: str | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.n < 1:
            raise ConfigError(
                f"max_tokens and n must be 1 or more, not {self.max_tokens} and {self.n}"
            )

    def draws(self) -> tuple[Generate, ...]:
        """Return the `n` requests for one text each that this one stands for."""
        return tuple(
            Generate(
                messages=self.messages,
                max_tokens=self.max_tokens,
                sampling=self.sampling,
                first_sample=self.first_sample + i,
                json_schema=self.json_schema,
            )
            for i in range(self.n)
        )


@dataclass(frozen=True, kw_only=True)
class ScoreLabels(Request):
    """Ask for the log-probability of each label as the reply's first text."""

    capability = Capability.SCORE_LABELS
    messages: tuple[Message, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.labels:
            raise ConfigError("there are no labels to score")


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one reply: in its prompt, evaluated by the model for it, and written."""

    prompt_tokens: int = 0
    evaluated_tokens: int = 0
    generated_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Completion:
    """One written text; `finish_reason` is ``length`` where the token limit cut it."""

    text: str
    finish_reason: Literal["stop", "length"]
    n_tokens: int


@dataclass(frozen=True, kw_only=True)
class Generated:
    """Reply to `Generate`: its `n` texts in order."""

    request_id: str
    completions: tuple[Completion, ...]
    usage: Usage = Usage()


@dataclass(frozen=True, kw_only=True)
class LabelScores:
    """Reply to `ScoreLabels`.

    Attributes
    ----------
    logprobs
        Natural-log probability of each label, summed over its tokens; ``(n_labels,)``. That of
        a label whose tokens begin another's includes the other.
    masses
        Probability of each label with those of the labels that it begins taken off;
        ``(n_labels,)``, summing to the coverage.
    n_tokens
        Tokens of each label.
    coverage
        Probability, in [0, 1], that the reply begins with one of the labels.
    exact
        False if a label was outside what the engine shows; its log-prob is then an upper bound.
    top_tokens
        The likeliest first tokens with their log-probs: what the model wanted to say.
    """

    request_id: str
    logprobs: tuple[float, ...]
    masses: tuple[float, ...]
    n_tokens: tuple[int, ...]
    coverage: float
    exact: bool = True
    top_tokens: tuple[tuple[str, float], ...] = ()
    usage: Usage = Usage()


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Reply to a request that the engine could not serve."""

    request_id: str
    message: str
    usage: Usage = Usage()


Reply = Generated | LabelScores | Failure


def reply_to_json(reply: Reply) -> str:
    """Return a reply as one line of JSON."""
    return json.dumps({"kind": type(reply).__name__} | asdict(reply))


def reply_from_json(text: str) -> Reply:
    """Return the reply that `reply_to_json` wrote."""
    values: dict[str, Any] = json.loads(text)
    kind = values.pop("kind")
    values["usage"] = Usage(**values["usage"])
    if kind == "Generated":
        values["completions"] = tuple(Completion(**each) for each in values["completions"])
        return Generated(**values)
    if kind == "LabelScores":
        values["logprobs"] = tuple(values["logprobs"])
        values["masses"] = tuple(values["masses"])
        values["n_tokens"] = tuple(values["n_tokens"])
        values["top_tokens"] = tuple((token, value) for token, value in values["top_tokens"])
        return LabelScores(**values)
    return Failure(**values)


# --- judgments ----------------------------------------------------------------------------------


class Status(StrEnum):
    """How a judgment ended; everything but ``ok`` is a failure and has no value."""

    OK = "ok"
    PARSE_FAILED = "parse_failed"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    NO_LABEL_MASS = "no_label_mass"
    EMPTY_RESPONSE = "empty_response"
    LADDER_FAILED = "ladder_failed"
    ENGINE_ERROR = "engine_error"


@dataclass(frozen=True, kw_only=True)
class Judgment:
    """What a judge says of an item.

    Attributes
    ----------
    value
        The score on the judge's scale; None unless `status` is ``ok``. Higher is better.
    raw
        The method's own number before it was put on the scale.
    distribution
        Probabilities behind the value; one row per comparison or one row over the scores.
    coverage
        Mean probability on the labels, in [0, 1]; None where no labels were scored.
    evidence
        What the judgment rests on, JSON-like; of a failure, what went wrong.
    n_calls
        Requests behind it, whether asked now, shared with other items or read from a store.
    """

    item_id: str
    source_id: str
    system: str
    criterion: str
    status: Status
    value: float | None = None
    raw: float | None = None
    distribution: tuple[tuple[float, ...], ...] = ()
    coverage: float | None = None
    feedback: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    n_calls: int = 0


@dataclass(frozen=True)
class Signature:
    """The printable line that reproduces a number: ordered names and values."""

    fields: Mapping[str, str]

    def __str__(self) -> str:
        return "|".join(f"{name}:{value}" for name, value in self)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.fields.items())

    def __or__(self, more: Mapping[str, str]) -> Signature:
        return Signature({**self.fields, **more})
