"""What users call: a judge bound to its criteria and an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adjudge import registry
from adjudge.criteria.named import load_criterion
from adjudge.engines.base import Engine
from adjudge.engines.models import engine_of
from adjudge.engines.routed import RoutedEngine
from adjudge.errors import ConfigError
from adjudge.formats.ladders import read_ladders
from adjudge.formats.responses import ResponseRow, given_rows
from adjudge.formats.scores import score_rows
from adjudge.judges.base import Judge
from adjudge.judges.by_scores import PairsByScores
from adjudge.prompts.template import has_prompts, load_prompts
from adjudge.runs.config import checked_fields, field_names
from adjudge.runs.plan import Plan, plan_run
from adjudge.runs.runner import Counters
from adjudge.runs.start import StartedRun, fit, run_signature, start_run
from adjudge.runs.store import Store
from adjudge.runs.truncate import truncate_sources
from adjudge.schema import Criterion, Item, Judgment, Ladder, Signature

if TYPE_CHECKING:
    import numpy as np


#: The judge of pairs that judges of lists use.
COMPARES = "prometheus-relative"


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
        return score_rows(self.judgments)


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
        method = fit(method, engine)
        self.method, self.engine, self.criteria = method, engine, tuple(criteria)
        self.truncate_source = truncate_source

    @property
    def signature(self) -> Signature:
        """The line that reproduces this judge's numbers."""
        return self.signature_for(())

    def signature_for(self, rows: Iterable[ResponseRow]) -> Signature:
        """Return the line that reproduces the numbers of rows, which may have their own rubrics."""
        own = [row.criterion for row in rows if row.criterion]
        return run_signature(
            self.method,
            list(dict.fromkeys([*self.criteria, *own])),
            self.engine,
            truncate_source=self.truncate_source,
        )

    def score(
        self,
        *,
        sources: Sequence[str],
        responses: Sequence[str | None] | Sequence[Sequence[str]],
        systems: Sequence[str] | Sequence[Sequence[str]] | None = None,
        reference_answers: Sequence[str | Sequence[str] | None] | None = None,
        store: str | Path | Store = ":memory:",
    ) -> Scores:
        """Return one judgment per response and criterion.

        Parameters
        ----------
        sources
            What each response answers; ``(n,)``. Equal texts share one ladder.
        responses
            The texts to judge; ``(n,)``. None counts as an empty response. For judges of pairs
            and lists, a sequence of texts for each source.
        systems
            What wrote each response; ``(n,)``, or sequences like those of the responses.
        reference_answers
            Texts that are known to be good; ``(n,)``, a list where there are several. None:
            there is none.
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
        rows = given_rows(sources, responses, systems, reference_answers)
        return self.score_rows(rows, store=store)

    def score_rows(
        self, rows: Sequence[ResponseRow], *, store: str | Path | Store = ":memory:"
    ) -> Scores:
        """Return one judgment per row and criterion; see `score`."""
        if isinstance(store, Store):
            return self._collected(rows, store)
        with Store(store) as opened:
            return self._collected(rows, opened)

    def items(self, rows: Iterable[ResponseRow]) -> list[Item]:
        """Return the items to judge, sources cut if that is on.

        A row is judged by its own criterion if it has one, else by every criterion.
        """
        rows = list(rows)
        if not self.criteria and any(row.criterion is None for row in rows):
            raise ConfigError("name a criterion: not every row has a rubric of its own")
        single = [row.source.id for row in rows if len(row.responses) == 1]
        if self.method.takes == "list" and len(set(single)) < len(single):
            raise ConfigError(
                f"the judge {self.method.name!r} ranks lists, and several rows have one response "
                "to the same source: make them one row with a list `responses`"
            )
        items = [
            Item(
                id=row.id,
                source=row.source,
                systems=row.systems,
                responses=row.responses,
                criterion=criterion,
                reference_answers=row.reference_answers,
            )
            for row in rows
            for criterion in ([row.criterion] if row.criterion else self.criteria)
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
        rows = list(rows)
        return start_run(
            self.method,
            self.engine,
            self.items(rows),
            store,
            signature=self.signature_for(rows),
            data=data,
            stopped=stopped,
        )

    def _collected(self, rows: Sequence[ResponseRow], store: Store) -> Scores:
        run = self.run(rows, store)
        counters = Counters()
        for event in run.events:
            counters = event.counters
        return Scores(tuple(store.judgments(run.id)), self.signature_for(rows), counters)


def load_engine(reference: str, *, ladder_model: str | None = None) -> Engine:
    """Return the engine for ``engine:model``; without an engine's name, the model's own.

    Examples of references: ``smollm2-135m``, ``llama:path/to/model.gguf#threads=4``,
    ``hf:owner/repo``, ``hf:path/to/folder#dtype=bfloat16``, ``hf:owner/repo/file.gguf`` (which
    llama.cpp runs), ``replay:replies.jsonl``.

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
    if name == "hf" and rest.partition("#")[0].endswith(".gguf"):
        name, rest = "llama", reference
    elif not colon or "#" in name or "/" in name or "." in name or len(name) == 1:
        name, rest = engine_of(reference), reference
    loaded: Engine = registry.engines.load(name).from_reference(rest)
    return loaded


