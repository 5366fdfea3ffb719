"""Loaders of texts with human ratings on small files, good and bad ones."""

from __future__ import annotations

import csv
import json
import math
import pickle
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from adjudge.benchmarks import ratings
from adjudge.benchmarks.base import LocalFile
from adjudge.errors import ConfigError, DataError

Row = dict[str, Any]


def lines(path: Path, rows: Sequence[object]) -> LocalFile:
    """Write JSON lines."""
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return LocalFile(path, "")


def whole(path: Path, content: object) -> LocalFile:
    """Write one JSON text."""
    path.write_text(json.dumps(content, indent=1), "utf-8")
    return LocalFile(path, "")


def table(path: Path, rows: Sequence[Mapping[str, object]]) -> LocalFile:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return LocalFile(path, "")


# --- summaries ----------------------------------------------------------------------------------

ARTICLES: Row = {
    "a1": {
        "src": "The river rose.",
        "ref_summs": ["River up.", "High water."],
        "sys_summs": {
            "S1": {"sys_summ": "It rose.", "scores": {"coherence": 4.0, "fluency": 3.5}},
            "S2": {"sys_summ": "", "scores": {"coherence": 1, "fluency": 2}},
        },
    },
    "a2": {
        "src": "The mayor left.",
        "ref_summs": None,
        "ref_summ": "Mayor gone.",
        "sys_summs": {"S1": {"sys_summ": "She left.", "scores": {"coherence": 5, "fluency": 5}}},
    },
}


def with_value(content: Row, *keys: str, value: object) -> Row:
    """Return a deep copy with a value changed."""
    changed = deepcopy(content)
    place = changed
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return changed


def raters(**changes: object) -> list[Row]:
    """Return single ratings that fit ARTICLES."""
    rows = []
    for article, each in ARTICLES.items():
        for system, summary in each["sys_summs"].items():
            for slot, off in ((1, 0.5), (0, -0.5)):
                scores = {name: score + off for name, score in summary["scores"].items()}
                rows.append({"article_id": article, "system": system, "rater_slot": slot} | scores)
    return [rows[0] | changes, *rows[1:]]


def test_bartscore_files_are_read_from_json_and_pickle_alike(tmp_path: Path) -> None:
    found = ratings.read_bartscore([whole(tmp_path / "data.json", ARTICLES)])
    assert [each.id for each in found] == ["a1/S1", "a1/S2", "a2/S1"]
    assert found[0].gold == {"coherence": 4.0, "fluency": 3.5}
    assert found[1].response == ""
    assert [len(each.reference_answers) for each in found] == [2, 2, 1]
    assert found[0].source is not found[2].source
    assert not found[0].ratings
    (tmp_path / "data.pkl").write_bytes(pickle.dumps(ARTICLES))
    assert ratings.read_bartscore([LocalFile(tmp_path / "data.pkl", "")]) == found


def test_single_ratings_come_from_a_second_file(tmp_path: Path) -> None:
    texts = whole(tmp_path / "data.json", ARTICLES)
    found = ratings.read_bartscore([texts, table(tmp_path / "x_raters.csv", raters())])
    assert found[0].ratings == {"coherence": (3.5, 4.5), "fluency": (3.0, 4.0)}


