"""Means and counts over judgments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.runs.summary import Summary, SystemMean, summarize
from adjudge.schema import Judgment, Status


def make(
    system: str = "m",
    value: float | None = None,
    *,
    criterion: str = "wit",
    status: Status = Status.OK,
    coverage: float | None = None,
) -> Judgment:
    return Judgment(
        item_id="i",
        source_id="s",
        system=system,
        criterion=criterion,
        status=status,
        value=value,
        coverage=coverage,
    )


def test_means_are_per_system_and_criterion_in_order_of_appearance() -> None:
    summary = summarize(
        [
            make("b", 1.0),
            make("a", 5.0),
            make("b", 4.0),
            make("b", 2.0, criterion="style"),
            make("b", 1.0),
        ]
    )
    assert summary.systems == (
        SystemMean("b", "wit", 2.0, 3, 3),
        SystemMean("a", "wit", 5.0, 1, 1),
        SystemMean("b", "style", 2.0, 1, 1),
    )


def test_a_failure_counts_but_enters_no_mean() -> None:
    summary = summarize(
        [make("m", 4.0), make("m", status=Status.PARSE_FAILED), make("m", status=Status.TRUNCATED)]
    )
    assert summary.systems == (SystemMean("m", "wit", 4.0, 1, 3),)
    assert summary.statuses == {"ok": 1, "parse_failed": 1, "truncated": 1}


def test_a_system_with_failures_alone_has_no_mean() -> None:
    summary = summarize([make("m", status=Status.LADDER_FAILED)] * 2)
    assert summary.systems == (SystemMean("m", "wit", None, 0, 2),)


def test_a_value_of_a_failure_is_no_score() -> None:
    summary = summarize([make("m", 5.0, status=Status.REFUSED), make("m", 1.0)])
    assert summary.systems[0].mean == 1.0


def test_coverage_is_averaged_where_labels_were_scored() -> None:
    summary = summarize(
        [
            make(coverage=0.5, value=1.0),
            make(coverage=None, value=1.0),
            make(coverage=0.1, status=Status.NO_LABEL_MASS),
        ]
    )
    assert summary.mean_coverage == pytest.approx(0.3)


def test_nothing_has_no_means() -> None:
    summary = summarize([])
    assert summary == Summary(systems=(), statuses={}, mean_coverage=None)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(list(Status))), max_size=20))
def test_every_judgment_is_counted_once(pairs: list[tuple[str, Status]]) -> None:
    judgments = [
        make(system, 1.0 if status is Status.OK else None, status=status)
        for system, status in pairs
    ]
    summary = summarize(iter(judgments))
    assert sum(each.n for each in summary.systems) == len(pairs)
    assert sum(summary.statuses.values()) == len(pairs)
    assert sum(each.n_scored for each in summary.systems) == summary.statuses.get("ok", 0)


def test_what_was_drawn_again_forced_or_turned_is_counted() -> None:
    notes: list[dict[str, Any]] = [
        {"score_mode": "text", "resampled": 2, "written_statuses": ["ok", "parse_failed"]},
        {"score_mode": "logprobs", "written_statuses": ["truncated", "ok", "parse_failed"]},
        {"score_mode": "logprobs", "written_statuses": ["ok"], "consistent": False},
        {"consistent": True},
    ]
    made = [replace(make(value=1.0), evidence=evidence) for evidence in notes]
    failed = replace(make(status=Status.PARSE_FAILED), evidence={"resampled": 3})
    summary = summarize([*made, failed])
    assert (summary.n_resampled, summary.n_unwritten, summary.n_disagreeing) == (5, 2, 1)


def test_a_verdict_that_could_not_be_read_says_why() -> None:
    evidence = {"texts": ["word " * 500], "problems_of_verdicts": ["it has no verdict"]}
    failed = replace(make(status=Status.PARSE_FAILED), evidence=evidence)
    assert summarize([failed]).no_scores[0].reason == "it has no verdict"
    bare = replace(failed, evidence={"texts": ["word " * 500]})
    assert len(summarize([bare]).no_scores[0].reason) < 120
