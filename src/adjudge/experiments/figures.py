"""What runs of a table's judges come to: its figures, with intervals over sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from adjudge.benchmarks.base import RatedPair, RatedResponse, Rows
from adjudge.experiments.bench import aligned_verdicts, judged_verdicts
from adjudge.experiments.tables import Job, Measure, TableColumn, TablePreset
from adjudge.schema import Judgment, Status
from adjudge.stats.correlation import correlation
from adjudge.stats.pairwise import pairwise_marks
from adjudge.stats.resampling import resampled_correlations
from adjudge.stats.sources import distance_ends, drawn_counts, percentile_ends

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
#: Resamples of the 95 % intervals.
RESAMPLES = 1000


class Judged(NamedTuple):
    """What a job came to."""

    run_id: str
    judgments: Sequence[Judgment]


class Figure(NamedTuple):
    """A number of ours, in the units of its table.

    Attributes
    ----------
    value
        NaN where there is none: no items, or all numbers are the same.
    low, high
        The ends of its 95 % interval over sources; NaN with fewer than two.
    parts
        What each judge has, where the value is of two.
    kept, total
        Items that count, and all.
    """

    value: float
    low: float
    high: float
    parts: tuple[float, ...]
    kept: int
    total: int


class TableCell(NamedTuple):
    """A cell of ours: a figure, or what stands there instead and why.

    `runs` has the judgments without a value in each of its runs, by status.
    """

    column: str
    figure: Figure | None = None
    runs: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    instead: str = ""
    why: str = ""


def table_cells(
    preset: TablePreset,
    model: str,
    data: Mapping[str, Rows],
    lacking: Mapping[str, str],
    outcomes: Mapping[Job, Judged | str],
    *,
    seed: int = 0,
    n_resamples: int = RESAMPLES,
) -> list[TableCell]:
    """Return a model's cells in the order of the columns.

    Parameters
    ----------
    preset, model
        The table, and whose row it is.
    data, lacking
        By benchmark: its rows; by column: why it has no data.
    outcomes
        What each job came to, or why it failed.
    seed
        Draws the resamples: the same ones for all cells of a benchmark.
    n_resamples
        How many.
    """
    cells = []
    for column in preset.columns:
        if column.instead:
            cells.append(TableCell(column.name, instead=column.instead, why=column.why))
            continue
        if column.name in lacking:
            cells.append(TableCell(column.name, instead="no data", why=lacking[column.name]))
            continue
        found = [outcomes[Job(model, column.benchmark, judge)] for judge in column.judges]
        if failed := [each for each in found if isinstance(each, str)]:
            cells.append(TableCell(column.name, instead="failed", why=failed[0]))
            continue
        judged = [each for each in found if isinstance(each, Judged)]
        ours = figure(
            preset.measure,
            column,
            data[column.benchmark],
            [each.judgments for each in judged],
            rng=np.random.default_rng(seed),
            n_resamples=n_resamples,
        )
        runs = {each.run_id: _failures(each.judgments) for each in judged}
        cells.append(TableCell(column.name, ours, runs))
    return cells


def figure(
    measure: Measure,
    column: TableColumn,
    rows: Rows,
    judgments: Sequence[Sequence[Judgment]],
    *,
    rng: np.random.Generator,
    n_resamples: int = RESAMPLES,
) -> Figure:
    """Return the figure of a column.

    Of two judges it is the second's correlation minus the first's, or how far apart their
    accuracies are; items that one has no score for are then left out of both. The interval is
    between percentiles of resamples of whole sources, which the judges share; that of a distance
    holds the distances from zero of the differences between the ends. There is none where all
    judgments of one of them failed.

    Parameters
    ----------
    measure
        ``pearson`` or ``accuracy``.
    column, rows
        The column and its benchmark's rows.
    judgments
        Of one judge, or of two.
    rng, n_resamples
        For the resamples.
    """
    if measure == "pearson":
        scored = cast("Sequence[RatedResponse]", rows)
        gold = np.array([row.gold.get(column.gold, np.nan) for row in scored])
        values = np.array([_scores(scored, each) for each in judgments])
    else:
        pairs = cast("Sequence[RatedPair]", rows)
        gold = np.array([row.gold for row in pairs])
        values = np.array([_marks(pairs, gold, each, ties=column.ties) for each in judgments])
    kept = ~np.isnan(gold + values.sum(axis=0))
    values, gold = np.where(kept, values, np.nan), np.where(kept, gold, np.nan)
    n_sources = len({row.source.id for row in rows})
    counts = drawn_counts(n_sources, rng=rng, n_resamples=n_resamples)
    if measure == "pearson":
        measured = [_pearson(_by_source(rows, each), _by_source(rows, gold), counts)
                    for each in values]  # fmt: skip
    else:
        measured = [_mean(100 * _by_source(rows, each), counts) for each in values]
    parts = tuple(value for value, _ in measured)
    drawn = measured[-1][1]
    value = parts[-1]
    if len(measured) == 2:
        value, drawn = value - parts[0], drawn - measured[0][1]
    low, high = percentile_ends(drawn) if n_sources > 1 else (np.nan, np.nan)
    if len(measured) == 2 and measure == "accuracy":
        low, high = distance_ends(low, high)
        value = abs(value)
        if not all(any(each.status is Status.OK for each in judged) for judged in judgments):
            value = low = high = np.nan  # two judges that fail do not agree
    both = parts if len(parts) > 1 else ()
    return Figure(value, low, high, both, int(kept.sum()), len(rows))


def _failures(judgments: Sequence[Judgment]) -> Counter[str]:
    return Counter(each.status.value for each in judgments if each.status is not Status.OK)


def _scores(rows: Sequence[RatedResponse], judgments: Sequence[Judgment]) -> Floats:
    """Return the score of each row, NaN where there is none."""
    known = {each.item_id: each.value for each in judgments}
    values = [known.get(row.id) for row in rows]
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _marks(
    rows: Sequence[RatedPair], gold: Floats, judgments: Sequence[Judgment], *, ties: bool
) -> Floats:
    """Return how right a judge is on each pair, NaN where the pair is left out."""
    first, _ = aligned_verdicts(judged_verdicts(judgments), rows)
    return pairwise_marks(first, gold, convention="prometheus", ties=ties)


def _by_source(rows: Rows, values: Floats) -> Floats:
    """Return values as a matrix of places x sources, NaN beyond the items of a source."""
    sources = {name: i for i, name in enumerate(dict.fromkeys(row.source.id for row in rows))}
    places: Counter[str] = Counter()
    cells = []
    for row in rows:
        cells.append((places[row.source.id], sources[row.source.id]))
        places[row.source.id] += 1
    matrix = np.full((max(places.values()), len(sources)), np.nan)
    matrix[tuple(np.transpose(cells))] = values
    return matrix


def _pearson(scores: Floats, gold: Floats, counts: Counts) -> tuple[float, Floats]:
    """Return Pearson's correlation over all cells, and that of resamples of the columns."""
    found = correlation(scores, gold, coefficient="pearson", level="pooled")
    once = np.ones((len(counts), len(scores)), dtype=np.int64)
    drawn = resampled_correlations(
        scores, gold, once, counts, coefficient="pearson", level="pooled"
    )
    return found.value, drawn


def _mean(marks: Floats, counts: Counts) -> tuple[float, Floats]:
    """Return the mean of all cells that are there, and that of resamples of the columns."""
    sums, numbers = np.nansum(marks, axis=0), (~np.isnan(marks)).sum(axis=0)
    with np.errstate(invalid="ignore"):  # none is there
        return float(sums.sum() / numbers.sum()), (counts @ sums) / (counts @ numbers)
