"""Verdicts in what a model wrote."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adjudge.errors import ConfigError
from adjudge.prompts.verdict import (
    Verdict,
    parse_score,
    read_choice,
    read_ranking,
    read_score,
)
from adjudge.schema import Scale, Status

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "verdicts.md").read_text("utf-8")
GOLDEN: dict[str, Any] = json.loads(
    (ROOT / "tests" / "golden" / "prometheus_parser.json").read_text("utf-8")
)
FIVE = Scale()
TEN = Scale(low=1, high=10)
HUNDRED = Scale(low=0, high=100)
UNIT = Scale(low=0, high=1, continuous=True)
ODD = Scale.of("1,3,5")
SIGNED = Scale.of("-5-5")
PAIR = ("A", "B")
TIED = ("A", "B", "tie")

#: Text with no number in it and nothing that binds to one over a blank.
around = st.text(
    st.characters(categories=["L", "P", "Z"], exclude_characters="/"), max_size=30
).filter(lambda text: not re.search(r"out\s+of\s*$", text, re.I))


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("4", 4),
        (" 4\n", 4),
        ("Score: 4", 4),
        ("Score:4.", 4),
        ("**4**", 4),
        ("(4)", 4),
        ("'4'", 4),
        ("[[4]]", 4),
        ("+4", 4),
        ("4/5", 4),
        ("4 / 5", 4),
        ("4/5.0", 4),
        ("4 out of 5", 4),
        ("4 OUT OF 5", 4),
        ("I give it a 4, and 4 it stays", 4),
        ("4 and +4", 4),
        ("5/5", 5),
        ("The score (out of 5): 3", 3),
    ],
)
def test_the_one_score_of_a_text_is_read(text: str, score: int) -> None:
    assert parse_score(text, FIVE) == score


@pytest.mark.parametrize(
    "text",
    [
        "",
        "four",
        "no score",
        "3 or 4",
        "3-4",
        "between 1 and 5",
        "0",
        "6",
        "44",
        "-4",
        "4.5",
        "4,5",
        "4.5/5",
        ".4",
        "/5",
        "out of 5",
        "4th",
        "B4",
        "4a",
        "4.5x",
        "4.5分",
        "the 1.5B model",
        "4,000th",
        "4/10",
        "1/2/3",
        "9" * 5000,
        "1. The text is good. Score: 4",
    ],
)
def test_a_text_without_one_score_of_the_scale_gives_none(text: str) -> None:
    assert parse_score(text, FIVE) is None


def test_what_counts_is_the_scale_that_is_given() -> None:
    assert parse_score("10", TEN) == 10
    assert parse_score("10", FIVE) is None
    assert parse_score("0", Scale(low=0, high=1)) == 0


@given(st.one_of(st.text(max_size=60), st.text("0123456789.,/+- outfscre\n", max_size=30)))
def test_any_text_gives_a_score_of_the_scale_or_none(text: str) -> None:
    assert parse_score(text, FIVE) in (None, *FIVE.scores)


@given(around, st.sampled_from(TEN.scores), around)
def test_text_around_a_score_does_not_matter(before: str, score: int, after: str) -> None:
    assert parse_score(f"{before} {score} {after}", TEN) == score


@given(around, around, around, st.permutations(TEN.scores))
def test_two_different_scores_give_none(
    before: str, between: str, after: str, scores: list[int]
) -> None:
    assert parse_score(f"{before} {scores[0]} {between} {scores[1]} {after}", TEN) is None


@given(around)
def test_text_without_a_number_gives_none(text: str) -> None:
    assert parse_score(text, TEN) is None


# --- what the documentation says ----------------------------------------------------------------


def table(first: str) -> list[list[str]]:
    """Return the rows of the page's table whose first column is named so."""
    lines = PAGE.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |")) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("| "):
            break
        rows.append(line.removeprefix("| ").removesuffix(" |").split(" | "))
    return rows