def test_single_ratings_must_fit_the_scores(tmp_path: Path) -> None:
    texts = whole(tmp_path / "data.json", ARTICLES)
    wrong = table(tmp_path / "x_raters.csv", raters(coherence=1))
    with pytest.raises(DataError, match=r"'sys_summs\.S1\.scores\.coherence'.*is 4\.0, but.*2\.25"):
        ratings.read_bartscore([texts, wrong])
    fewer = table(tmp_path / "x_raters.csv", raters()[:2])
    with pytest.raises(DataError, match=r"S2.*single ratings has none"):
        ratings.read_bartscore([texts, fewer])
    twice = table(tmp_path / "x_raters.csv", raters(rater_slot=0))
    with pytest.raises(DataError, match=r"line 2.*slot of article.*row 1"):
        ratings.read_bartscore([texts, twice])
    with pytest.raises(ConfigError, match="one file of summaries is needed, not 2"):
        ratings.read_bartscore([texts, texts])


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("a1", "src"), 3, "line 1, column 'src': must be text, not a number"),
        (("a2", "src"), " ", "line 2, column 'src': the text is empty"),
        (("a2", "src"), "\ud800", "line 2, column 'src': holds half of a surrogate pair"),
        (("a2", "ref_summ"), None, "line 2, column 'ref_summ': the field has no value"),
        (("a1", "ref_summs"), ["x", 1], "column 'ref_summs': must be a list of texts"),
        (("a1", "sys_summs"), [], "column 'sys_summs': must be an object, not a list"),
        (("a1", "sys_summs", "S2"), {"scores": {}}, r"'sys_summs\.S2\.sys_summ'.*field is missing"),
        (("a1", "sys_summs", "S1", "scores", "fluency"), math.nan, "finite number, not nan"),
        (("a1", "sys_summs", "S1", "scores", "fluency"), -math.inf, "finite number, not -inf"),
        (("a1", "sys_summs", "S1", "scores", "fluency"), 10**400, "finite number, not inf"),
        (("a1", "sys_summs", "S1", "scores", "fluency"), "4", "must be a number, not text"),
        (("a1", "sys_summs", "S1", "scores", "fluency"), True, "must be a number, not true"),
        (("a1",), 1, "line 1: must be an object, not a number"),
    ],
)
def test_wrong_fields_of_summaries_are_named(
    tmp_path: Path, keys: tuple[str, ...], value: object, message: str
) -> None:
    file = whole(tmp_path / "data.json", with_value(ARTICLES, *keys, value=value))
    with pytest.raises(DataError, match=message):
        ratings.read_bartscore([file])


# --- pickles ------------------------------------------------------------------------------------


