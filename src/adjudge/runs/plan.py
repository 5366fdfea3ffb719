"""What a run would cost, found by driving its judges without a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from adjudge.engines.base import Engine
from adjudge.engines.prefix import prefix_plan
from adjudge.errors import ConfigError
from adjudge.judges.base import Judge
from adjudge.runs.runner import collect, units
from adjudge.runs.store import Store
from adjudge.schema import (
    Completion,
    Generate,
    Generated,
    Item,
    LabelScores,
    Reply,
    Request,
    ScoreLabels,
)


class Planned(NamedTuple):
    """A request that a run will make.

    `stored` says that the store has its reply; `estimated` that its prompt rests on text which
    is not written yet and is taken to be as long as allowed.
    """

    request: Request
    stored: bool
    estimated: bool


class Plan(NamedTuple):
    """The cost of a run.

    Attributes
    ----------
    n_items
        Items to judge.
    n_stored
        Requests whose replies the store holds.
    n_generations, n_label_scorings
        Calls to make: texts to write, and label log-probs to ask for. A rung that has to be
        drawn again adds one.
    total_tokens, unique_tokens
        Prompt tokens of the calls, and the edges of their prefix tree: what must be evaluated
        at least. None if the engine cannot tell.
    written_tokens
        Tokens that the texts to write may have together.
    estimated
        Whether some prompts rest on text that is not written yet.
    """

    n_items: int
    n_stored: int
    n_generations: int
    n_label_scorings: int
    total_tokens: int | None
    unique_tokens: int | None
    written_tokens: int
    estimated: bool

    @property
    def n_calls(self) -> int:
        """Calls to make."""
        return self.n_generations + self.n_label_scorings


def planned(judge: Judge, items: Iterable[Item], engine: Engine, store: Store) -> Iterator[Planned]:
    """Yield every distinct request that a run would make, in the order of the items.

    The judges are driven with the store's replies and, where there are none, with stand-ins:
    texts as long as allowed, labels of equal probability.
    """
    seen: set[str] = set()
    for item in items:
        steps, replies = judge.judge(item), None
        rests_on_guess = guessed = False
        while True:
            try:
                requests = steps.send(replies)  # type: ignore[arg-type]
            except StopIteration:
                break
            replies = []
            for request in requests:
                known: dict[str, Reply] = {}
                for unit in units(request):
                    reply = store.reply(engine.signature_of(unit), unit)
                    guessed = guessed or (reply is None and isinstance(unit, Generate))
                    known[unit.id] = _stand_in(unit) if reply is None else reply
                    if unit.id not in seen:
                        seen.add(unit.id)
                        yield Planned(unit, reply is not None, rests_on_guess)
                replies.append(collect(request, known))
            rests_on_guess = guessed


def plan_run(judge: Judge, items: Iterable[Item], engine: Engine, store: Store) -> Plan:
    """Return what a run would cost, without asking the model anything."""
    counted = list(items)
    to_ask, n_stored, estimated = [], 0, False
    for request, stored, guessed in planned(judge, counted, engine, store):
        n_stored += stored
        estimated = estimated or (guessed and not stored)
        if not stored:
            to_ask.append(request)
    prompts = [engine.prompt_tokens(request) for request in to_ask]
    tokens = [prompt for prompt in prompts if prompt is not None]
    tree = prefix_plan(tokens) if len(tokens) == len(to_ask) else None
    generations = [request for request in to_ask if isinstance(request, Generate)]
    return Plan(
        n_items=len(counted),
        n_stored=n_stored,
        n_generations=len(generations),
        n_label_scorings=len(to_ask) - len(generations),
        total_tokens=tree.total_tokens if tree else None,
        unique_tokens=tree.unique_tokens if tree else None,
        written_tokens=sum(request.max_tokens for request in generations),
        estimated=estimated,
    )


def check_prompts(judge: Judge, items: Iterable[Item], engine: Engine, store: Store) -> None:
    """Raise ConfigError if the engine would refuse a request of the run.

    Texts that are not written yet count as long as allowed.
    """
    for request, stored, guessed in planned(judge, items, engine, store):
        if stored:
            continue
        try:
            engine.check(request)
        except ConfigError as error:
            counted = "; texts that are not written yet count in full length" if guessed else ""
            raise ConfigError(f"{error}{counted}") from error


def _stand_in(request: Request) -> Reply:
    """Return a reply of the largest size, for a request that was not asked."""
    if isinstance(request, Generate):
        text = f"{request.id[:8]} {'word ' * request.max_tokens}".strip()
        completion = Completion(text=text, finish_reason="stop", n_tokens=request.max_tokens)
        return Generated(request_id=request.id, completions=(completion,))
    n = len(cast("ScoreLabels", request).labels)
    return LabelScores(
        request_id=request.id,
        logprobs=(0.0,) * n,
        masses=(1 / n,) * n,
        n_tokens=(1,) * n,
        coverage=1.0,
    )