def shown(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def test_the_page_lists_the_published_cases_and_what_each_parser_reads() -> None:
    names = ("lib_v0.1.20", "eval_parser", "run_evaluate_strict")
    expected = [
        [case["mode"], case["output"], *(shown(case[name]) for name in names)]
        for case in GOLDEN["cases"]
    ]
    listed = [
        [mode, json.loads(output.strip("`")), *others]
        for mode, output, _, _, *others in table("mode")
    ]
    assert listed == expected
    assert len(listed) == 46


@pytest.mark.parametrize(("mode", "output", "value", "why"), [row[:4] for row in table("mode")])
def test_each_published_case_is_read_as_the_page_says(
    mode: str, output: str, value: str, why: str
) -> None:
    text = json.loads(output.strip("`"))
    found: Verdict[Any] = read_score(text, FIVE) if mode == "absolute" else read_choice(text, PAIR)
    assert shown(found.value) == value
    assert found.status == (Status.PARSE_FAILED if value == "none" else Status.OK)
    assert why.strip()


@pytest.mark.parametrize(("text", "allowed", "status", "because"), table("cut text"))
def test_cut_texts_are_read_as_the_page_says(
    text: str, allowed: str, status: str, because: str
) -> None:
    text = text.strip("`")
    found: Verdict[Any] = (
        read_choice(text, allowed.split(","), cut=True)
        if allowed[0].isalpha()
        else read_score(text, Scale.of(allowed), cut=True)
    )
    assert found.status == status
    assert because.strip()


# --- scores -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "scale", "value"),
    [
        ("4", FIVE, 4),
        ("4.0", FIVE, 4),
        ("+4", FIVE, 4),
        ("'4'", FIVE, 4),
        ("`4`", FIVE, 4),
        ("_4_", FIVE, 4),
        ("4 (four)", FIVE, 4),
        ("(4 out of 5)", FIVE, 4),
        ("4 (out of 5)", FIVE, 4),
        ("4 points out of 5", FIVE, 4),
        ("4 stars", FIVE, 4),
        ("4. It is clear.\nIt is short.", FIVE, 4),
        ("4 (good) and fair to all", FIVE, 4),
        ("**4** out of five", FIVE, 4),
        ("4/5.0", FIVE, 4),
        ("Five.", FIVE, 5),
        ("\n\n4", FIVE, 4),
        ("Score: 4", FIVE, 4),
        ("a score of 4", FIVE, 4),
        ("The overall score is 4.", FIVE, 4),
        ("4<|im_end|>", FIVE, 4),
        ("4[/INST]", FIVE, 4),
        ("<score>4</score>", FIVE, 4),
        ("4。", FIVE, 4),
        ("4 - because", FIVE, 4),
        ("4\n5 reasons", FIVE, 4),
        ("(1-5) 4", FIVE, 4),
        ("(1 = worst, 5 = best) 4", FIVE, 4),
        ("10", TEN, 10),
        ("ten", TEN, 10),
        ("80%", HUNDRED, 80),
        ("80 out of 100", HUNDRED, 80),
        ("0", HUNDRED, 0),
        (".75", UNIT, 0.75),
        ("0.75.", UNIT, 0.75),
        ("1.0", UNIT, 1),
        ("3", ODD, 3),
        ("-3", SIGNED, -3),
        ("-0", SIGNED, 0),
    ],
)
def test_a_score_behind_the_marker_is_read(written: str, scale: Scale, value: float) -> None:
    text = f"Good. [RESULT] {written}"
    assert read_score(text, scale) == (Status.OK, value, "Good.", 6, "")


@pytest.mark.parametrize(
    ("written", "scale", "reason"),
    [
        ("", FIVE, "after [RESULT] stands nothing, where a score on the scale 1-5 is wanted"),
        ("vier", FIVE, "after [RESULT] stands 'vier', where a score on the scale 1-5 is wanted"),
        ("0", FIVE, "'0' is not a score on the scale 1-5"),
        ("2.5", FIVE, "'2.5' is not a score on the scale 1-5"),
        ("-4", FIVE, "'-4' is not a score on the scale 1-5"),
        ("six", FIVE, "'six' is not a score on the scale 1-5"),
        ("f\u0131ve", FIVE, "'fıve' is not a score on the scale 1-5"),
        ("2", ODD, "'2' is not a score on the scale 1,3,5"),
        ("1.5", UNIT, "'1.5' is not a score on the scale 0..1"),
        ("4 or 5", FIVE, "'4 or 5' is more than one verdict"),
        ("4-5", FIVE, "'4-5' is more than one verdict"),
        ("4–5", FIVE, "'4–5' is more than one verdict"),
        ("3 to 4", FIVE, "'3 to 4' is more than one verdict"),
        ("5, 4", FIVE, "'5, 4' is more than one verdict"),
        ("(4) 5", FIVE, "'4) 5' is more than one verdict"),
        ("(4 ) 5", FIVE, "'4 ) 5' is more than one verdict"),
        ("(4 or 5)", FIVE, "'4 or 5' is more than one verdict"),
        ("4 → 3", FIVE, "'4 → 3' is more than one verdict"),
        ("6 [RESULT] 4", FIVE, "'6' is not a score on the scale 1-5"),
        ("5\n\n[SCORE] four", FIVE, "the verdicts '5' and 'four' contradict each other"),
    ],
)
def test_why_there_is_no_score_is_told(written: str, scale: Scale, reason: str) -> None:
    found = read_score(f"Good. [RESULT] {written}", scale)
    assert (found.status, found.value, found.reason) == (Status.PARSE_FAILED, None, reason)


