"""What a check of an engine asks, finds and shows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence

import pytest

from adjudge import registry
from adjudge.api import judge_method
from adjudge.errors import DataError, EngineError
from adjudge.exchange import (
    Capability,
    Completion,
    Failure,
    Generate,
    Generated,
    LabelScores,
    Reply,
    Request,
    ScoreLabels,
    Usage,
)
from adjudge.experiments.engine_check import (
    EngineCheck,
    check_engine,
    check_from_json,
    check_to_json,
)
from adjudge.judges.ladder import LABELS
from adjudge.reports.engines import check_report, checks_report, engines_report
from tests.scripted import ScriptedEngine

WRITES_AND_SCORES = frozenset({Capability.GENERATE, Capability.SCORE_LABELS})


def answer(request: Request) -> Reply:
    """Give every label a tenth of the probability; the last one was not shown."""
    if isinstance(request, Generate):
        text = Completion(text="words", finish_reason="length", n_tokens=request.max_tokens)
        usage = Usage(prompt_tokens=9, evaluated_tokens=9, generated_tokens=request.max_tokens)
        return Generated(request_id=request.id, completions=(text,), usage=usage)
    assert isinstance(request, ScoreLabels)
    n = len(request.labels)
    return LabelScores(
        request_id=request.id,
        logprobs=(math.log(0.1),) * n,
        masses=(0.1,) * n,
        n_tokens=(2,) * n,
        coverage=0.1 * n,
        exact=False,
        usage=Usage(prompt_tokens=300, evaluated_tokens=300),
    )


class Told(ScriptedEngine):
    context_length = 4096

    @property
    def signature(self) -> Mapping[str, str]:
        return {"engine": "llama", "model": "told"}

    @property
    def details(self) -> Mapping[str, str]:
        return {"chat template": "'<q>' prompt '<a>' reply"}


@pytest.fixture
def found() -> EngineCheck:
    return check_engine(
        Told(answer, capabilities=WRITES_AND_SCORES), "told.gguf", make=judge_method
    )


def test_labels_are_those_of_the_judges_in_their_own_prompts(found: EngineCheck) -> None:
    ladder = found.labels[0]
    assert (ladder.judge, ladder.labels) == ("ladder", LABELS["better_worse_similar"])
    assert (ladder.n_tokens, ladder.exact) == ((2,) * 3, False)
    assert ladder.coverage == pytest.approx(0.3)
    direct = found.labels[1]
    assert (direct.judge, direct.labels) == ("direct", tuple("12345"))


def test_judges_are_those_whose_needs_the_engine_serves(found: EngineCheck) -> None:
    assert set(found.judges) | set(found.lacking) == set(registry.judges.targets())
    assert found.lacking == {"gptscore": "score_text", "bertscore": "embed"}


def test_rates_are_timed(found: EngineCheck) -> None:
    assert found.read_rate is not None
    assert found.read_rate > 0
    assert found.problems == ()


def test_nothing_is_asked_that_the_engine_does_not_serve() -> None:
    engine = ScriptedEngine(answer, capabilities=frozenset({Capability.EMBED}))
    found = check_engine(engine, "encoder", make=judge_method)
    assert engine.asked == []
    assert (found.judges, found.labels) == (("bertscore",), ())
    assert found.read_rate is None
    assert found.write_rate is None


def test_a_probe_that_fails_is_told() -> None:
    def refused(request: Request) -> Reply:
        return Failure(request_id=request.id, message="no room at all")

    found = check_engine(
        ScriptedEngine(refused, capabilities=WRITES_AND_SCORES), "m", make=judge_method
    )
    assert set(found.problems) == {"generate: no room at all", "score_labels: no room at all"}
    assert found.labels == ()
    assert "problem           score_labels: no room at all" in check_report(found)


def test_an_engine_that_gives_up_is_told() -> None:
    class Gone(ScriptedEngine):
        def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
            raise EngineError("the server is gone")

    found = check_engine(Gone(answer, capabilities=WRITES_AND_SCORES), "m", make=judge_method)
    assert "score_labels: the server is gone" in found.problems


def test_a_check_is_read_back_from_json(found: EngineCheck) -> None:
    assert check_from_json(json.loads(json.dumps(check_to_json(found)))) == found


@pytest.mark.parametrize("values", [{}, {"labels": [{}]}, {"labels": 3}, {"more": 1, "labels": []}])
def test_what_is_no_check_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(DataError, match="this is no check of an engine"):
        check_from_json(values)


def test_the_report_says_all_that_was_found(found: EngineCheck) -> None:
    text = check_report(found)
    for part in (
        "told.gguf\n",
        "context           4,096 tokens",
        "'<q>' prompt '<a>' reply",
        "'Better' 2, 'Worse' 2, 'Similar' 2; 30.0% of the",
        "some beyond what is shown",
        "not gptscore      needs score_text",
        "engine:llama|model:told",
    ):
        assert part in text
    assert max(map(len, text.partition("\n\n")[0].splitlines())) <= 80


def test_the_table_has_a_row_for_each_model_and_says_what_was_not_run(found: EngineCheck) -> None:
    later = EngineCheck(**{**vars(found), "context_length": None, "labels": ()})
    rows = checks_report([found, later], "markdown").splitlines()[2:]
    assert len(rows) == len(registry.engines.targets())
    (llama,) = (row for row in rows if row.startswith("| llama "))
    assert "told" in llama
    assert " none " in llama, "the last check of a model is the one that counts"
    assert all("not run" in row for row in rows if row is not llama)


def test_every_engine_is_listed_with_what_it_serves() -> None:
    text = engines_report("text")
    for name in registry.engines.targets():
        kind = registry.engines.load(name)
        assert f"{name}\n" in text
        assert kind.about
        assert kind.references
        assert kind.capabilities
    assert "adjudge" in engines_report("csv") or "yes" in engines_report("csv")
