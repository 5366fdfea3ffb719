"""Shared beginnings in the engine of transformers: the same numbers, evaluated once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adjudge.engines import hf_attention
from adjudge.engines.hf import HfEngine
from adjudge.engines.hf_model import HALVED
from adjudge.engines.hf_states import States
from adjudge.engines.hf_tree import UNSHARED
from adjudge.engines.prefix import prefix_plan
from adjudge.errors import EngineError
from adjudge.exchange import (
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
from tests.tiny_hf import write_tiny_llama

pytestmark = pytest.mark.usefixtures("transformers")


def ladder_requests() -> list[Request]:
    """Return comparisons of 3 targets with 2 rungs for each of 2 sources, and texts to score."""
    requests: list[Request] = []
    for source in ("The cat sat on the mat. " * 5, "All about dogs, at some length. " * 4):
        for rung in ("a long and quite coherent summary, as they come", "worse"):
            requests += [
                ScoreLabels(
                    messages=(Message(role="user", content=f"{source}\n{rung * 3}\n{target}?"),),
                    labels=("Better", "Worse", "Worst", "no"),
                )
                for target in ("the better one", "none of them", "yes, it is" * 4)
            ]
        requests += [
            ScoreText(context=source * 2, continuation=f" {text}")
            for text in ("and so", "and so on", "The end" * 9)
        ]
    return requests


def numbers(replies: Sequence[Reply]) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    assert all(isinstance(reply, LabelScores | TextScore) for reply in replies)
    return {reply.request_id: np.array(reply.logprobs) for reply in replies}  # type: ignore[union-attr]


def assert_equal_with_and_without(folder: Path, **options: Any) -> HfEngine:
    requests = ladder_requests()
    engine = HfEngine(folder, device="cpu", threads=1, **options)
    shared = numbers(list(engine.run(requests)))
    apart = numbers(list(HfEngine(folder, device="cpu", threads=1, reuse=False).run(requests)))
    assert shared.keys() == apart.keys() == {request.id for request in requests}
    for key, values in apart.items():
        np.testing.assert_allclose(shared[key], values, atol=1e-4)
    return engine


@pytest.mark.parametrize("batch", [None, 40, 1000])
def test_log_probs_are_those_without_sharing(tiny_hf_folder: Path, batch: int | None) -> None:
    engine = assert_equal_with_and_without(tiny_hf_folder, batch=batch)
    assert (engine._tree._apart, engine.events) == (True, {})


@pytest.mark.parametrize("fault", [NotImplementedError, None])
def test_rows_attend_to_copies_where_they_cannot_attend_together(
    tiny_hf_folder: Path, monkeypatch: pytest.MonkeyPatch, fault: type[Exception] | None
) -> None:
    flash = hf_attention._flash

    def broken(*given: Any, causal: bool, **more: Any) -> Any:
        if fault:
            raise fault
        found, normaliser = flash(*given, causal=causal, **more)
        return found, normaliser + causal  # a wrong share of what is before

    monkeypatch.setattr(hf_attention, "_flash", broken)
    engine = assert_equal_with_and_without(tiny_hf_folder)
    assert (engine._tree._apart, engine.events) == (False, {})


def test_what_prompts_share_is_evaluated_once(tiny_hf_folder: Path) -> None:
    engine = HfEngine(tiny_hf_folder, device="cpu", threads=1)
    requests = [each for each in ladder_requests() if isinstance(each, ScoreLabels)]
    replies = list(engine.run(requests))
    plan = prefix_plan([engine.prompt_tokens(request) for request in requests])
    evaluated = sum(reply.usage.evaluated_tokens for reply in replies)
    # Every request has two beginnings of labels to look behind: "Wor" and one more token.
    assert plan.unique_tokens <= evaluated <= 1.15 * plan.unique_tokens + 2 * len(requests)
    assert sum(reply.usage.prompt_tokens for reply in replies) == plan.total_tokens


def test_prompts_in_another_order_or_alone_score_the_same(tiny_hf_folder: Path) -> None:
    engine = HfEngine(tiny_hf_folder, device="cpu", threads=1)
    requests = ladder_requests()
    together = numbers(list(engine.run(requests)))
    shuffled = numbers(list(engine.run(random.Random(3).sample(requests, len(requests)))))
    alone = numbers([reply for request in requests for reply in engine.run([request])])
    for key, values in together.items():
        np.testing.assert_allclose(shuffled[key], values, atol=1e-4)
        np.testing.assert_allclose(alone[key], values, atol=1e-4)


def writing_requests() -> list[Generate]:
    """Return what is drawn several times after one prompt, and prompts that share beginnings."""
    story = "Once there was a cat that sat on a mat, and a dog that did not. " * 4
    return [
        Generate(
            messages=(Message(role="user", content=f"{story}{question}"),),
            max_tokens=6 + 3 * k,
            sampling=Sampling(temperature=float(k > 0), seed=k),
            n=1 + k,
        )
        for k, question in enumerate(("Who?", "What did they do?", "Write the end of it."))
    ] + [Generate(messages=(Message(role="user", content="?"),), max_tokens=5)]


def texts(engine: HfEngine, requests: Sequence[Generate]) -> dict[str, list[str]]:
    replies = [reply for reply in engine.run(requests) if isinstance(reply, Generated)]
    return {reply.request_id: [each.text for each in reply.completions] for reply in replies}


@pytest.mark.parametrize("batch", [None, 60])
def test_texts_are_those_without_sharing(tiny_hf_folder: Path, batch: int | None) -> None:
    requests = writing_requests()
    plain = HfEngine(tiny_hf_folder, device="cpu", threads=1, reuse=False)
    expected = texts(plain, requests)
    engine = HfEngine(tiny_hf_folder, device="cpu", threads=1, batch=batch)
    assert texts(engine, requests) == expected
    assert len(set(expected[requests[2].id])) == 3, "three different draws"


def test_a_prompt_that_is_drawn_from_many_times_is_evaluated_once(tiny_hf_folder: Path) -> None:
    engine = HfEngine(tiny_hf_folder, device="cpu", threads=1)
    (asked,) = writing_requests()[2:3]
    many = replace(asked, n=20)
    (reply,) = engine.run([many])
    n_prompt = len(engine.prompt_tokens(many))
    assert reply.usage.prompt_tokens == 20 * n_prompt
    assert reply.usage.evaluated_tokens == n_prompt - 1 + 20


# --- other architectures ------------------------------------------------------------------------


def _gpt2(n_vocab: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}
    return GPT2LMHeadModel(GPT2Config(vocab_size=n_vocab, **sizes, initializer_range=0.3))


def _gemma2(n_vocab: int) -> Any:
    """Every other layer looks back 24 tokens only; logits are squashed."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        vocab_size=n_vocab,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=24,
        max_position_embeddings=512,
        initializer_range=0.3,
    )
    return Gemma2ForCausalLM(config)


