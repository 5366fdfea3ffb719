"""A panel: the scores or verdicts of several judges become one, and how far they agree."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np

from adjudge.errors import ConfigError, DataError
from adjudge.formats.scores import ScoreRow
from adjudge.formats.verdicts import VerdictRow
from adjudge.stats.agreement import krippendorff_alpha
from adjudge.stats.correlation import spearman_rho

ScoreRule = Literal["mean", "median"]
VerdictRule = Literal["majority", "mean"]


class PanelScore(NamedTuple):
    """The scores of all judges for one item and criterion; NaN = none.

    `sd` is over the `n_judges` that have a score (n - 1), `own` each judge's score by its name.
    """

    id: str
    source_id: str
    system: str
    criterion: str
    score: float
    sd: float
    n_judges: int
    own: dict[str, float]


class PanelVerdict(NamedTuple):
    """The verdicts of all judges on one pair: 1 = A is better, 0 = tie, -1 = B, NaN = none.

    `verdict_swapped` is of the verdicts when B was shown first, None unless all judges were
    asked; `share` is the part of the `n_judges` with a readable verdict that agrees.
    """

    id: str
    verdict: float
    verdict_swapped: float | None
    n_judges: int
    share: float
    own: dict[str, float]


#: A panel's file has them, and a column named by each judge.
COLUMNS = frozenset({*PanelScore._fields, *PanelVerdict._fields} - {"own"})


class PanelAgreement(NamedTuple):
    """How far all judges, or two of them, agree by one criterion; of one, what it has to say.

    Attributes
    ----------
    criterion, judges
        By what, empty for verdicts; the judges' names.
    by_n_judges
        Items that none of these judges has a number for, that one has, ... that all have.
    mean, sd
        Scores: of a single judge, the mean; of more, the mean over items of the standard
        deviation of two scores or more. Else NaN.
    alpha
        Krippendorff's alpha: interval for scores, nominal for verdicts.
    agreement
        Scores: Spearman's correlation over the items that both of two judges have, else NaN.
        Verdicts: share of pairs with two verdicts or more where all are the same.
    """

    criterion: str
    judges: tuple[str, ...]
    by_n_judges: tuple[int, ...]
    mean: float
    sd: float
    alpha: float
    agreement: float

    @property
    def n_items(self) -> int:
        """Items that any judge of the panel has a row for."""
        return sum(self.by_n_judges)

    @property
    def n_missing(self) -> int:
        """Items that at least one of these judges has no number for."""
        return sum(self.by_n_judges[:-1])


def combine_scores(
    judges: Mapping[str, Sequence[ScoreRow]], *, by: ScoreRule = "mean"
) -> list[PanelScore]:
    """Return one score for every item and criterion that a judge has a row for.

    Parameters
    ----------
    judges
        Name -> scores, joined on id and criterion; NaN = none. They are not rescaled.
    by
        What the panel's score is of the scores there are.

    Raises
    ------
    ConfigError
        Fewer than two judges, a name that is a column's, or an unknown rule.
    DataError
        Different criteria, a judge that shares no id with the others, or rows that give one
        response different ids, sources or systems.

    Examples
    --------
    >>> small, large = [ScoreRow("1", "wit", "", "", 2.0)], [ScoreRow("1", "wit", "", "", 5.0)]
    >>> combine_scores({"small": small, "large": large})[0].score
    3.5
    """
    rules = {"mean": statistics.mean, "median": statistics.median}
    if by not in rules:
        raise ConfigError(f"scores take mean or median, not {by!r}; majority is for verdicts")
    _check_judges(judges)
    _check_criteria(judges)
    known = {name: {(row.id, row.criterion): row for row in judges[name]} for name in judges}
    panel = []
    places: dict[tuple[str, ...], str] = {}
    for key in dict.fromkeys(key for rows in known.values() for key in rows):
        item, criterion = key
        there = {name: rows[key] for name, rows in known.items() if key in rows}
        own = {name: there[name].value if name in there else math.nan for name in judges}
        given = _present(own.values())
        score = rules[by](given) if given else math.nan  # exact: no order of judges matters
        sd = statistics.stdev(given) if len(given) > 1 else math.nan
        source, system = (_agreed(item, field, there) for field in ("source_id", "system"))
        panel.append(PanelScore(item, source, system, criterion, score, sd, len(given), own))
        other = places.setdefault((source, system, criterion), item)
        if source and system and other != item:
            raise DataError(
                f"{other!r} and {item!r} are both of the source {source!r} and the system "
                f"{system!r}: give files that have one id for one response"
            )
    return panel


def combine_verdicts(
    judges: Mapping[str, Sequence[VerdictRow]], *, by: VerdictRule = "majority"
) -> list[PanelVerdict]:
    """Return one verdict for every pair that a judge has a row for.

    Parameters
    ----------
    judges
        Name -> verdicts, joined on id. Unreadable ones do not vote.
    by
        "majority": the most frequent verdict, a tie if several are; "mean": the sign of the
        mean, so that ties do not outvote a preference.

    Raises
    ------
    ConfigError
        Fewer than two judges, a name that is a column's, or an unknown rule.
    DataError
        A judge that shares no id with the others.

    Examples
    --------
    >>> said = {"one": 1.0, "two": 0.0, "three": 0.0}
    >>> judges = {name: [VerdictRow("p", verdict, None)] for name, verdict in said.items()}
    >>> combine_verdicts(judges)[0].verdict, combine_verdicts(judges, by="mean")[0].verdict
    (0.0, 1.0)
    """
    rules = {"majority": _majority, "mean": _sign_of_mean}
    if by not in rules:
        raise ConfigError(f"verdicts take majority or mean, not {by!r}; median is for scores")
    _check_judges(judges)
    known = {name: {row.id: row for row in judges[name]} for name in judges}
    both = all(row.swapped is not None for rows in judges.values() for row in rows)
    panel = []
    for key in dict.fromkeys(key for rows in known.values() for key in rows):
        there = {name: rows[key] for name, rows in known.items() if key in rows}
        own = {name: there[name].verdict if name in there else math.nan for name in judges}
        given = _present(own.values())
        verdict = rules[by](given)
        swapped = rules[by](_present(row.swapped for row in there.values())) if both else None
        share = given.count(verdict) / len(given) if given else math.nan
        panel.append(PanelVerdict(key, verdict, swapped, len(given), share, own))
    return panel


def panel_rows(panel: Iterable[PanelScore | PanelVerdict]) -> list[dict[str, Any]]:
    """Return the rows of a panel's file; missing numbers and verdicts are null."""
    words = {1.0: "A", 0.0: "tie", -1.0: "B"}
    rows = []
    for each in panel:
        row = each._asdict()
        row |= row.pop("own")
        if isinstance(each, PanelVerdict):
            if each.verdict_swapped is None:
                del row["verdict_swapped"]
            numbers = ("id", "n_judges", "share")
            row |= {name: words.get(row[name]) for name in row if name not in numbers}
        rows.append({name: None if value != value else value for name, value in row.items()})  # noqa: PLR0124
    return rows


