"""Loaders of pairs and of responses with a rubric of their own, on small files."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from adjudge.benchmarks import pairs, prometheus
from adjudge.benchmarks.base import LocalFile, RatedPair, RatedResponse
from adjudge.errors import ConfigError, DataError
from tests.unit.test_benchmark_loaders import Row, lines, whole

# --- filled prompts -----------------------------------------------------------------------------

RUBRIC = "[Is it kind?]\n" + "\n".join(f"Score {i}: Kind {i}." for i in range(1, 6))


def filled(
    instruction: str = "Greet me.",
    response: str = "Hi!",
    reference: str | None = "Good day!",
    rubric: str = RUBRIC,
) -> str:
    """Return a prompt with the blocks of Prometheus."""
    blocks = [
        "###Task Description:\nSay how good it is.",
        f"###The instruction to evaluate:\n{instruction}",
        f"###Response to evaluate:\n{response}",
        *([] if reference is None else [f"###Reference Answer (Score 5):\n{reference}"]),
        f"###Score Rubrics:\n{rubric}",
        "###Feedback: ",
    ]
    return "\n\n".join(blocks)


def scored(**changes: object) -> Row:
    """Return a row of the style of Vicuna Bench."""
    row: Row = {
        "idx": 4,
        "response_source": "S1",
        "category": "manners",
        "instruction": filled(),
        "gpt4_score": [3, 4, 5],
        "gpt4_feedback": ["", "", ""],
    }
    return row | changes


def read_scored(path: Path, *rows: Row) -> list[RatedResponse]:
    return prometheus.read_scores([lines(path / "x.json", rows)])


def test_filled_prompts_are_split(tmp_path: Path) -> None:
    (found,) = read_scored(tmp_path, scored())
    assert (found.id, found.source.id, found.source.text) == (
        "prompt-4/S1",
        "prompt-4",
        "Greet me.",
    )
    assert (found.response, found.reference_answers) == ("Hi!", ("Good day!",))
    assert found.criterion is not None
    assert (found.criterion.name, found.criterion.description) == ("rubric", "Is it kind?")
    assert found.criterion.rubric == ("Kind 1.", "Kind 2.", "Kind 3.", "Kind 4.", "Kind 5.")
    assert found.gold == {"rubric": 4.0}
    assert found.ratings == {"rubric": (3.0, 4.0, 5.0)}
    assert (found.system, found.group) == ("S1", "manners")


@pytest.mark.parametrize("block", ["Reference Answer (Score 5):", "Score Rubrics:", "Feedback:"])
def test_markers_in_the_texts_split_nothing(tmp_path: Path, block: str) -> None:
    tricky = f"One.\n###{block}\nScore 1: low\nScore 2: more\n### Heading\nTwo."
    (found,) = read_scored(tmp_path, scored(instruction=filled(tricky, tricky)))
    assert (found.source.text, found.response) == (tricky, tricky)
    assert found.reference_answers == ("Good day!",)


def test_an_instruction_in_a_response_is_part_of_it(tmp_path: Path) -> None:
    tricky = "###The instruction to evaluate:\nMe.\n###Response to evaluate:\nYes."
    (found,) = read_scored(tmp_path, scored(instruction=filled(response=tricky, reference=None)))
    assert (found.source.text, found.response) == ("Greet me.", tricky)
    assert found.reference_answers == ()


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("Greet me.", "no block 'The instruction to evaluate'"),
        ("###The instruction to evaluate:\nGreet me.", "no block 'Response to evaluate'"),
        (filled(rubric="[Is it kind?]\nScore 1: No."), "no block 'Score Rubrics' with the scores"),
        (filled(instruction=" "), "the prompt's instruction is empty"),
    ],
)
def test_prompts_without_the_blocks_are_errors(tmp_path: Path, prompt: str, message: str) -> None:
    with pytest.raises(DataError, match=f"line 2, column 'instruction': .*{message}"):
        read_scored(tmp_path, scored(), scored(instruction=prompt))


def test_each_text_is_a_source_with_an_id_of_its_own(tmp_path: Path) -> None:
    other = filled("Greet her.")
    found = read_scored(
        tmp_path,
        scored(),
        scored(response_source="S2"),
        scored(idx=5, instruction=other),
        scored(idx=6, instruction=filled("Sing.")),
        scored(idx=6, instruction=filled("Dance.")),
    )
    assert [each.source.id for each in found[:3]] == ["prompt-4", "prompt-4", "prompt-5"]
    assert found[3].source.id.startswith("prompt-6-")
    assert len({each.source.id for each in found}) == 4


def test_one_answer_may_be_scored_by_two_rubrics(tmp_path: Path) -> None:
    brief = filled(rubric=RUBRIC.replace("kind", "brief"))
    found = read_scored(tmp_path, scored(), scored(instruction=brief))
    assert [each.id for each in found] == ["prompt-4/S1", "prompt-4/S1#2"]
    with pytest.raises(DataError, match=r"line 2, column 'response_source'.*also that of row 1"):
        read_scored(tmp_path, scored(), scored())


def test_human_scores_come_first(tmp_path: Path) -> None:
    row = scored(human_score=[1, 2])
    del row["response_source"], row["idx"], row["category"]
    (found,) = read_scored(tmp_path, row)
    assert found.gold == {"rubric": 1.5, "gpt4": 4.0}
    assert found.ratings == {"rubric": (1.0, 2.0), "gpt4": (3.0, 4.0, 5.0)}
    assert (found.id, found.system, found.group) == ("prompt-1", "", "")
    (found,) = read_scored(tmp_path, row | {"human_score": 2, "gpt4_score": None})
    assert found.gold == {"rubric": 2.0}


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([3, "4"], "column 'gpt4_score': must be a number, not text"),
        ([], "column 'gpt4_score': the list is empty"),
        (None, "column 'gpt4_score': the field has no value"),
        ([3, math.nan], "column 'gpt4_score': must be a finite number"),
    ],
)
def test_scores_must_be_numbers(tmp_path: Path, scores: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_scored(tmp_path, scored(gpt4_score=scores))


ORIG: Row = {
    "orig_instruction": "Count.",
    "orig_response": "1, 2",
    "orig_reference_answer": "1, 2, 3",
    "orig_criteria": "Is it whole?",
    **{f"orig_score{i}_description": f"Level {i}" for i in range(1, 6)},
    "orig_feedback": "Short.",
    "orig_score": "2",
}


def test_fields_of_their_own_come_before_the_prompt(tmp_path: Path) -> None:
    found = read_scored(
        tmp_path, ORIG | {"instruction": "?", "gpt4_score": [2, 3]}, ORIG | {"orig_score": 5}
    )
    assert [each.id for each in found] == ["prompt-1", "prompt-1#2"]
    assert [each.gold["rubric"] for each in found] == [2.5, 5.0]
    assert (found[0].source.text, found[0].response) == ("Count.", "1, 2")
    assert found[0].reference_answers == ("1, 2, 3",)
    assert found[0].criterion is not None
    assert found[0].criterion.rubric[4] == "Level 5"


# --- pairs with a rubric ------------------------------------------------------------------------


def chosen(n: int, **changes: object) -> Row:
    row: Row = {
        "source": "honest",
        "chosen_instruction": filled(f"Ask {n}.", "better", None),
        "rejected_instruction": filled(f"Ask {n}.", "worse", None),
    }
    return row | changes


def better(pair: RatedPair) -> str:
    return pair.responses[0 if pair.gold == 1 else 1]


def test_chosen_responses_do_not_stay_first(tmp_path: Path) -> None:
    rows = [chosen(n) for n in range(100)]
    found = prometheus.read_pairs([whole(tmp_path / "x.json", rows)])
    assert {better(pair) for pair in found} == {"better"}
    assert 35 <= sum(pair.gold == 1 for pair in found) <= 65
    swapped = [
        row
        | {
            "chosen_instruction": row["rejected_instruction"],
            "rejected_instruction": row["chosen_instruction"],
        }
        for row in rows
    ]
    turned = prometheus.read_pairs([lines(tmp_path / "x.json", swapped)])
    assert [pair.responses for pair in turned] == [pair.responses for pair in found]
    assert [pair.gold for pair in turned] == [-pair.gold for pair in found]
    assert (found[0].id, found[0].group, found[0].source.text) == ("pair-1", "honest", "Ask 0.")


def test_pairs_may_be_ties(tmp_path: Path) -> None:
    rows = [chosen(1, tie=1), chosen(2, tie=0)]
    del rows[0]["source"]
    found = prometheus.read_pairs([lines(tmp_path / "x.json", rows)])
    assert [abs(pair.gold) for pair in found] == [0.0, 1.0]
    assert found[0].group == ""
    with pytest.raises(
        DataError, match="column 'tie': unknown label 'yes': it must be one of 0, 1"
    ):
        prometheus.read_pairs([lines(tmp_path / "x.json", [chosen(1, tie="yes")])])


def test_the_prompts_of_a_pair_differ_in_the_response_alone(tmp_path: Path) -> None:
    row = chosen(1, rejected_instruction=filled("Ask 2.", "worse", None))
    with pytest.raises(DataError, match="'rejected_instruction': differs from chosen_instruction"):
        prometheus.read_pairs([lines(tmp_path / "x.json", [row])])


def preference(**changes: object) -> Row:
    row = ORIG | {"orig_response_A": " one ", "orig_response_B": "two", "orig_preference": "B"}
    return row | changes


def test_preferences_keep_their_order(tmp_path: Path) -> None:
    rows = [preference(), preference(orig_preference="A"), chosen(1), preference()]
    for i in range(1, 6):
        del rows[3][f"orig_score{i}_description"]
    found = prometheus.read_preference_collection([lines(tmp_path / "x.json", rows)])
    assert found[0].responses == ("one", "two")
    assert [pair.gold for pair in found[:2]] == [-1.0, 1.0]
    assert better(found[2]) == "better"
    assert [pair.id for pair in found] == ["pair-1", "pair-2", "pair-3", "pair-4"]
    assert [len(pair.criterion.rubric) for pair in found if pair.criterion] == [5, 5, 5, 0]
    assert found[0].source is found[1].source
    with pytest.raises(
        DataError, match=r"'orig_preference': unknown label 'C': it must be.*'A', 'B'"
    ):
        prometheus.read_preference_collection(
            [lines(tmp_path / "x.json", [preference(orig_preference="C")])]
        )


# --- BiGGen-Bench -------------------------------------------------------------------------------

PROMPT: Row = {
    "id": "plan_0",
    "capability": "planning",
    "task": "trip",
    "instance_idx": 0,
    "system_prompt": "Be brief.",
    "input": "Plan a day.",
    "reference_answer": "Sleep.",
    "score_rubric": {"criteria": "Is it a plan?"}
    | {f"score{i}_description": f"Plan {i}" for i in range(1, 6)},
}


def test_flat_and_nested_responses_are_read_alike(tmp_path: Path) -> None:
    scores: dict[str, Row] = {
        "S1": {"response": "Eat.", "human_score": 2, "gpt4_score": [3, 4]},
        "S2": {"response": "Walk.", "score": 5},
    }
    nested = prometheus.read_biggen([lines(tmp_path / "x.json", [PROMPT | {"responses": scores}])])
    names = ("response_model_name", "model_name")
    flat_rows = [
        PROMPT | each | {name: system}
        for name, (system, each) in zip(names, scores.items(), strict=True)
    ]
    assert prometheus.read_biggen([whole(tmp_path / "x.json", flat_rows)]) == nested
    keyed = {"a": flat_rows[0], "b": flat_rows[1]}
    assert prometheus.read_biggen([whole(tmp_path / "x.json", keyed)]) == nested
    assert [each.id for each in nested] == ["plan_0/S1", "plan_0/S2"]
    assert nested[0].gold == {"rubric": 2.0, "gpt4": 3.5}
    assert nested[1].gold == {"rubric": 5.0}
    assert nested[0].source.text == "Be brief.\n\nPlan a day."
    assert nested[0].group == "planning"
    assert nested[0].criterion is not None
    assert nested[0].criterion.rubric[0] == "Plan 1"


def test_wrong_rows_of_biggen_are_named(tmp_path: Path) -> None:
    row = PROMPT | {"response": "Eat.", "response_model": "S1", "human_score": 2}
    with pytest.raises(DataError, match=r"line 2, column 'id'.*'plan_0', 'S1'\) is also"):
        prometheus.read_biggen([lines(tmp_path / "x.json", [row, row])])
    with pytest.raises(
        DataError, match=r"'score_rubric\.score1_description': the field is missing"
    ):
        prometheus.read_biggen(
            [lines(tmp_path / "x.json", [row | {"score_rubric": {"criteria": "Is it?"}}])]
        )
    del row["response_model"]
    with pytest.raises(DataError, match="'response_model_name': the field is missing"):
        prometheus.read_biggen([lines(tmp_path / "x.json", [row])])


# --- plain pairs --------------------------------------------------------------------------------

AUTOJ: Row = {
    "scenario": "letters",
    "label": 0,
    "prompt": "Write.",
    "response 1": " Dear you",
    "response 2": "",
}
LLMBAR: Row = {"input": "Add 1 and 1.", "output_1": "2", "output_2": "3", "label": 1}
JUDGEBENCH: Row = {
    "pair_id": "p1",
    "original_id": 17,
    "source": "sums",
    "question": "1 + 1?",
    "response_model": "S1",
    "response_A": "2",
    "response_B": "3",
    "label": "A>B",
}
PANDALM: Row = {
    "idx": 0,
    "motivation_app": "Mail",
    "cmp_key": "S-1_S-2",
    "instruction": "Shorten.",
    "input": "A long text.",
    "response1": "Text.",
    "response2": "Long.",
    "annotator1": 1,
    "annotator2": 2,
    "annotator3": 2,
}


def test_autoj_labels_count_from_zero(tmp_path: Path) -> None:
    rows = [AUTOJ | {"label": label} for label in (0, 1, 2)]
    found = pairs.read_autoj([lines(tmp_path / "x.json", rows)])
    assert [pair.gold for pair in found] == [1.0, -1.0, 0.0]
    assert [pair.id for pair in found] == ["autoj-1", "autoj-2", "autoj-3"]
    assert {pair.source.id for pair in found} == {"autoj-1"}
    assert found[0].responses == ("Dear you", "")
    assert found[0].group == "letters"


def test_llmbar_labels_count_from_one(tmp_path: Path) -> None:
    first = lines(tmp_path / "a.json", [LLMBAR, LLMBAR | {"label": 2}])._replace(group="Natural")
    second = lines(tmp_path / "b.json", [LLMBAR | {"input": "Say 2."}])._replace(group="Manual")
    found = pairs.read_llmbar([first, second])
    assert [pair.id for pair in found] == ["Natural-1", "Natural-2", "Manual-1"]
    assert [pair.gold for pair in found] == [1.0, -1.0, 1.0]
    assert [pair.group for pair in found] == ["Natural", "Natural", "Manual"]
    with pytest.raises(DataError, match="the pair 'Natural-1' is also"):
        pairs.read_llmbar([first, first])


def test_judgebench_has_both_responses_of_one_system(tmp_path: Path) -> None:
    labels = ("A>B", "B>A", "A=B")
    rows = [JUDGEBENCH | {"pair_id": f"p{i}", "label": label} for i, label in enumerate(labels)]
    rows.append(JUDGEBENCH | {"question": "2 + 2?"})
    found = pairs.read_judgebench([lines(tmp_path / "x.jsonl", [*rows[:3]])])
    assert [pair.gold for pair in found] == [1.0, -1.0, 0.0]
    assert found[0].systems == ("S1", "S1")
    assert (found[0].group, found[0].source.id) == ("sums", "sums/17")
    with pytest.raises(DataError, match="line 4, column 'pair_id': the pair_id 'p1' is also"):
        pairs.read_judgebench([lines(tmp_path / "x.jsonl", rows)])
    rows[3] |= {"pair_id": "other"}
    other = pairs.read_judgebench([lines(tmp_path / "x.jsonl", rows)])[3]
    assert other.source.id.startswith("sums/17-")


def test_pandalm_has_three_votes(tmp_path: Path) -> None:
    rows = [
        PANDALM,
        PANDALM | {"idx": 1, "input": math.nan, "annotator1": 0},
        PANDALM | {"idx": 2, "input": "", "annotator1": 0, "annotator2": 0},
    ]
    del rows[2]["motivation_app"]
    found = pairs.read_pandalm([whole(tmp_path / "x.json", rows)])
    assert found[0].votes == (1.0, -1.0, -1.0)
    assert found[0].gold == -1.0
    assert found[1].gold == -1.0
    assert found[2].gold == 0.0
    assert found[0].source.text == "Shorten.\n\nA long text."
    assert found[1].source.text == found[2].source.text == "Shorten."
    assert found[0].systems == ("S-1", "S-2")
    assert [pair.group for pair in found] == ["Mail", "Mail", ""]
    rows[1]["annotator2"] = 1
    assert math.isnan(pairs.read_pandalm([whole(tmp_path / "x.json", rows)])[1].gold)


@pytest.mark.parametrize(
    ("read", "row", "change", "message"),
    [
        (pairs.read_autoj, AUTOJ, {"label": 3}, "unknown label 3: it must be one of 0, 1, 2"),
        (pairs.read_autoj, AUTOJ, {"label": True}, "unknown label True"),
        (pairs.read_autoj, AUTOJ, {"prompt": ""}, "column 'prompt': the text is empty"),
        (pairs.read_llmbar, LLMBAR, {"label": 0}, "unknown label 0: it must be one of 1, 2"),
        (pairs.read_llmbar, LLMBAR, {"output_2": None}, "'output_2': the field has no value"),
        (pairs.read_judgebench, JUDGEBENCH, {"label": "A<B"}, "unknown label 'A<B'"),
        (pairs.read_judgebench, JUDGEBENCH, {"pair_id": 1.5}, "must be text, not a number"),
        (pairs.read_pandalm, PANDALM, {"annotator3": "2"}, "unknown label '2'"),
        (pairs.read_pandalm, PANDALM, {"annotator3": "x" * 99}, r"unknown label 'x+\.\.\.:"),
        (pairs.read_pandalm, PANDALM, {"cmp_key": "S1"}, "two systems joined by '_', not 'S1'"),
        (pairs.read_pandalm, PANDALM, {"input": 3}, "column 'input': must be text, not a number"),
    ],
)
def test_wrong_fields_of_pairs_are_named(
    tmp_path: Path,
    read: Callable[[Sequence[LocalFile]], list[RatedPair]],
    row: Row,
    change: Row,
    message: str,
) -> None:
    with pytest.raises(DataError, match=message):
        read([lines(tmp_path / "x.json", [row | change])])


# --- FairEval -----------------------------------------------------------------------------------


def fair_files(tmp_path: Path, verdicts: str = "CHATGPT\nTIE\nVICUNA13B\n") -> list[LocalFile]:
    questions = [{"question_id": i, "text": f"Ask {i}?", "category": "c"} for i in (1, 2, 3)]
    files = [lines(tmp_path / "question.jsonl", questions)]
    for system in ("S1", "S2"):
        rows = [
            {"question_id": i, "text": f"{system} says {i}", "model_id": system} for i in (3, 2, 1)
        ]
        files.append(lines(tmp_path / f"answer_{system}.jsonl", rows))
    (tmp_path / "human.txt").write_text(verdicts, "utf-8")
    return [*files, LocalFile(tmp_path / "human.txt", "")]


def test_fair_eval_joins_four_files(tmp_path: Path) -> None:
    found = pairs.read_faireval(fair_files(tmp_path))
    assert [pair.gold for pair in found] == [1.0, 0.0, -1.0]
    assert found[0].responses == ("S1 says 1", "S2 says 1")
    assert found[2].systems == ("S1", "S2")
    assert (found[2].id, found[2].group) == ("faireval-3", "c")


def test_fair_eval_must_be_whole(tmp_path: Path) -> None:
    files = fair_files(tmp_path)
    with pytest.raises(ConfigError, match=r"needs four files.*got question\.jsonl$"):
        pairs.read_faireval(files[:1])
    with pytest.raises(ConfigError, match="got none"):
        pairs.read_faireval([])
    with pytest.raises(DataError, match="2 verdicts for 3 questions"):
        pairs.read_faireval(fair_files(tmp_path, "TIE\nTIE\n"))
    with pytest.raises(DataError, match="line 2: unknown label 'tie': it must be one of CHATGPT"):
        pairs.read_faireval(fair_files(tmp_path, "TIE\ntie\nTIE\n"))
    with pytest.raises(DataError, match="the file is empty"):
        pairs.read_faireval(fair_files(tmp_path, ""))
    files = fair_files(tmp_path)
    lines(files[1].path, [{"question_id": 1, "text": "x", "model_id": "S1"}])
    with pytest.raises(DataError, match=r"line 2.*answer_S1\.jsonl has no answer to '2'"):
        pairs.read_faireval(files)


# --- votes --------------------------------------------------------------------------------------


def talk(system: str, *asked: str) -> list[Row]:
    return [
        message
        for text in asked
        for message in (
            {"role": "user", "content": text},
            {"role": "assistant", "content": f"{system} on {text}"},
        )
    ]


def vote(winner: str, *, a: str = "S1", b: str = "S2", turn: object = 1, **changes: object) -> Row:
    row: Row = {
        "question_id": 81,
        "model_a": a,
        "model_b": b,
        "winner": winner,
        "judge": "someone",
        "turn": turn,
        "conversation_a": talk(a, "Ask?", "More?"),
        "conversation_b": talk(b, "Ask?", "More?"),
    }
    return row | changes


def read_votes(path: Path, *rows: Row) -> list[RatedPair]:
    return pairs.read_fastchat_votes([lines(path / "x.json", rows)])


def test_votes_on_a_pair_are_put_together(tmp_path: Path) -> None:
    found = read_votes(
        tmp_path,
        vote("model_a"),
        vote("tie", turn=2),
        vote("model_b", a="S2", b="S1"),
        vote("tie (inconsistent)"),
        vote("model_a", a="S1", b="S3"),
        vote("model_b", a="S1", b="S3"),
    )
    assert [pair.id for pair in found] == ["81/turn-1/S1/S2", "81/turn-2/S1/S2", "81/turn-1/S1/S3"]
    assert found[0].votes == (1.0, 1.0, 0.0)
    assert [pair.gold for pair in found[:2]] == [1.0, 0.0]
    assert math.isnan(found[2].gold)
    assert (found[0].source.text, found[0].responses) == ("Ask?", ("S1 on Ask?", "S2 on Ask?"))
    assert found[1].source.text == "[Turn 1]\nAsk?\n\n[Turn 2]\nMore?"
    assert found[1].responses[1] == "[Turn 1]\nS2 on Ask?\n\n[Turn 2]\nS2 on More?"
    assert [pair.group for pair in found] == ["turn 1", "turn 2", "turn 1"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (vote("S1"), "column 'winner': unknown label 'S1'"),
        (vote("tie", turn=0), "column 'turn': must be a whole number from 1, not 0"),
        (vote("tie", turn=1.5), "column 'turn': must be a whole number from 1, not 1.5"),
        (vote("tie", turn=3), "'conversation_a': has 4 messages, and turn 3 needs 6"),
        (vote("tie", b="S1"), "column 'model_b': must be another system than model_a, 'S1'"),
        (vote("tie", conversation_b=talk("S2", "What?")), "turns are not those of conversation_a"),
        (vote("tie", conversation_b=talk("S3", "Ask?")), "other texts than in an earlier vote"),
        (
            vote("tie", conversation_a=talk("S1", "Ask?")[::-1]),
            r"'conversation_a\.0\.role': must be 'user', not 'assistant'",
        ),
        (vote("tie", conversation_a="Ask?"), "must be a list of objects, not text"),
        (vote("tie", conversation_a=["Ask?", ""]), "must be an object, not text"),
    ],
)
def test_wrong_votes_are_named(tmp_path: Path, row: Row, message: str) -> None:
    with pytest.raises(DataError, match=f"line 2.*{message}"):
        read_votes(tmp_path, vote("model_a"), row)
