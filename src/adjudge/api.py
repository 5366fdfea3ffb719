"""What users call: a judge bound to its criteria and an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adjudge import registry
from adjudge.criteria.named import load_criterion
from adjudge.engines.base import Engine
from adjudge.errors import ConfigError
from adjudge.formats.rows import ResponseRow, is_unicode
from adjudge.formats.scores import score_row
from adjudge.judges.base import Judge
from adjudge.prompts.template import load_prompts
from adjudge.runs.config import checked_fields
from adjudge.runs.plan import Plan, check_prompts, plan_run
from adjudge.runs.runner import Counters, Event, Runner
from adjudge.runs.store import Store
from adjudge.schema import Criterion, Item, Judgment, Signature, Source, content_hash

if TYPE_CHECKING:
    import numpy as np


class Scores(NamedTuple):
    """Judgments in the order of the items, how to reproduce them and what they cost."""

    judgments: tuple[Judgment, ...]
    signature: Signature
    counters: Counters

    @property
    def values(self) -> np.ndarray:
        """``(n_items,)`` values on the judge's scale; NaN where there is none."""
        import numpy as np

        return np.array(
            [np.nan if each.value is None else each.value for each in self.judgments], dtype=float
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per judgment, as files of scores have them: for a data frame."""
        return [score_row(each) for each in self.judgments]


class BoundJudge:
    """A judge bound to its criteria and an engine; usually made by `judge`.

    Attributes
    ----------
    method, engine, criteria
        The parts.
    """

    def __init__(self, method: Judge, engine: Engine, criteria: Sequence[Criterion]) -> None:
        if lacking := method.needs - engine.capabilities:
            able = [
                each
                for each in registry.engines.targets()
                if method.needs <= registry.engines.load(each).capabilities
            ]
            raise ConfigError(
                f"the judge {method.name!r} needs {', '.join(sorted(lacking))}, which this "
                f"engine does not serve; engines that do: {', '.join(sorted(able)) or 'none'}"
            )
        self.method, self.engine, self.criteria = method, engine, tuple(criteria)

    @property
    def signature(self) -> Signature:
        """The line that reproduces this judge's numbers."""
        names = ",".join(each.name for each in self.criteria)
        described = content_hash([[each.title, each.description] for each in self.criteria])
        return (
            Signature(self.method.signature)
            | {"criterion": f"{names}#{described[:8]}"}
            | self.engine.signature
            | {"adjudge": version("adjudge")}
        )

    def score(
        self,
        *,
        sources: Sequence[str],
        responses: Sequence[str | None],
        systems: Sequence[str] | None = None,
        store: str | Path | Store = ":memory:",
    ) -> Scores:
        """Return one judgment per response and criterion.

        Parameters
        ----------
        sources
            What each response answers; ``(n,)``. Equal texts share one ladder.
        responses
            The texts to judge; ``(n,)``. None counts as an empty response.
        systems
            What wrote each response; ``(n,)``.
        store
            A store, or the path of one, that keeps replies and judgments; by default nothing
            is kept.

        Raises
        ------
        ConfigError
            If the lengths differ or a prompt does not fit the context.

        Notes
        -----
        With several criteria the judgments are in the order of the responses, each by all
        criteria.
        """
        for name, given in (("sources", sources), ("responses", responses), ("systems", systems)):
            if isinstance(given, str):
                raise ConfigError(f"{name} is one text; give a list of texts")
        names = systems if systems is not None else [""] * len(responses)
        if not len(sources) == len(responses) == len(names):
            raise ConfigError(
                f"sources, responses and systems must be as many: got {len(sources)}, "
                f"{len(responses)} and {len(names)}"
            )
        for name, texts in (("source", sources), ("response", responses)):
            for number, text in enumerate(texts, start=1):
                _check_text(f"{name} {number}", text, empty=name == "response")
        known: dict[str, Source] = {}
        for text in sources:
            known.setdefault(text, Source(id=f"source-{len(known) + 1}", text=text))
        rows = [
            ResponseRow(str(number), known[source], system, response or "")
            for number, (source, response, system) in enumerate(
                zip(sources, responses, names, strict=True), start=1
            )
        ]
        if isinstance(store, Store):
            return self._collected(rows, store)
        with Store(store) as opened:
            return self._collected(rows, opened)

    def items(self, rows: Iterable[ResponseRow]) -> list[Item]:
        """Return the items to judge: every row by every criterion."""
        return [
            Item(
                id=row.id,
                source=row.source,
                system=row.system,
                response=row.response,
                criterion=criterion,
            )
            for row in rows
            for criterion in self.criteria
        ]

    def plan(self, rows: Iterable[ResponseRow], store: Store) -> Plan:
        """Return what judging the rows would cost, without asking the model anything."""
        return plan_run(self.method, self.items(rows), self.engine, store)

    def run(
        self,
        rows: Iterable[ResponseRow],
        store: Store,
        *,
        data: str = "",
        stopped: Callable[[], bool] = lambda: False,
    ) -> tuple[str, int, Iterator[Event]]:
        """Return the run's id in the store, its number of items, and its events as they happen.

        Everything that can be wrong with the prompts is found here, before anything runs.

        Parameters
        ----------
        rows, store
            What to judge, and where replies and judgments are kept.
        data
            What to call the data in the store.
        stopped
            Asked after every reply; when it says True the run ends.
        """
        items = self.items(rows)
        check_prompts(self.method, items, self.engine, store)
        fingerprint = content_hash(
            [[item.id, item.source.hash, item.system, item.response] for item in items]
        )
        run_id = store.start_run(self.signature, data, fingerprint, len(items))
        # Items of one source together, whatever the order of the file: they share prompts.
        places: dict[str, int] = {}
        for item in items:
            places.setdefault(item.source.hash, len(places))
        order = sorted(range(len(items)), key=lambda i: places[items[i].source.hash])
        runner = Runner(self.method, self.engine, store, stopped=stopped)
        events = runner.run(items[i] for i in order)
        return run_id, len(items), _stored(events, order, store, run_id)

    def _collected(self, rows: Sequence[ResponseRow], store: Store) -> Scores:
        run_id, _, events = self.run(rows, store)
        counters = Counters()
        for event in events:
            counters = event.counters
        return Scores(tuple(store.judgments(run_id)), self.signature, counters)


def load_engine(reference: str) -> Engine:
    """Return the engine for ``engine:model``; without an engine's name, the embedded one.

    Examples of references: ``smollm2-135m``, ``llama:path/to/model.gguf#threads=4``,
    ``hf:owner/repo/file.gguf``, ``replay:replies.jsonl``.

    Raises
    ------
    ConfigError
        If there is no such engine or model; the message lists the nearest.
    """
    name, colon, rest = reference.partition(":")
    if not colon or name == "hf" or "/" in name or "." in name or len(name) == 1:
        name, rest = "llama", reference
    loaded: Engine = registry.engines.load(name).from_reference(rest)
    return loaded


def judge(
    name: str,
    *,
    criterion: str | Criterion | Sequence[str | Criterion],
    task: str,
    engine: Engine,
    seed: int = 0,
    prompts: str | Path | None = None,
    **options: Any,
) -> BoundJudge:
    """Return a judge bound to its criteria and an engine.

    Parameters
    ----------
    name
        A judge's name; ``adjudge judges`` lists them.
    criterion
        A criterion, its name for the task, ``file.toml[:name]``, or several of these.
    task
        ``summarization``, ``dialogue``, ``story`` or ``instruction``.
    engine
        What runs the model.
    seed
        Seed of everything that is drawn.
    prompts
        A folder with prompts that replace built-in ones.
    options
        The judge's own options.

    Raises
    ------
    ConfigError
        If a name or an option is not known or the engine cannot serve the judge.
    """
    method = judge_method(name, task=task, seed=seed, prompts=prompts, options=options)
    several = [criterion] if isinstance(criterion, str | Criterion) else list(criterion)
    return BoundJudge(method, engine, load_criteria(several, task))


def judge_method(
    name: str,
    *,
    task: str,
    options: Mapping[str, Any],
    seed: int = 0,
    prompts: str | Path | None = None,
) -> Judge:
    """Return a judge without an engine; see `judge` for the parameters and errors."""
    kind = registry.judges.load(name)
    given = checked_fields(kind, options, what=f"option of {name}", but=("prompts", "seed"))
    method: Judge = kind(prompts=load_prompts(kind.name, task, folder=prompts), seed=seed, **given)
    return method


def load_criteria(criteria: Sequence[str | Criterion], task: str) -> list[Criterion]:
    """Return criteria by name, file or as they are.

    Raises
    ------
    ConfigError
        If there is none, one is not known, or two have one name.
    """
    if not criteria:
        raise ConfigError("name at least one criterion")
    loaded = [
        each if isinstance(each, Criterion) else load_criterion(each, task) for each in criteria
    ]
    names = [each.name for each in loaded]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"the criterion {repeated[0]!r} is given more than once")
    return loaded


def _check_text(what: str, text: object, *, empty: bool) -> None:
    """Raise ConfigError if something is no text; None and blanks count as empty ones."""
    if not isinstance(text, str) and not (empty and text is None):
        raise ConfigError(f"{what} must be text, not {text!r}")
    if isinstance(text, str):
        if not is_unicode(text):
            raise ConfigError(f"{what} holds half of a surrogate pair, which is no text")
        if not (empty or text.strip()):
            raise ConfigError(f"{what} is empty")


def _stored(
    events: Iterator[Event], order: Sequence[int], store: Store, run_id: str
) -> Iterator[Event]:
    """Pass events on, judgments stored on the way in the place of their items."""
    for event in events:
        if event.judgment is not None:
            store.save_judgment(run_id, order[event.position], event.judgment)
        yield event
