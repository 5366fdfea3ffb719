"""`adjudge ladder`: ladders written, checked, shown and exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from adjudge.cli.options import check_known, configured
from adjudge.cli.prepare import load_criteria, load_engine, load_sources
from adjudge.cli.progress import finished, interruptible
from adjudge.cli.report import print_lines
from adjudge.errors import ConfigError
from adjudge.runs.config import CheckConfig, LadderConfig

if TYPE_CHECKING:
    from threading import Event as Flag

    from adjudge.engines.base import Engine
    from adjudge.experiments.ladders import LadderReport
    from adjudge.judges.ladder import LadderJudge
    from adjudge.runs.store import Store
    from adjudge.schema import Item, Judgment, Ladder, Source

LaddersArgument = Annotated[str, typer.Argument(help="A file of ladders")]
Ladders = dict[tuple[str, str], "Ladder"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Write, check and exchange ladders.")
    data = ("data", "A file with sources (.jsonl, .csv, .parquet), or a benchmark's name")
    doc = "Write a ladder for every source and criterion, to a file that can be published."
    group.command("build")(configured(build, LadderConfig, argument=data, doc=doc))
    doc = "Compare the rungs of ladders with their neighbours, and say which fail."
    argument = ("ladders", "A file of ladders")
    group.command("check")(configured(check, CheckConfig, argument=argument, doc=doc))
    group.command("show")(show)
    group.command("export")(export)
    group.command("import")(import_rows)
    app.add_typer(group, name="ladder")


def build(config: LadderConfig, data: str) -> None:
    """Write ladders."""
    from adjudge.experiments.bench import drawn_sources
    from adjudge.experiments.ladders import built_ladders, ladder_items
    from adjudge.formats.ladders import check_ladder_path, write_ladders
    from adjudge.formats.rows import check_writable
    from adjudge.judges.ladder_work import LadderBuild
    from adjudge.reports.tables import cut_lines, summary_lines
    from adjudge.runs.summary import summarize
    from adjudge.runs.truncate import truncate_sources

    if not config.out:
        raise ConfigError("name the file to write the ladders to: --out ladders.jsonl")
    check_writable(check_ladder_path(config.out), never=[data, config.store])
    sources, task, usual = load_sources(data, config.task)
    taken = drawn_sources((each.id for each in sources), config.limit_sources, config.seed)
    criteria = load_criteria(config.criterion or usual, task)
    items = ladder_items((each for each in sources if each.id in taken), criteria)
    with _working(config, task, data) as work:
        items, n_cut = truncate_sources(items, config.truncate_source, work.engine)
        judgments, signature = work.run(work.judge(LadderBuild), items)
    n = write_ladders(config.out, built_ladders(items, judgments, signature))
    lines = [*summary_lines(summarize(judgments)), *cut_lines(n_cut, config.truncate_source)]
    print_lines(work.console, [*lines, f"{n} ladders: {config.out}", signature])


def check(config: CheckConfig, ladders: str) -> None:
    """Check ladders; with --repair, write the rungs anew that fail."""
    from adjudge.experiments.ladders import merged
    from adjudge.formats.ladders import check_ladder_path, read_ladders, write_ladders
    from adjudge.formats.rows import check_writable

    if config.repair != bool(config.out):
        raise ConfigError("--repair writes the mended ladders to --out: give both, or none")
    if config.ladder_model and not config.repair:
        raise ConfigError("--ladder-model writes rungs anew: give --repair too")
    if not config.data:
        raise ConfigError("say where the sources are: --data FILE, or --data summeval")
    if config.out:
        check_writable(check_ladder_path(config.out), never=[ladders, config.store])
    given = read_ladders(ladders)
    if config.repair and len({len(each.rungs) for each in given.values()}) > 1:
        raise ConfigError(
            f"{ladders} has ladders of several lengths: mend each in a file of its own"
        )
    sources, task, _ = load_sources(config.data, config.task)
    with _working(config, task, config.data) as work:
        items = _items_of(given, sources, config, task, work.engine)
        reports = _checked(work, given, items)
        failing = {
            (each.ladder.source_hash, each.ladder.criterion): each.failed
            for each in reports
            if each.failed
        }
        if config.repair and failing:
            mended = merged(given, _rewritten(work, given, failing, items))
            write_ladders(config.out, mended.values())
            n = sum(mended[key] is not given[key] for key in failing)
            lines = ["", f"mended {n} of the {len(failing)} that failed: {config.out}"]
            print_lines(work.console, lines)
            _checked(work, mended, items)
    if config.repair and not failing:
        print_lines(work.console, ["there is nothing to mend; no file was written"])


def show(
    ladders: LaddersArgument,
    source: Annotated[str, typer.Option(help="Only of the source with this id")] = "",
    criterion: Annotated[str, typer.Option(help="Only by this criterion")] = "",
    limit: Annotated[int, typer.Option(help="At most so many ladders; 0: all", min=0)] = 3,
) -> None:
    """Show ladders, the worst rung first."""
    from adjudge.formats.ladders import read_ladders

    found = [
        each
        for each in read_ladders(ladders).values()
        if source in ("", each.source_id) and criterion in ("", each.criterion)
    ]
    if not found:
        raise ConfigError(f"{ladders} has no such ladder")
    console = Console()
    for each in found[: limit or len(found)]:
        lines = [f"{each.source_id}, {each.criterion}; written by {each.writer or 'nobody known'}"]
        for rung, text in enumerate(each.rungs, start=1):
            why = each.problems.get(rung, "not written")
            first, *more = (text or f"({why})").splitlines()
            lines += [f"  {rung}  {first}", *(f"     {line}" for line in more)]
        print_lines(console, [*lines, ""])
    if limit and len(found) > limit:
        print_lines(console, [f"... and {len(found) - limit} more; see --limit"])


def export(
    ladders: LaddersArgument,
    out: Annotated[str, typer.Option(help="The file: .jsonl, .csv or .parquet")],
) -> None:
    """Write ladders as plain rows, one per rung: to read, or to edit and import again."""
    from adjudge.formats.ladders import ladder_rows, read_ladders
    from adjudge.formats.rows import check_writable, write_rows

    check_writable(out, never=[ladders])
    found = read_ladders(ladders)
    n = write_rows(out, ladder_rows(found.values()))
    print(f"{out}: {n} rungs of {len(found)} ladders")


def import_rows(
    rows: Annotated[
        str, typer.Argument(help="Rungs: source_id, criterion, rung (1 is the worst) and text")
    ],
    data: Annotated[str, typer.Option(help="Where the sources are: a file or a benchmark's name")],
    out: Annotated[str, typer.Option(help="The file of ladders to write: .jsonl")],
    task: Annotated[
        str, typer.Option(help="summarization, dialogue, story or instruction")
    ] = "summarization",
    criterion: Annotated[
        list[str] | None, typer.Option(help="Criteria in files of your own, as for scoring")
    ] = None,
) -> None:
    """Make ladders of rungs that people wrote or edited."""
    from adjudge.criteria.named import named_criteria
    from adjudge.formats.ladders import check_ladder_path, import_ladders, write_ladders
    from adjudge.formats.rows import check_writable

    check_writable(check_ladder_path(out), never=[rows, data])
    sources, task, _ = load_sources(data, task)
    known = load_criteria(criterion, task) if criterion else [*named_criteria(task).values()]
    n = write_ladders(out, import_ladders(rows, sources, known))
    print(f"{out}: {n} ladders")


@dataclass(frozen=True)
class _Work:
    """What every piece of work on ladders needs."""

    config: LadderConfig | CheckConfig
    task: str
    data: str
    engine: Engine
    store: Store
    stop: Flag
    console: Console

    def judge(self, kind: type[LadderJudge], **more: Any) -> LadderJudge:
        """Return a judge that works on ladders, with the options of the configuration."""
        from adjudge.judges.ladder_work import LadderBuild, LadderCheck
        from adjudge.prompts.template import load_prompts
        from adjudge.runs.config import checked_fields

        config, given = self.config, self.config.options()
        if isinstance(config, CheckConfig):  # checking and mending take some options each
            for name in given:
                check_known("option of ladders", name, _options(LadderBuild, LadderCheck))
            given = {name: value for name, value in given.items() if name in _options(kind)}
        prompts = load_prompts("ladder", self.task, folder=config.prompts or None)
        options = checked_fields(kind, given, what="option of ladders", but=kind.not_options)
        return kind(prompts=prompts, seed=config.seed, **{**options, **more})

    def run(self, judge: LadderJudge, items: Sequence[Item]) -> tuple[list[Judgment], str]:
        """Return the judgments of the items, and their signature."""
        from adjudge.runs.start import run_signature, start_run

        criteria = list(dict.fromkeys(item.criterion for item in items))
        signature = run_signature(
            judge, criteria, self.engine, truncate_source=self.config.truncate_source
        )
        begun = start_run(
            judge, self.engine, items, self.store,
            signature=signature, data=self.data, stopped=self.stop.is_set,
        )  # fmt: skip
        finished(begun, self.console, self.config.store)
        return list(self.store.judgments(begun.id)), str(signature)


def _options(*kinds: type[LadderJudge]) -> set[str]:
    """Return the names of all options of some judges."""
    return {
        each.name for kind in kinds for each in fields(kind) if each.name not in kind.not_options
    }


@contextmanager
def _working(config: LadderConfig | CheckConfig, task: str, data: str) -> Iterator[_Work]:
    """Give what work on ladders needs, its engine and store open."""
    from adjudge.runs.store import Store

    with (
        interruptible() as stop,
        Store(config.store) as store,
        closing(load_engine(config)) as engine,
    ):
        yield _Work(config, task, data, engine, store, stop, Console())


def _items_of(
    ladders: Ladders, sources: Sequence[Source], config: CheckConfig, task: str, engine: Engine
) -> list[Item]:
    """Return one item per ladder, in their order."""
    from adjudge.experiments.ladders import ladder_items
    from adjudge.runs.truncate import truncate_sources

    given = load_criteria(config.criterion, task) if config.criterion else []
    rest = {name for _, name in ladders}.difference(each.name for each in given)
    criteria = [*given, *(load_criteria(sorted(rest), task) if rest else [])]
    items = ladder_items(sources, criteria)
    known = {
        (item.source.hash, item.criterion.name): item
        for item in truncate_sources(items, config.truncate_source, engine).items
    }
    if lacking := [each for key, each in ladders.items() if key not in known]:
        raise ConfigError(
            f"{config.data} lacks the source of {len(lacking)} ladders, such as "
            f"{lacking[0].source_id!r}: the texts must be those that the ladders were written for"
        )
    return [known[key] for key in ladders]


def _checked(work: _Work, ladders: Ladders, items: Sequence[Item]) -> list[LadderReport]:
    """Have the judge compare neighbours, print what that and the texts say, and return it."""
    from adjudge.experiments.ladders import ladder_report, summarize_ladders
    from adjudge.judges.ladder_work import LadderCheck
    from adjudge.reports.ladders import ladder_lines, ladder_table

    judgments, signature = work.run(work.judge(LadderCheck, ladders=ladders), items)
    reports = [
        ladder_report(ladder, item.source, judgment)
        for ladder, item, judgment in zip(ladders.values(), items, judgments, strict=True)
    ]
    work.console.print(ladder_table(reports))
    print_lines(work.console, [*ladder_lines(summarize_ladders(reports)), signature])
    return reports


def _rewritten(
    work: _Work,
    ladders: Ladders,
    failing: Mapping[tuple[str, str], frozenset[int]],
    items: Sequence[Item],
) -> list[Ladder]:
    """Have the failing rungs written anew, and return those ladders."""
    from adjudge.experiments.ladders import built_ladders
    from adjudge.judges.ladder_work import LadderBuild

    wanted = [item for item in items if (item.source.hash, item.criterion.name) in failing]
    (size,) = {len(ladder.rungs) for ladder in ladders.values()}
    judge = work.judge(LadderBuild, ladders=ladders, failed=failing, rungs=size)
    return built_ladders(wanted, *work.run(judge, wanted))
