"""The records that pass between the parts: texts, requests, replies, judgments.

All are frozen, and all but `Signature` keyword-only. Requests are content-addressed: two
requests that ask the same thing have the same ``id``, which is how replies are matched, shared
and stored.
"""

from __future__ import annotations

import hashlib
import json
import re
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
class Question:
    """A question of a checklist, to be answered by yes or no; yes is good. Weights are relative."""

    text: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", float(self.weight))
        if not 1e-6 <= self.weight <= 1e6:
            raise ConfigError(
                f"the weight of a question must be from 0.000001 to 1000000, not {self.weight}"
            )


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A quality to judge by: its name as asked for, its title and what it means.

    Attributes
    ----------
    rubric
        A description for each score, lowest first; empty where there is none.
    levels
        The scores that the rubric describes, as many; empty: those of the scale in turn.
    questions
        What a checklist asks.
    """

    name: str
    title: str
    description: str
    rubric: tuple[str, ...] = ()
    levels: tuple[float, ...] = ()
    questions: tuple[Question, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(map(float, self.levels)))

    @cached_property
    def content(self) -> list[object]:
        """All that it says, whatever its name."""
        more = [[each.text, each.weight] for each in self.questions]
        usual = (*range(1, len(self.rubric) + 1),)
        levels = [list(self.levels)] if self.levels not in ((), usual) else []
        return [self.title, self.description, *self.rubric, *levels, *more]

    @cached_property
    def hash(self) -> str:
        """The sha256 of what it says: ladders belong to the meaning."""
        return content_hash(self.content)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The allowed scores: whole numbers from `low` to `high`, some of them, or all between.

    Attributes
    ----------
    values
        The allowed numbers, lowest first; empty: every whole number.
    continuous
        Whether every number between the ends is allowed.
    """

    low: float = 1
    high: float = 5
    values: tuple[int, ...] = ()
    continuous: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ConfigError(
                f"the scale {self.low}-{self.high} has no room: low must be below high"
            )

    @classmethod
    def of(cls, text: str) -> Scale:
        """Return the scale that a text names: 1-10, certain values as in 1,3,5, or 0..1.

        Raises
        ------
        ConfigError
            If it names none, or a value twice.

        Examples
        --------
        >>> Scale.of("1,3,5").scores, str(Scale.of("0..1"))
        ((1, 3, 5), '0..1')
        """
        bare = text.replace(" ", "")
        if whole := re.fullmatch(r"(-?\d{1,6})-(-?\d{1,6})", bare):
            return cls(low=int(whole[1]), high=int(whole[2]))
        number = r"(-?\d{1,6}(?:\.\d{1,6})?)"
        if between := re.fullmatch(rf"{number}\.\.{number}", bare):
            return cls(low=float(between[1]), high=float(between[2]), continuous=True)
        if not re.fullmatch(r"-?\d{1,6}(,-?\d{1,6})+", bare):
            raise ConfigError(
                f"{text!r} is no scale: write 1-10 for whole numbers, 1,3,5 for certain ones, "
                "0..1 for all between"
            )
        values = sorted(map(int, bare.split(",")))
        if twice := [value for value in values if values.count(value) > 1]:
            raise ConfigError(f"the scale {text!r} has the value {twice[0]} twice: drop one")
        return cls(low=values[0], high=values[-1], values=tuple(values))

    @property
    def scores(self) -> tuple[int, ...]:
        """All scores, lowest first.

        Raises
        ------
        ConfigError
            If the scale is continuous.
        """
        if self.continuous:
            raise ConfigError(f"the scale {self} is continuous: its scores cannot be listed")
        return self.values or tuple(range(int(self.low), int(self.high) + 1))

    def __contains__(self, score: float) -> bool:
        if self.continuous:
            return self.low <= score <= self.high
        return score in self.scores

    def __str__(self) -> str:
        if self.values:
            return ",".join(map(str, self.values))
        return f"{self.low:g}{'..' if self.continuous else '-'}{self.high:g}"


@dataclass(frozen=True, kw_only=True)
class Item:
    """What is judged at once: one response, a pair or a list, its source and the criterion.

    Attributes
    ----------
    responses, systems
        The texts, and what wrote each; `systems` is empty where that is not known.
    reference_answer
        A text that is known to be good; empty where there is none.
    """

    id: str
    source: Source
    responses: tuple[str, ...]
    criterion: Criterion
    systems: tuple[str, ...] = ()
    reference_answer: str = ""

    def __post_init__(self) -> None:
        if not self.responses or len(self.systems) not in (0, len(self.responses)):
            raise ConfigError(
                f"the item {self.id!r} has {len(self.responses)} responses and "
                f"{len(self.systems)} systems: there must be one response or more, and as many "
                "systems or none"
            )

    @property
    def response(self) -> str:
        """The only response; of a pair or a list there is none."""
        if len(self.responses) != 1:
            raise ConfigError(
                f"the item {self.id!r} has {len(self.responses)} responses, this judge takes one"
            )
        return self.responses[0]

    @property
    def pair(self) -> tuple[str, str]:
        """The two responses; where there are not two there is no pair."""
        if len(self.responses) != 2:
            raise ConfigError(
                f"the item {self.id!r} has {len(self.responses)} responses where pairs are judged"
            )
        return self.responses[0], self.responses[1]

    @property
    def system(self) -> str:
        """What wrote the responses; several are joined by a bar."""
        return " | ".join(self.systems) if any(self.systems) else ""


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
    """What an engine is asked. Equal content, equal ``id``.

    A last message of the assistant is a reply that has begun, and that what is asked for goes
    on with.
    """

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
    """Ask for the log-probability of each label as the next text of the reply."""

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
        The score on the judge's scale; of a pair the preference, from 1 (the first is better) to
        -1; None unless `status` is ``ok``, and of a list. Higher is better.
    raw
        The method's own number before it was put on the scale.
    sd
        Standard deviation of the value over repeated runs; None where there was one.
    ranks
        Of a list: each response's rank, 1 is best, equal ones share the mean; ``(n,)``.
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
    sd: float | None = None
    ranks: tuple[float, ...] = ()
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