def panel_agreement(panel: Sequence[PanelScore | PanelVerdict]) -> list[PanelAgreement]:
    """Return for every criterion: all judges, each judge, each two; of two, all is the pair."""
    criteria = [each.criterion if isinstance(each, PanelScore) else "" for each in panel]
    found = []
    for criterion in dict.fromkeys(criteria):
        rows = [each for each, by in zip(panel, criteria, strict=True) if by == criterion]
        everyone = tuple(rows[0].own)
        groups = [everyone, *((name,) for name in everyone), *combinations(everyone, 2)]
        for judges in dict.fromkeys(groups):
            ratings = np.array([[row.own[name] for row in rows] for name in judges])
            measure = _of_scores if isinstance(rows[0], PanelScore) else _of_verdicts
            n_judges = (~np.isnan(ratings)).sum(axis=0)
            counts = tuple(np.bincount(n_judges, minlength=len(judges) + 1).tolist())
            found.append(PanelAgreement(criterion, judges, counts, *measure(ratings)))
    return found


def _of_scores(ratings: np.ndarray) -> tuple[float, ...]:
    """Return mean, mean standard deviation, alpha and Spearman's correlation."""
    if len(ratings) == 1:
        return _mean(ratings[~np.isnan(ratings)]), math.nan, math.nan, math.nan
    sd = _mean(np.nanstd(_rated_twice(ratings), axis=0, ddof=1))
    alpha = krippendorff_alpha(ratings, level="interval").value
    return math.nan, sd, alpha, spearman_rho(*ratings) if len(ratings) == 2 else math.nan


def _of_verdicts(ratings: np.ndarray) -> tuple[float, ...]:
    """Return alpha and the share of pairs with one verdict only, after what verdicts lack."""
    given = _rated_twice(ratings)
    same = np.nanmin(given, axis=0) == np.nanmax(given, axis=0)
    return math.nan, math.nan, krippendorff_alpha(ratings, level="nominal").value, _mean(same)


def _rated_twice(ratings: np.ndarray) -> np.ndarray:
    return ratings[:, (~np.isnan(ratings)).sum(axis=0) > 1]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def _present(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None and not math.isnan(value)]


def _majority(votes: Sequence[float]) -> float:
    """Return the most frequent verdict, 0 if several are, NaN without any."""
    modes = statistics.multimode(votes)
    return modes[0] if len(modes) == 1 else 0.0 if modes else math.nan


def _sign_of_mean(votes: Sequence[float]) -> float:
    return float(np.sign(sum(votes))) if votes else math.nan


def _check_judges(judges: Mapping[str, Sequence[ScoreRow | VerdictRow]]) -> None:
    """Raise an error unless there are two judges or more, each with a name and an id to share."""
    if len(judges) < 2:
        raise ConfigError(f"a panel takes two judges or more, not {len(judges)}: add another")
    for name, rows in judges.items():
        if name in COLUMNS:
            raise ConfigError(f"a judge cannot be called {name!r}: that is a column of panels")
        ids = {row.id for row in rows}
        others = {row.id for other in judges if other != name for row in judges[other]}
        if ids.isdisjoint(others):
            raise DataError(
                f"{name} shares no id with another judge: its ids are like {sorted(ids)[:1]}, "
                f"the others' like {sorted(others)[:1]}; give judgments of the same items"
            )


def _check_criteria(judges: Mapping[str, Sequence[ScoreRow]]) -> None:
    criteria = {name: {row.criterion or "(none)" for row in rows} for name, rows in judges.items()}
    first, *rest = criteria
    for name in rest:
        if criteria[name] != criteria[first]:
            ours, theirs = (", ".join(sorted(criteria[each])) for each in (first, name))
            raise DataError(
                f"criteria differ: {first} has {ours}; {name} has {theirs}; give scores by the "
                "same criteria, named alike in the column criterion"
            )


def _agreed(item: str, field: str, rows: Mapping[str, ScoreRow]) -> str:
    """Return the source or system of an item, empty if no row names it."""
    said = {getattr(row, field): name for name, row in rows.items() if getattr(row, field)}
    if len(said) > 1:
        shown = " and ".join(f"{value!r} in {name}" for value, name in said.items())
        raise DataError(f"the {field} of {item!r} is {shown}: give scores of the same responses")
    return next(iter(said), "")
