"""What a run would cost, found by driving its judges without a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from adjudge.engines.base import Engine, check_fits
from adjudge.engines.prefix import prefix_plan
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
    n_generations, n_comparisons
        Calls to make: texts to write, and label log-probs to ask for.
    total_tokens, unique_tokens
        Prompt tokens of the calls, and what is left of them when shared beginnings are
        evaluated once; None if the engine cannot tell.
    written_tokens
        Tokens to be written at most.
    estimated
        Whether some prompts rest on text that is not written yet.
    """

    n_items: int
    n_stored: int
    n_generations: int
    n_comparisons: int
    total_tokens: int | None
    unique_tokens: int | None
    written_tokens: int
    estimated: bool

    @property
    def n_calls(self) -> int:
        """Calls to make."""
        return self.n_generations + self.n_comparisons


def planned(judge: Judge, items: Iterable[Item], engine: Engine, store: Store) -> Iterator[Planned]:
    """Yield every distinct request that a run would make, in the order of the items.

    The judges are driven with the store's replies and, where there are none, with stand-ins:
    texts as long as allowed, labels of equal probability.
    """
    signature = dict(engine.signature)
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
                    reply = store.reply(signature, unit)
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
        n_comparisons=len(to_ask) - len(generations),
        total_tokens=tree.total_tokens if tree else None,
        unique_tokens=tree.unique_tokens if tree else None,
        written_tokens=sum(request.max_tokens for request in generations),
        estimated=estimated,
    )


def check_prompts(judge: Judge, items: Iterable[Item], engine: Engine, store: Store) -> None:
    """Raise ConfigError if a prompt of the run cannot fit the engine's context.

    Texts that are not written yet count as long as allowed. A token is at least one byte, so
    only prompts with more bytes than the context has tokens are tokenized.
    """
    context = engine.context_length
    if context is None:
        return
    for request, stored, guessed in planned(judge, items, engine, store):
        reply = request.max_tokens if isinstance(request, Generate) else 1
        n_bytes = sum(len(message.content.encode()) for message in request.messages)
        if stored or n_bytes + reply <= context // 2:
            continue
        prompt = engine.prompt_tokens(request)
        if prompt is not None:
            counted = " (texts not written yet count in full)" if guessed else ""
            hint = f"shorten the source or load the model with more context{counted}"
            check_fits(len(prompt), reply, context, hint=hint)


def _stand_in(request: Request) -> Reply:
    """Return a reply of the largest size, for a request that was not asked."""
    if isinstance(request, Generate):
        text = f"{request.id[:8]} {'word ' * request.max_tokens}".strip()
        completion = Completion(text=text, finish_reason="stop", n_tokens=request.max_tokens)
        return Generated(request_id=request.id, completions=(completion,))
    assert isinstance(request, ScoreLabels)
    n = len(request.labels)
    return LabelScores(request_id=request.id, logprobs=(0.0,) * n, n_tokens=(1,) * n, coverage=1.0)