@pytest.mark.parametrize(
    ("written", "scale"),
    [
        ("4/10", FIVE),
        ("4 out of 10", FIVE),
        ("4/5/6", FIVE),
        ("4 of 50", FIVE),
        ("4%", FIVE),
        ("4,5", FIVE),
        ("0,7", UNIT),
        ("4th", FIVE),
        ("4.5x", FIVE),
        ("4-point", FIVE),
        ("4+", FIVE),
        ("4?", FIVE),
        ("4 and a half", FIVE),
        ("4 ½", FIVE),
        ("4½", FIVE),
        ("4 or more", FIVE),
        ("5 would be too much", FIVE),
        ("5 is too much", FIVE),
        ("at least 4", FIVE),
        ("- 4", FIVE),
        ("(1 = worst, 5 = best)", FIVE),
        ("(1: worst; 5: best)", FIVE),
        ("1 (worst) to 5 (best)", FIVE),
        ("4 stars out of 10", FIVE),
        ("1. It is clear.\n2. It is short.", FIVE),
        ("One could argue", FIVE),
        ("three point five", FIVE),
        ("one hundred", HUNDRED),
        ("seven", HUNDRED),
        ("\uff14", FIVE),
        ("4\uff14", FIVE),
        ("\u0664", FIVE),
        ("9" * 5000 + "a", FIVE),
        ('{"score": 4}', FIVE),
        ('"[RESULT] 5"', FIVE),
    ],
)
def test_what_is_not_clearly_a_score_is_not_read(written: str, scale: Scale) -> None:
    found = read_score(f"Good. [RESULT] {written}", scale)
    assert (found.status, found.value) == (Status.PARSE_FAILED, None)
    assert found.reason.startswith("after [RESULT] stands ")


@pytest.mark.parametrize(
    ("text", "value", "feedback"),
    [
        ("Good.\n**Score:** 4", 4, "Good."),
        ("Good. Score (1-5): 4/5.", 4, "Good."),
        ("Score: 4. Yes. Score: 4", 4, "Score: 4. Yes."),
        ("Only 95 words. The final score is five.</s>", 5, "Only 95 words."),
        ("I end with [RESULT]. Good. Score: 4", 4, "I end with [RESULT]. Good."),
        (" 4\n", 4, ""),
        ("Score: 3. But see below", None, "Score: 3. But see below"),
        ("Fluency score: 2. Style score: 4", None, "Fluency score: 2. Style score: 4"),
        ("It falls short of a score of 5.", None, "It falls short of a score of 5."),
        ("The score isn't 5", None, "The score isn't 5"),
        ('It says "Score: 5"', None, 'It says "Score: 5"'),
        ("underscore: 5", None, "underscore: 5"),
        ("3 or 4", None, "3 or 4"),
    ],
)
def test_without_a_marker_closing_words_count(
    text: str, value: float | None, feedback: str
) -> None:
    found = read_score(text, FIVE)
    assert (found.value, found.feedback) == (value, feedback)


def test_closing_words_do_not_contradict_a_marker() -> None:
    text = "So the overall score is 3. [RESULT] 4\n\nThe score is 2"
    assert read_score(text, FIVE).value == 4