def _bloom(n_vocab: int) -> Any:
    """Places count by distance (ALiBi)."""
    from transformers import BloomConfig, BloomForCausalLM

    sizes = {"hidden_size": 32, "n_layer": 2, "n_head": 4}
    return BloomForCausalLM(BloomConfig(vocab_size=n_vocab, **sizes, initializer_range=0.3))


def _opt(n_vocab: int) -> Any:
    from transformers import OPTConfig, OPTForCausalLM

    config = OPTConfig(
        vocab_size=n_vocab,
        hidden_size=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        word_embed_proj_dim=32,
        init_std=0.3,
    )
    return OPTForCausalLM(config)


def _mamba(n_vocab: int) -> Any:
    """A recurrent state instead of keys and values."""
    from transformers import MambaConfig, MambaForCausalLM

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
    return MambaForCausalLM(MambaConfig(vocab_size=n_vocab, **sizes))


def _written(build: Callable[[int], Any], folder: Path) -> Path:
    """Write a random model with the tokenizer of the tiny Llama."""
    import torch

    write_tiny_llama(folder)
    n_vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    torch.manual_seed(1)
    build(n_vocab).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("build", "apart"), [(_gpt2, True), (_gemma2, False), (_bloom, False), (_opt, True)]
)
def test_other_architectures_share_too(
    build: Callable[[int], Any], tmp_path: Path, *, apart: bool
) -> None:
    folder = _written(build, tmp_path / "model")
    engine = assert_equal_with_and_without(folder)
    assert engine._tree._apart == apart
    plain = HfEngine(folder, device="cpu", threads=1, reuse=False)
    assert texts(engine, writing_requests()) == texts(plain, writing_requests())
    assert engine.events == {}


def test_a_model_with_a_recurrent_state_shares_nothing_and_says_so(tmp_path: Path) -> None:
    engine = assert_equal_with_and_without(_written(_mamba, tmp_path / "model"))
    assert engine.events == {UNSHARED: 1}


def test_a_model_that_scores_otherwise_after_states_shares_nothing(
    tiny_hf_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an architecture makes of states is tried out before it is trusted."""
    engine = HfEngine(tiny_hf_folder, device="cpu", threads=1)
    places = engine._loaded.places
    monkeypatch.setattr(engine._loaded, "places", lambda *given: places(*given) * 0)
    requests = ladder_requests()
    shared = numbers(list(engine.run(requests)))
    plain = HfEngine(tiny_hf_folder, device="cpu", threads=1, reuse=False)
    for key, values in numbers(list(plain.run(requests))).items():
        np.testing.assert_allclose(shared[key], values, atol=1e-4)
    assert engine.events == {UNSHARED: 1}


# --- memory -------------------------------------------------------------------------------------


def short_of_memory(engine: HfEngine, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let the model fail as torch does where more rows than `most` come at once."""
    import torch

    padded = engine._loaded.padded

    def tried(rows: Sequence[Any], **more: Any) -> Any:
        if len(rows) > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return padded(rows, **more)

    monkeypatch.setattr(engine._loaded, "padded", tried)


def test_a_batch_that_memory_does_not_hold_is_halved_and_the_event_told(
    tiny_hf_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = ladder_requests()
    expected = numbers(list(HfEngine(tiny_hf_folder, device="cpu", threads=1).run(requests)))
    engine = HfEngine(tiny_hf_folder, device="cpu", threads=1)
    short_of_memory(engine, monkeypatch, most=2)
    found = numbers(list(engine.run(requests)))
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, atol=1e-4)
    assert set(engine.events) == {HALVED}
    assert engine.events[HALVED] > 0
    assert engine._loaded.batch < HfEngine(tiny_hf_folder, device="cpu")._loaded.batch


def test_a_single_prompt_that_memory_does_not_hold_is_one_clear_line(
    tiny_hf_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = HfEngine(tiny_hf_folder, device="cpu", threads=1)
    short_of_memory(engine, monkeypatch, most=0)
    with pytest.raises(EngineError, match=r"needs more memory for one prompt .* dtype=bfloat16"):
        list(engine.run(ladder_requests()))


def test_states_are_dropped_when_nothing_goes_on_after_them(
    tiny_hf_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Watched(States):
        def __init__(self, n_layers: int, *, all_kept: bool = False) -> None:
            super().__init__(n_layers, all_kept=all_kept)
            made.append(self)

    monkeypatch.setattr("adjudge.engines.hf_tree.States", Watched)
    list(HfEngine(tiny_hf_folder, device="cpu", threads=1).run(ladder_requests()))
    assert made
    assert [len(states) for states in made] == [0] * len(made)
