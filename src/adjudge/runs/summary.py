"""What a table prints under a run: means and counts, failures among them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from statistics import fmean
from typing import Any, NamedTuple

from adjudge.schema import Judgment, Status


class SystemMean(NamedTuple):
    """Mean value of a system by one criterion, over its judgments with a value."""

    system: str
    criterion: str
    mean: float | None
    n_scored: int
    n: int


class NoScore(NamedTuple):
    """Items that have no score for the same reason."""

    status: str
    reason: str
    item_ids: tuple[str, ...]


class Summary(NamedTuple):
    """Counts and means over the judgments of a run.

    Attributes
    ----------
    systems
        Mean per system and criterion, in order of appearance.
    statuses
        Judgments per status.
    mean_coverage
        Over the judgments that have one, in [0, 1].
    no_scores
        Failures by reason, in order of appearance.
    n_unparsed
        Sampled answers that were left out of the scores because they could not be read.
    n_inexact
        Scores that rest on bounds of label log-probs.
    n_resampled
        Texts that were drawn again because their verdict could not be read.
    n_unwritten
        Feedbacks without a readable verdict whose score is from log-probs all the same.
    n_lost_runs
        Runs without a verdict behind values that rest on the others.
    n_unjudged
        Pairs of lists without a verdict; the ranks rest on the others.
    n_disagreeing
        Pairs whose verdict changes with the order.
    n_thin
        Scores with a coverage below one half: the model would rather say something else.
    n_cut
        Scores of texts of which the model took only the beginning.
    """

    systems: tuple[SystemMean, ...]
    statuses: dict[str, int]
    mean_coverage: float | None
    no_scores: tuple[NoScore, ...] = ()
    n_unparsed: int = 0
    n_inexact: int = 0
    n_thin: int = 0
    n_cut: int = 0
    n_resampled: int = 0
    n_unwritten: int = 0
    n_lost_runs: int = 0
    n_unjudged: int = 0
    n_disagreeing: int = 0


def summarize(judgments: Iterable[Judgment]) -> Summary:
    """Return means per system and criterion, counts, and why items have no score."""
    values: dict[tuple[str, str], list[float]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    statuses: Counter[str] = Counter()
    coverages: list[float] = []
    failed: dict[tuple[str, str], list[str]] = {}
    notes: Counter[str] = Counter()
    for judgment in judgments:
        notes.update(_notes(judgment))
        key = (judgment.system, judgment.criterion)
        scored = values.setdefault(key, []) if not judgment.ranks else []
        counts[key] += 1
        statuses[judgment.status.value] += 1
        if judgment.status is not Status.OK:
            why = (judgment.status.value, reason(judgment))
            failed.setdefault(why, []).append(judgment.item_id)
        elif judgment.value is not None:
            scored.append(judgment.value)
        if judgment.coverage is not None:
            coverages.append(judgment.coverage)
    return Summary(
        systems=tuple(
            SystemMean(*key, fmean(scored) if scored else None, len(scored), counts[key])
            for key, scored in values.items()
        ),
        statuses=dict(statuses),
        mean_coverage=fmean(coverages) if coverages else None,
        no_scores=tuple(NoScore(*why, tuple(ids)) for why, ids in failed.items()),
        **notes,
    )


def _notes(judgment: Judgment) -> dict[str, int]:
    """Return what a judgment adds to the counts of a summary."""
    evidence = judgment.evidence
    notes = {"n_resampled": evidence.get("resampled", 0)}
    if judgment.status is not Status.OK:
        return notes
    by_logprobs = evidence.get("score_mode") == "logprobs"
    written = evidence.get("written_statuses", ()) if by_logprobs else ()
    return notes | {
        "n_unparsed": evidence.get("unparsed", 0),
        "n_inexact": int(evidence.get("exact") is False),
        "n_thin": int(judgment.coverage is not None and judgment.coverage < 0.5),
        "n_unwritten": sum(status != Status.OK for status in written),
        "n_lost_runs": sum(status != Status.OK for status in evidence.get("statuses", ())),
        "n_unjudged": evidence.get("unjudged", 0),
        "n_disagreeing": int(evidence.get("consistent") is False),
        "n_cut": int(evidence.get("cut_tokens", 0) > 0),
    }


def reason(judgment: Judgment) -> str:
    """Return in words why a judgment has no value."""
    evidence = judgment.evidence
    if problems := evidence.get("problems"):
        return "; ".join(f"rung {rung} is {why}" for rung, why in problems.items())
    if error := evidence.get("error"):
        return str(error)
    if top := evidence.get("top_tokens"):
        likely: Any = next(filter(None, top), ())
        wanted = ", ".join(f"{token!r} ({math.exp(value):.0%})" for token, value in likely)
        return f"the model would rather say {wanted or 'something else'}"
    if problems := evidence.get("problems_of_verdicts"):
        return str(problems[-1])
    if texts := evidence.get("texts"):
        return f"the model said {texts[0][:80]!r}"
    return "there is nothing to judge"