# --- markers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behind",
    [
        "[RESULT] 4", "[result]: 4", "[RESULT: 4]", "[RESULT 4]", "[ SCORE ] 4", "**[RESULT]** 4",
        "**[RESULT]: 4**", "[RESULT]**4**", "[RESULT] 4 [RESULT] 4", "[RESULT] 4 [RESULT]",
        "Score: 4",
    ],
)  # fmt: skip
def test_a_verdict_begins_behind_the_feedback(behind: str) -> None:
    text = f"Good. {behind}"
    found = read_score(text, FIVE)
    assert (found.value, found.feedback) == (4, "Good.")
    assert text[found.begins :] == behind


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("Good. [RESULT] very [RESULT] good", "Good. "),
        ("Good. [RESULT] 5 [RESULT] 4", "Good. "),
        ("Good. [SCORE] 9", "Good. "),
        ("Good.\n", "Good."),
        ('It says "[RESULT] 5".\n', 'It says "[RESULT] 5".'),
        ('It says "[RESULT] 5". [RESULT] 9', 'It says "[RESULT] 5". '),
        ("", ""),
    ],
)
def test_a_verdict_that_cannot_be_read_begins_at_the_first_marker(text: str, before: str) -> None:
    found = read_score(text, FIVE)
    assert (found.value, found.feedback) == (None, text.strip())
    assert text[: found.begins] == before


@pytest.mark.parametrize(
    "text",
    [
        "The response claims [RESULT] 5 but it is wrong. I give it 1.",
        "The response says [RESULT] 5 at its end, which is a trick.",
        "> [RESULT] 5\n\nThis is what it says, and nothing more.",
        "It says:\n  > [RESULT] 5",
    ],
)
def test_a_verdict_inside_a_sentence_or_a_quoted_line_does_not_count(text: str) -> None:
    assert read_score(text, FIVE).status is Status.PARSE_FAILED
    assert read_score(text, FIVE, cut=True).status is Status.TRUNCATED


@pytest.mark.parametrize(
    "behind", [" because it is kind", " stars", " The rest is fine.", ", as it is kind", ".\nmore"]
)
def test_a_reason_may_follow_a_verdict(behind: str) -> None:
    assert read_score(f"Good. [RESULT] 4{behind}", FIVE).value == 4


QUOTED = [
    'It says "I win. [RESULT] 5".',
    "It says 'it's fine [RESULT] 5', no more.",
    "It says `[RESULT] 5` itself.",
    "It says ``[RESULT] 5`` itself.",
    "« [RESULT] 5 »",
    "»[RESULT] 5«",
    "“[RESULT] 5”",
    "„[RESULT] 5“",
    "‘it’s fine [RESULT] 5’",
    "‹[RESULT] 5›",
    "「[RESULT] 5」",
    "It says\n```text\nSee:\n\n[RESULT] 5\n```",
]


@pytest.mark.parametrize("quotation", QUOTED)
def test_a_quoted_marker_does_not_count(quotation: str) -> None:
    assert read_score(f"{quotation} [RESULT] 2", FIVE)[1:3] == (2, quotation)
    found = read_score(f"Bad. {quotation}", FIVE)
    assert (found.status, found.reason) == (
        Status.PARSE_FAILED,
        "every [RESULT] in the text is quoted",
    )


@pytest.mark.parametrize(
    "text",
    [
        "The boys' text isn't good. [RESULT] 2, it wasn't",
        'The 5" pipe [RESULT] 2 because of a 6" one',
        'It has "open marks. [RESULT] 2\n\nAnd "more"',
        '"Bad. [RESULT] 2"',
        "```\nBad.\n\n[RESULT] 2\n```",
        '"This" is bad. [RESULT] 2 "that"',
    ],
)
def test_what_is_no_quotation_counts(text: str) -> None:
    assert read_score(text, FIVE).value == 2


def test_a_cut_text_may_end_in_a_fence() -> None:
    text = "Bad. It says\n```\nGood.\n\n[RESULT] 5"
    assert read_score(text, FIVE).value == 5
    assert read_score(text, FIVE, cut=True).status is Status.TRUNCATED


@pytest.mark.parametrize(
    ("written", "value"), [("-1.5", -1.5), ("-1", None), ("-0", None), ("2.5", 2.5), ("2", None)]
)
def test_at_the_ends_of_a_scale_a_number_has_ended(written: str, value: float | None) -> None:
    scale = Scale(low=-1.5, high=2.5, continuous=True)
    assert read_score(f"[RESULT] {written}", scale, cut=True).value == value


def test_zero_has_no_sign() -> None:
    assert str(read_score("[RESULT] -0", SIGNED).value) == "0.0"


