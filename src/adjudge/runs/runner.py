"""Drives many judges at once: their requests become full batches for the engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from adjudge.engines.base import Engine
from adjudge.errors import EngineError
from adjudge.exchange import Failure, Generate, Generated, Reply, Request, Usage
from adjudge.judges.base import Judge, Work, judgment
from adjudge.runs.store import Store
from adjudge.schema import Item, Judgment, Status

#: Items that are judged at the same time: enough for full batches, few enough to keep in memory.
WINDOW = 512


@dataclass
class Counters:
    """What a run has done so far.

    Attributes
    ----------
    judged, failed
        Items with a judgment, and those of them whose status is not ``ok``.
    calls
        Requests that the engine answered.
    reused
        Requests answered from the store or by a request of another item.
    prompt_tokens, evaluated_tokens, generated_tokens
        Tokens of the calls: in their prompts, evaluated for them, and written.
    """

    judged: int = 0
    failed: int = 0
    calls: int = 0
    reused: int = 0
    prompt_tokens: int = 0
    evaluated_tokens: int = 0
    generated_tokens: int = 0

    @property
    def saved_tokens(self) -> int:
        """Prompt tokens of the calls that sharing beginnings made unnecessary to evaluate."""
        return max(0, self.prompt_tokens - self.evaluated_tokens)

    def add(self, usage: Usage) -> None:
        """Count one call."""
        self.calls += 1
        self.prompt_tokens += usage.prompt_tokens
        self.evaluated_tokens += usage.evaluated_tokens
        self.generated_tokens += usage.generated_tokens


@dataclass(frozen=True)
class Event:
    """Something happened: a call was answered, or the item at `position` was judged."""

    counters: Counters
    judgment: Judgment | None = None
    position: int = -1


@dataclass
class _Task:
    """Work on its way, for an item or before the first: what it asked for, what has come.

    `end` is called with its result, `failed` with a request's failure instead.
    """

    steps: Work[Any]
    end: Callable[[Any, int], None]
    failed: Callable[[Failure, int], None]
    requests: Sequence[Request] = ()
    missing: set[str] = field(default_factory=set)
    replies: dict[str, Reply] = field(default_factory=dict)
    n_calls: int = 0

    def collected(self) -> list[Reply] | Failure:
        """Return one reply per request, or the first failure among them."""
        for reply in self.replies.values():
            if isinstance(reply, Failure):
                return reply
        return [collect(request, self.replies) for request in self.requests]


class Runner:
    """Judges items with one engine and one store.

    Requests of all items in flight form one batch, so that the engine sees what they share;
    equal requests are asked once; what the store holds is not asked at all; every reply is
    stored as it comes.

    Parameters
    ----------
    judge, engine, store
        Who judges, with which model, and where replies are kept.
    stopped
        Asked after every reply; when it says True the run ends, that reply stored.
    """

    def __init__(
        self,
        judge: Judge,
        engine: Engine,
        store: Store,
        *,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._judge, self._engine, self._store, self._stopped = judge, engine, store, stopped
        self._pending: dict[str, Request] = {}
        self._waiting: dict[str, list[_Task]] = {}
        self._finished: deque[tuple[int, Judgment]] = deque()
        self.counters = Counters()

    @property
    def judge(self) -> Judge:
        """The judge; once a run has begun, as it is after looking through the items."""
        return self._judge

    def run(self, items: Iterable[Item], *, known: Sequence[Item] = ()) -> Iterator[Event]:
        """Yield what happens, until every item has a judgment or the run is stopped.

        Parameters
        ----------
        items
            What to judge, taken as the run goes on.
        known
            All that is to be judged, for judges that look through it beforehand.

        Raises
        ------
        EngineError, ConfigError, StoreError
            What the engine or the store raise; what was stored until then stays.
        """
        for event in self._prepared(known):
            yield event
            if self._stopped():
                return
        source = enumerate(items)
        active = 0
        while True:
            for position, item in islice(source, WINDOW - active):
                active += 1
                self._begin(position, item)
            if not active:
                return
            for event in chain(self._judged(), self._batch()):
                active -= event.judgment is not None
                yield event
                if self._stopped():
                    return

    def _prepared(self, known: Sequence[Item]) -> Iterator[Event]:
        """Let the judge look through what it will judge."""

        def end(ready: Judge, _: int) -> None:
            self._judge = ready

        def failed(reply: Failure, _: int) -> None:
            raise EngineError(f"the judge {self._judge.name!r} cannot begin: {reply.message}")

        self._advance(_Task(self._judge.prepared(known), end, failed), None)
        while self._pending:
            yield from self._batch()

    def _begin(self, position: int, item: Item) -> None:
        """Start to judge an item."""

        def end(made: Judgment, n_calls: int) -> None:
            self._finished.append((position, replace(made, n_calls=n_calls)))

        def failed(reply: Failure, n_calls: int) -> None:
            end(judgment(item, Status.ENGINE_ERROR, evidence={"error": reply.message}), n_calls)

        self._advance(_Task(self._judge.judge(item), end, failed), None)

    def _batch(self) -> Iterator[Event]:
        """Send all pending requests as one batch and deal out the replies as they come."""
        batch, self._pending = self._pending, {}
        if not batch:
            return
        for reply in self._engine.run(list(batch.values())):
            request = batch.pop(reply.request_id)
            self.counters.add(reply.usage)
            if request.kept and not isinstance(reply, Failure):
                self._store.save_reply(self._engine.signature_of(request), request, reply)
            for task in self._waiting.pop(reply.request_id):
                task.replies[reply.request_id] = reply
                task.missing.discard(reply.request_id)
                if not task.missing:
                    self._advance(task, task.collected())
            yield Event(self.counters)
            yield from self._judged()
        if batch:
            raise EngineError(f"the engine left {len(batch)} of its requests without a reply")

    def _judged(self) -> Iterator[Event]:
        """Yield the judgments that have been made."""
        while self._finished:
            position, made = self._finished.popleft()
            self.counters.judged += 1
            self.counters.failed += made.status is not Status.OK
            yield Event(self.counters, made, position)

    def _advance(self, task: _Task, replies: Sequence[Reply] | Failure | None) -> None:
        """Drive a task's judge as far as what is known reaches."""
        while True:
            if isinstance(replies, Failure):
                task.steps.close()
                return task.failed(replies, task.n_calls)
            try:
                task.requests = task.steps.send(replies)  # type: ignore[arg-type]
            except StopIteration as end:
                return task.end(end.value, task.n_calls)
            self._ask(task)
            if task.missing:
                return None
            replies = task.collected()

    def _ask(self, task: _Task) -> None:
        """Find or ask for what a task needs next."""
        task.replies, task.missing = {}, set()
        for request in chain.from_iterable(map(units, task.requests)):
            task.n_calls += 1
            if request.id in self._waiting:
                self.counters.reused += 1
            elif (known := self._known(request)) is not None:
                self.counters.reused += 1
                task.replies[request.id] = known
                continue
            else:
                self._pending[request.id] = request
            if request.id not in task.missing:
                self._waiting.setdefault(request.id, []).append(task)
                task.missing.add(request.id)

    def _known(self, request: Request) -> Reply | None:
        """Return what the store holds for a request."""
        if not request.kept:
            return None
        return self._store.reply(self._engine.signature_of(request), request)


def units(request: Request) -> tuple[Request, ...]:
    """Return the smallest requests that a request stands for: each is stored by itself."""
    return request.draws() if isinstance(request, Generate) else (request,)


def collect(request: Request, replies: Mapping[str, Reply]) -> Reply:
    """Return the reply to a request from those to its units."""
    parts = [replies[unit.id] for unit in units(request)]
    if not isinstance(request, Generate) or request.n == 1:
        return parts[0]
    drawn = [part for part in parts if isinstance(part, Generated)]
    return Generated(
        request_id=request.id,
        completions=tuple(each for part in drawn for each in part.completions),
    )
