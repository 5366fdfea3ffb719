"""What is judged, and what is said of it: sources, criteria, items, ladders, judgments.

All are frozen, and all but `Signature` keyword-only. What passes between judges and engines is in
`adjudge.exchange`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from adjudge.errors import ConfigError

#: What responses can be: each has its own prompts and named criteria.
TASKS = ("summarization", "dialogue", "story", "instruction")


def plain(value: object) -> object:
    """Return a record as dictionaries and lists: what `asdict` gives, without copying texts."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    assert is_dataclass(value)
    return {each.name: plain(getattr(value, each.name)) for each in fields(value)}


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
    reference_answers
        Texts that are known to be good.
    """

    id: str
    source: Source
    responses: tuple[str, ...]
    criterion: Criterion
    systems: tuple[str, ...] = ()
    reference_answers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.responses or len(self.systems) not in (0, len(self.responses)):
            raise ConfigError(
                f"the item {self.id!r} has {len(self.responses)} responses and "
                f"{len(self.systems)} systems: there must be one response or more, and as many "
                "systems or none"
            )

    @property
    def reference_answer(self) -> str:
        """The first reference answer; empty where there is none."""
        return self.reference_answers[0] if self.reference_answers else ""

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
