"""Lines and tables for the terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from adjudge.reports.tables import judgments_table, summary_lines
from adjudge.runs.summary import summarize
from adjudge.schema import Judgment, Status


def made(item_id: str, status: Status, **fields: object) -> Judgment:
    return Judgment(
        item_id=item_id,
        source_id="s",
        system="x",
        criterion="coherence",
        status=status,
        **fields,  # type: ignore[arg-type]
    )


def test_items_without_a_score_are_gathered_by_reason() -> None:
    twin = {"problems": {"3": "the same as rung 5"}}
    judgments = [
        made("a", Status.LADDER_FAILED, evidence=twin),
        made("b", Status.OK, value=3.0),
        made("c", Status.LADDER_FAILED, evidence=twin),
        made("d", Status.LADDER_FAILED, evidence=twin),
        made("e", Status.ENGINE_ERROR, evidence={"error": "out of memory"}),
        made("f", Status.PARSE_FAILED, evidence={"texts": ["dunno"]}),
        made("g", Status.EMPTY_RESPONSE),
        made("h", Status.NO_LABEL_MASS, evidence={"top_tokens": [[("Sure", -0.1054)]]}),
    ]
    assert summary_lines(summarize(judgments), most=4)[:-1] == [
        "no score for 3 (a, c, ...): ladder_failed: rung 3 is the same as rung 5",
        "no score for 1 (e): engine_error: out of memory",
        "no score for 1 (f): parse_failed: the model said 'dunno'",
        "no score for 1 (g): empty_response: there is nothing to judge",
        "... and 1 more reasons",
    ]
    assert summary_lines(summarize(judgments))[-2].endswith("would rather say 'Sure' (90%)")


def test_what_scores_leave_out_is_counted() -> None:
    judgments = [
        made("a", Status.OK, value=3.0, evidence={"unparsed": 2}),
        made("b", Status.OK, value=3.0, evidence={"unparsed": 1, "exact": False}),
        made("c", Status.OK, value=3.0, evidence={"exact": True}),
    ]
    assert summary_lines(summarize(judgments))[:-1] == [
        "3 sampled answers could not be read",
        "1 scores rest on bounds of label log-probs",
    ]


def test_text_from_files_is_not_read_as_markup() -> None:
    stream = StringIO()
    console = Console(file=stream, width=100)
    console.print(judgments_table([made("[red]id[/red]", Status.OK, value=4.0)]))
    assert "[red]id[/red]" in stream.getvalue()
    assert "4.00" in stream.getvalue()
