"""What the engine of vLLM is given, and what it says of itself, with a stand-in for its core."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adjudge.engines import vllm_local
from adjudge.engines.hf_load import folder_hash
from adjudge.engines.vllm_core import TOP, Answer, Ask
from adjudge.engines.vllm_local import VllmEngine
from adjudge.errors import ConfigError
from adjudge.exchange import (
    Capability,
    Embed,
    Failure,
    Generate,
    Generated,
    LabelScores,
    Message,
    Request,
    ScoreLabels,
    ScoreText,
    TextScore,
)
from adjudge.registry import engines
from tests.tiny_hf import write_tiny_llama

pytestmark = pytest.mark.usefixtures("transformers")


class FakeCore(SimpleNamespace):
    """Gives every ask the same answer, the last one first."""

    asked: list[Ask]

    def answers(self, asks: Sequence[Ask]) -> Generator[tuple[int, Answer], None, None]:
        self.asked += asks
        for index in reversed(range(len(asks))):
            ids = asks[index].how.get("logprob_token_ids", [])
            n = len(asks[index].tokens)
            yield (
                index,
                Answer(
                    tokens=(40,),
                    logprobs=dict.fromkeys([40, *ids], -2.0),
                    prompt=(-1.0,) * n,
                    n_evaluated=n,
                ),
            )


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Put the stand-in in place; return the options that it is opened with."""
    found: list[dict[str, Any]] = []

    def made(folder: Path, name: str, **options: Any) -> FakeCore:
        found.append({"folder": folder, "name": name, **options})
        fields = {"context_length": options["context"] or 512, "n_known": 400, "exact": True}
        return FakeCore(dtype="float32", device="cpu", version="0.0", asked=[], **fields)

    monkeypatch.setattr(vllm_local, "VllmCore", made)
    monkeypatch.setattr(vllm_local, "imported_vllm", lambda: None)
    return found


