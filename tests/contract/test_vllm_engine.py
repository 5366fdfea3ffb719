"""The engine of vLLM beside the one of transformers, on the same weights in 32 bits.

Both evaluate on the CPU with kernels of their own. The largest difference of a label's log-prob
that was seen is 5.1e-5; the tests allow 1e-3.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from adjudge.engines.convert import write_folder
from adjudge.engines.hf import HfEngine
from adjudge.engines.models import cached_path
from adjudge.engines.vllm_local import VllmEngine
from adjudge.exchange import (
    Failure,
    Generate,
    Generated,
    LabelScores,
    Message,
    Reply,
    Request,
    Sampling,
    ScoreLabels,
    ScoreText,
    TextScore,
)
from tests.conftest import MODEL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TOLERANCE = 1e-3
#: Tokens that prompts share in units of on a CPU.
BLOCK = 32
ARTICLE = " ".join(
    f"On day {i} the committee met in room {i * 7 % 31} and put off its decision."
    for i in range(30)
)
QUESTIONS = [
    "Which text is better?\n\nText A: The cat sat.\nText B: Cat the sat the.",
    "a < b and [c] <b>bold</b> <|im_end|> caf\u00e9 \U0001f600",
    "Is Paris the capital of France? " * 9,
    "Name a colour.",
    f"{ARTICLE}\n\nIs this coherent?",
    f"{ARTICLE}\n\nIs this fluent?",
    "Rate this from 1 to 5: good, good, good.",
    "?",
    "Say yes.",
    "Who wrote Hamlet, and when did he die?",
]
LABELS = [
    ("Yes", "No"),
    ("Better", "Worse", "Similar"),
    (" A", " B", " Bad"),
    ("1", "2", "3", "4", "5", "10"),
]


@pytest.fixture(scope="module")
def folder(transformers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model as a folder in 32 bits."""
    for package in ("vllm", "gguf"):
        if importlib.util.find_spec(package) is None:
            # Not a backend that `make test-all` installs: it wants an environment of its own.
            pytest.skip(f"{package} is not here; make test-vllm runs this")
    if not cached_path(MODEL).exists():
        pytest.skip(f"{MODEL} is not here; adjudge models pull {MODEL}")
    path = tmp_path_factory.mktemp("vllm") / "model"
    write_folder(MODEL, path, dtype="float32")
    return path


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[VllmEngine]:
    loaded = VllmEngine.from_reference(f"{folder}#ctx=2048&memory=0.05")
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def hf(folder: Path) -> HfEngine:
    return HfEngine(folder, device="cpu")


