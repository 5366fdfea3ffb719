"""Intervals by resampling whole sources."""

from __future__ import annotations

import numpy as np

from adjudge.stats.inference import mean_interval
from adjudge.stats.sources import ratio_interval


def test_with_a_unit_each_the_interval_is_that_of_a_mean() -> None:
    marks = np.array([1, 0, 0, 1, 1, 0, 1, 1], dtype=float)
    expected = mean_interval(marks, rng=np.random.default_rng(3), n_resamples=500)
    found = ratio_interval(marks, np.ones(8), rng=np.random.default_rng(3), n_resamples=500)
    assert found == (expected.low, expected.high)
    without = np.append(marks, 0), np.append(np.ones(8), 0)
    assert ratio_interval(*without, rng=np.random.default_rng(3), n_resamples=500) == found


def test_one_source_has_no_interval() -> None:
    found = ratio_interval(np.ones(1), np.ones(1), rng=np.random.default_rng(0), n_resamples=9)
    assert np.isnan(found).all()