def user(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


def test_prompts_are_those_of_the_hf_engine(
    opened: Any, tiny_hf: Any, tiny_hf_folder: Path
) -> None:
    engine = VllmEngine(tiny_hf_folder)
    requests: list[Request] = [
        ScoreLabels(messages=user("x<|im_end|>"), labels=("Better", "Zebra")),
        Generate(messages=(*user("x"), Message(role="assistant", content="It")), max_tokens=1),
        ScoreText(context="The cat", continuation=" sat."),
    ]
    for request in requests:
        assert engine.prompt_tokens(request) == tiny_hf.prompt_tokens(request)
    list(engine.run(requests))
    core: Any = engine._core
    prompts = [tuple(ask.tokens) for ask in core.asked]
    first = tiny_hf.prompt_tokens(requests[0])
    zebra = tiny_hf._text.label("Zebra", user("x"))
    assert len(zebra) > 1
    assert {first, *(first + zebra[:i] for i in range(1, len(zebra)))} <= set(prompts)
    assert prompts[-2:] == [tiny_hf.prompt_tokens(request) for request in requests[1:]]


def test_every_request_has_one_reply_of_its_kind(opened: Any, tiny_hf_folder: Path) -> None:
    engine = VllmEngine(tiny_hf_folder)
    kinds: dict[Request, type] = {
        ScoreLabels(messages=user("a"), labels=("Better", "Zebra")): LabelScores,
        Generate(messages=user("a"), max_tokens=1, n=3): Generated,
        ScoreText(context="The cat", continuation=" sat."): TextScore,
        ScoreText(context="", continuation="sat."): Failure,
    }
    replies = {reply.request_id: type(reply) for reply in engine.run(list(kinds))}
    assert replies == {request.id: kind for request, kind in kinds.items()}
    assert list(engine.run([])) == []


@pytest.mark.parametrize(
    ("request_", "n_reply"),
    [
        (ScoreLabels(messages=user("a " * 600), labels=("no",)), 1),
        (Generate(messages=user("a " * 100), max_tokens=500), 500),
        (ScoreText(context="a " * 300, continuation=" a" * 300), 1),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(
    opened: Any, tiny_hf_folder: Path, request_: Request, n_reply: int
) -> None:
    engine = VllmEngine(tiny_hf_folder)
    n = len(engine.prompt_tokens(request_))
    message = f"prompt of {n} tokens and up to {n_reply} tokens of reply .* context of 512 tokens"
    with pytest.raises(ConfigError, match=message):
        next(engine.run([Generate(messages=user("x"), max_tokens=1), request_]))
    with pytest.raises(ConfigError, match=message):
        engine.check(request_)
    core: Any = engine._core
    assert core.asked == []


def test_tokens_that_the_model_does_not_know_are_refused(opened: Any, tiny_hf_folder: Path) -> None:
    engine = VllmEngine(tiny_hf_folder)
    core: Any = engine._core
    core.n_known = 5
    with pytest.raises(ConfigError, match="and the model knows 5 of them, from 0"):
        engine.check(ScoreText(context="The cat", continuation=" sat."))


def test_vectors_are_not_served(opened: Any, tiny_hf_folder: Path) -> None:
    engine = VllmEngine(tiny_hf_folder)
    with pytest.raises(ConfigError, match=r"this engine \(vllm\) serves .*, not embed"):
        list(engine.run([Embed(content="x")]))


def test_a_model_without_a_chat_template_only_scores_texts(opened: Any, tmp_path: Path) -> None:
    write_tiny_llama(tmp_path / "m", template=None)
    engine = VllmEngine(tmp_path / "m")
    assert engine.capabilities == {Capability.SCORE_TEXT}
    assert "template" not in engine.signature


def test_options_of_a_reference_are_used(
    opened: list[dict[str, Any]], tiny_hf_folder: Path
) -> None:
    kind = engines.load("vllm")
    assert kind is VllmEngine
    kind.from_reference(f"{tiny_hf_folder}#dtype=bfloat16&ctx=64&memory=0.5")
    kind.from_reference(str(tiny_hf_folder))
    common = {"folder": tiny_hf_folder, "name": "tiny-llama"}
    assert opened == [
        {**common, "dtype": "bfloat16", "context": 64, "memory": 0.5},
        {**common, "dtype": None, "context": None, "memory": None},
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("dtype=int8", "dtype must be float32 or bfloat16 or float16, not 'int8'"),
        ("memory=0", "memory must be a number above 0 and up to 1, not '0'"),
        ("memory=1.5", "memory must be a number above 0 and up to 1, not '1.5'"),
        ("memory=nan", "memory must be a number above 0 and up to 1, not 'nan'"),
        ("memory=much", "memory must be a number above 0 and up to 1, not 'much'"),
        ("ctx=1", "ctx must be a whole number from 16"),
        ("memry=1", "unknown model option 'memry': did you mean 'memory'"),
    ],
)
def test_options_that_are_not_there_are_refused(
    opened: Any, tiny_hf_folder: Path, options: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        VllmEngine.from_reference(f"{tiny_hf_folder}#{options}")
    assert opened == []


def test_the_signature_says_what_moves_a_number(opened: Any, tiny_hf_folder: Path) -> None:
    engine = VllmEngine(tiny_hf_folder)
    fields = dict(engine.signature)
    assert fields.pop("template")
    assert fields == {
        "engine": "vllm",
        "model": "tiny-llama",
        "sha256": folder_hash(tiny_hf_folder)[:12],
        "dtype": "float32",
        "ctx": "512",
        "device": "cpu",
        "labels": "exact",
        "vllm": "0.0",
    }
    older = VllmEngine(tiny_hf_folder)
    older._core.exact = False
    assert older.signature["labels"] == f"top {TOP}"


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_folder_without_safe_weights_is_refused(
    opened: Any, tiny_hf_folder: Path, tmp_path: Path, missing: str
) -> None:
    folder = Path(shutil.copytree(tiny_hf_folder, tmp_path / "copy"))
    (folder / missing).rename(folder / "other.bin")
    pattern = missing.replace("model", r"\*").replace(".", r"\.")
    with pytest.raises(ConfigError, match=f"holds no {pattern}; the vllm engine takes a folder"):
        VllmEngine(folder)
    assert opened == []


def test_a_tokenizer_that_cannot_be_read_is_told(
    opened: Any, tiny_hf_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_hf_folder, tmp_path / "copy"))
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(ConfigError, match="transformers cannot load"):
        VllmEngine(folder)
    assert opened == [], "before the weights are loaded"