def judge(
    name: str,
    *,
    criterion: str | Criterion | Sequence[str | Criterion] = (),
    task: str,
    engine: Engine,
    seed: int = 0,
    prompts: str | Path | None = None,
    ladders: str | Path | Mapping[tuple[str, str], Ladder] | None = None,
    truncate_source: int = 0,
    pairs: bool = False,
    **options: Any,
) -> BoundJudge:
    """Return a judge bound to its criteria and an engine.

    Parameters
    ----------
    name
        A judge's name; ``adjudge judges`` lists them.
    criterion
        A criterion, its name for the task, ``file.toml[:name]``, or several of these; none
        where every row has a rubric of its own.
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
    pairs
        Whether pairs are judged: a judge of single responses then scores both and prefers the
        one with more; scores that differ by the option `tie_margin` or less are a tie.
    options
        The judge's own options.

    Raises
    ------
    ConfigError
        If a name or an option is not known or the engine cannot serve the judge.
    """
    method = judge_method(
        name,
        task=task,
        seed=seed,
        prompts=prompts,
        ladders=ladders,
        pairs=pairs,
        options=options,
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
    pairs: bool = False,
) -> Judge:
    """Return a judge without an engine; see `judge` for the parameters and errors."""
    kind = registry.judges.load(name)
    if pairs and kind.takes == "response":
        margin = {key: value for key, value in options.items() if key == "tie_margin"}
        others = {key: value for key, value in options.items() if key not in margin}
        scorer = judge_method(
            name, task=task, seed=seed, prompts=prompts, ladders=ladders, options=others
        )
        margin = checked_fields(PairsByScores, margin, what=f"option of {name}")
        return PairsByScores(prompts=scorer.prompts, seed=seed, scorer=scorer, **margin)
    more: dict[str, Any] = {}
    if ladders is not None:
        if "ladders" not in kind.not_options:
            raise ConfigError(f"the judge {name!r} uses no ladders")
        more["ladders"] = read_ladders(ladders) if isinstance(ladders, str | Path) else ladders
    own = prompts
    if "compare" in kind.not_options:  # options of both go to both, prompts to whom they are for
        theirs_too = prompts is not None and has_prompts(COMPARES, task, prompts)
        if theirs_too and not has_prompts(name, task, prompts or ""):
            own = None
        theirs = field_names(registry.judges.load(COMPARES))
        more["compare"] = judge_method(
            COMPARES,
            task=task,
            seed=seed,
            prompts=prompts if theirs_too else None,
            options={key: value for key, value in options.items() if key in theirs},
        )
        alone = theirs - field_names(kind)
        options = {key: value for key, value in options.items() if key not in alone}
    given = checked_fields(kind, options, what=f"option of {name}", but=kind.not_options)
    if kind.has_prompts:
        more["prompts"] = load_prompts(kind.name, task, folder=own)
    elif prompts is not None:
        raise ConfigError(f"the judge {name!r} shows no prompts: leave out {str(prompts)!r}")
    method: Judge = kind(seed=seed, **more, **given)
    return method


def load_criteria(criteria: Sequence[str | Criterion], task: str) -> list[Criterion]:
    """Return criteria by name, file or as they are.

    Raises
    ------
    ConfigError
        If one is not known, or two have one name.
    """
    loaded = [
        each if isinstance(each, Criterion) else load_criterion(each, task) for each in criteria
    ]
    names = [each.name for each in loaded]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"the criterion {repeated[0]!r} is given more than once")
    return loaded
