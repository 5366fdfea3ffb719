"""Grading in the calls that users of `prometheus-eval` know."""

from __future__ import annotations

from typing import Any

import pytest

import adjudge
from adjudge.exchange import Request
from adjudge.schema import Criterion
from tests.scripted import ScriptedEngine, words

RUBRIC = "[Is it kind?]\n" + "\n".join(f"Score {i}: kind {i}" for i in range(1, 6))


def by_length(request: Request) -> str:
    """Grade a response by its number of words; of a pair, prefer the one with more."""
    text = words(request)
    if "###Response A:" in text:
        first, second = (text.split(f"###Response {x}:\n")[1].split("\n\n###")[0] for x in "AB")
        return f"Longer wins. [RESULT] {'A' if len(first) > len(second) else 'B'}"
    response = text.split("###Response to evaluate:\n")[1].split("\n\n###")[0]
    return f"It has words. [RESULT] {len(response.split())}"


def test_absolute_grades_come_in_the_order_of_the_responses() -> None:
    engine = ScriptedEngine(by_length)
    feedbacks, scores = adjudge.Grader(engine).absolute_grade(
        instructions=["Greet me.", "Thank me.", "Greet me."],
        responses=["hi", "thank you so much", "good day"],
        rubric=RUBRIC,
    )
    assert scores == [1, 4, 2]
    assert feedbacks == ["It has words."] * 3
    ask = words(engine.asked[0])
    assert "[Rubric: Is it kind?]\nScore 1: kind 1" in ask
    assert "Reference" not in ask


def test_relative_grades_name_the_winner() -> None:
    grader = adjudge.Grader(ScriptedEngine(by_length))
    feedbacks, winners = grader.relative_grade(
        instructions=["Greet me."] * 2,
        responses_A=["hi", "good day to you"],
        responses_B=["good day to you", "hi"],
        rubric=RUBRIC,
        reference_answers=["Hello!", None],
    )
    assert winners == ["B", "A"]
    assert feedbacks == ["Longer wins."] * 2


def test_what_cannot_be_read_is_none() -> None:
    grader = adjudge.Grader(ScriptedEngine(lambda request: "Very nice."), retries=0)
    assert grader.single_absolute_grade("Greet me.", "hi", RUBRIC) == ("Very nice.", None)
    pair = grader.single_relative_grade("Greet me.", "hi", "ho", RUBRIC)
    assert pair == ("Very nice.", None)


def test_each_row_may_have_its_own_rubric() -> None:
    engine = ScriptedEngine(by_length)
    other = Criterion(name="wit", title="Wit", description="how funny it is")
    adjudge.Grader(engine).absolute_grade(
        instructions=["Greet me."] * 2, responses=["hi", "hi"], rubric=[RUBRIC, other]
    )
    assert ["[Wit: how funny it is]" in words(each) for each in engine.asked] == [False, True]


def test_a_reference_answer_of_some_rows_is_shown_there_alone() -> None:
    engine = ScriptedEngine(by_length)
    adjudge.Grader(engine).absolute_grade(
        instructions=["Greet me."] * 2,
        responses=["hi", "ho"],
        rubric=RUBRIC,
        reference_answers=["Good day!", None],
    )
    assert ["Good day!" in words(each) for each in engine.asked] == [True, False]
    assert not any("None" in words(each) for each in engine.asked)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"responses": ["hi"]}, "got 2 instructions, 1 responses"),
        ({"reference_answers": ["x"]}, "2 responses, 1 reference_answers"),
        ({"rubric": [RUBRIC]}, "one rubric, or one for each row: got 1 for 2"),
        ({"rubric": ""}, "does not say what is judged"),
        ({"rubric": None}, "a rubric is text, a table or a criterion, not None"),
        ({"rubric": [RUBRIC, 3]}, "a rubric is text, a table or a criterion, not 3"),
        ({"rubric": "[k]\n**Score 1:** a\n**Score 2:** b"}, "begin a line for each score"),
        ({"rubric": "[k]\n1: a\n2: b"}, "begin a line for each score"),
        ({"rubric": RUBRIC.replace("kind 1", "kind \ud800")}, "half of a surrogate pair"),
        ({"instructions": None}, "instructions must be a list of texts, not NoneType"),
        ({"responses": iter("cd")}, "responses must be a list of texts, not str_"),
        ({"rubric": RUBRIC.replace("Score 3: kind 3\n", "")}, "and not 3: describe it too"),
        ({"rubric": RUBRIC + "\nScore 5: again"}, "describes the score 5 twice"),
        ({"instructions": ["Greet me.", " "]}, "instruction 2 is empty"),
    ],
)
def test_bad_input_is_said(change: dict[str, Any], message: str) -> None:
    given = {"instructions": ["a", "b"], "responses": ["c", "d"], "rubric": RUBRIC}
    with pytest.raises(adjudge.ConfigError, match=message):
        adjudge.Grader(ScriptedEngine(by_length)).absolute_grade(**(given | change))


def test_a_table_is_one_rubric() -> None:
    engine = ScriptedEngine(by_length)
    table = {"criteria": "Is it kind?"} | {
        f"score{i}_description": f"kind {i}" for i in range(1, 6)
    }
    _, scores = adjudge.Grader(engine).absolute_grade(
        instructions=["a", "b"], responses=["c", "d e"], rubric=table
    )
    assert scores == [1, 2]
    assert "Score 5: kind 5" in words(engine.asked[0])


def test_one_text_is_no_list_of_responses() -> None:
    with pytest.raises(adjudge.ConfigError, match="responses_A must be a list of texts, not 'ab'"):
        adjudge.Grader(ScriptedEngine(by_length)).relative_grade(
            instructions=["i", "j"], responses_A="ab", responses_B="cd", rubric=RUBRIC
        )


def test_options_go_to_the_judge_that_has_them() -> None:
    engine = ScriptedEngine(by_length)
    grader = adjudge.Grader(engine, scale="1-10", orders="both", runs=1)
    assert grader.single_relative_grade("Greet me.", "good day", "hi", RUBRIC)[1] == "A"
    assert len(engine.asked) == 2
    criterion = Criterion(name="wit", title="Wit", description="how funny it is")
    assert grader.single_absolute_grade("Greet me.", "ho " * 9, criterion)[1] == 9
    with pytest.raises(adjudge.ConfigError, match="unknown option of prometheus-absolute 'ordres'"):
        adjudge.Grader(engine, ordres="both")


def test_pairs_of_unequal_lists_are_refused() -> None:
    with pytest.raises(adjudge.ConfigError, match="got 1 responses A and 2 responses B"):
        adjudge.Grader(ScriptedEngine(by_length)).relative_grade(
            instructions=["a"], responses_A=["b"], responses_B=["c", "d"], rubric=RUBRIC
        )