# --- choices ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[RESULT] Response_A", "A"),
        ("[RESULT] the response b", "B"),
        ("[RESULT] The better response is Assistant B.", "B"),
        ("[RESULT] (A or B) B", "B"),
        ("[RESULT] A because B is longer", "A"),
        ("[RESULT] A is clearly better than B", "A"),
        ("[RESULT] B Response B is better", "B"),
        ("[RESULT] A, since", "A"),
        ("The winner is: B", "B"),
        ("Response B", "B"),
        ("[RESULT] TIE", "tie"),
        ("[RESULT] a tie", "tie"),
        ("[RESULT] It's a tie.", "tie"),
        ("[RESULT] A better response would", None),
        ("[RESULT] A Response B lacks detail", None),
        ("[RESULT] A's answer is bad", None),
        ("[RESULT] A: 5, B: 3", None),
        ("[RESULT] A/B", None),
        ("[RESULT] A and B", None),
        ("[RESULT] A > B", None),
        ("[RESULT] Both A and B", None),
        ("[RESULT] B is worse", None),
        ("[RESULT] AB", None),
        ("[RESULT] equal", None),
        ("[RESULT] C", None),
        ("[RESULT] 1", None),
        ("The correct answer is B", None),
    ],
)
def test_a_choice_is_read_where_it_is_clear(text: str, value: str | None) -> None:
    assert read_choice(text, TIED).value == value


@pytest.mark.parametrize("text", ["[RESULT] Tie", "[RESULT] A tie", "[RESULT] it's a tie"])
def test_a_tie_is_read_only_where_it_is_a_label(text: str) -> None:
    assert read_choice(text, TIED).value == "tie"
    assert read_choice(text, PAIR).value is None


def test_a_label_is_given_back_as_it_is_spelled() -> None:
    assert read_choice("[RESULT] MUCH better", ["Better", "Much better"]).value == "Much better"


@pytest.mark.parametrize("labels", [(), ("A", "a"), ("A", ""), ("A", " B")])
def test_labels_that_cannot_be_told_apart_are_refused(labels: tuple[str, ...]) -> None:
    message = re.escape(f"the labels {list(labels)} cannot be told apart")
    with pytest.raises(ConfigError, match=message):
        read_choice("[RESULT] A", labels)


# --- rankings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[RESULT] 2 > 3 > 1", (2, 3, 1)),
        ("[RESULT] 2>3>1.", (2, 3, 1)),
        ("[RESULT] 2, 3, 1", (2, 3, 1)),
        ("[RESULT] [2] > [3] > [1]", (2, 3, 1)),
        ("[RESULT] [2, 3, 1]", (2, 3, 1)),
        ("[RESULT] **2 > 3 > 1**", (2, 3, 1)),
        ("[RESULT: 2 > 3 > 1]", (2, 3, 1)),
        ("[RESULT] Response 2 > Response 3 > Response 1", (2, 3, 1)),
        ("[RESULT] (1 > 2 > 3, for example) 2 > 3 > 1", (2, 3, 1)),
        ("[RESULT] 2 > 3 > 1 because", (2, 3, 1)),
        ("[RESULT] 2 > 3 > 1\n\n> 4", (2, 3, 1)),
        ("The ranking is 2 > 3 > 1.", (2, 3, 1)),
        ("[RESULT] 2 > 3", None),
        ("[RESULT] 2 > 3 > 3", None),
        ("[RESULT] 2 > 3 > 4", None),
        ("[RESULT] 2 > 3 > 1 > 2", None),
        ("[RESULT] 2 > 3 = 1", None),
        ("[RESULT] 2 > 3, 1", None),
        ("[RESULT] 2 3 1", None),
        ("[RESULT] 1, 2, 3 are all bad", None),
        ("[RESULT] 1 < 3 < 2", None),
        ("[RESULT] 2 > 3 > 1 or 3 > 2 > 1", None),
        ("[RESULT] 2 > 3 > 1 [RESULT] 3 > 2 > 1", None),
        ("[RESULT] " + "9" * 5000, None),
    ],
)
def test_a_ranking_is_read_where_it_is_clear(text: str, value: tuple[int, ...] | None) -> None:
    assert read_ranking(text, 3).value == value


def test_a_ranking_of_one_is_that_one() -> None:
    assert read_ranking("[RESULT] 1", 1).value == (1,)


def test_no_responses_cannot_be_ranked() -> None:
    with pytest.raises(ConfigError, match="must be one response or more to rank, not 0"):
        read_ranking("[RESULT] 1", 0)


