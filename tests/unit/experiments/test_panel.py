"""Panels of judges: expected values are computed by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from adjudge.errors import ConfigError, DataError
from adjudge.experiments.panel import (
    PanelAgreement,
    combine_scores,
    combine_verdicts,
    panel_agreement,
    panel_rows,
)
from adjudge.formats.scores import ScoreRow
from adjudge.formats.verdicts import VerdictRow

NAN = math.nan
A, TIE, B = 1.0, 0.0, -1.0


def scores(*values: float, criterion: str = "wit", first: int = 1) -> list[ScoreRow]:
    return [
        ScoreRow(f"i{i}", criterion, f"s{i}", "m", value)
        for i, value in enumerate(values, start=first)
    ]


def verdicts(*values: float, swapped: Sequence[float] = ()) -> list[VerdictRow]:
    both: Sequence[float | None] = swapped or [None] * len(values)
    return [
        VerdictRow(f"p{i}", value, other)
        for i, (value, other) in enumerate(zip(values, both, strict=True), start=1)
    ]


def by_judges(found: Sequence[PanelAgreement]) -> dict[tuple[str, ...], PanelAgreement]:
    return {each.judges: each for each in found}


THREE = {"a": scores(1, 4, NAN), "b": scores(2, 4, NAN), "c": scores(6, NAN)}


def test_scores_are_averaged_over_the_judges_that_have_one() -> None:
    panel = combine_scores(THREE)
    assert [(each.id, each.source_id, each.system, each.criterion) for each in panel] == [
        ("i1", "s1", "m", "wit"),
        ("i2", "s2", "m", "wit"),
        ("i3", "s3", "m", "wit"),
    ]
    assert [each.n_judges for each in panel] == [3, 2, 0]
    assert [each.score for each in panel] == pytest.approx([3, 4, NAN], nan_ok=True)
    # (4 + 1 + 9) / 2 = 7
    assert [each.sd for each in panel] == pytest.approx([math.sqrt(7), 0, NAN], nan_ok=True)
    assert panel[0].own == {"a": 1, "b": 2, "c": 6}
    assert panel[1].own == pytest.approx({"a": 4, "b": 4, "c": NAN}, nan_ok=True)


def test_the_median_leaves_the_outlier_out() -> None:
    panel = combine_scores(THREE, by="median")
    assert [each.score for each in panel] == pytest.approx([2, 4, NAN], nan_ok=True)
    assert panel[0].sd == pytest.approx(math.sqrt(7))


def test_one_score_has_no_standard_deviation() -> None:
    first, second = combine_scores({"a": scores(1, 5), "b": scores(3)})
    assert (first.score, first.n_judges) == (2, 2)
    assert (second.score, second.n_judges) == (5, 1)
    assert math.isnan(second.sd)


@pytest.mark.parametrize("values", [(0.1, 0.1, 0.1), (0.1, 0.7, 0.2), (0.3, 1e16, -1e16)])
def test_the_order_of_judges_and_rounding_do_not_part_equal_means(values: Sequence[float]) -> None:
    forth = combine_scores({name: scores(x) for name, x in zip("abc", values, strict=True)})
    back = combine_scores({name: scores(x) for name, x in zip("abc", values[::-1], strict=True)})
    assert forth[0].score == back[0].score
    assert combine_scores({"a": scores(0.1), "b": scores(0.1), "c": scores(0.1)})[0].score == 0.1


def test_items_are_joined_by_id_and_criterion_whatever_their_order() -> None:
    one = [*scores(1, 2), *scores(3, 4, criterion="tact")]
    third = [*scores(9), *scores(9, criterion="tact")]
    panel = combine_scores({"one": one, "other": one[::-1], "third": third})
    assert {(each.criterion, each.id): each.score for each in panel} == pytest.approx(
        {("wit", "i1"): 11 / 3, ("wit", "i2"): 2, ("tact", "i1"): 5, ("tact", "i2"): 4}
    )


def test_source_and_system_come_from_the_file_that_has_them() -> None:
    bare = [row._replace(source_id="", system="") for row in scores(1, 2)]
    panel = combine_scores({"bare": bare, "full": scores(1, 2)})
    assert [(each.source_id, each.system) for each in panel] == [("s1", "m"), ("s2", "m")]


def test_the_agreement_of_scores() -> None:
    judges = {"a": scores(1, 4, NAN), "b": scores(2, 4, NAN), "c": scores(3, NAN, NAN)}
    found = by_judges(panel_agreement(combine_scores(judges)))
    assert list(found) == [("a", "b", "c"), ("a",), ("b",), ("c",), ("a", "b"), ("a", "c"),
                           ("b", "c")]  # fmt: skip
    everyone = found["a", "b", "c"]
    # One item by none, none by one judge, one by two, one by three.
    assert everyone.by_n_judges == (1, 0, 1, 1)
    assert (everyone.n_items, everyone.n_missing) == (3, 2)
    assert everyone.sd == pytest.approx((1 + 0) / 2)
    # Krippendorff: observed (1 + 1 + 4) * 2 / 2 / 5; expected over all pairs of 1, 2, 3, 4, 4:
    # (1 + 4 + 9 + 9 + 1 + 4 + 4 + 1 + 1 + 0) * 2 / (5 * 4).
    assert everyone.alpha == pytest.approx(1 - (6 / 5) / (68 / 20))
    assert math.isnan(everyone.agreement)
    assert math.isnan(everyone.mean)
    assert (found["a",].mean, found["a",].by_n_judges) == (2.5, (1, 2))
    assert (found["c",].mean, found["c",].n_missing) == (3, 2)
    assert math.isnan(found["a",].sd)
    assert math.isnan(found["a",].alpha)
    # 1, 2 and 4, 4: deviations sqrt(1/2) and 0; observed 2 / 4, expected (1 + 9 + 9 + 4 + 4) / 6.
    assert found["a", "b"].sd == pytest.approx(math.sqrt(0.5) / 2)
    assert found["a", "b"].alpha == pytest.approx(1 - 0.5 / (2 * 27 / 12))


def test_two_judges_correlate_by_ranks_over_what_both_have() -> None:
    judges = {"a": scores(1, 2, 3, 4, 5), "b": scores(10, 30, 20, 40, NAN)}
    found = panel_agreement(combine_scores(judges))
    assert [each.judges for each in found] == [("a", "b"), ("a",), ("b",)]
    assert found[0].agreement == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert found[0].by_n_judges == (0, 1, 4)


def test_every_criterion_has_an_agreement_of_its_own() -> None:
    judges = {
        "a": [*scores(1, 2, 3), *scores(1, 2, 3, criterion="tact")],
        "b": [*scores(1, 2, 3), *scores(3, 2, 1, criterion="tact")],
    }
    found = {(e.criterion, len(e.judges)): e for e in panel_agreement(combine_scores(judges))}
    assert found["wit", 2].agreement == pytest.approx(1)
    assert found["wit", 2].alpha == pytest.approx(1)
    assert found["tact", 2].agreement == pytest.approx(-1)


PAIRS: dict[str, Sequence[VerdictRow]] = {
    "a": verdicts(A, A, A, A, TIE, NAN),
    "b": verdicts(A, B, NAN, B, TIE),
    "c": verdicts(B, TIE, A, NAN, A),
}


def test_the_most_frequent_verdict_wins_and_without_one_it_is_a_tie() -> None:
    panel = combine_verdicts(PAIRS)
    assert [each.verdict for each in panel] == pytest.approx(
        [A, TIE, A, TIE, TIE, NAN], nan_ok=True
    )
    assert [each.n_judges for each in panel] == [3, 3, 2, 2, 3, 0]
    assert [each.share for each in panel] == pytest.approx(
        [2 / 3, 1 / 3, 1, 0, 2 / 3, NAN], nan_ok=True
    )
    assert panel[0].own == {"a": A, "b": A, "c": B}


def test_by_the_mean_ties_do_not_outvote_a_preference() -> None:
    panel = combine_verdicts(PAIRS, by="mean")
    assert [each.verdict for each in panel] == pytest.approx([A, TIE, A, TIE, A, NAN], nan_ok=True)
    assert panel[4].share == pytest.approx(1 / 3)


def test_the_swapped_order_is_combined_if_all_were_asked() -> None:
    judges = {
        "a": verdicts(A, A, swapped=[A, NAN]),
        "b": verdicts(A, A, swapped=[B, NAN]),
        "c": verdicts(A, A, swapped=[B, NAN]),
    }
    first, second = combine_verdicts(judges)
    assert first.verdict_swapped == B
    assert second.verdict_swapped is not None
    assert math.isnan(second.verdict_swapped)
    judges["c"] = verdicts(A, A)
    assert [each.verdict_swapped for each in combine_verdicts(judges)] == [None, None]


def test_the_agreement_of_verdicts() -> None:
    found = by_judges(panel_agreement(combine_verdicts(PAIRS)))
    everyone = found["a", "b", "c"]
    assert everyone.by_n_judges == (1, 0, 2, 3)
    # Of the five pairs with two verdicts, only the third has the same from both judges.
    assert everyone.agreement == pytest.approx(1 / 5)
    assert found["a", "b"].agreement == pytest.approx(2 / 4)
    assert found["b", "c"].agreement == 0
    assert math.isnan(found["a",].agreement)
    assert math.isnan(everyone.sd)


def test_the_alpha_of_verdicts_is_nominal() -> None:
    judges = {"a": verdicts(A, A), "b": verdicts(A, A), "c": verdicts(B, NAN)}
    found = panel_agreement(combine_verdicts(judges))[0]
    # A, A, B and A, A: observed 4 / 2 / 5; expected (25 - 16 - 1) / 20.
    assert found.alpha == pytest.approx(1 - (2 / 5) / (8 / 20))
    opposed = {"a": verdicts(A, TIE, B), "b": verdicts(A, TIE, A)}
    # Observed 2 / 6; expected (36 - 9 - 4 - 1) / 30: how far B is from A does not count.
    assert panel_agreement(combine_verdicts(opposed))[0].alpha == pytest.approx(
        1 - (1 / 3) / (22 / 30)
    )


def test_rows_have_nulls_and_words() -> None:
    (row,) = panel_rows(combine_scores({"a": scores(1), "b": scores(NAN)}))
    assert row == {
        "id": "i1", "source_id": "s1", "system": "m", "criterion": "wit",
        "score": 1, "sd": None, "n_judges": 1, "a": 1, "b": None,
    }  # fmt: skip
    assert list(row)[-2:] == ["a", "b"]
    (said,) = panel_rows(combine_verdicts({"a": verdicts(A), "b": verdicts(NAN)}))
    assert said == {"id": "p1", "verdict": "A", "n_judges": 1, "share": 1, "a": "A", "b": None}
    swapped = {"a": verdicts(B, swapped=[TIE]), "b": verdicts(B, swapped=[TIE])}
    (said,) = panel_rows(combine_verdicts(swapped))
    assert (said["verdict"], said["verdict_swapped"]) == ("B", "tie")
    (nothing,) = panel_rows(combine_verdicts({"a": verdicts(NAN), "b": verdicts(NAN)}))
    assert (nothing["verdict"], nothing["n_judges"], nothing["share"]) == (None, 0, None)


@pytest.mark.parametrize(
    ("judges", "options", "message"),
    [
        ({"a": scores(1)}, {}, "a panel takes two judges or more, not 1"),
        ({"a": scores(1), "sd": scores(1)}, {}, "a judge cannot be called 'sd'"),
        (
            {"a": scores(1), "b": scores(1)},
            {"by": "majority"},
            "scores take mean or median, not 'majority'; majority is for verdicts",
        ),
    ],
)
def test_what_cannot_be_a_panel(
    judges: Mapping[str, Sequence[ScoreRow]], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        combine_scores(judges, **options)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (scores(1, first=5), r"c shares no id with another judge: its ids are like \['i5'\]"),
        (scores(1, criterion="tact"), "criteria differ: a has wit; c has tact"),
        (scores(1, criterion=""), r"criteria differ: a has wit; c has \(none\)"),
        (
            [ScoreRow("i1", "wit", "else", "m", 1)],
            "the source_id of 'i1' is 's1' in b and 'else' in c",
        ),
        (
            [*scores(1), ScoreRow("x", "wit", "s2", "m", 1)],
            "'i2' and 'x' are both of the source 's2' and the system 'm'",
        ),
    ],
)
def test_scores_that_do_not_fit_together(other: list[ScoreRow], message: str) -> None:
    with pytest.raises(DataError, match=message):
        combine_scores({"a": scores(1, 2), "b": scores(1, 2), "c": other})


def test_verdicts_that_do_not_fit_together() -> None:
    with pytest.raises(DataError, match="a shares no id with another judge"):
        combine_verdicts({"a": verdicts(A), "b": [VerdictRow("x", A, None)]})
    with pytest.raises(ConfigError, match="verdicts take majority or mean, not 'median'"):
        combine_verdicts(PAIRS, by="median")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="two judges or more, not 0"):
        combine_verdicts({})
