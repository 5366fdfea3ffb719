"""How good ladders are: every number against a hand computation or scipy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from scipy import stats

from adjudge.experiments.ladders import (
    LadderReport,
    built_ladders,
    copied_share,
    ladder_items,
    ladder_report,
    merged,
    summarize_ladders,
)
from adjudge.schema import Criterion, Judgment, Ladder, Source, Status

SOURCE = Source(id="ann", text="One two three four five six seven eight nine ten.")
WIT = Criterion(name="wit", title="Wit", description="whether it is witty")
TACT = Criterion(name="tact", title="Tact", description="whether it is tactful")
RUNGS = ("a", "b c", "d e f", "g h", "i j k l")
UP, DOWN, LEVEL = (0.7, 0.2, 0.1), (0.1, 0.5, 0.4), (0.3, 0.3, 0.4)

Row = tuple[float, float, float]


def make_ladder(
    rungs: Sequence[str | None] = RUNGS,
    *,
    source: Source = SOURCE,
    criterion: Criterion = WIT,
    problems: Mapping[int, str] | None = None,
    writer: str = "",
) -> Ladder:
    return Ladder(
        source_id=source.id,
        source_hash=source.hash,
        criterion=criterion.name,
        criterion_hash=criterion.hash,
        rungs=tuple(rungs),
        problems=problems or {},
        writer=writer,
    )


def judged(*rows: Row, status: Status = Status.OK, **more: Any) -> Judgment:
    return Judgment(
        item_id="i",
        source_id="ann",
        system="",
        criterion="wit",
        status=status,
        distribution=rows,
        **more,
    )


def report(
    *rows: Row, rungs: Sequence[str | None] = RUNGS, problems: Mapping[int, str] | None = None
) -> LadderReport:
    """Return the report of a ladder whose neighbours were compared, or not if there are no rows."""
    ladder = make_ladder(rungs, problems=problems)
    return ladder_report(ladder, SOURCE, judged(*rows))


# --- comparisons --------------------------------------------------------------------------------


def test_heights_are_sums_of_gains_and_tau_is_that_of_scipy() -> None:
    found = report(UP, DOWN, DOWN, UP)
    assert found.gains == pytest.approx((0.5, -0.4, -0.4, 0.5))
    # 0, .5, .1, -.3, .2: of ten pairs (1,2) (1,3) (1,5) (3,5) (4,5) agree, five do not
    heights = [0, 0.5, 0.1, -0.3, 0.2]
    assert found.tau == pytest.approx(stats.kendalltau(range(5), heights).statistic)
    assert found.tau == pytest.approx(0.0)
    assert found.inverted == (2, 3)
    assert found.status is Status.OK


def test_a_ladder_in_order_has_tau_one_and_the_reverse_minus_one() -> None:
    assert report(UP, UP, UP, UP).tau == pytest.approx(1)
    assert report(UP, UP, UP, UP).failed == frozenset()
    upside_down = report(DOWN, DOWN, DOWN, DOWN)
    assert upside_down.tau == pytest.approx(-1)
    assert upside_down.inverted == (1, 2, 3, 4)


def test_neighbours_of_equal_height_are_not_inverted() -> None:
    found = report(UP, LEVEL, UP, UP)
    assert found.inverted == ()
    # heights 0, .5, .5, 1, 1.5: nine of ten pairs are untied: 9 / sqrt(10 * 9)
    assert found.tau == pytest.approx(9 / math.sqrt(90))


def test_heights_that_are_all_equal_have_no_tau() -> None:
    assert math.isnan(report(LEVEL, LEVEL, LEVEL, LEVEL).tau)


@pytest.mark.parametrize("status", [Status.NO_LABEL_MASS, Status.ENGINE_ERROR])
def test_a_comparison_that_failed_gives_no_tau(status: Status) -> None:
    found = ladder_report(make_ladder(), SOURCE, judged(status=status))
    assert found.status is status
    assert (found.gains, found.inverted, found.failed) == ((), (), frozenset())
    assert math.isnan(found.tau)


# --- texts --------------------------------------------------------------------------------------


def test_words_their_drift_and_their_tau() -> None:
    found = report(UP, UP, UP, UP)
    assert found.words == (1, 2, 3, 2, 4)
    assert found.drift == 4.0
    expected = stats.kendalltau(range(5), [1, 2, 3, 2, 4]).statistic
    assert found.length_tau == pytest.approx(expected)
    # Eight pairs rise, one (3, 2) falls, one is tied: 7 / sqrt(10 * 9)
    assert found.length_tau == pytest.approx(7 / math.sqrt(90))


def test_rungs_of_equal_length_neither_drift_nor_have_a_tau() -> None:
    found = report(UP, rungs=("a b", "c d"))
    assert found.drift == 1.0
    assert math.isnan(found.length_tau)


def test_a_duplicate_is_the_later_one_whatever_case_and_blanks() -> None:
    found = report(UP, UP, UP, UP, rungs=("A b", "c", "a\n B", "c", "c"))
    assert found.duplicates == (3, 4, 5)
    assert found.failed == {3, 4, 5}


def test_empty_refused_and_never_written_rungs_are_told_apart() -> None:
    rungs = ("worst", None, None, "", "best best")
    found = report(rungs=rungs, problems={2: "refused", 4: "empty"})
    assert found.refused == (2,)
    assert found.empty == (3, 4)
    assert found.duplicates == ()
    assert found.failed == {2, 3, 4}
    assert found.words == (1, 0, 0, 0, 2)
    assert found.drift == 2.0


def test_a_ladder_without_any_text() -> None:
    found = report(rungs=(None, None), problems={1: "empty", 2: "refused"})
    assert (found.words, found.copied) == ((0, 0), (0.0, 0.0))
    assert (found.empty, found.refused) == ((1,), (2,))
    assert math.isnan(found.drift)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("one two three four", 0),  # too short to be a run
        ("one two three four five", 1),
        ("One  TWO\nthree four five", 1),
        ("two one three four five six", 0),
        ("now one two three four five then", 5 / 7),
        ("one two three four five six seven", 1),  # overlapping runs count once
        ("one two three four five and six seven eight nine ten.", 10 / 11),
        ("six seven eight nine ten", 0),  # the source ends in "ten."
        ("one two three four and five six seven eight", 0),
        ("", 0),
    ],
)
def test_the_share_of_copied_words_by_hand(text: str, share: float) -> None:
    assert copied_share(text, SOURCE.text) == pytest.approx(share)
    assert report(rungs=(text or None, "x")).copied == pytest.approx((share, 0))


def test_a_source_shorter_than_a_run_cannot_be_copied() -> None:
    assert copied_share("one two three four five", "one two three four") == 0.0


# --- what is written anew -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "failed"),
    [
        ((DOWN, UP, UP, UP), {2}),
        ((UP, DOWN, UP, UP), {3}),
        ((UP, UP, DOWN, UP), {4}),
        ((UP, UP, UP, DOWN), {4}),
        ((DOWN, UP, UP, DOWN), {2, 4}),
        ((DOWN, DOWN, DOWN, DOWN), {2, 3, 4}),
    ],
)
def test_of_an_inverted_pair_no_end_of_the_ladder_is_written_anew(
    rows: tuple[Row, ...], failed: set[int]
) -> None:
    assert report(*rows).failed == failed


def test_of_three_rungs_only_the_middle_one_is_between_others() -> None:
    for rows in ((DOWN, UP), (UP, DOWN), (DOWN, DOWN)):
        assert report(*rows, rungs=("a", "b", "c")).failed == {2}


def test_an_end_that_is_a_duplicate_is_written_anew() -> None:
    assert report(UP, UP, UP, UP, rungs=("a", "b", "c", "d", "a")).failed == {5}


# --- many ladders -------------------------------------------------------------------------------


def test_a_summary_counts_rungs_and_averages_what_was_compared() -> None:
    copied = "one two three four five"
    reports = [
        report(UP, UP, UP, UP, rungs=("a", "b", "c", "d", copied)),  # drifts 1 : 5, copies
        report(UP, DOWN, DOWN, UP, rungs=("a", "b", "c", "d", "a")),
        report(rungs=("a", None, None), problems={2: "refused", 3: "empty"}),
        ladder_report(make_ladder(("a", "b")), SOURCE, judged(status=Status.NO_LABEL_MASS)),
    ]
    summary = summarize_ladders(reports)
    assert (summary.n, summary.n_good) == (4, 1)
    assert summary.mean_tau == pytest.approx((1 + 0) / 2)
    assert (summary.n_inverted, summary.n_pairs) == (2, 8)
    assert (summary.n_duplicates, summary.n_empty, summary.n_refused) == (1, 1, 1)
    assert (summary.n_drifting, summary.n_copying) == (1, 1)


def test_three_times_the_words_is_no_drift_yet() -> None:
    assert summarize_ladders([report(UP, rungs=("a", "b c d"))]).n_drifting == 0
    assert summarize_ladders([report(UP, rungs=("a", "b c d e"))]).n_drifting == 1


def test_a_summary_of_nothing() -> None:
    summary = summarize_ladders([])
    assert (summary.n, summary.n_good, summary.n_pairs) == (0, 0, 0)
    assert math.isnan(summary.mean_tau)


def test_ladders_that_came_out_whole_take_the_place_of_the_old_ones() -> None:
    old = [make_ladder(), make_ladder(criterion=TACT)]
    new = make_ladder(("v", "w", "x", "y", "z"), criterion=TACT)
    failed = make_ladder(("v", None, "x", "y", "z"), problems={2: "empty"})
    given = {(each.source_hash, each.criterion): each for each in old}
    found = merged(given, [new, failed])
    assert list(found.items()) == [((SOURCE.hash, "wit"), old[0]), ((SOURCE.hash, "tact"), new)]
    assert list(given.values()) == old
    assert merged(given, []) == given


def test_a_ladder_of_another_source_is_not_added() -> None:
    given = {(SOURCE.hash, "wit"): make_ladder()}
    other = make_ladder(source=Source(id="ann", text="another"))
    assert merged(given, [other]) == given


def test_built_ladders_are_those_of_judgments_with_rungs() -> None:
    items = ladder_items([SOURCE, Source(id="bob", text="Bob.")], [WIT])
    evidence = {"rungs": ["a", None, "c"], "problems": {"2": "refused"}}
    judgments = [
        judged(status=Status.REFUSED, evidence=evidence),
        judged(status=Status.ENGINE_ERROR, evidence={"error": "out of memory"}),
    ]
    assert built_ladders(items, judgments, "the writer") == [
        make_ladder(("a", None, "c"), problems={2: "refused"}, writer="the writer")
    ]


def test_one_item_per_text_and_criterion() -> None:
    twin, bob = Source(id="twin", text=SOURCE.text), Source(id="bob", text="Bob.")
    items = ladder_items([SOURCE, bob, twin, bob], [WIT, TACT])
    assert [(item.source.text, item.criterion.name) for item in items] == [
        (SOURCE.text, "wit"),
        (SOURCE.text, "tact"),
        ("Bob.", "wit"),
        ("Bob.", "tact"),
    ]
    assert len({item.id for item in items}) == 4
    assert ladder_items([], [WIT]) == []
