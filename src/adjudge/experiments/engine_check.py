"""What a model and its engine can do, found by asking: a few short probes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple

from adjudge import registry
from adjudge.criteria.named import load_criterion
from adjudge.engines.base import Engine
from adjudge.errors import ConfigError, DataError, EngineError
from adjudge.exchange import (
    Capability,
    Failure,
    Generate,
    Generated,
    LabelScores,
    Message,
    Reply,
    Request,
    ScoreLabels,
)
from adjudge.judges.base import Judge
from adjudge.runs.plan import planned
from adjudge.runs.start import fitted
from adjudge.runs.store import Store
from adjudge.schema import Item, Ladder, Source

TASK, CRITERION = "summarization", "coherence"
SOURCE = (
    "The town library will stay open on Sundays from May on. The council voted for it by seven to "
    "two after a trial in the spring, when 400 people came on an average Sunday. Two posts will be "
    "added to the staff. The cost of 90,000 a year is to come from the fees for parking."
)
RESPONSE = (
    "The library will open on Sundays from May, after a trial that drew 400 people each time."
)
WORSE = "Parking of the trial is open, the library has two Sundays and the fees were voted by May."
#: Whose labels are looked at: those of the judges that most others share.
LABELLED = ("ladder", "direct", "pairs")
#: How much is read and written to time the model, in words and tokens.
READ, WRITTEN = 300, 48


@dataclass(frozen=True, kw_only=True)
class LabelCheck:
    """How a model takes the labels of a judge in that judge's own prompt.

    Attributes
    ----------
    judge, labels
        Whose, and which.
    n_tokens
        Tokens of each label, ``(n_labels,)``.
    coverage
        Probability that the reply begins with one of them, in [0, 1].
    exact
        Whether all their log-probs were shown.
    """

    judge: str
    labels: tuple[str, ...]
    n_tokens: tuple[int, ...]
    coverage: float
    exact: bool


@dataclass(frozen=True, kw_only=True)
class EngineCheck:
    """What was found of a model and its engine.

    Attributes
    ----------
    reference
        How the model was named.
    date, adjudge
        When, and by which version.
    signature
        The engine's.
    context_length
        Tokens; None if not known.
    serves
        The kinds of request that it serves.
    details
        What else the engine knows of the model or its server.
    labels
        How it takes the labels of some judges.
    read_rate, write_rate
        Tokens per second: of prompts without shared beginnings, and written, one at a time. None
        where nothing could be timed.
    judges
        Those that can run on it, with their usual options.
    lacking
        Judge -> what the others would need.
    problems
        What probes failed of, in words.
    """

    reference: str
    date: str
    adjudge: str
    signature: Mapping[str, str]
    context_length: int | None
    serves: tuple[str, ...]
    details: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[LabelCheck, ...] = ()
    read_rate: float | None = None
    write_rate: float | None = None
    judges: tuple[str, ...] = ()
    lacking: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        """The engine's name."""
        return self.signature.get("engine", "?")


def check_engine(engine: Engine, reference: str, *, make: Callable[..., Judge]) -> EngineCheck:
    """Return what a few probes show: label scorings, a long prompt, a text of `WRITTEN` tokens.

    Parameters
    ----------
    engine
        What is probed.
    reference
        How it was named.
    make
        Makes judges, as `adjudge.api.judge_method` does.
    """
    able, lacking = _judges(engine, make)
    probes = _Probes(engine)
    labels = tuple(filter(None, (_labels(probes, name, make) for name in LABELLED if name in able)))
    return EngineCheck(
        reference=reference,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        adjudge=version("adjudge"),
        signature=dict(engine.signature),
        context_length=engine.context_length,
        serves=tuple(sorted(engine.capabilities)),
        details=dict(engine.details),
        labels=labels,
        read_rate=_read_rate(probes),
        write_rate=_write_rate(probes),
        judges=tuple(able),
        lacking=lacking,
        problems=tuple(probes.problems),
    )


def check_to_json(check: EngineCheck) -> dict[str, Any]:
    """Return a check as what JSON holds."""
    return asdict(check)


def check_from_json(values: Mapping[str, Any]) -> EngineCheck:
    """Return the check that `check_to_json` turned into values.

    Raises
    ------
    DataError
        If they are something else.
    """
    try:
        given = dict(values)
        given["labels"] = tuple(
            LabelCheck(**{**each, **{k: tuple(each[k]) for k in ("labels", "n_tokens")}})
            for each in given["labels"]
        )
        for name in ("serves", "judges", "problems"):
            given[name] = tuple(given[name])
        return EngineCheck(**given)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"this is no check of an engine: {error!r}") from error