def user(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


def asked() -> list[ScoreLabels]:
    """Return 40 requests for labels of one token and of several."""
    return [ScoreLabels(messages=user(q), labels=labels) for q in QUESTIONS for labels in LABELS]


def shared() -> list[ScoreLabels]:
    """Return 16 requests that share an article."""
    return [
        ScoreLabels(messages=user(f"{ARTICLE}\n\nIs sentence {i} true?"), labels=("Yes", "No"))
        for i in range(16)
    ]


def by_id(engine: VllmEngine | HfEngine, requests: Sequence[Request]) -> dict[str, Reply]:
    replies = {reply.request_id: reply for reply in engine.run(requests)}
    assert set(replies) == {request.id for request in requests}
    return replies


def numbers(reply: Reply) -> tuple[float, ...]:
    assert isinstance(reply, LabelScores | TextScore)
    return reply.logprobs


def largest_difference(one: dict[str, Reply], two: dict[str, Reply]) -> float:
    return max(
        abs(a - b) for key in one for a, b in zip(numbers(one[key]), numbers(two[key]), strict=True)
    )


def drawn(engine: VllmEngine | HfEngine, requests: Sequence[Generate]) -> list[list[str]]:
    replies = by_id(engine, requests)
    found = []
    for request in requests:
        reply = replies[request.id]
        assert isinstance(reply, Generated)
        found.append([each.text for each in reply.completions])
    return found


def write(text: str, **how: Any) -> Generate:
    sampling = Sampling(**{key: how.pop(key) for key in ("temperature", "seed") if key in how})
    return Generate(messages=user(text), sampling=sampling, **{"max_tokens": 16, **how})


def test_labels_have_the_log_probs_that_transformers_gives_them(
    engine: VllmEngine, hf: HfEngine
) -> None:
    requests = asked()
    mine, theirs = by_id(engine, requests), by_id(hf, requests)
    assert len(mine) == 40
    for request in requests:
        assert engine.prompt_tokens(request) == hf.prompt_tokens(request)
        one, two = mine[request.id], theirs[request.id]
        assert isinstance(one, LabelScores)
        assert isinstance(two, LabelScores)
        assert one.exact
        assert one.n_tokens == two.n_tokens
        assert one.coverage == pytest.approx(two.coverage, abs=TOLERANCE)
        assert one.top_tokens[0][0] == two.top_tokens[0][0]
    difference = largest_difference(mine, theirs)
    print(f"labels: {difference:.1e}")
    assert difference < TOLERANCE


def test_texts_have_the_log_probs_that_transformers_gives_them(
    engine: VllmEngine, hf: HfEngine
) -> None:
    requests = [ScoreText(context=ARTICLE, continuation=f" And then {q}") for q in QUESTIONS]
    mine, theirs = by_id(engine, requests), by_id(hf, requests)
    difference = largest_difference(mine, theirs)
    print(f"texts: {difference:.1e}")
    assert difference < TOLERANCE
    for request in requests:
        usage = mine[request.id].usage
        assert usage.evaluated_tokens == usage.prompt_tokens, "such prompts are in no cache"


def test_greedy_texts_are_those_of_transformers(engine: VllmEngine, hf: HfEngine) -> None:
    requests = [write(question) for question in QUESTIONS]
    assert drawn(engine, requests) == drawn(hf, requests)


def test_what_prompts_share_is_evaluated_once_and_changes_no_number(engine: VllmEngine) -> None:
    requests = shared()
    engine._core._engine.reset_prefix_cache()
    together = by_id(engine, requests)
    usages = [reply.usage for reply in together.values()]
    total = sum(usage.prompt_tokens for usage in usages)
    evaluated = sum(usage.evaluated_tokens for usage in usages)
    own = len(engine.prompt_tokens(requests[0]))
    # The article once, and for each prompt its end and the block that is not full at the border.
    ends = sum(usage.prompt_tokens - own for usage in usages) + 16 * (2 * BLOCK)
    assert own <= evaluated <= own + ends < total / 4
    print(f"shared: {evaluated} of {total} tokens")

    engine._core._engine.reset_prefix_cache()
    alone: dict[str, Reply] = {}
    for request in reversed(requests):
        alone |= by_id(engine, [request])
        engine._core._engine.reset_prefix_cache()
    assert all(reply.usage.evaluated_tokens >= own - BLOCK for reply in alone.values())
    difference = largest_difference(together, alone)
    print(f"together and alone: {difference:.1e}")
    assert difference < TOLERANCE


def test_kinds_of_request_that_run_together_do_not_mix(engine: VllmEngine) -> None:
    labels, texts = asked()[:8], [ScoreText(context="The cat", continuation=" sat down.")]
    writing = [write("Name a colour."), write("Say yes.", temperature=1, n=2)]
    together = by_id(engine, [*writing, *labels, *texts])
    apart = by_id(engine, labels) | by_id(engine, texts)
    assert largest_difference(apart, {key: together[key] for key in apart}) < TOLERANCE


def test_a_run_that_is_abandoned_leaves_the_engine_as_it_was(engine: VllmEngine) -> None:
    requests = [*asked(), write("Tell a long story.", max_tokens=400, n=4)]
    run = engine.run(requests)
    next(run)
    assert engine._core._engine.has_unfinished_requests()
    run.close()  # type: ignore[attr-defined]
    assert not engine._core._engine.has_unfinished_requests()
    assert engine._core._finished == {}
    again = shared()
    assert largest_difference(by_id(engine, again), by_id(engine, again[::-1])) < TOLERANCE


def test_draws_repeat_with_their_seed_and_differ_otherwise(engine: VllmEngine) -> None:
    (three,) = drawn(engine, [write("Name a colour.", n=3, temperature=1, seed=7)])
    assert len(set(three)) == 3
    last = write("Name a colour.", first_sample=2, temperature=1, seed=7)
    other = write("Name a colour.", n=3, temperature=1, seed=8)
    assert drawn(engine, [last, other])[0] == three[2:]
    assert drawn(engine, [other]) != [three]


def test_a_reply_is_held_to_a_json_schema(engine: VllmEngine) -> None:
    score = {"type": "integer", "minimum": 1, "maximum": 5}
    schema = {"type": "object", "properties": {"score": score}, "required": ["score"]}
    closed = json.dumps(schema | {"additionalProperties": False})
    choice = json.dumps({"enum": ["Better", "Worse"]})
    ((rated,), chosen) = drawn(
        engine,
        [
            write("Rate: a cat.", json_schema=closed),
            write("Which?", json_schema=choice, temperature=1, n=4),
        ],
    )
    assert json.loads(rated)["score"] in range(1, 6)
    assert {json.loads(each) for each in chosen} <= {"Better", "Worse"}


def test_what_vllm_refuses_fails_alone(engine: VllmEngine) -> None:
    hot, broken = write("x", temperature=3), write("x", json_schema="{nope")
    replies = by_id(engine, [hot, broken, write("Say yes.")])
    for request, message in ((hot, "temperature must be in"), (broken, "grammar")):
        reply = replies[request.id]
        assert isinstance(reply, Failure)
        assert message in reply.message
    assert sum(isinstance(reply, Failure) for reply in replies.values()) == 2


def test_the_signature_names_what_was_loaded(engine: VllmEngine) -> None:
    vllm = importlib.import_module("vllm")
    fields = engine.signature
    assert (fields["engine"], fields["dtype"], fields["device"]) == ("vllm", "float32", "cpu")
    assert (fields["ctx"], fields["labels"]) == ("2048", "exact")
    assert fields["vllm"] == vllm.__version__


def test_torch_is_as_it_was(engine: VllmEngine) -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before + 1
    torch.set_num_threads(before)
