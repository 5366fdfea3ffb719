"""Scores against gold: two files of numbers, joined and correlated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from adjudge.errors import DataError
from adjudge.formats.scores import ScoreRow
from adjudge.stats.correlation import Coefficient, Constant, Correlation, Level, correlation
from adjudge.stats.inference import Interval, bootstrap_interval

COEFFICIENTS: tuple[Coefficient, ...] = ("pearson", "spearman", "kendall_tau_b")


class CriterionCorrelation(NamedTuple):
    """How scores agree with gold by one criterion.

    Attributes
    ----------
    criterion
        Its name; empty where the files name none.
    n
        Items with a score and gold.
    n_without_score, n_without_gold
        Items that are in both files but lack the one or the other number.
    n_only_scores, n_only_gold
        Rows that found no partner in the other file.
    correlations
        Value, kept and total groups of each of `COEFFICIENTS`.
    intervals
        Their 95 % bootstrap intervals over sources and systems.
    note
        Why a correlation is not there; empty where all are.
    """

    criterion: str
    n: int
    n_without_score: int
    n_without_gold: int
    n_only_scores: int
    n_only_gold: int
    correlations: tuple[Correlation, ...]
    intervals: tuple[Interval, ...]
    note: str


def correlate(
    scores: Sequence[ScoreRow],
    gold: Sequence[ScoreRow],
    *,
    rng: np.random.Generator,
    level: Level = "sample",
    constant: Constant = "skip",
    n_resamples: int = 1000,
) -> list[CriterionCorrelation]:
    """Return the correlation of scores with gold for every criterion of the scores.

    Rows are joined on id and criterion; gold without a criterion counts for all. Source and
    system come from the scores, or else from gold.

    Parameters
    ----------
    scores, gold
        Rows of numbers, NaN = none.
    rng
        Draws the resamples.
    level, constant
        See `adjudge.stats.correlation.correlation`.
    n_resamples
        Resamples of the intervals.

    Raises
    ------
    DataError
        If no row joins, or rows do not say their source and system.
    """
    named = {row.criterion for row in gold} - {""}
    if any(not row.criterion for row in scores) and len(named) > 1:
        raise DataError(
            f"the scores name no criterion, gold has {', '.join(sorted(named))}: "
            "add a column criterion to the scores, or give gold of one criterion"
        )
    only = {""} if len(named) != 1 else {"", *named}
    criteria = list(dict.fromkeys(row.criterion for row in scores))
    unscored = [] if "" in criteria else sorted(named.difference(criteria))
    results = []
    for criterion in [*criteria, *unscored]:
        ours = {row.id: row for row in scores if row.criterion == criterion}
        wanted = {criterion, ""} if criterion else only
        theirs = {row.id: row for row in gold if row.criterion in wanted}
        joined = _joined([(ours[key], theirs[key]) for key in ours if key in theirs])
        prediction, reference = _matrices(joined)
        options = {"level": level, "constant": constant}
        results.append(
            CriterionCorrelation(
                criterion=criterion,
                n=sum(bool(np.isfinite(a) and np.isfinite(b)) for _, _, a, b in joined),
                n_without_score=sum(bool(np.isnan(a)) for _, _, a, _ in joined),
                n_without_gold=sum(bool(np.isnan(b)) for _, _, _, b in joined),
                n_only_scores=len(ours) - len(joined),
                n_only_gold=len(theirs) - len(joined),
                correlations=tuple(
                    correlation(prediction, reference, coefficient=each, **options)  # type: ignore[arg-type]
                    for each in COEFFICIENTS
                ),
                intervals=tuple(
                    bootstrap_interval(
                        prediction,
                        reference,
                        rng=rng,
                        n_resamples=n_resamples,
                        coefficient=each,
                        **options,  # type: ignore[arg-type]
                    )
                    for each in COEFFICIENTS
                ),
                note=_note(prediction, reference, level),
            )
        )
    if all(each.note == "no row joins" for each in results):
        raise DataError(
            f"no row joins: {len(scores)} rows of scores, such as {scores[0].id!r} by "
            f"{scores[0].criterion!r}, and {len(gold)} of gold, such as {gold[0].id!r} by "
            f"{gold[0].criterion!r}; ids must be the same, criteria too where both have them"
        )
    return results


def _joined(pairs: Sequence[tuple[ScoreRow, ScoreRow]]) -> list[tuple[str, str, float, float]]:
    """Return source, system, score and gold of the items that are in both files.

    Sources are those of the one file that names them all, systems likewise: names of two files
    must not be mixed.
    """
    places = []
    for field in ("source_id", "system"):
        for which in (0, 1):
            names = [getattr(pair[which], field) for pair in pairs]
            if all(names):
                break
        else:
            lacking = next(ours.id for ours, _ in pairs if not getattr(ours, field))
            raise DataError(
                f"{lacking!r} has no {field}, and neither file has it for all items: correlations "
                "need to know which responses answer the same source and what wrote them"
            )
        places.append(names)
    return [
        (source, system, ours.value, theirs.value)
        for source, system, (ours, theirs) in zip(*places, pairs, strict=True)
    ]


def _matrices(
    joined: Sequence[tuple[str, str, float, float]],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return scores and gold as matrices of systems x sources, NaN where there is nothing."""
    sources = {name: i for i, name in enumerate(dict.fromkeys(row[0] for row in joined))}
    systems = {name: i for i, name in enumerate(dict.fromkeys(row[1] for row in joined))}
    prediction = np.full((len(systems), len(sources)), np.nan)
    reference = prediction.copy()
    for source, system, score, gold in joined:
        place = systems[system], sources[source]
        if not (np.isnan(prediction[place]) and np.isnan(reference[place])):
            raise DataError(f"the system {system!r} has two responses to the source {source!r}")
        prediction[place], reference[place] = score, gold
    return prediction, reference


def _note(
    prediction: npt.NDArray[np.float64], reference: npt.NDArray[np.float64], level: Level
) -> str:
    """Return why a correlation cannot be there, in words."""
    n_systems, n_sources = prediction.shape
    if not prediction.size:
        return "no row joins"
    if level in ("sample", "system") and n_systems < 2:
        return f"one system only: the level {level} needs two; try pooled or by_source"
    if level == "by_source" and n_sources < 2:
        return "one source only: the level by_source needs two; try sample"
    both = np.isfinite(reference) & np.isfinite(prediction)
    if not both.any():
        return "no item has both numbers"
    for what, values in (("gold numbers", reference[both]), ("scores", prediction[both])):
        if np.ptp(values) == 0:
            return f"all {what} are the same"
    return ""