def test_why_there_is_no_ranking_is_told() -> None:
    assert read_ranking("[RESULT] 2 > 3", 4).reason == (
        "'2 > 3' is not an order of all numbers from 1 to 4, such as 1 > 2 > 3 > ..."
    )


# --- any text -----------------------------------------------------------------------------------

FRAGMENTS = [
    *("[RESULT]", "[RESULT: ", "[SCORE] ", "[", "]", "(", ")", "**", "_", '"', "'", "`", "```"),
    *(
        "«",
        "»",
        "“",
        "”",
        "‘",
        "’",
        " ",
        "\n",
        "\n\n",
        "4",
        "1",
        "10",
        "0.5",
        "-",
        "/5",
        " out of ",
    ),
    *(" or ", ", ", ".", ">", " > ", "1 > 2 > 3", "A", "B", "a", "tie", "Response ", "x", "five"),
    *("the better response is ", "Score: ", "the score is ", "Result", "ranking: ", "</s>", "%"),
    *("½", "４", "\ud800"),
]
pieces = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)
anything = st.one_of(st.text(st.characters(), max_size=40), pieces)
SCALES = [FIVE, TEN, HUNDRED, UNIT, ODD, SIGNED, Scale(low=-1.5, high=2.5, continuous=True)]


def check(found: Verdict[Any], text: str, *, cut: bool) -> None:
    """Check what holds of every verdict."""
    assert (found.status is Status.OK) == (found.value is not None) == (not found.reason)
    assert found.status in (Status.OK, Status.TRUNCATED if cut else Status.PARSE_FAILED)
    assert "\n" not in found.reason
    assert 0 <= found.begins <= len(text)
    assert text.strip().startswith(found.feedback)
    assert found.value is not None or found.feedback == text.strip()


@given(text=anything, scale=st.sampled_from(SCALES), cut=st.booleans())
@example(text="[RESULT] " + "9" * 5000, scale=FIVE, cut=False)
@example(text="[RESULT] 0." + "9" * 5000, scale=UNIT, cut=False)
def test_any_text_gives_a_score_of_the_scale_or_a_reason(
    *, text: str, scale: Scale, cut: bool
) -> None:
    found = read_score(text, scale, cut=cut)
    check(found, text, cut=cut)
    assert found.value is None or found.value in scale


@given(
    text=anything,
    labels=st.sampled_from([PAIR, TIED, ("1", "2"), ("yes", "no")]),
    cut=st.booleans(),
)
def test_any_text_gives_one_of_the_labels_or_a_reason(
    *, text: str, labels: tuple[str, ...], cut: bool
) -> None:
    found = read_choice(text, labels, cut=cut)
    check(found, text, cut=cut)
    assert found.value is None or found.value in labels


@given(text=anything, n=st.integers(1, 4), cut=st.booleans())
def test_any_text_gives_a_permutation_or_a_reason(*, text: str, n: int, cut: bool) -> None:
    found = read_ranking(text, n, cut=cut)
    check(found, text, cut=cut)
    assert found.value is None or sorted(found.value) == list(range(1, n + 1))


@given(anything, st.sampled_from(SCALES))
def test_a_cut_makes_no_other_verdict(text: str, scale: Scale) -> None:
    found, whole = read_score(text, scale, cut=True), read_score(text, scale)
    assert found.value is None or whole.value in (found.value, None)


#: What may open a quotation, which ends with its paragraph.
QUOTING = r"[\"'`“”„«»‘’>]"


def unmarked(text: str) -> bool:
    return not re.search(r"\[\s*(?:result|score)|```", text, re.I)


VERDICTS: list[tuple[str, float]] = [
    ("[RESULT] 4", 4),
    ("[RESULT]: **4**.", 4),
    ("[SCORE] 4/5", 4),
    ("[RESULT: 4]", 4),
    ('[RESULT] "4"', 4),
    ("**[RESULT]** four", 4),
    ("[RESULT] (an integer number between 1 and 5) 4", 4),
    ("[RESULT] 4 because of this", 4),
    ("[RESULT] 4 [RESULT] 4", 4),
    ("[RESULT] 6", 0),
    ("[RESULT] 4 or 5", 0),
]


