"""Tables for the terminal. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from time import localtime, strftime

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from adjudge.engines.base import Engine
from adjudge.exchange import Capability
from adjudge.runs.plan import Plan
from adjudge.runs.runner import Counters
from adjudge.runs.store import Run
from adjudge.runs.summary import Summary
from adjudge.schema import Judgment, Status

KINDS = {
    Capability.GENERATE: "generations",
    Capability.SCORE_LABELS: "label scorings",
    Capability.SCORE_TEXT: "text scorings",
    Capability.EMBED: "embeddings",
}
#: Rows of a table of judgments; the rest is in the file.
MAX_ROWS = 40


def table(*columns: str, numbers: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    """Return an empty table; `numbers` are set flush right, they and `whole` never wrapped."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        flush = "right" if column in numbers else "left"
        made.add_column(column, justify=flush, no_wrap=column in (*numbers, *whole))  # type: ignore[arg-type]
    return made


def number(value: float | None, digits: int = 2) -> str:
    """Return a number for print; a missing one is a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def plain(text: str) -> str:
    """Return text from outside as it may be printed: no markup, no control characters."""
    return escape(printable(text))


def printable(text: str) -> str:
    """Return text without control characters, which could command a terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def count(value: int | None) -> str:
    """Return a count with thousands set apart."""
    return "?" if value is None else f"{value:,}"


def judgments_table(judgments: Iterable[Judgment]) -> Table:
    """Return one row per judgment, for at most `MAX_ROWS` of them."""
    made = table(
        "id", "criterion", "score", "raw", "coverage", "status",
        numbers=("score", "raw", "coverage"),
    )  # fmt: skip
    for each in islice(judgments, MAX_ROWS):
        style = None if each.status is Status.OK else "yellow"
        made.add_row(
            plain(each.item_id),
            plain(each.criterion),
            number(each.value)
            if not each.ranks
            else f"ranks {' '.join(map('{:g}'.format, each.ranks))}",
            number(each.raw),
            number(each.coverage, 3),
            each.status.value,
            style=style,
        )
    return made


def systems_table(summary: Summary) -> Table:
    """Return the mean of every system."""
    made = table("system", "criterion", "mean", "scored", numbers=("mean", "scored"))
    for each in summary.systems:
        made.add_row(
            plain(each.system or "(none)"),
            plain(each.criterion),
            number(each.mean),
            f"{each.n_scored}/{each.n}",
        )
    return made


def summary_lines(summary: Summary, most: int = 5) -> list[str]:
    """Return why items have no score, counts per status and the mean coverage."""
    lines = [
        f"no score for {len(ids)} ({', '.join(ids[:2])}{', ...' * (len(ids) > 2)}): {status}: {why}"
        for status, why, ids in summary.no_scores[:most]
    ]
    if len(summary.no_scores) > most:
        lines.append(f"... and {len(summary.no_scores) - most} more reasons")
    if summary.n_unparsed:
        lines.append(f"{count(summary.n_unparsed)} sampled answers could not be read")
    if summary.n_resampled:
        lines.append(f"{count(summary.n_resampled)} texts were drawn again for a readable verdict")
    if summary.n_unwritten:
        lines.append(
            f"{count(summary.n_unwritten)} feedbacks held no readable verdict; their scores are "
            "from log-probs behind them"
        )
    if summary.n_lost_runs:
        lines.append(f"{count(summary.n_lost_runs)} runs behind scores had no verdict")
    if summary.n_unjudged:
        lines.append(f"{count(summary.n_unjudged)} pairs had no verdict; ranks rest on the others")
    if summary.n_disagreeing:
        lines.append(
            f"{count(summary.n_disagreeing)} pairs were judged otherwise the other way round"
        )
    if summary.n_inexact:
        lines.append(f"{count(summary.n_inexact)} scores rest on bounds of label log-probs")
    if summary.n_cut:
        lines.append(
            f"{count(summary.n_cut)} scores are of texts too long for the model, which were cut"
        )
    if summary.n_thin:
        lines.append(
            f"low coverage: {count(summary.n_thin)} scores rest on less than half of the "
            "probability; trust them little"
        )
    statuses = ", ".join(f"{name} {n}" for name, n in sorted(summary.statuses.items()))
    coverage = number(summary.mean_coverage, 3)
    return [*lines, f"status: {statuses or 'none'}; mean coverage: {coverage}"]


def cost_lines(counters: Counters, seconds: float, engine: Engine) -> list[str]:
    """Return what a run cost, and how its engine fared."""
    calls = f"{count(counters.calls)} model calls, {count(counters.reused)} replies reused"
    share = _share(counters.saved_tokens, counters.prompt_tokens)
    tokens = (
        f"{count(counters.evaluated_tokens)} prompt tokens evaluated, "
        f"{count(counters.saved_tokens)} saved{share}, {count(counters.generated_tokens)} written"
    )
    return [f"{calls}; {seconds:.1f} s", f"tokens: {tokens}", *engine.remarks()]


def _share(part: int, whole: int, what: str = "") -> str:
    return f" ({part / whole:.0%}{what})" if part and whole else ""


def plan_lines(plan: Plan) -> list[str]:
    """Return what a run would cost."""
    inexact = plan.estimated or plan.sampled or plan.adaptive or plan.by_bytes
    about = "~" if inexact else ""
    calls = "~" if plan.adaptive else ""
    lines = [
        f"{count(plan.n_items)} items; {count(plan.n_stored)} replies are in the store already",
        f"{calls}{count(plan.n_calls)} model calls to make: "
        + ", ".join(f"{calls}{count(n)} {KINDS[kind]}" for kind, n in _shown(plan).items()),
        f"prompt tokens: {about}{count(plan.total_tokens)} in all, "
        f"{about}{count(plan.unique_tokens)} unique"
        f"{_share(plan.total_tokens - plan.unique_tokens, plan.total_tokens, ' shared')}; "
        f"up to {count(plan.written_tokens)} written",
    ]
    if plan.adaptive:
        lines.append("~ depends on what comes out: what is asked next follows from the replies")
    if plan.estimated:
        lines.append("~ rests on texts that are not written yet; they count in full length")
    if plan.by_bytes:
        lines.append("~ takes four bytes for a token: this engine does not tell its tokens")
    if plan.sampled:
        lines.append("~ rests on a sample of the prompts: there are too many to count them all")
    return lines


def _shown(plan: Plan) -> dict[Capability, int]:
    """Return the calls of a plan by kind: the two usual ones, and others where there are some."""
    usual = (Capability.GENERATE, Capability.SCORE_LABELS)
    return {
        kind: plan.by_kind.get(kind, 0)
        for kind in KINDS
        if plan.by_kind.get(kind, 0) or (kind in usual and set(plan.by_kind) <= set(usual))
    }


def cut_lines(n_cut: int, tokens: int) -> list[str]:
    """Return what to say of sources that were cut."""
    return [f"{count(n_cut)} sources were cut to {count(tokens)} tokens"] if n_cut else []


def runs_table(runs: Iterable[Run]) -> Table:
    """Return one row per run."""
    made = table(
        "run", "started", "data", "judged", "judge", "criterion", "model", "prompt", whole=("run",)
    )
    for run in runs:
        fields = run.signature.fields
        made.add_row(
            run.id,
            strftime("%Y-%m-%d %H:%M", localtime(run.created)),
            plain(run.data),
            f"{run.n_judged}/{run.n_items}",
            *(plain(fields.get(name, "?")) for name in ("judge", "criterion", "model", "prompt")),
        )
    return made
