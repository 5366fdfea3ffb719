"""Judges against each other on the same benchmark: differences and how likely by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from adjudge.benchmarks.base import RatedPair
from adjudge.errors import ConfigError, DataError
from adjudge.experiments.bench import aligned_verdicts, conventions, layout
from adjudge.formats.scores import ScoreRow
from adjudge.formats.verdicts import VerdictRow
from adjudge.stats.correlation import Coefficient, Constant, Level, correlation, pearson_r
from adjudge.stats.inference import Permute, holm, paired_mean_test, permutation_test, williams_test
from adjudge.stats.pairwise import Convention, pairwise_marks


class Difference(NamedTuple):
    """Two judges by one criterion, over the items that both judged.

    Attributes
    ----------
    criterion
        By what; empty for pairs.
    first, second
        The judges' names.
    first_value, second_value
        Their correlations with gold, or their accuracies.
    n
        Items that both judged and gold has.
    p_value, p_holm
        Of the paired permutation test; corrected (Holm) over the pairs of judges of the
        criterion.
    p_williams
        Of Williams' test, which is of Pearson's correlation over all items: NaN for any other.
    """

    criterion: str
    first: str
    second: str
    first_value: float
    second_value: float
    n: int
    p_value: float
    p_holm: float
    p_williams: float

    @property
    def difference(self) -> float:
        """The first judge's value minus the second's."""
        return self.first_value - self.second_value


def compare_scores(
    judges: Mapping[str, Sequence[ScoreRow]],
    gold: Sequence[ScoreRow],
    *,
    rng: np.random.Generator,
    coefficient: Coefficient = "spearman",
    level: Level = "sample",
    constant: Constant = "skip",
    permute: Permute = "both",
    n_resamples: int = 10_000,
) -> list[Difference]:
    """Return every pair of judges by every criterion of gold that both have scores for.

    Parameters
    ----------
    judges
        Name -> scores, joined with gold on id and criterion.
    gold
        A benchmark's gold.
    rng, permute, n_resamples
        For the permutation tests; see `adjudge.stats.inference.permutation_test`.
    coefficient, level, constant
        See `adjudge.stats.correlation.correlation`.

    Raises
    ------
    ConfigError
        If there are fewer than two judges.
    DataError
        If a judge has no score for an item and criterion of gold, or no two have the same.
    """
    _check_judges(judges)
    names = list(dict.fromkeys(row.criterion for row in gold))
    _check_joins(judges, gold, names)
    found: list[Difference] = []
    for criterion in names:
        theirs = [row for row in gold if row.criterion == criterion]
        (truth,) = layout(theirs, [criterion])
        matrices = {}
        for name, scores in judges.items():
            known = {row.id: row.value for row in scores if row.criterion in (criterion, "")}
            if any(row.id in known for row in theirs):
                given = [row._replace(value=known.get(row.id, np.nan)) for row in theirs]
                (matrices[name],) = layout(given, [criterion])
        rows = []
        for one, other in combinations(matrices, 2):
            a, b = matrices[one], matrices[other]
            common = np.isfinite(a) & np.isfinite(b) & np.isfinite(truth)
            a, b, kept = (np.where(common, each, np.nan) for each in (a, b, truth))
            options = {"coefficient": coefficient, "level": level, "constant": constant}
            test = permutation_test(
                a,
                b,
                kept,
                rng=rng,
                n_resamples=n_resamples,
                permute=permute,
                **options,  # type: ignore[arg-type]
            )
            pooled = (level, coefficient) == ("pooled", "pearson")
            values = [correlation(each, kept, **options).value for each in (a, b)]  # type: ignore[arg-type]
            n = int(common.sum())
            rows.append(
                Difference(
                    criterion, one, other, values[0], values[1], n, test.p_value, np.nan,
                    _williams(a[common], b[common], truth[common]) if pooled else np.nan,
                )
            )  # fmt: skip
        found += _corrected(rows)
    if not found:
        raise DataError(
            "no two judges have scores by the same criterion of the benchmark: "
            f"gold has {', '.join(names)}"
        )
    return found


def compare_verdicts(
    judges: Mapping[str, Sequence[VerdictRow]],
    rows: Sequence[RatedPair],
    *,
    rng: np.random.Generator,
    convention: Convention = "plain",
    n_resamples: int = 10_000,
) -> list[Difference]:
    """Return every pair of judges of pairs, by accuracy under one convention, ties counted.

    Parameters
    ----------
    judges
        Name -> verdicts, joined with the pairs on id.
    rows
        Pairs with gold.
    rng, n_resamples
        For the permutation tests of pairs.
    convention
        See `adjudge.stats.pairwise.pairwise_accuracy`.

    Raises
    ------
    ConfigError
        If there are fewer than two judges, or a judge's verdicts do not allow the convention.
    DataError
        If no verdict of a judge joins a pair.
    """
    _check_judges(judges)
    gold = np.array([row.gold for row in rows])
    marks = {}
    for name, verdicts in judges.items():
        said = aligned_verdicts(verdicts, rows)
        if convention not in conventions(said):
            raise ConfigError(
                f"the convention {convention!r} takes verdicts in both orders; {name} has no "
                "verdict_swapped"
            )
        given = {each.id for each in verdicts}
        there = np.array([row.id in given for row in rows])
        right = pairwise_marks(said[0], gold, convention=convention, swapped=said[1])
        marks[name] = np.where(there, right, np.nan)
    found = []
    for one, other in combinations(marks, 2):
        common = ~np.isnan(marks[one] + marks[other])
        a, b = marks[one][common], marks[other][common]
        test = paired_mean_test(a, b, rng=rng, n_resamples=n_resamples)
        means = tuple(float(each.mean()) if each.size else np.nan for each in (a, b))
        found.append(
            Difference(
                "", one, other, means[0], means[1], int(common.sum()), test.p_value, np.nan, np.nan
            )
        )
    return _corrected(found)


def _check_joins(
    judges: Mapping[str, Sequence[ScoreRow]], gold: Sequence[ScoreRow], names: Sequence[str]
) -> None:
    """Raise DataError if a judge's scores join no gold, or do not say their criterion."""
    wanted = {(row.id, row.criterion) for row in gold}
    for name, scores in judges.items():
        if any(not row.criterion for row in scores) and len(names) > 1:
            raise DataError(
                f"the scores of {name} name no criterion, gold has {', '.join(names)}: add a "
                "column criterion"
            )
        if not any((row.id, row.criterion or names[0]) in wanted for row in scores):
            shown = f", such as {scores[0].id!r} by {scores[0].criterion!r}" if scores else ""
            raise DataError(
                f"no score of {name} joins the benchmark: it has {len(scores)}{shown}; gold is by "
                f"{', '.join(names)}, such as of {gold[0].id!r}"
            )


def _check_judges(judges: Mapping[str, object]) -> None:
    if len(judges) < 2:
        raise ConfigError("a comparison takes two judges or more, each with a name of its own")


def _corrected(rows: Sequence[Difference]) -> list[Difference]:
    """Return rows with their p-values corrected together."""
    adjusted = holm([row.p_value for row in rows])
    return [row._replace(p_holm=float(p)) for row, p in zip(rows, adjusted, strict=True)]


def _williams(a: np.ndarray, b: np.ndarray, gold: np.ndarray) -> float:
    """Return the p-value of Williams' test over all items."""
    if gold.size < 4:
        return np.nan
    correlations = pearson_r(a, gold), pearson_r(b, gold), pearson_r(a, b)
    if any(map(np.isnan, correlations)):
        return np.nan
    return williams_test(*correlations, n=gold.size).p_value
