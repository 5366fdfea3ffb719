"""`adjudge score` and `adjudge plan`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from adjudge.cli.options import configured
from adjudge.cli.prepare import load_criteria, load_engine, load_method
from adjudge.cli.progress import finished, interruptible
from adjudge.cli.report import print_judgments, print_lines
from adjudge.errors import ConfigError
from adjudge.runs.config import RunConfig

if TYPE_CHECKING:
    from adjudge.api import BoundJudge
    from adjudge.formats.responses import ResponseRow
    from adjudge.schema import Judgment


def register(app: typer.Typer) -> None:
    """Add the commands."""
    argument = ("file", "Responses: .jsonl, .csv or .parquet")
    doc = "Score responses, and write one row of scores for each."
    app.command("score")(configured(score, RunConfig, argument=argument, doc=doc))
    doc = "Say what scoring would cost; ask the model nothing."
    app.command("plan")(configured(plan, RunConfig, argument=argument, doc=doc))


def score(config: RunConfig, file: str) -> None:
    """Score a file of responses."""
    from adjudge.experiments.thresholds import rate_threshold
    from adjudge.formats.rows import check_writable, write_rows
    from adjudge.formats.scores import score_rows
    from adjudge.reports.tables import cost_lines, cut_lines
    from adjudge.reports.thresholds import threshold_report
    from adjudge.runs.store import Store

    for path in _outputs(config):
        check_writable(path, never=[file, config.store])
    gold = _gold(config, file)
    console, started = Console(), time.monotonic()
    with (
        interruptible() as stop,
        Store(config.store) as store,
        _prepared(config, file) as (judge, rows),
    ):
        run = judge.run(rows, store, data=file, stopped=stop.is_set)
        counters = finished(run, console, config.store)
        judgments = list(store.judgments(run.id))
        signature, n_cut = str(judge.signature_for(rows)), judge.n_cut(rows)
    after = cut_lines(n_cut, config.truncate_source)
    after += cost_lines(counters, time.monotonic() - started, judge.engine)
    if config.out:
        write_rows(config.out, score_rows(judgments))
        after.append(f"scores: {config.out}")
    if config.min_score is not None:
        after += _split(config, judgments, config.min_score)
    print_judgments(console, judgments, [*after, signature])
    if config.min_score is not None and config.min_gold is not None:
        found = rate_threshold(
            judgments, gold, min_score=config.min_score, min_gold=config.min_gold
        )
        print(threshold_report(found))


def _outputs(config: RunConfig) -> list[str]:
    """Return the files that scoring writes: all scores, and if asked the kept and the dropped."""
    if not config.out:
        return []
    whole = Path(config.out)
    split = [str(whole.with_suffix(f".{part}{whole.suffix}")) for part in ("kept", "dropped")]
    return [config.out, *(split if config.min_score is not None else [])]


def _split(config: RunConfig, judgments: Sequence[Judgment], min_score: float) -> list[str]:
    """Write the kept and the dropped scores, and return what to say of them."""
    from adjudge.experiments.thresholds import is_kept
    from adjudge.formats.rows import write_rows
    from adjudge.formats.scores import SCORE_COLUMNS, score_rows

    kept = [each for each in judgments if is_kept(each, min_score)]
    dropped = [each for each in judgments if not is_kept(each, min_score)]
    lines = [f"score {min_score:g} or more: {len(kept)} kept, {len(dropped)} dropped"]
    for path, part in zip(_outputs(config)[1:], (kept, dropped), strict=False):
        write_rows(path, score_rows(part), columns=SCORE_COLUMNS)
        lines.append(f"  {len(part)} in {path}")
    return lines


def _gold(config: RunConfig, file: str) -> list[float]:
    """Return the file's gold numbers where they are wanted."""
    from adjudge.formats.scores import read_numbers

    if config.min_gold is None:
        return []
    if config.min_score is None:
        raise ConfigError("--min-gold says how good what --min-score keeps is: give that too")
    return read_numbers(file, "gold", limit=config.limit)


def plan(config: RunConfig, file: str) -> None:
    """Print what scoring a file of responses would cost."""
    from adjudge.reports.tables import plan_lines
    from adjudge.runs.store import Store

    store_path = config.store if Path(config.store).exists() else ":memory:"
    with Store(store_path) as store, _prepared(config, file) as (judge, rows):
        lines = [*plan_lines(judge.plan(rows, store)), str(judge.signature_for(rows))]
    print_lines(Console(), lines)


@contextmanager
def _prepared(config: RunConfig, file: str) -> Iterator[tuple[BoundJudge, list[ResponseRow]]]:
    """Give the judge and the rows; all that can be wrong is found before a model is loaded."""
    from adjudge.api import BoundJudge
    from adjudge.formats.responses import read_responses

    rows = read_responses(file, limit=config.limit)
    pairs = any(len(row.responses) == 2 for row in rows)
    method = load_method(config, config.task, pairs=pairs)
    if method.takes == "list" and config.min_score is not None:
        raise ConfigError("--min-score takes scores, and lists get ranks: drop it")
    own = all(row.criterion for row in rows)
    if not config.criterion and not own and (with_rubric := [r for r in rows if r.criterion]):
        lacking = next(row.id for row in rows if row.criterion is None)
        raise ConfigError(
            f"{len(with_rubric)} rows have a rubric and the row {lacking!r} has none: give it one, "
            "or name a criterion for such rows with --criterion"
        )
    if own and config.criterion:
        raise ConfigError("--criterion does nothing: every row has a rubric of its own; drop one")
    criteria = [] if own else load_criteria(config.criterion, config.task)
    with closing(load_engine(config)) as engine:
        yield (
            BoundJudge(method, engine, criteria, truncate_source=config.truncate_source),
            rows,
        )