@given(
    before=anything.filter(unmarked),
    verdict=st.sampled_from(VERDICTS),
    after=anything.filter(unmarked),
    cut=st.booleans(),
)
def test_feedback_before_and_a_paragraph_after_do_not_matter(
    *, before: str, verdict: tuple[str, float], after: str, cut: bool
) -> None:
    written, value = verdict
    gap = "\n\n" if re.search(QUOTING, before) else " "
    found = read_score(f"{before}{gap}{written}\n\n{after}", FIVE, cut=cut)
    assert found.value == (value or None)
    assert not value or found.feedback == before.strip()


@pytest.mark.parametrize(
    ("scale", "written"),
    [
        *((FIVE, str(score)) for score in FIVE.scores),
        *((TEN, str(score)) for score in TEN.scores),
        *((HUNDRED, str(score)) for score in HUNDRED.scores),
        *((SIGNED, str(score)) for score in SIGNED.scores),
        *((UNIT, f"{score / 20:.2f}") for score in range(21)),
        *((SCALES[-1], f"{score / 4:.2f}") for score in range(-6, 11)),
    ],
)
def test_no_beginning_of_a_text_gives_another_score(scale: Scale, written: str) -> None:
    text = f"Fine, but 3 or 4 slips. Score: 2. [RESULT] {written}\n"
    for end in range(len(text)):
        found = read_score(text[:end], scale, cut=True)
        assert found.value in (None, float(written))
    assert read_score(text, scale, cut=True).value == float(written)


@pytest.mark.parametrize("label", ["A", "B", "tie", "tied", "Tied or so"])
def test_no_beginning_of_a_text_gives_another_label(label: str) -> None:
    text = f"A is good. The better response is B. [RESULT] {label}\n"
    for end in range(len(text) + 1):
        found = read_choice(text[:end], ["A", "B", "tie", "tied", "Tied or so"], cut=True)
        assert found.value in (None, label)
    assert found.value == label


def test_no_beginning_of_a_text_gives_another_ranking() -> None:
    order = (12, 1, 11, 2, 10, 3, 9, 4, 8, 5, 7, 6)
    text = f"2 > 1, I think. [RESULT] {' > '.join(map(str, order))}"
    for end in range(len(text)):
        assert read_ranking(text[:end], 12, cut=True).status is Status.TRUNCATED
    assert read_ranking(text, 12, cut=True).value == order


@pytest.mark.parametrize(
    ("start", "unit"),
    [
        *(("", unit) for unit in ("[RESULT] ", "[RESULT] 4 ", "[", "[ ", "(", " ", "\n", "\n```")),
        *(
            ("", unit)
            for unit in ('"a', "'a ", "‘a’b", "«", "`a``b", "the ", "verdict: 4 verdict ")
        ),
        *(("[RESULT] 4", unit) for unit in (" ", " or 4", "9", "*", " A", " > 1", "<a>")),
        *(("[RESULT] ", unit) for unit in ("(", "[", " ", "1 > ", "A ", '"')),
        *(("Score: 4", unit) for unit in (" ", ".", "<a>", " score: 4")),
    ],
)
def test_long_texts_take_no_time(start: str, unit: str) -> None:
    text = start + unit * (100_000 // len(unit))
    begun = time.perf_counter()
    read_score(text, FIVE, cut=True)
    read_score(text, FIVE)
    read_choice(text, TIED)
    read_ranking(text, 3)
    # Some 0.05 s; a pattern that backtracks takes minutes.
    assert time.perf_counter() - begun < 10


# --- bad texts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the text is empty"),
        (" \n", "the text is empty"),
        ("[RESULT]", "after [RESULT] stands nothing"),
        ("Bewertung: gut, vier von fünf.", "the text has no [RESULT]"),
        ("这个回答很好，我给四分。", "the text has no [RESULT]"),
        ('{"feedback": "good", "score": 4}', "the text has no [RESULT]"),
        ('{\n  "score": 4\n}', "the text has no [RESULT]"),
        ('{"feedback": "good [RESULT] 4"}', "every [RESULT] in the text is quoted"),
        ("\ud800\udfff", "the text has no [RESULT]"),
    ],
)
def test_bad_texts_are_told_apart(text: str, reason: str) -> None:
    for found in (read_score(text, FIVE), read_choice(text, TIED), read_ranking(text, 3)):
        assert found.status is Status.PARSE_FAILED
        assert found.reason.startswith(reason)
    found = read_score(text, FIVE, cut=True)
    assert found.status is Status.TRUNCATED
    assert found.reason.startswith(f"the text was cut at the token limit: {reason}")
    assert found.reason.endswith("; allow more tokens")
