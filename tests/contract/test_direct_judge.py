"""The direct judge on a scripted engine."""

from __future__ import annotations

import pytest

from adjudge.errors import ConfigError
from adjudge.exchange import Completion, Generate, Generated, Reply, Request, ScoreLabels
from adjudge.judges.direct import DirectJudge
from adjudge.prompts.template import load_prompts
from adjudge.runs.runner import Runner
from adjudge.runs.store import Store
from adjudge.schema import Judgment, Status
from tests.scripted import ScriptedEngine, make_item, words

PROMPTS = load_prompts("direct", "summarization")


def judged(engine: ScriptedEngine, judge: DirectJudge, response: str = "text") -> Judgment:
    events = Runner(judge, engine, Store()).run([make_item(response)])
    (judgment,) = [event.judgment for event in events if event.judgment is not None]
    return judgment


def test_the_value_is_the_expected_score_over_renormalised_labels() -> None:
    engine = ScriptedEngine(lambda request: (0.04, 0.08, 0.12, 0.08, 0.08))
    judgment = judged(engine, DirectJudge(prompts=PROMPTS))
    assert judgment.value == pytest.approx((1 * 4 + 2 * 8 + 3 * 12 + 4 * 8 + 5 * 8) / 40)
    assert judgment.distribution[0] == pytest.approx((0.1, 0.2, 0.3, 0.2, 0.2))
    assert judgment.coverage == pytest.approx(0.4)
    (request,) = engine.asked
    assert isinstance(request, ScoreLabels)
    assert request.labels == ("1", "2", "3", "4", "5")


def test_other_scales() -> None:
    engine = ScriptedEngine(lambda request: (0.0,) * 9 + (1.0,))
    judgment = judged(engine, DirectJudge(prompts=PROMPTS, low=1, high=10))
    assert judgment.value == pytest.approx(10)
    assert "from 1 (worst) to 10 (best)" in words(engine.asked[0])


def test_a_scale_without_room_is_refused() -> None:
    with pytest.raises(ConfigError, match="5-5 has no room"):
        DirectJudge(prompts=PROMPTS, low=5, high=5)


def test_no_label_mass() -> None:
    engine = ScriptedEngine(lambda request: (1e-6,) * 5)
    judgment = judged(engine, DirectJudge(prompts=PROMPTS))
    assert (judgment.status, judgment.value) == (Status.NO_LABEL_MASS, None)


def test_an_empty_response_asks_nothing() -> None:
    engine = ScriptedEngine(lambda request: (1.0,) * 5)
    assert judged(engine, DirectJudge(prompts=PROMPTS), " ").status is Status.EMPTY_RESPONSE
    assert engine.asked == []


def sampling_engine(texts: list[str], finish_reason: str = "stop") -> ScriptedEngine:
    def answer(request: Request) -> Reply:
        assert isinstance(request, Generate)
        assert request.n == 1
        text = texts[request.first_sample]
        completion = Completion(text=text, finish_reason=finish_reason, n_tokens=1)  # type: ignore[arg-type]
        return Generated(request_id=request.id, completions=(completion,))

    return ScriptedEngine(answer)


def test_sampled_scores_are_averaged_and_unparsed_ones_counted() -> None:
    engine = sampling_engine(["4", "Score: 5", "no idea", "2/5"])
    judgment = judged(engine, DirectJudge(prompts=PROMPTS, mode="sampled", samples=4))
    assert judgment.value == pytest.approx((4 + 5 + 2) / 3)
    assert judgment.distribution[0] == pytest.approx((0, 1 / 3, 0, 1 / 3, 1 / 3))
    assert judgment.evidence["unparsed"] == 1
    assert judgment.evidence["texts"] == ["4", "Score: 5", "no idea", "2/5"]
    assert judgment.n_calls == 4


@pytest.mark.parametrize(
    ("finish_reason", "status"),
    [("stop", Status.PARSE_FAILED), ("length", Status.TRUNCATED)],
)
def test_nothing_parsed_is_a_failure_with_its_text(finish_reason: str, status: Status) -> None:
    engine = sampling_engine(["6", "none"], finish_reason)
    judgment = judged(engine, DirectJudge(prompts=PROMPTS, mode="sampled", samples=2))
    assert (judgment.status, judgment.value) == (status, None)
    assert judgment.evidence["texts"] == ["6", "none"]


def test_more_samples_ask_only_for_those_that_are_new() -> None:
    engine = sampling_engine(["1", "2", "3", "4"])
    store = Store()
    for samples, calls in ((2, 2), (4, 4)):
        judge = DirectJudge(prompts=PROMPTS, mode="sampled", samples=samples)
        list(Runner(judge, engine, store).run([make_item()]))
        assert len(engine.asked) == calls


@pytest.mark.parametrize("mass", [0.0, float("nan")])
def test_labels_without_a_mass_give_no_score(mass: float) -> None:
    engine = ScriptedEngine(lambda request: (mass,) * 5)
    judgment = judged(engine, DirectJudge(prompts=PROMPTS, min_coverage=0.0))
    assert (judgment.status, judgment.value) == (Status.NO_LABEL_MASS, None)


def test_the_coverage_of_sampled_scores_is_the_share_that_could_be_read() -> None:
    engine = sampling_engine(["4", "no", "none", "5"])
    judgment = judged(engine, DirectJudge(prompts=PROMPTS, mode="sampled", samples=4))
    assert judgment.coverage == pytest.approx(0.5)
