"""What a run would cost, found by driving its judges without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from adjudge.engines.base import Engine
from adjudge.engines.prefix import PrefixPlan, prefix_plan
from adjudge.errors import ConfigError
from adjudge.exchange import (
    Capability,
    Completion,
    Embed,
    Embedded,
    Generate,
    Generated,
    LabelScores,
    Reply,
    Request,
    ScoreLabels,
    ScoreText,
    TextScore,
)
from adjudge.judges.base import Judge, Result, Work
from adjudge.runs.runner import collect, units
from adjudge.runs.store import Store
from adjudge.schema import Item, canonical_json

#: Up to so many calls, tokens are counted; beyond, they are estimated from a sample.
EXACT_PROMPTS = 2000
SAMPLE = 8
#: Of English, about; for engines that do not know their tokens.
BYTES_PER_TOKEN = 4
MOST_WRITTEN = 4096


class Planned(NamedTuple):
    """A request that a run will make.

    `stored` says that the store has its reply; `estimated` that its prompt rests on text which
    is not written yet and is taken to be as long as allowed; `item_id` is the first item's.
    """

    request: Request
    stored: bool
    estimated: bool
    item_id: str


class Plan(NamedTuple):
    """The cost of a run.

    Attributes
    ----------
    n_items
        Items to judge.
    n_stored
        Requests whose replies the store holds.
    by_kind
        Calls to make, by what is asked for. A rung that has to be drawn again adds one.
    total_tokens, unique_tokens
        Prompt tokens of the calls, and the edges of their prefix tree: what must be evaluated
        at least.
    written_tokens
        Tokens that the texts to write may have together.
    estimated
        Whether some prompts rest on text that is not written yet.
    sampled
        Whether tokens were estimated from a sample: beyond `EXACT_PROMPTS` calls.
    adaptive
        Whether calls depend on replies that are not there yet; see `Judge.adapts`.
    by_bytes
        Whether tokens were estimated as `BYTES_PER_TOKEN` bytes each: the engine cannot tell.
    """

    n_items: int
    n_stored: int
    by_kind: Mapping[Capability, int]
    total_tokens: int
    unique_tokens: int
    written_tokens: int
    estimated: bool
    sampled: bool = False
    adaptive: bool = False
    by_bytes: bool = False

    @property
    def n_calls(self) -> int:
        """Calls to make."""
        return sum(self.by_kind.values())

    @property
    def n_generations(self) -> int:
        """Calls for texts to be written."""
        return self.by_kind.get(Capability.GENERATE, 0)

    @property
    def n_label_scorings(self) -> int:
        """Calls for the log-probs of labels."""
        return self.by_kind.get(Capability.SCORE_LABELS, 0)


def planned(judge: Judge, items: Iterable[Item], engine: Engine, store: Store) -> Iterator[Planned]:
    """Yield every distinct request that a run would make, in the order of the items.

    The judges are driven with the store's replies and, where there are none, with stand-ins:
    texts as long as allowed, labels of equal probability.
    """
    look = _Lookup(judge, engine, store)
    ready, guessed = judge, False
    if type(judge).prepared is not Judge.prepared:
        items = list(items)
        ready, guessed = yield from look.driven(judge.prepared(items), items[0], guessed=False)
    for item in items:
        yield from look.driven(ready.judge(item), item, guessed=guessed)


class _Lookup:
    """Drives works with what a store holds and with stand-ins; each request comes once."""

    def __init__(self, judge: Judge, engine: Engine, store: Store) -> None:
        self._judge, self._engine, self._store = judge, engine, store
        self._seen: set[str] = set()
        self._written: dict[str, Reply | None] = {}  # what the store says of texts that items share

    def driven(
        self, work: Work[Result], item: Item, *, guessed: bool
    ) -> Generator[Planned, None, tuple[Result, bool]]:
        """Yield what a work asks for; return its result and whether that rests on stand-ins.

        `guessed` says that the work itself already does.
        """
        if len(self._written) > MOST_WRITTEN:
            self._written.clear()
        rests_on_guess, replies = guessed, None
        while True:
            try:
                requests = work.send(replies)  # type: ignore[arg-type]
            except StopIteration as end:
                return end.value, guessed
            replies = []
            for request in requests:
                known: dict[str, Reply] = {}
                for unit in units(request):
                    reply = self._stored(unit)
                    guessed = guessed or (reply is None and isinstance(unit, Generate))
                    known[unit.id] = reply or _stand_in(unit, self._judge, item)
                    if unit.id not in self._seen:
                        self._seen.add(unit.id)
                        yield Planned(unit, reply is not None, rests_on_guess, item.id)
                replies.append(collect(request, known))
            rests_on_guess = guessed

    def _stored(self, unit: Request) -> Reply | None:
        if unit.id in self._written:
            return self._written[unit.id]
        reply = _stored(self._store, self._engine, unit)
        if isinstance(unit, Generate):
            self._written[unit.id] = reply
        return reply


def plan_run(judge: Judge, items: Iterable[Item], engine: Engine, store: Store) -> Plan:
    """Return what a run would cost, without asking the model anything.

    Items are taken one at a time. Tokens are counted where there are at most `EXACT_PROMPTS`
    calls; else they are estimated: bytes of all prompts and of their prefix tree, times the
    tokens per byte of a sample.
    """
    n_items = n_stored = written = 0
    by_kind: Counter[Capability] = Counter()
    estimated = False
    tokens = _TokenCount(engine)

    def counted() -> Iterator[Item]:
        nonlocal n_items
        for item in items:
            n_items += 1
            yield item

    for request, stored, guessed, _ in planned(judge, counted(), engine, store):
        n_stored += stored
        estimated = estimated or (guessed and not stored)
        if stored:
            continue
        by_kind[request.capability] += 1
        if isinstance(request, Generate):
            written += request.max_tokens
        tokens.add(request)
    total, unique = tokens.result()
    return Plan(
        n_items=n_items,
        n_stored=n_stored,
        by_kind=by_kind,
        total_tokens=total,
        unique_tokens=unique,
        written_tokens=written,
        estimated=estimated,
        sampled=by_kind.total() > EXACT_PROMPTS,
        adaptive=judge.adapts and by_kind.total() > 0,
        by_bytes=tokens.by_bytes,
    )


class Cost(NamedTuple):
    """What all requests of a run come to, stored ones too.

    Attributes
    ----------
    n_calls
        Distinct requests.
    total_tokens, unique_tokens
        As in `Plan`.
    written_tokens
        Tokens of the texts that were written.
    """

    n_calls: int
    total_tokens: int
    unique_tokens: int
    written_tokens: int


def run_cost(judge: Judge, items: Iterable[Item], engine: Engine, store: Store) -> Cost:
    """Return what a run that is in the store would cost without it."""
    tokens, n_calls, written = _TokenCount(engine), 0, 0
    for request, *_ in planned(judge, items, engine, store):
        tokens.add(request)
        n_calls += 1
        reply = _stored(store, engine, request)
        if isinstance(reply, Generated):
            written += reply.usage.generated_tokens
    return Cost(n_calls, *tokens.result(), written)


class _TokenCount:
    """Counts the tokens of prompts and of their prefix trees, in bounded memory.

    Where two engines share the work, each has a tree of its own.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._n, self.by_bytes = engine, 0, False
        self._requests: dict[str, list[Request]] = {}
        self._bytes = np.zeros(2)
        self._sampled = np.zeros(2)

    def add(self, request: Request) -> None:
        """Count one request."""
        self._n += 1
        engine = canonical_json(dict(self._engine.signature_of(request)))
        mine = self._requests.setdefault(engine, [])
        mine.append(request)
        if len(mine) == 2 * EXACT_PROMPTS:
            self._fold(mine)

    def result(self) -> tuple[int, int]:
        """Return the tokens of all prompts, and of their prefix trees."""
        if self._n <= EXACT_PROMPTS:
            return self._counted()
        for mine in self._requests.values():
            self._fold(mine)
        in_bytes, in_tokens = self._sampled
        self.by_bytes = self._n > 0 and not in_tokens
        ratio = in_tokens / in_bytes if in_tokens else 1 / BYTES_PER_TOKEN
        total, unique = np.round(self._bytes * ratio).astype(int)
        return int(total), int(unique)

    def _counted(self) -> tuple[int, int]:
        total = unique = 0
        for mine in self._requests.values():
            prompts = [self._engine.prompt_tokens(each) for each in mine]
            known = [prompt for prompt in prompts if prompt is not None]
            if len(known) == len(prompts):
                tree, size = prefix_plan(known), 1
            else:
                tree, size, self.by_bytes = _bytes_plan(mine), BYTES_PER_TOKEN, True
            total += tree.total_tokens // size
            unique += tree.unique_tokens // size
        return total, unique

    def _fold(self, requests: list[Request]) -> None:
        """Count the bytes of requests, and let them go."""
        tree = _bytes_plan(requests)
        self._bytes += tree.total_tokens, tree.unique_tokens
        for request in requests[:: max(1, len(requests) // SAMPLE)]:
            tokens = self._engine.prompt_tokens(request)
            if tokens is not None:
                self._sampled += len(_text(request)), len(tokens)
        requests.clear()


def _bytes_plan(requests: Sequence[Request]) -> PrefixPlan:
    """Return the prefix plan of requests' texts, byte by byte."""
    texts = [np.frombuffer(_text(request), dtype=np.uint8) for request in requests]
    return prefix_plan(cast("list[Sequence[int]]", texts))


def _stored(store: Store, engine: Engine, request: Request) -> Reply | None:
    """Return what the store holds for a request."""
    return store.reply(engine.signature_of(request), request) if request.kept else None


def _text(request: Request) -> bytes:
    return request.text.encode("utf-8", "surrogatepass")


def check_prompts(judge: Judge, items: Iterable[Item], engine: Engine, store: Store) -> None:
    """Raise ConfigError if the engine would refuse a request of the run.

    Texts that are not written yet count as long as allowed.
    """
    for request, stored, guessed, item_id in planned(judge, items, engine, store):
        if stored:
            continue
        try:
            engine.check(request)
        except ConfigError as error:
            counted = "; texts that are not written yet count in full length" if guessed else ""
            raise ConfigError(f"{item_id}: {error}{counted}") from error


def _stand_in(request: Request, judge: Judge, item: Item) -> Reply:
    """Return a reply of the largest size, for a request that was not asked."""
    if isinstance(request, Generate):
        text = judge.stand_in(item, request)
        completion = Completion(text=text, finish_reason="stop", n_tokens=request.max_tokens)
        return Generated(request_id=request.id, completions=(completion,))
    if isinstance(request, ScoreText):
        return TextScore(request_id=request.id, logprobs=(0.0,))
    if isinstance(request, Embed):
        token, vectors = (0,), np.ones((1, 1), np.float32)
        return Embedded(request_id=request.id, tokens=token, special=(False,), vectors=vectors)
    n = len(cast("ScoreLabels", request).labels)
    return LabelScores(
        request_id=request.id,
        logprobs=(0.0,) * n,
        masses=(1 / n,) * n,
        n_tokens=(1,) * n,
        coverage=1.0,
    )
