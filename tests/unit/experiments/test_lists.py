"""Benchmarks for judges of lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adjudge.benchmarks.base import RatedResponse
from adjudge.errors import ConfigError
from adjudge.experiments.lists import by_response, items_for, list_items
from adjudge.judges.base import judgment
from adjudge.judges.direct import DirectJudge
from adjudge.prompts.template import load_prompts
from adjudge.schema import Source, Status
from tests.scripted import CRITERION

DIRECT = DirectJudge(prompts=load_prompts("direct", "summarization"))


class Lists(DirectJudge):
    """A judge that says it takes lists."""

    takes = "list"


LISTS = Lists(prompts=load_prompts("direct", "summarization"))


def response(source: str, system: str, text: str = "") -> RatedResponse:
    return RatedResponse(
        id=f"{source}-{system}",
        source=Source(id=source, text=f"text of {source}"),
        system=system,
        response=text or f"{system} on {source}",
        gold={"coherence": 1.0},
        reference_answers=("good",),
    )


ROWS = [response("s", "a"), response("t", "a"), response("s", "b"), response("s", "c")]


def test_a_list_has_all_responses_to_a_source_in_their_order() -> None:
    one, other = list_items(ROWS, [CRITERION])
    assert (one.id, one.systems) == ("s", ("a", "b", "c"))
    assert one.responses == ("a on s", "b on s", "c on s")
    assert one.reference_answers == ("good",)
    assert (other.id, other.responses) == ("t", ("a on t",))
    second = replace(CRITERION, name="other")
    assert [item.criterion for item in list_items(ROWS, [CRITERION, second])] == (
        [CRITERION, second] * 2
    )


def test_a_judge_gets_what_it_takes() -> None:
    assert items_for(LISTS, ROWS, [CRITERION]) == list_items(ROWS, [CRITERION])
    single = items_for(DIRECT, ROWS, [CRITERION])
    assert [item.response for item in single] == [row.response for row in ROWS]


def test_a_value_is_the_share_of_others_that_are_beaten() -> None:
    items = list_items(ROWS, [CRITERION])
    made = [
        judgment(items[0], Status.OK, ranks=(2.5, 1.0, 2.5), n_calls=3),
        judgment(items[1], Status.OK, ranks=(1.0,)),
    ]
    found = by_response(LISTS, made, ROWS)
    assert [(each.item_id, each.system) for each in found] == [
        ("s-a", "a"), ("s-b", "b"), ("s-c", "c"), ("t-a", "a"),
    ]  # fmt: skip
    # Of two others: b beats both, a and c tie and lose to b: half of one in two.
    assert [each.value for each in found] == [0.25, 1.0, 0.25, 0.5]
    assert [each.raw for each in found] == [2.5, 1.0, 2.5, 1.0]


def test_a_list_that_failed_fails_each_response() -> None:
    item = list_items(ROWS, [CRITERION])[0]
    found = by_response(LISTS, [judgment(item, Status.NO_LABEL_MASS)], ROWS)
    assert [(each.status, each.value) for each in found] == [(Status.NO_LABEL_MASS, None)] * 3


def test_single_judgments_stay_as_they_are() -> None:
    item = items_for(DIRECT, ROWS, [CRITERION])[0]
    made = [judgment(item, Status.OK, value=3.0), judgment(item, Status.PARSE_FAILED)]
    assert by_response(DIRECT, made, ROWS) == made


def test_responses_with_criteria_of_their_own_are_no_list() -> None:
    with pytest.raises(ConfigError, match="take a judge of single responses"):
        list_items([replace(ROWS[0], criterion=CRITERION)], [])


def test_an_empty_response_has_no_value_though_it_is_ranked_last() -> None:
    rows = [ROWS[0], replace(ROWS[2], response=" "), ROWS[3]]
    made = judgment(list_items(rows, [CRITERION])[0], Status.OK, ranks=(2.0, 3.0, 1.0))
    found = by_response(LISTS, [made], rows)
    assert [each.status for each in found] == [Status.OK, Status.EMPTY_RESPONSE, Status.OK]
    assert [each.value for each in found] == [0.5, None, 1.0]
