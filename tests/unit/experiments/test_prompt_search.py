"""A search by itself: lists out of rows, and prompts that say what was found, to the letter."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.criteria.named import named_criteria
from adjudge.errors import ConfigError
from adjudge.exchange import Generate, Request
from adjudge.experiments.prompt_search import (
    METHODS,
    Found,
    Search,
    found,
    grouped,
    log_rows,
    start_search,
    template_text,
    write_prompts,
)
from adjudge.formats.responses import ResponseRow
from adjudge.judges.zepo import ZepoJudge
from adjudge.judges.zepo_search import KEPT, NOT_BETTER, Candidate
from adjudge.prompts.template import PromptSet, load_prompts
from adjudge.runs.store import Store
from adjudge.schema import TASKS, Criterion, Item, Source
from tests.scripted import CRITERION, Answer, ScriptedEngine, words

HOSTILE = [
    "Say \"A\" or 'B' for coherence.",
    "'''\n[compare]\nuser = 'no'\n'''",
    '"""\n"""',
    "{{ source }} {% endset %} {# no #} {% raw %} {{",
    "}} %} #} -%} {%- {{-",
    "a \\ b \\n \\\\ \\x41 \\u0041 \\N{BULLET}",
    "two\nlines\r\nand\rmore\ttabs\x0b\x0c",
    " blanks around ",
    "\x00\x1b[31m\x7f\x85\u2028\u200b\ufeff",
    "na\u00efve \u4f60\u597d \U0001f600 \u2039/article>",
    "'",
    "''",
    '"',
    "\\",
    "# no comment\n## nor this",
    "<article></article> <response_b>",
]
DATA = {"source": "the source", "first": "one", "second": "two"}


def ended_of(search: Search) -> ZepoJudge:
    """Return the judge that a search ended with."""
    assert search.ended is not None
    return search.ended


def criterion(name: str) -> Criterion:
    return Criterion(name=name, title="Wit", description="whether it is witty")


# --- prompts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_prompts_with_hostile_instructions_are_what_the_search_asked(
    task: str, tmp_path: Path
) -> None:
    instructions = {f"quality {i}": text for i, text in enumerate(HOSTILE)}
    paths = write_prompts(tmp_path, task, instructions)
    assert paths == [tmp_path / method / f"{task}.toml" for method in METHODS]
    original = load_prompts("zepo", task)
    pairs, zepo = (load_prompts(method, task, folder=tmp_path) for method in METHODS)
    for name, text in instructions.items():
        by = criterion(name)
        expected = original.render("compare", DATA, instruction=text, criterion=by)
        assert text in expected[-1].content.replace("\r\n", "\n") or "\r" in text
        assert pairs.render("compare", DATA, criterion=by) == expected
        assert zepo.render("compare", DATA, instruction=text, criterion=by) == expected
        (initial,) = zepo.render("instruction", {}, criterion=by)
        assert initial.content == text.strip()


@given(st.text())
def test_any_text_is_read_back_as_it_was(text: str) -> None:
    user = f"{{% set said = {template_text(text)} %}}>{{{{ said }}}}<"
    file = f"id = 'x'\nversion = 1\n[say]\nuser = '''\n{user}\n'''\n"
    (message,) = PromptSet(file.encode(), path="x").render("say", {})
    assert message.content == f">{text}<"


@pytest.mark.parametrize("task", TASKS)
def test_other_criteria_keep_the_initial_instruction(task: str, tmp_path: Path) -> None:
    write_prompts(tmp_path, task, {"wit": "Which is wittier, and quality?"})
    original = load_prompts("zepo", task)
    pairs, zepo = (load_prompts(method, task, folder=tmp_path) for method in METHODS)
    for by in named_criteria(task).values():
        expected = original.render("instruction", {}, criterion=by)
        assert zepo.render("instruction", {}, criterion=by) == expected
        text = expected[-1].content
        assert pairs.render("compare", DATA, criterion=by) == original.render(
            "compare", DATA, instruction=text, criterion=by
        )
    more = {"instruction": "Which?"}
    assert zepo.render("paraphrase", more, criterion=criterion("wit")) == original.render(
        "paraphrase", more, criterion=criterion("wit")
    )
    assert zepo.settings == original.settings
    assert pairs.settings == load_prompts("pairs", task).settings
    assert zepo.reference != original.reference


def test_the_name_of_a_criterion_may_be_hostile_too(tmp_path: Path) -> None:
    name = "\"' {{ x }} '''\\"
    write_prompts(tmp_path, "story", {name: "this one", "other": "the other"})
    pairs = load_prompts("pairs", "story", folder=tmp_path)
    assert (
        "Question: this one\n"
        in pairs.render("compare", DATA, criterion=criterion(name))[-1].content
    )
    assert (
        "Question: the other\n"
        in pairs.render("compare", DATA, criterion=criterion("other"))[-1].content
    )


def test_prompts_of_ones_own_are_what_is_written(tmp_path: Path) -> None:
    own = tmp_path / "own" / "zepo"
    own.mkdir(parents=True)
    text = """
        id = "mine"
        version = 3
        max_tokens = 7
        note = "a \\\\ b \\u007f"
        [compare]
        system = "{{ instruction }} '''"
        user = "{{source}}{{first}}{{second}} as told\\n"
        [instruction]
        user = "Which has more {{ criterion.title }}?"
        [paraphrase]
        user = '''It's {{ instruction }}
        '' '''
        """
    (own / "story.toml").write_text(text)
    write_prompts(tmp_path / "new", "story", {"wit": "found"}, folder=tmp_path / "own")
    pairs, zepo = (load_prompts(method, "story", folder=tmp_path / "new") for method in METHODS)
    for name, expected in (("wit", "found"), ("other", "Which has more Wit?")):
        system, user = pairs.render("compare", DATA, criterion=criterion(name))
        assert (system.content, user.content) == (f"{expected} '''", "the sourceonetwo as told")
    assert zepo.settings == {"max_tokens": 7, "note": "a \\ b \x7f"}
    written = tomllib.loads((tmp_path / "new" / "zepo" / "story.toml").read_text("utf-8"))
    given_ = tomllib.loads(text)
    assert written["paraphrase"] == given_["paraphrase"]
    assert written["compare"] == given_["compare"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_prompts(tmp_path / "file", "story", {})


# --- lists --------------------------------------------------------------------------------------


def row(row_id: str, source: str, *responses: str, own: Criterion | None = None) -> ResponseRow:
    systems = tuple(f"wrote {text}" for text in responses)
    return ResponseRow(
        row_id, Source(id=source, text=f"text {source}"), systems, responses, (), own
    )


def test_single_responses_of_a_source_become_a_list() -> None:
    rows = [row("1", "s", "a"), row("2", "t", "b"), row("3", "s", "c"), row("4", "s", "d", "e")]
    lists = grouped([*rows, row("5", "s", "f", "g")])
    assert [(each.source.id, each.responses) for each in lists] == [
        ("s", ("a", "c")),
        ("t", ("b",)),
        ("s", ("d", "e")),
        ("s", ("f", "g")),
    ]
    assert lists[0].systems == ("wrote a", "wrote c")


def test_rows_with_rubrics_of_their_own_are_refused() -> None:
    with pytest.raises(ConfigError, match="the row '2' has a rubric of its own"):
        grouped([row("1", "s", "a"), row("2", "s", "b", own=CRITERION)])


# --- the search ---------------------------------------------------------------------------------


def items(*names: str) -> list[Item]:
    return [
        Item(
            id=f"{name} {i}",
            source=Source(id=str(i), text=f"source {i}"),
            responses=("one", "two", "three"),
            criterion=criterion(name),
        )
        for i in range(3)
        for name in names
    ]


def answer(request: Request) -> Answer:
    """Prefer the first place, but for a paraphrase what comes first in the alphabet."""
    if isinstance(request, Generate):
        return f"wit in other words {request.first_sample}" if request.first_sample else "no"
    first, second = re.findall(r"^<story_[ab]>\n(.*)$", words(request), re.M)
    if "in other words" in words(request) and first > second:
        return (0.1, 0.1, 0.5, 0.1)
    return (0.5, 0.1, 0.1, 0.1)


def judge() -> ZepoJudge:
    return ZepoJudge(
        prompts=load_prompts("zepo", "story"), epochs=2, prompts_per_epoch=3, search_sources=2
    )


def test_a_search_by_itself_asks_for_nothing_else_and_nothing_twice() -> None:
    store, engine, again = Store(), ScriptedEngine(answer), ScriptedEngine(answer)
    search = start_search(judge(), engine, items("wit"), store)
    assert search.ended is None
    list(search.events)
    ended = ended_of(search)
    assert ended.instructions == {"wit": "wit in other words 1"}
    # Scored are the initial one, its paraphrase 1, and 2 of that, which is no better.
    written = sum(isinstance(request, Generate) for request in engine.asked)
    assert (written, len(engine.asked) - written) == (2 + 3, 3 * 2 * 6)
    second = start_search(judge(), again, items("wit"), store)
    list(second.events)
    assert ended_of(second).log == ended.log
    assert again.asked == []


def test_a_search_that_is_stopped_has_no_result_and_goes_on_later() -> None:
    whole = ScriptedEngine(answer)
    expected = start_search(judge(), whole, items("wit"), Store())
    list(expected.events)
    store, first, rest = Store(), ScriptedEngine(answer), ScriptedEngine(answer)
    stopped = start_search(
        judge(), first, items("wit"), store, stopped=lambda: len(first.asked) > 16
    )
    list(stopped.events)
    assert stopped.ended is None
    search = start_search(judge(), rest, items("wit"), store)
    list(search.events)
    assert ended_of(search).log == ended_of(expected).log
    assert len(first.asked) + len(rest.asked) == len(whole.asked)


def test_what_was_found_of_each_criterion() -> None:
    search = start_search(judge(), ScriptedEngine(answer), items("wit", "more wit"), Store())
    list(search.events)
    best = found(ended_of(search))
    assert list(best) == ["wit", "more wit"]
    for name, each in best.items():
        assert each.best.criterion == each.initial.criterion == name
        assert (each.initial.a_rate, each.best.a_rate) == (1, 0.5)
        tried = [one for one in ended_of(search).log if one.criterion == name]
        assert each.n_tried == len(tried)


def test_the_last_one_kept_is_the_best_and_every_row_is_logged() -> None:
    log = (
        Candidate("wit", 1, "a", 1.0, 0, KEPT),
        Candidate("wit", 1, "b", 1.0, 2, NOT_BETTER),
        Candidate("wit", 2, "c", None, 0, "dropped: it is empty"),
        Candidate("wit", 2, "d", 0.75, 1, KEPT),
        Candidate("wit", 3, "e", 0.2, 0, NOT_BETTER),
    )
    ended = ZepoJudge(prompts=load_prompts("zepo", "story"), instructions={"wit": "d"}, log=log)
    assert found(ended) == {"wit": Found(log[3], log[0], 5, 1)}
    rows = log_rows(log)
    assert [each["fairness"] for each in rows] == pytest.approx([-0.5, -0.5, None, -0.25, -0.3])
    assert rows[3] == {
        "criterion": "wit",
        "epoch": 2,
        "instruction": "d",
        "a_rate": 0.75,
        "unread": 1,
        "outcome": KEPT,
        "fairness": -0.25,
    }


def test_bad_lists_are_refused_before_anything_is_asked() -> None:
    engine = ScriptedEngine(answer)
    alone = [Item(id="1", source=Source(id="s", text="s"), responses=("a",), criterion=CRITERION)]
    with pytest.raises(ConfigError, match="no source has two different responses"):
        start_search(judge(), engine, alone, Store())
    assert engine.asked == []
