"""`adjudge benchmarks`: what is known of them, and fetching their data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

if TYPE_CHECKING:
    from rich.table import Table

    from adjudge.benchmarks.base import Benchmark
    from adjudge.experiments.describe import BenchmarkFacts


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="List and show benchmarks, fetch their data.")
    group.command("list")(list_benchmarks)
    group.command("show")(show)
    group.command("pull")(pull)
    group.command("export")(export)
    app.add_typer(group, name="benchmarks")


def list_benchmarks() -> None:
    """List the benchmarks, and where their data is."""
    from adjudge.benchmarks.base import named_benchmarks
    from adjudge.benchmarks.files import whereabouts
    from adjudge.reports.tables import plain, table

    made = table("benchmark", "kind", "task", "data", "about", whole=("benchmark", "kind", "data"))
    for name, each in named_benchmarks().items():
        made.add_row(*map(plain, (name, each.kind, each.task, whereabouts(each), each.about)))
    Console().print(made)


def show(name: Annotated[str, typer.Argument(help="A benchmark's name")]) -> None:
    """Show what is declared of a benchmark, and if its data is here, what it holds."""
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import how_to_fetch, read_benchmark, whereabouts
    from adjudge.experiments.describe import describe

    benchmark = find_benchmark(name)
    _print_declared(benchmark)
    where = whereabouts(benchmark)
    print(f"{'data':<10}{where}", flush=True)
    if where == "not here":
        needed = [file for file in benchmark.files if not file.optional]
        for line in dict.fromkeys(how_to_fetch(benchmark, file) for file in needed):
            print(f"{'':<10}{line}")
        return
    _print_facts(benchmark, describe(benchmark, read_benchmark(benchmark)))


def pull(
    name: Annotated[str, typer.Argument(help="A benchmark's name")],
    file: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file that you fetched yourself; repeat it for several, in the order that "
            "`adjudge benchmarks show` lists them"
        ),
    ] = None,
) -> None:
    """Fetch the files of a benchmark into the cache; nothing is done for those that are there."""
    from adjudge.benchmarks import files
    from adjudge.benchmarks.base import find_benchmark

    benchmark = find_benchmark(name)
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(name, total=None)
        paths = files.pull(
            benchmark,
            by_hand=file or (),
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    for path in paths:
        print(f"{name}: {path}")


def export(
    name: Annotated[str, typer.Argument(help="A benchmark's name")],
    out: Annotated[str, typer.Option(help="The file: .jsonl, .csv or .parquet")],
    gold: Annotated[bool, typer.Option(help="Also write the gold numbers or preferences")] = False,
) -> None:
    """Write a benchmark's items with their ids as rows: to judge them with any other tool."""
    from adjudge.benchmarks.base import find_benchmark
    from adjudge.benchmarks.files import read_benchmark
    from adjudge.experiments.describe import item_rows
    from adjudge.formats.rows import check_writable, write_rows

    check_writable(out)
    benchmark = find_benchmark(name)
    n = write_rows(out, item_rows(read_benchmark(benchmark), gold=gold))
    print(f"{out}: {n} items of {name}")


def _print_declared(benchmark: Benchmark) -> None:
    """Print the declaration, one fact a line, so that URLs and hashes can be copied whole."""
    if benchmark.checked:
        loader = "checked against the published files"
    else:
        loader = "built from the documented format; not yet tried on the published files"
    facts = {
        "about": benchmark.about,
        "kind": f"{benchmark.kind}, task {benchmark.task}",
        "criteria": ", ".join(benchmark.criteria) or "each item has its own, or there is none",
        "scale": benchmark.scale,
        "gold": benchmark.gold,
        "level": benchmark.level,
        "source": f"https://github.com/{benchmark.source}",
        "commit": benchmark.commit,
        "licence": benchmark.licence,
        "citation": benchmark.citation,
        "loader": f"{benchmark.format}, {loader}",
        "note": benchmark.note,
    }
    print(f"{benchmark.name}: {benchmark.title}")
    for key, value in facts.items():
        if value:
            print(f"{key:<10}{value}")
    for file in benchmark.files:
        said = ", ".join([*filter(None, [file.group]), *["optional"] * file.optional])
        print(f"{'file':<10}{file.path}{f' ({said})' if said else ''}")
        print(f"{'':<10}sha256 {file.sha256 or 'not declared'}\n{'':<10}{benchmark.url(file)}")
        if file.copy:
            print(f"{'':<10}copy below ADJUDGE_DATA: {file.copy}, sha256 {file.copy_sha256}")


def _print_facts(benchmark: Benchmark, facts: BenchmarkFacts) -> None:
    """Print what the data holds."""
    what = "pairs" if benchmark.kind == "pairs" else "responses"
    print(f"{'':<10}{facts.n_items:,} {what}, {facts.n_sources:,} sources, ", end="")
    print(f"{facts.n_systems:,} systems" if facts.n_systems else "systems not named")
    console = Console(width=max(Console().width, 100))
    if facts.gold:
        console.print(_gold_table(facts))
    if facts.preferences:
        console.print(_preference_table(facts))
    if facts.gold:
        print(
            "sources: those with gold of two responses or more; constant: those of them whose gold "
            "is all equal, so that nothing correlates with it"
        )
    if any(each.raters for each in facts.gold):
        print(
            "raters: Spearman correlation over all responses, of each rater with the mean of the "
            "others, and of two raters"
        )


def _gold_table(facts: BenchmarkFacts) -> Table:
    from adjudge.experiments.describe import ALL
    from adjudge.reports.tables import count, plain, table

    numbers = ("n", "no gold", "mean", "sources", "constant", "rater/others", "rater/rater")
    several = any(each.group for each in facts.gold)
    made = table(*["group"] * several, "criterion", *numbers, numbers=numbers)
    for each in facts.gold:
        raters = each.raters
        made.add_row(
            *[plain(each.group or ALL)] * several,
            plain(each.criterion or "(each item's own)"),
            count(each.n),
            count(each.n_without_gold),
            _defined(each.mean, 2),
            count(each.n_sources),
            count(each.n_constant),
            _defined(raters.leave_one_out if raters else math.nan, 3),
            _defined(raters.pairwise if raters else math.nan, 3),
        )
    return made


def _defined(value: float, digits: int) -> str:
    """Return a number for print; an undefined one is a dash."""
    from adjudge.reports.tables import number

    return number(None if math.isnan(value) else value, digits)


def _preference_table(facts: BenchmarkFacts) -> Table:
    from adjudge.experiments.describe import ALL
    from adjudge.reports.tables import count, plain, table

    numbers = ("n", "first better", "second better", "ties", "no gold")
    made = table("group", *numbers, numbers=numbers)
    for each in facts.preferences:
        made.add_row(plain(each.group or ALL), *map(count, each[1:]))
    return made
