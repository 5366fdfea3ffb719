"""What a threshold on judgments keeps, by criterion."""

from __future__ import annotations

import math

from adjudge.experiments.thresholds import is_kept, rate_threshold
from adjudge.schema import Judgment, Status
from adjudge.stats.threshold import wilson_interval

NAN = math.nan


def judged(value: float | None, criterion: str = "wit") -> Judgment:
    status = Status.OK if value is not None else Status.NO_LABEL_MASS
    return Judgment(
        item_id="i", source_id="s", system="", criterion=criterion, status=status, value=value
    )


def test_the_threshold_is_kept_and_a_failure_is_not() -> None:
    judgments = [judged(value) for value in (3.0, 2.999, 5.0, None)]
    assert [is_kept(each, 3.0) for each in judgments] == [True, False, True, False]


def test_a_score_of_zero_is_a_score() -> None:
    assert is_kept(judged(0.0), -15.0)
    assert not is_kept(judged(None), -15.0)


def test_each_criterion_has_the_precision_and_recall_of_its_own_scores() -> None:
    # Response by response, each by both criteria; gold 1, 4, none, 5, of which 4 and 5 are good.
    wit, tact = (1.0, 4.0, 4.0, None), (4.0, 2.0, 5.0, 4.5)
    judgments = [
        judged(value, name)
        for pair in zip(wit, tact, strict=True)
        for name, value in zip(("wit", "tact"), pair, strict=True)
    ]
    first, second = rate_threshold(judgments, [1, 4, NAN, 5], min_score=4, min_gold=4)
    assert (first.criterion, second.criterion) == ("wit", "tact")
    # wit keeps the second response only: right, but the fourth is lost
    assert (first.at.n_kept, first.at.n_dropped, first.at.n_good) == (1, 2, 2)
    assert first.at.precision == wilson_interval(1, 1)
    assert first.at.recall == wilson_interval(1, 2)
    # tact keeps the first (wrong) and the fourth (right), and loses the second
    assert (second.at.n_kept, second.at.n_dropped) == (2, 1)
    assert second.at.precision == wilson_interval(1, 2)
    assert second.at.recall == wilson_interval(1, 2)
    assert [point.threshold for point in first.curve] == [1, 4]
    assert [point.threshold for point in second.curve] == [2, 4, 4.5]


def test_gold_at_the_limit_is_good() -> None:
    (found,) = rate_threshold([judged(1.0), judged(1.0)], [3, 2.99], min_score=1, min_gold=3)
    assert found.at.n_good == 1


def test_without_any_gold_nothing_is_counted() -> None:
    (found,) = rate_threshold([judged(1.0), judged(None)], [NAN, NAN], min_score=1, min_gold=3)
    assert (found.at.n_kept, found.at.n_dropped, found.at.n_good) == (0, 0, 0)
    assert math.isnan(found.at.precision.value)
    assert found.curve == ()


def test_no_judgments_have_no_criteria() -> None:
    assert rate_threshold([], [], min_score=1, min_gold=1) == []
