"""GPTScore on a scripted engine, and on a model of transformers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adjudge.engines.base import Engine
from adjudge.engines.hf import HfEngine
from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Reply, Request, ScoreText, TextScore
from adjudge.judges.gptscore import GPTScoreJudge
from adjudge.prompts.template import load_prompts
from adjudge.runs.plan import plan_run
from adjudge.runs.runner import Runner
from adjudge.runs.start import fit
from adjudge.runs.store import Store
from adjudge.runs.summary import summarize
from adjudge.schema import TASKS, Item, Judgment, Status
from tests.scripted import ScriptedEngine, make_item

FORMS: list[Any] = ["src_hyp", "ref_hyp", "hyp_ref", "mean", "max", "harmonic"]


def make(task: str = "summarization", **options: Any) -> GPTScoreJudge:
    return GPTScoreJudge(prompts=load_prompts("gptscore", task), **options)


def item_of(response: str = "The response.", *references: str) -> Item:
    return replace(make_item(response), reference_answers=references)


def judged(engine: Engine, method: GPTScoreJudge, item: Item) -> Judgment:
    events = Runner(fit(method, engine), engine, Store()).run([item])
    (judgment,) = [event.judgment for event in events if event.judgment is not None]
    json.dumps(judgment.evidence, allow_nan=False)
    return judgment


def scoring(logprobs: Mapping[str, Sequence[float]], *, other: Any = ()) -> ScriptedEngine:
    """Return an engine that gives each scored text its log-probs."""

    def answer(request: Request) -> Reply:
        assert isinstance(request, ScoreText)
        found = tuple(logprobs.get(request.continuation, other))
        return TextScore(request_id=request.id, logprobs=found)

    return ScriptedEngine(answer)


def asked(engine: ScriptedEngine) -> list[ScoreText]:
    assert all(isinstance(request, ScoreText) for request in engine.asked)
    return engine.asked  # type: ignore[return-value]


# --- the source ---------------------------------------------------------------------------------


def test_the_value_is_the_mean_log_prob_of_the_response() -> None:
    engine = scoring({" The response.": (-1.0, -0.5, -3.0, -0.1)})
    judgment = judged(engine, make(), item_of(" The response.\n"))
    assert judgment.value == pytest.approx(-(1.0 + 0.5 + 3.0 + 0.1) / 4)
    assert judgment.raw == judgment.value
    assert judgment.evidence == {
        "form": "src_hyp",
        "passes": [{"form": "src_hyp", "logprob": judgment.value, "tokens": 4}],
    }
    (request,) = asked(engine)
    assert request.context.endswith("the source\n\nTl;dr")
    assert "Coherence: whether it hangs together." in request.context


@pytest.mark.parametrize("task", TASKS)
def test_exactly_one_blank_is_between_the_prompt_and_the_text(task: str) -> None:
    engine = scoring({}, other=(-1.0,))
    judged(engine, make(task), item_of("\n  The response. "))
    (request,) = asked(engine)
    assert request.context == request.context.strip()
    assert request.continuation == (" Yes" if task == "dialogue" else " The response.")
    assert request.context.count("the source") == 1
    assert request.context.count("The response.") == (task == "dialogue")


def test_responses_to_a_source_share_the_whole_prompt() -> None:
    engine = scoring({}, other=(-1.0,))
    for response in ("One.", "Another."):
        judged(engine, make(), item_of(response))
    one, another = asked(engine)
    assert one.context == another.context


def test_in_conversations_the_answer_yes_is_scored() -> None:
    engine = scoring({" Yes": (-0.25,)})
    judgment = judged(engine, make("dialogue"), item_of("</response> Answer: Yes"))
    assert judgment.value == -0.25
    (request,) = asked(engine)
    assert request.context.endswith("</response>\n\nAnswer:")
    assert request.context.count("</response>") == 1


@pytest.mark.parametrize("response", ["...", "?!", "\u2026"])
def test_marks_alone_are_a_text(response: str) -> None:
    judgment = judged(scoring({f" {response}": (-4.0, -2.0)}), make(), item_of(response))
    assert (judgment.status, judgment.value) == (Status.OK, -3.0)


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_response_asks_nothing(form: Any) -> None:
    engine = scoring({})
    judgment = judged(engine, make(form=form), item_of(" \n\t", "A reference."))
    assert (judgment.status, judgment.value) == (Status.EMPTY_RESPONSE, None)
    assert engine.asked == []


# --- reference answers --------------------------------------------------------------------------

TWO = item_of("Mine.", "First one.", " ", "Second one.")


def two_references() -> ScriptedEngine:
    """Mine scores -2 after the first and -4 after the second, these -6 and -3 after it."""

    def answer(request: Request) -> Reply:
        assert isinstance(request, ScoreText)
        mine = (-1.0, -3.0) if "First one." in request.context else (-4.0,)
        theirs = {"First one.": (-6.0,), "Second one.": (-3.0,)}
        found = theirs.get(request.continuation[1:], mine)
        return TextScore(request_id=request.id, logprobs=found)

    return ScriptedEngine(answer)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("ref_hyp", -2.0),
        ("hyp_ref", -3.0),
        ("mean", max((-2 - 6) / 2, (-4 - 3) / 2)),
        ("max", max(-2, -3)),
        ("harmonic", max(-2 * 2 * 6 / 8, -2 * 4 * 3 / 7)),
    ],
)
def test_the_best_reference_counts(form: Any, value: float) -> None:
    judgment = judged(two_references(), make(form=form), TWO)
    assert judgment.value == pytest.approx(value)
    both = form in ("mean", "max", "harmonic")
    assert judgment.n_calls == (4 if both else 2)
    assert len(judgment.evidence["passes"]) == judgment.n_calls
    if both:
        assert judgment.evidence["passes"][0] == {
            "form": "ref_hyp",
            "logprob": -2.0,
            "tokens": 2,
            "reference": 1,
        }


def test_each_direction_shows_one_text_and_scores_the_other() -> None:
    engine = scoring({}, other=(-1.0,))
    judged(engine, make(form="mean"), item_of("Mine.", "Theirs."))
    forth, back = asked(engine)
    assert forth.context.endswith("Theirs. In other words,")
    assert forth.continuation == " Mine."
    assert back.context.endswith("Mine. In other words,")
    assert back.continuation == " Theirs."
    assert "the source" not in forth.context + back.context


def test_texts_that_are_certain_have_a_harmonic_mean() -> None:
    judgment = judged(scoring({}, other=(0.0,)), make(form="harmonic"), item_of("Mine.", "Theirs."))
    assert judgment.value == 0


@pytest.mark.parametrize("form", FORMS[1:])
def test_an_item_without_a_reference_is_refused(form: Any) -> None:
    with pytest.raises(ConfigError, match=r"item 'item' has no reference answer, .* form=src_hyp"):
        judged(scoring({}), make(form=form), item_of("Mine.", " "))


# --- as published -------------------------------------------------------------------------------


def test_published_drops_the_first_token_and_ends_texts() -> None:
    engine = scoring({}, other=(-8.0, -1.0, -2.0))
    judgment = judged(
        engine, make(form="harmonic", published=True), item_of("Mine!", "Theirs.", "Ours")
    )
    assert {
        (each.context[-32:].partition(".\n\n")[2], each.continuation) for each in asked(engine)
    } == {
        ("Theirs. In other words ,", " Mine! ."),
        ("Mine! . In other words ,", " Theirs."),
        ("Ours . In other words ,", " Mine! ."),
        ("Mine! . In other words ,", " Ours ."),
    }
    assert judgment.value == pytest.approx(-1.5 * 1.5 / (1.5 + 1.5))
    assert {each["tokens"] for each in judgment.evidence["passes"]} == {2}


def test_published_differs_by_the_dropped_token_alone_where_a_text_ends() -> None:
    engine = scoring({" Mine.": (-8.0, -1.0, -2.0)})
    ours = judged(engine, make(), item_of("Mine."))
    theirs = judged(engine, make(published=True), item_of("Mine."))
    assert ours.value == pytest.approx(-11 / 3)
    assert theirs.value == pytest.approx(-3 / 2)
    assert len({request.id for request in engine.asked}) == 1


def test_published_leaves_nothing_of_a_single_token() -> None:
    judgment = judged(scoring({" .": (-1.0,)}), make(published=True), item_of("."))
    assert (judgment.status, judgment.value) == (Status.EMPTY_RESPONSE, None)
    assert "one token" in summarize([judgment]).no_scores[0].reason


def test_published_scores_no_answers() -> None:
    with pytest.raises(ConfigError, match=r"gptscore/dialogue@1#\w+ score the answer 'Yes'"):
        make("dialogue", published=True)
    make("dialogue", form="ref_hyp", published=True)


# --- failures and runs --------------------------------------------------------------------------


@pytest.mark.parametrize("logprobs", [(), (-1.0, math.nan), (-math.inf,)])
def test_garbage_of_an_engine_is_no_score(logprobs: Any) -> None:
    judgment = judged(scoring({}, other=logprobs), make(), item_of())
    assert (judgment.status, judgment.value) == (Status.ENGINE_ERROR, None)
    assert f"gave {len(logprobs)} log-probs" in judgment.evidence["error"]


def test_an_engine_that_cannot_serve_is_told() -> None:
    able = frozenset({Capability.GENERATE, Capability.SCORE_LABELS})
    engine = ScriptedEngine(lambda request: "4", capabilities=able)
    with pytest.raises(ConfigError, match="the judge 'gptscore' needs score_text, which"):
        fit(make(), engine)


@pytest.mark.parametrize(
    ("options", "calls"),
    [({}, 6), ({"published": True}, 6), ({"form": "ref_hyp"}, 12), ({"form": "mean"}, 24)],
)
def test_a_plan_counts_the_calls(options: dict[str, Any], calls: int) -> None:
    items = [
        replace(item_of(f"response {k}", f"first {k}", f"second {k}"), id=str(k)) for k in range(6)
    ]
    engine = scoring({})
    plan = plan_run(make(**options), items, engine, Store())
    assert plan.by_kind == {Capability.SCORE_TEXT: calls}
    assert not plan.estimated
    assert engine.asked == []


def test_the_signature_says_every_option() -> None:
    signature = make(form="mean").signature
    assert signature["prompt"].startswith("gptscore/summarization@1#")
    assert {"judge": "gptscore", "form": "mean", "published": "False"}.items() <= signature.items()


# --- a model ------------------------------------------------------------------------------------


def teacher_forced(folder: Path, context: str, text: str) -> list[float]:
    """Return the log-probs of a text's tokens by plain transformers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.eval()
    before = tokenizer(context).input_ids
    ids = before + tokenizer(text, add_special_tokens=False).input_ids
    assert tokenizer(context + text).input_ids == ids
    with torch.no_grad():
        logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    return [float(logprobs[i - 1, ids[i]]) for i in range(len(before), len(ids))]


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("task", ["summarization", "story", "instruction"])
def test_the_score_is_that_of_teacher_forcing(
    tiny_hf: HfEngine, tiny_hf_folder: Path, task: str, *, published: bool
) -> None:
    item = item_of("The better one answers yes, and the worse one no.")
    made = judged(tiny_hf, make(task, published=published), item)
    engine = scoring({}, other=(-1.0, -1.0))
    judged(engine, make(task), item)
    expected = teacher_forced(tiny_hf_folder, asked(engine)[0].context, f" {item.response}")
    expected = expected[published:]
    assert len(expected) > 10
    assert made.value == pytest.approx(sum(expected) / len(expected), abs=1e-4)
    assert made.evidence["passes"][0]["tokens"] == len(expected)


def test_the_forms_with_references_are_those_of_teacher_forcing(
    tiny_hf: HfEngine, tiny_hf_folder: Path
) -> None:
    item = item_of("One is better.", "The other is worse.", "Worst of all?")
    engine = scoring({}, other=(-1.0,))
    judged(engine, make(form="mean"), item)
    means = []
    for request in asked(engine):
        expected = teacher_forced(tiny_hf_folder, request.context, request.continuation)
        means.append(sum(expected) / len(expected))
    forth, back = means[::2], means[1::2]
    pairs = list(zip(forth, back, strict=True))
    values = {form: judged(tiny_hf, make(form=form), item).value for form in FORMS[1:]}
    assert values == pytest.approx(
        {
            "ref_hyp": max(forth),
            "hyp_ref": max(back),
            "mean": max((a + b) / 2 for a, b in pairs),
            "max": max(forth + back),
            "harmonic": max(2 / (1 / a + 1 / b) for a, b in pairs),
        },
        abs=1e-4,
    )
