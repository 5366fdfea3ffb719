"""How a run begins: judge and engine are matched, prompts checked, the run gets its place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import NamedTuple

from adjudge import registry
from adjudge.engines.base import Engine
from adjudge.errors import ConfigError
from adjudge.judges.base import Judge
from adjudge.runs.plan import check_prompts
from adjudge.runs.runner import Event, Runner
from adjudge.runs.store import Store
from adjudge.schema import Criterion, Item, Signature, content_hash


class StartedRun(NamedTuple):
    """A run in its store; what happens in it happens while `events` are taken."""

    id: str
    n_items: int
    events: Iterator[Event]


def fit(judge: Judge, engine: Engine) -> Judge:
    """Return the judge as it works with an engine; see `Judge.fitted` and `check_needs`."""
    made = fitted(judge, engine)
    check_needs(made, engine)
    return made


def fitted(judge: Judge, engine: Engine) -> Judge:
    """Return the judge as it works with an engine, whether or not that serves what it needs."""
    return judge.fitted(engine.capabilities, engine.signature.get("model", ""))


def check_needs(judge: Judge, engine: Engine) -> None:
    """Raise ConfigError if the engine does not serve what the judge needs."""
    if lacking := judge.needs - engine.capabilities:
        able = [
            each
            for each in registry.engines.targets()
            if judge.needs <= registry.engines.load(each).capabilities
        ]
        raise ConfigError(
            f"the judge {judge.signature['judge']!r} needs {', '.join(sorted(lacking))}, which "
            f"{engine.signature.get('model', 'this engine')} does not serve; engines that, with a "
            f"fitting model, do: {', '.join(sorted(able)) or 'none'}"
        )


def run_signature(
    judge: Judge,
    criteria: Sequence[Criterion],
    engine: Engine,
    *,
    truncate_source: int = 0,
    **more: str,
) -> Signature:
    """Return the line that reproduces a run's numbers.

    Criteria are named and hashed with all that they say; `more` comes before the version.
    """
    if truncate_source:
        more["truncate_source"] = str(truncate_source)
    names = ",".join(dict.fromkeys(each.name for each in criteria))
    described = content_hash([each.content for each in criteria])
    fields: Mapping[str, str] = {"criterion": f"{names}#{described[:8]}"}
    return (
        Signature(judge.signature)
        | fields
        | engine.signature
        | more
        | {"adjudge": version("adjudge")}
    )


def start_run(
    judge: Judge,
    engine: Engine,
    items: Sequence[Item],
    store: Store,
    *,
    signature: Signature,
    data: str = "",
    stopped: Callable[[], bool] = lambda: False,
) -> StartedRun:
    """Return the run of the items, new or resumed.

    Everything that can be wrong with the prompts is found here, before anything runs.

    Parameters
    ----------
    judge, engine, items, store
        Who judges what with which model, and where replies and judgments are kept.
    signature
        See `run_signature`.
    data
        What to call the data in the store.
    stopped
        Asked after every reply; when it says True the run ends.

    Raises
    ------
    ConfigError
        If the engine does not serve the judge, or a prompt does not fit its context.
    """
    check_needs(judge, engine)
    check_prompts(judge, items, engine, store)
    run_id = store.start_run(signature, data, _fingerprint(items), len(items))
    # Items of one source together, whatever the order of the file: they share prompts.
    places: dict[str, int] = {}
    for item in items:
        places.setdefault(item.source.hash, len(places))
    order = sorted(range(len(items)), key=lambda i: places[items[i].source.hash])
    events = Runner(judge, engine, store, stopped=stopped).run(
        (items[i] for i in order), known=items
    )
    return StartedRun(run_id, len(items), _stored(events, order, store, run_id))


def _fingerprint(items: Iterable[Item]) -> str:
    """Return a hash of what is judged, one item at a time."""
    whole = hashlib.sha256()
    for item in items:
        references = item.reference_answers
        content = [
            item.id,
            item.source.hash,
            list(item.systems),
            list(item.responses),
            list(references) if len(references) > 1 else item.reference_answer,
            item.criterion.name,
            item.criterion.hash,
        ]
        whole.update(content_hash(content).encode())
    return whole.hexdigest()


def _stored(
    events: Iterator[Event], order: Sequence[int], store: Store, run_id: str
) -> Iterator[Event]:
    """Pass events on, judgments stored on the way in the place of their items."""
    for event in events:
        if event.judgment is not None:
            store.save_judgment(run_id, order[event.position], event.judgment)
        yield event
