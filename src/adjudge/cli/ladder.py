"""`adjudge ladder`: ladders written, checked, shown and exchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from adjudge.cli.options import configured
from adjudge.cli.prepare import load_criteria, load_engine, load_sources
from adjudge.cli.progress import finished, interruptible
from adjudge.cli.report import print_lines
from adjudge.errors import ConfigError
from adjudge.runs.config import CheckConfig, LadderConfig, ModelConfig

if TYPE_CHECKING:
    from adjudge.engines.base import Engine
    from adjudge.experiments.ladders import LadderReport
    from adjudge.judges.ladder import LadderJudge
    from adjudge.runs.start import StartedRun
    from adjudge.runs.store import Store
    from adjudge.schema import Item, Ladder, Source

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
    from adjudge.api import load_engine as load_one
    from adjudge.experiments.bench import drawn_sources
    from adjudge.experiments.ladders import built_ladders, ladder_items
    from adjudge.formats.ladders import check_ladder_path, write_ladders
    from adjudge.formats.rows import check_writable
    from adjudge.judges.ladder_work import LadderBuild
    from adjudge.reports.tables import summary_lines
    from adjudge.runs.store import Store
    from adjudge.runs.summary import summarize
    from adjudge.runs.truncate import truncate_sources

    if not config.out:
        raise ConfigError("name the file to write the ladders to: --out ladders.jsonl")
    check_writable(check_ladder_path(config.out), never=[data, config.store])
    sources, task, usual = load_sources(data, config.task)
    taken = drawn_sources((each.id for each in sources), config.limit_sources, config.seed)
    criteria = load_criteria(config.criterion or usual, task)
    items = ladder_items((each for each in sources if each.id in taken), criteria)
    judge = _work(LadderBuild, config, task)
    console = Console()
    with (
        interruptible() as stop,
        Store(config.store) as store,
        closing(load_one(config.model)) as engine,
    ):
        items, _ = truncate_sources(items, config.truncate_source, engine)
        begun, signature = _start(judge, engine, items, store, data, stop)
        finished(begun, console, config.store)
        judgments = list(store.judgments(begun.id))
    n = write_ladders(config.out, built_ladders(items, judgments, signature))
    print_lines(console, [*summary_lines(summarize(judgments)), f"{n} ladders: {config.out}"])
    print_lines(console, [signature])


def check(config: CheckConfig, ladders: str) -> None:
    """Check ladders; with --repair, write the rungs anew that fail."""
    from adjudge.experiments.ladders import merged
    from adjudge.formats.ladders import check_ladder_path, read_ladders, write_ladders
    from adjudge.formats.rows import check_writable
    from adjudge.runs.store import Store

    if config.repair != bool(config.out):
        raise ConfigError("--repair writes the mended ladders to --out: give both, or none")
    if config.ladder_model and not config.repair:
        raise ConfigError("--ladder-model writes rungs anew: give --repair too")
    if config.out:
        check_writable(check_ladder_path(config.out), never=[ladders, config.store])
    given = read_ladders(ladders)
    sources, task = _sources_of(config)
    console = Console()
    with (
        interruptible() as stop,
        Store(config.store) as store,
        closing(load_engine(config)) as engine,
    ):
        items = _items_of(given, sources, config, task, engine)

        def checked(found: Ladders) -> list[LadderReport]:
            reports, line = _reports(found, items, config, task, engine, store, stop, console)
            _print_reports(reports, console)
            print_lines(console, [line])
            return reports

        reports = checked(given)
        failing = {
            (each.ladder.source_hash, each.ladder.criterion): each.failed
            for each in reports
            if each.failed
        }
        if config.repair and failing:
            repaired = _repaired(given, failing, items, config, task, engine, store, stop, console)
            mended = merged(given, repaired)
            n = write_ladders(config.out, mended.values())
            print_lines(console, ["", f"mended {len(repaired)} of {n} ladders: {config.out}"])
            checked(mended)
    if config.repair and not failing:
        print_lines(console, ["there is nothing to mend; no file was written"])


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
            lines.append(f"  {rung}  {text or f'({each.problems.get(rung, chr(45))})'}")
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


def _work(kind: type[LadderJudge], config: ModelConfig, task: str, **more: Any) -> Any:
    """Return a judge that works on ladders."""
    from adjudge.prompts.template import load_prompts
    from adjudge.runs.config import checked_fields

    prompts = load_prompts("ladder", task, folder=config.prompts or None)
    but = (*kind.not_options, "repair")
    options = checked_fields(kind, config.options(), what="option of ladders", but=but)
    return kind(prompts=prompts, seed=config.seed, **{**options, **more})


def _start(
    judge: LadderJudge,
    engine: Engine,
    items: Sequence[Item],
    store: Store,
    data: str,
    stop: Any,
) -> tuple[StartedRun, str]:
    """Return the started run of work on ladders, and its signature."""
    from adjudge.runs.start import run_signature, start_run

    criteria = list(dict.fromkeys(item.criterion for item in items))
    signature = run_signature(judge, criteria, engine)
    begun = start_run(
        judge, engine, items, store, signature=signature, data=data, stopped=stop.is_set
    )
    return begun, str(signature)


def _sources_of(config: CheckConfig) -> tuple[list[Source], str]:
    """Return the sources that ladders were written for, and the task."""
    if not config.data:
        raise ConfigError("say where the sources are: --data FILE, or --data summeval")
    sources, task, _ = load_sources(config.data, config.task)
    return sources, task


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


def _reports(
    ladders: Ladders,
    items: Sequence[Item],
    config: CheckConfig,
    task: str,
    engine: Engine,
    store: Store,
    stop: Any,
    console: Console,
) -> tuple[list[LadderReport], str]:
    """Have the judge compare neighbours: what that and the texts say, and the signature."""
    from adjudge.experiments.ladders import ladder_report
    from adjudge.judges.ladder_work import LadderCheck

    judge = _work(LadderCheck, config, task, ladders=ladders)
    begun, signature = _start(judge, engine, items, store, config.data, stop)
    finished(begun, console, config.store)
    judgments = list(store.judgments(begun.id))
    reports = [
        ladder_report(ladder, item.source, judgment)
        for ladder, item, judgment in zip(ladders.values(), items, judgments, strict=True)
    ]
    return reports, signature


def _repaired(
    ladders: Ladders,
    failing: Mapping[tuple[str, str], frozenset[int]],
    items: Sequence[Item],
    config: CheckConfig,
    task: str,
    engine: Engine,
    store: Store,
    stop: Any,
    console: Console,
) -> list[Ladder]:
    """Have the failing rungs written anew, and return the ladders that came out whole."""
    from adjudge.experiments.ladders import built_ladders
    from adjudge.judges.ladder_work import LadderBuild

    sizes = {len(ladders[key].rungs) for key in failing}
    if len(sizes) > 1:
        raise ConfigError("ladders of several lengths are mended one length at a time")
    wanted = [item for item in items if (item.source.hash, item.criterion.name) in failing]
    work = _work(
        LadderBuild, config, task, ladders=ladders, failed=failing, repair=1, rungs=sizes.pop()
    )
    begun, signature = _start(work, engine, wanted, store, config.data, stop)
    finished(begun, console, config.store)
    judgments = list(store.judgments(begun.id))
    return [each for each in built_ladders(wanted, judgments, signature) if not each.problems]


def _print_reports(reports: Sequence[LadderReport], console: Console) -> None:
    from adjudge.experiments.ladders import summarize_ladders
    from adjudge.reports.ladders import ladder_lines, ladder_table

    console.print(ladder_table(reports))
    print_lines(console, ladder_lines(summarize_ladders(reports)))