class _Attack:
    """Would write a file when unpickled the usual way."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (self.target, "executed")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_can_execute_nothing(tmp_path: Path, protocol: int) -> None:
    target, path = tmp_path / "written", tmp_path / "data.pkl"
    attack = pickle.dumps({"a1": _Attack(target)}, protocol=protocol)
    path.write_bytes(attack)
    with pytest.raises(DataError, match=r"data\.pkl: the pickle asks for .*, which is never"):
        ratings.read_bartscore([LocalFile(path, "")])
    assert not target.exists()
    pickle.loads(attack)
    assert target.exists()


@pytest.mark.parametrize(
    "content", [b"cos\nsystem\n(S'true'\ntR.", b"cbuiltins\ndict\n.", b"c__main__\nx\n."]
)
def test_a_pickle_may_name_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.pkl"
    path.write_bytes(content)
    with pytest.raises(DataError, match="the pickle asks for"):
        ratings.read_bartscore([LocalFile(path, "")])


@pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80\x04", b"Px\n.", b"\x80\xff."])
def test_a_broken_pickle_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.pkl"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a pickle of plain values"):
        ratings.read_bartscore([LocalFile(path, "")])


def test_a_pickle_of_something_else_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data.pkl"
    path.write_bytes(pickle.dumps([1]))
    with pytest.raises(DataError, match="must be an object of objects, not a list"):
        ratings.read_bartscore([LocalFile(path, "")])


# --- dialogues and stories ----------------------------------------------------------------------

SCORES = dict.fromkeys(ratings.DIALOGUE_CRITERIA, 1.5)
TURN: Row = {
    "source": " hello \n hi there \n\n",
    "context": "bees can count",
    "system_id": "S1",
    "system_output": "did you know ? ",
    "scores": SCORES,
    "predict_scores": {},
}
TALK: Row = {
    "context": "hello\nhi\n",
    "fact": "your persona: i swim.\n",
    "annotators": ["x", "y"],
    "responses": [
        {"response": "i swim\n", "model": "S1"} | {name: [1, 3] for name in ratings.USR_CRITERIA},
        {"response": "no\n", "model": "S2"} | {name: [1, 2] for name in ratings.USR_CRITERIA},
    ],
}
STORY: Row = {
    "story_id": 7,
    "prompt_id": 3,
    "system": "S1",
    "prompt": "A door opens.",
    "story": "It was the wind.",
    "ratings": {name: [1, 2, 3] for name in ratings.HANNA_CRITERIA},
}


def test_unieval_results_are_read(tmp_path: Path) -> None:
    rows = [TURN, TURN | {"system_id": "S2"}, TURN | {"source": "bye", "context": ""}]
    found = ratings.read_unieval([whole(tmp_path / "x.json", rows)])
    assert [each.id for each in found] == ["dialogue-1/S1", "dialogue-1/S2", "dialogue-2/S1"]
    assert found[0].source.text == "hello\nhi there\n\nFacts:\nbees can count"
    assert found[2].source.text == "bye"
    assert found[0].response == "did you know ?"
    assert found[0].gold == SCORES


def test_a_system_answers_a_conversation_once(tmp_path: Path) -> None:
    file = lines(tmp_path / "x.json", [TURN, TURN | {"source": "bye"}, TURN])
    with pytest.raises(
        DataError, match=r"line 3, column 'system_id'.*'S1'\) is also that of row 1"
    ):
        ratings.read_unieval([file])


def test_usr_files_are_read(tmp_path: Path) -> None:
    found = ratings.read_usr([whole(tmp_path / "x.json", [TALK, TALK | {"context": "what"}])])
    assert [each.id for each in found][1:3] == ["dialogue-1/S2", "dialogue-2/S1"]
    assert found[0].source.text == "hello\nhi\n\nFacts:\nyour persona: i swim."
    assert set(found[1].gold) == set(ratings.DIALOGUE_CRITERIA)
    assert found[1].gold["groundedness"] == 1.5
    assert found[1].ratings["overall"] == (1.0, 2.0)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        ("Natural", [1, None], r"line 1, column 'responses\.1\.Natural'.*number, not null"),
        ("Natural", [], r"responses\.1\.Natural'.*the list is empty"),
        ("model", "S1", r"responses\.1\.model'.*pair of source and system"),
        ("response", None, r"responses\.1\.response': the field has no value"),
    ],
)
def test_wrong_fields_of_responses_are_named(
    tmp_path: Path, keys: str, value: object, message: str
) -> None:
    talk = deepcopy(TALK)
    talk["responses"][1][keys] = value
    if keys == "model":
        talk["responses"][1]["response"] = "twice"
    with pytest.raises(DataError, match=message):
        ratings.read_usr([lines(tmp_path / "x.json", [talk])])
    with pytest.raises(DataError, match="must be a list of objects, not text"):
        ratings.read_usr([lines(tmp_path / "x.json", [TALK | {"responses": "none"}])])


def hanna_csv(story: Row) -> list[Row]:
    """Return a story as the published file has it, a row per rater."""
    return [
        {
            "Story ID": story["story_id"],
            "Prompt": story["prompt"],
            "Human": "Someone wrote this.",
            "Story": story["story"],
            "Model": story["system"],
            **{name.capitalize(): story["ratings"][name][i] for name in ratings.HANNA_CRITERIA},
            "Worker ID": "w",
        }
        for i in range(3)
    ]


def test_both_forms_of_hanna_are_read_alike(tmp_path: Path) -> None:
    stories = [
        STORY | {"story_id": 0, "prompt_id": 0, "system": "Human", "story": "Line one.\nLine two."},
        STORY | {"story_id": 1, "prompt_id": 1, "prompt": "A fire."},
        STORY | {"story_id": 2, "prompt_id": 0},
    ]
    found = ratings.read_hanna([lines(tmp_path / "x.jsonl", stories)])
    rows = [row for story in stories for row in hanna_csv(story)]
    assert ratings.read_hanna([table(tmp_path / "x.csv", rows)]) == found
    assert [each.id for each in found] == ["hanna-0/Human", "hanna-1/S1", "hanna-0/S1"]
    assert found[0].gold["empathy"] == 2.0
    assert found[0].ratings["empathy"] == (1.0, 2.0, 3.0)
    assert [each.reference_answers for each in found] == [(), (), ("Line one.\nLine two.",)]


def test_only_line_ends_end_a_csv_row(tmp_path: Path) -> None:
    story = STORY | {"story": "One\u2028two\x0cthree", "prompt": "Four\r\nfive."}
    (found,) = ratings.read_hanna([table(tmp_path / "x.csv", hanna_csv(story))])
    assert (found.response, found.source.text) == (story["story"], story["prompt"])


def test_stories_must_be_different(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2, column 'story_id': the story '7' is also"):
        ratings.read_hanna([lines(tmp_path / "x.jsonl", [STORY, STORY])])
    with pytest.raises(DataError, match=r"line 2, column 'system'.*'S1'\) is also that of row 1"):
        ratings.read_hanna([lines(tmp_path / "x.jsonl", [STORY, STORY | {"story_id": 8}])])


def test_wrong_cells_are_named(tmp_path: Path) -> None:
    rows = hanna_csv(STORY)
    cases: list[tuple[Row, str]] = [
        ({"Empathy": "high"}, "line 2, column 'Empathy': must be a number, not 'high'"),
        ({"Empathy": "nan"}, "line 2, column 'Empathy': must be a finite number"),
        ({"Empathy": ""}, "line 2, column 'Empathy': the field has no value"),
        ({"Story": "Other."}, "line 2, column 'Story': is not that of row 1"),
    ]
    for change, message in cases:
        with pytest.raises(DataError, match=message):
            ratings.read_hanna([table(tmp_path / "x.csv", [rows[0], rows[1] | change, rows[2]])])


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "", "the file is empty"),
        ("x.json", " \n", "the file is empty"),
        ("x.json", "[]", "there are no rows"),
        ("x.json", "[1]", "line 1: a row must be an object, not a number"),
        ("x.json", "3", "must be a list of objects, not a number"),
        ("x.json", "[{]", "not JSON: "),
        ("x.json", '{"a": 1}\n\n{"b"', "line 3: not JSON"),
        ("x.json", "[" * 100_000, "not JSON: nested too deeply"),
        ("x.json", '{"a": 1}\n' + '{"a":' * 100_000, "line 2: not JSON: nested too deeply"),
        ("x.jsonl", '{"a": 1}', "line 1, column 'prompt': the field is missing; there is: a"),
        ("x.csv", "a,b\n", "there are no rows"),
        ("x.csv", "a,b\n1,2\n1\n", "line 2: 1 cells for 2 columns"),
        ("x.csv", 'a,b\n1,2\n"1', "line 2: not CSV"),
        ("x.csv", "a,b\n1,2", "column 'Story ID': the field is missing; there is: a, b"),
    ],
)
def test_files_that_hold_no_rows_are_errors(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    with pytest.raises(DataError, match=message):
        ratings.read_hanna([LocalFile(path, "")])


def test_files_must_be_utf8_and_may_have_a_mark_of_it(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="not UTF-8"):
        ratings.read_hanna([LocalFile(path, "")])
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps([STORY]).encode())
    assert len(ratings.read_hanna([LocalFile(path, "")])) == 1


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"a": 1', "[" * 100_000])
def test_files_that_hold_no_articles_are_errors(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, "utf-8")
    message = "the file is empty|must be an object of objects|there are no rows|not JSON"
    with pytest.raises(DataError, match=message):
        ratings.read_bartscore([LocalFile(path, "")])
