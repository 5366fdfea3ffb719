"""What users call: a judge bound to its criteria and an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adjudge import registry
from adjudge.criteria.named import load_criterion
from adjudge.engines.base import Engine
from adjudge.engines.routed import RoutedEngine
from adjudge.errors import ConfigError
from adjudge.formats.ladders import read_ladders
from adjudge.formats.rows import ResponseRow, is_unicode
from adjudge.formats.scores import score_row
from adjudge.judges.base import Judge
from adjudge.prompts.template import load_prompts
from adjudge.runs.config import checked_fields
from adjudge.runs.plan import Plan, plan_run
from adjudge.runs.runner import Counters
from adjudge.runs.start import StartedRun, check_needs, run_signature, start_run
from adjudge.runs.store import Store
from adjudge.runs.truncate import truncate_sources
from adjudge.schema import Criterion, Item, Judgment, Ladder, Signature, Source

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
    truncate_source
        Tokens to which sources are cut; 0: never.
    """

    def __init__(
        self,
        method: Judge,
        engine: Engine,
        criteria: Sequence[Criterion],
        *,
        truncate_source: int = 0,
    ) -> None:
        check_needs(method, engine)
        self.method, self.engine, self.criteria = method, engine, tuple(criteria)
        self.truncate_source = truncate_source

    @property
    def signature(self) -> Signature:
        """The line that reproduces this judge's numbers."""
        return run_signature(
            self.method, self.criteria, self.engine, truncate_source=self.truncate_source
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
        """Return the items to judge: every row by every criterion, sources cut if that is on."""
        items = [
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
        return truncate_sources(items, self.truncate_source, self.engine).items

    def n_cut(self, rows: Iterable[ResponseRow]) -> int:
        """Return how many of the rows' sources are cut."""
        given = list(rows)
        items = self.items(given)
        return len({row.source.hash for row in given} - {item.source.hash for item in items})

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
    ) -> StartedRun:
        """Return the run of the rows in the store; see `adjudge.runs.start.start_run`."""
        return start_run(
            self.method,
            self.engine,
            self.items(rows),
            store,
            signature=self.signature,
            data=data,
            stopped=stopped,
        )

    def _collected(self, rows: Sequence[ResponseRow], store: Store) -> Scores:
        run = self.run(rows, store)
        counters = Counters()
        for event in run.events:
            counters = event.counters
        return Scores(tuple(store.judgments(run.id)), self.signature, counters)


def load_engine(reference: str, *, ladder_model: str | None = None) -> Engine:
    """Return the engine for ``engine:model``; without an engine's name, the embedded one.

    Examples of references: ``smollm2-135m``, ``llama:path/to/model.gguf#threads=4``,
    ``hf:owner/repo/file.gguf``, ``replay:replies.jsonl``.

    Parameters
    ----------
    reference
        What runs the model.
    ladder_model
        Another reference: this one then writes the ladders.

    Raises
    ------
    ConfigError
        If there is no such engine or model; the message lists the nearest.
    """
    if ladder_model not in (None, reference):
        writer = load_engine(ladder_model)
        try:
            return RoutedEngine(writer=writer, predictor=load_engine(reference))
        except BaseException:
            writer.close()
            raise
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
    ladders: str | Path | Mapping[tuple[str, str], Ladder] | None = None,
    truncate_source: int = 0,
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
    ladders
        A file of ladders, or ladders by (source hash, criterion name), to use instead of
        writing them.
    truncate_source
        Cut sources to so many tokens; 0: never, a source that is too long is an error.
    options
        The judge's own options.

    Raises
    ------
    ConfigError
        If a name or an option is not known or the engine cannot serve the judge.
    """
    method = judge_method(
        name, task=task, seed=seed, prompts=prompts, ladders=ladders, options=options
    )
    several = [criterion] if isinstance(criterion, str | Criterion) else list(criterion)
    return BoundJudge(method, engine, load_criteria(several, task), truncate_source=truncate_source)


def judge_method(
    name: str,
    *,
    task: str,
    options: Mapping[str, Any],
    seed: int = 0,
    prompts: str | Path | None = None,
    ladders: str | Path | Mapping[tuple[str, str], Ladder] | None = None,
) -> Judge:
    """Return a judge without an engine; see `judge` for the parameters and errors."""
    kind = registry.judges.load(name)
    more = {}
    if ladders is not None:
        if "ladders" not in kind.not_options:
            raise ConfigError(f"the judge {name!r} uses no ladders")
        more["ladders"] = read_ladders(ladders) if isinstance(ladders, str | Path) else ladders
    given = checked_fields(kind, options, what=f"option of {name}", but=kind.not_options)
    method: Judge = kind(
        prompts=load_prompts(kind.name, task, folder=prompts), seed=seed, **more, **given
    )
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