class _Timed(NamedTuple):
    reply: Reply
    seconds: float


class _Probes:
    """Asks an engine, and keeps what went wrong."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.problems: list[str] = []

    def ask(self, request: Request) -> _Timed | None:
        """Return the reply to a request and how long it took; None if it failed."""
        started = time.perf_counter()
        try:
            (reply,) = self.engine.run([request])
        except (ConfigError, EngineError) as error:
            self.problems.append(f"{request.capability}: {error}")
            return None
        if isinstance(reply, Failure):
            self.problems.append(f"{request.capability}: {reply.message}")
            return None
        return _Timed(reply, time.perf_counter() - started)


def _judges(engine: Engine, make: Callable[..., Judge]) -> tuple[dict[str, Judge], dict[str, str]]:
    """Return the judges that can run on an engine, and what the others lack."""
    able, lacking = {}, {}
    for name in registry.judges.targets():
        judge = fitted(make(name, task=TASK, options={}), engine)
        if missing := judge.needs - engine.capabilities:
            lacking[name] = ", ".join(sorted(missing))
        else:
            able[name] = judge
    return able, lacking


def _labels(probes: _Probes, name: str, make: Callable[..., Judge]) -> LabelCheck | None:
    """Return how a model takes the labels of a judge; None if it could not be asked."""
    request = next(filter(None, map(_as_labels, _asked(probes.engine, name, make))), None)
    timed = probes.ask(request) if request else None
    if request is None or timed is None or not isinstance(timed.reply, LabelScores):
        return None
    reply = timed.reply
    return LabelCheck(
        judge=name,
        labels=request.labels,
        n_tokens=reply.n_tokens,
        coverage=reply.coverage,
        exact=reply.exact,
    )


def _asked(engine: Engine, name: str, make: Callable[..., Judge]) -> list[Request]:
    """Return what a judge asks of the texts above, given a ladder of them."""
    criterion = load_criterion(CRITERION, TASK)
    source = Source(id="check", text=SOURCE)
    texts = (RESPONSE, WORSE)
    kind = registry.judges.load(name)
    ladders = None
    if "ladders" in kind.not_options:
        rungs = (WORSE, WORSE, RESPONSE, RESPONSE, RESPONSE)
        ladder = Ladder(
            source_id=source.id,
            source_hash=source.hash,
            criterion=criterion.name,
            criterion_hash=criterion.hash,
            rungs=rungs,
        )
        ladders = {(source.hash, criterion.name): ladder}
    responses = texts if kind.takes == "list" else texts[:1]
    item = Item(
        id="check",
        source=source,
        systems=tuple(f"system-{i}" for i in range(len(responses))),
        responses=responses,
        criterion=criterion,
    )
    judge = fitted(make(name, task=TASK, ladders=ladders, options={}), engine)
    with Store() as store:
        return [each.request for each in planned(judge, [item], engine, store)]


def _as_labels(request: Request) -> ScoreLabels | None:
    return request if isinstance(request, ScoreLabels) else None


def _read_rate(probes: _Probes) -> float | None:
    """Return prompt tokens per second of a prompt that shares nothing with those before."""
    words = [f"{SOURCE.split()[i % 40]}{i}" for i in range(READ)]
    context = probes.engine.context_length
    message = (Message(role="user", content=" ".join(words[: context and context // 12])),)
    request: Request
    if Capability.SCORE_LABELS in probes.engine.capabilities:
        request = ScoreLabels(messages=message, labels=("1",))
    elif Capability.GENERATE in probes.engine.capabilities:
        request = Generate(messages=message, max_tokens=1)
    else:
        return None
    timed = probes.ask(request)
    return timed and timed.reply.usage.evaluated_tokens / timed.seconds


def _write_rate(probes: _Probes) -> float | None:
    """Return tokens per second of a text that is written, its prompt not counted."""
    if Capability.GENERATE not in probes.engine.capabilities:
        return None
    message = (Message(role="user", content=f"Retell this at length: {SOURCE}"),)
    first = probes.ask(Generate(messages=message, max_tokens=1))
    whole = probes.ask(Generate(messages=message, max_tokens=WRITTEN)) if first else None
    if not first or not whole or not isinstance(whole.reply, Generated):
        return None
    n_more = whole.reply.usage.generated_tokens - 1
    seconds = whole.seconds - first.seconds
    return n_more / seconds if n_more > 0 and seconds > 0 else None


def latest(checks: Sequence[EngineCheck]) -> dict[str, EngineCheck]:
    """Return the last check of each model, by how it was named, in order of appearance."""
    return {check.reference: check for check in checks}
