"""What a threshold on scores keeps, and how good that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from adjudge.schema import Judgment
from adjudge.stats.threshold import ThresholdResult, at_threshold, threshold_curve


class CriterionThreshold(NamedTuple):
    """A threshold by one criterion: what it does, and the curve over all scores."""

    criterion: str
    at: ThresholdResult
    curve: tuple[ThresholdResult, ...]


def is_kept(judgment: Judgment, min_score: float) -> bool:
    """Return whether a judgment reaches the threshold; one without a score does not."""
    return judgment.value is not None and judgment.value >= min_score


def rate_threshold(
    judgments: Sequence[Judgment], gold: Sequence[float], *, min_score: float, min_gold: float
) -> list[CriterionThreshold]:
    """Return precision and recall of a threshold against gold, by criterion.

    Parameters
    ----------
    judgments
        In the order of the items: each response by all criteria.
    gold
        ``(n_responses,)`` numbers; NaN = none.
    min_score, min_gold
        The least score that is kept, and the least gold that is good.
    """
    criteria = list(dict.fromkeys(each.criterion for each in judgments))
    truth = np.array(gold, dtype=float)
    good = np.where(np.isnan(truth), np.nan, truth >= min_gold)
    found = []
    for criterion in criteria:
        ours = [each.value for each in judgments if each.criterion == criterion]
        scores = np.array([np.nan if value is None else value for value in ours])
        curve = tuple(threshold_curve(scores, good))
        found.append(CriterionThreshold(criterion, at_threshold(scores, good, min_score), curve))
    return found
