"""The embedded engine: llama.cpp in this process, through xllamacpp.

Prompts go in as token ids in depth-first order of their prefix tree, so that llama.cpp's cache
of the last prompt serves all that is shared. Label log-probs come from the softmax over the
whole vocabulary.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from adjudge.engines.base import (
    Engine,
    NextToken,
    Tokens,
    check_fits,
    check_served,
    label_contexts,
    score_labels,
)
from adjudge.engines.llama_text import LlamaText
from adjudge.engines.models import model_hash, resolve, shards, whole_number
from adjudge.engines.prefix import prefix_plan
from adjudge.errors import ConfigError, EngineError
from adjudge.exchange import (
    Capability,
    Completion,
    Failure,
    Generate,
    Generated,
    Reply,
    Request,
    ScoreLabels,
    Usage,
)
from adjudge.registry import unknown_name
from adjudge.schema import content_hash

#: The context is the model's own, but at most this many tokens unless asked for: its memory is
#: taken at once.
DEFAULT_CONTEXT = 8192
#: How many of the likeliest tokens are asked for.
TOP = 512
#: Added to the logits of label tokens that are not among them, to bring them there.
LIFT = 40.0


class LlamaEngine(Engine):
    """A GGUF model run by llama.cpp in this process.

    Parameters
    ----------
    path
        The model file.
    name
        What to call it in signatures; the file's stem if not given.
    adapter
        A LoRA adapter (GGUF) to load with it.
    context
        Tokens that a prompt and its reply may have; at most what the model was trained for.
    threads
        CPU threads; llama.cpp's threads spin, so leave busy cores out.
    reuse
        Whether to keep what requests share; False only serves to measure what that saves.
    """

    about = "GGUF models, by llama.cpp in this process"
    references = "FILE.gguf, hf:owner/repo/FILE.gguf"
    extra, modules = "llama", ("xllamacpp",)
    capabilities = frozenset({Capability.GENERATE, Capability.SCORE_LABELS})

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        adapter: str | Path | None = None,
        context: int = DEFAULT_CONTEXT,
        threads: int | None = None,
        reuse: bool = True,
    ) -> None:
        self._path, self._adapter = Path(path), Path(adapter) if adapter else None
        self._name = name or self._path.stem
        for file in [*shards(self._path), *filter(None, [self._adapter])]:
            if not file.is_file():
                raise ConfigError(f"there is no model file {str(file)!r}")
        self._threads = threads or _usable_cores()
        self._context, self._reuse = context, reuse
        self._server, self._text = self._start()
        properties = self._text.properties()
        self.context_length: int = properties["default_generation_settings"]["n_ctx"]
        self._quantisation = str(properties.get("model_ftype", "?"))

    @classmethod
    def from_reference(cls, reference: str) -> LlamaEngine:
        """Return the engine for a model reference, as described in `adjudge.engines.models`."""
        name, path, options = resolve(reference)
        for option in options.keys() - {"adapter", "ctx", "threads"}:
            raise unknown_name("model option", option, ["adapter", "ctx", "threads"])
        return cls(
            path,
            name=name,
            adapter=options.get("adapter"),
            context=whole_number(options, "ctx", reference, 256, 1 << 24) or DEFAULT_CONTEXT,
            threads=whole_number(options, "threads", reference, 1, 1024),
        )

    @cached_property
    def signature(self) -> Mapping[str, str]:
        """The model file and the settings that move a log-prob.

        Kernels of other processors round otherwise: expect differences of up to 0.05 between
        machines for 16-bit files, more for quantised ones.
        """
        fields = {
            "engine": "llama",
            "model": self._name,
            "sha256": model_hash(self._path)[:12],
            "quant": self._quantisation,
            "ctx": str(self.context_length),
            "template": content_hash(self._text.markup)[:8],
            "flash_attn": "off",
            "kv": "f16",
            "device": self._device,
            "xllamacpp": version("xllamacpp"),
        }
        if self._adapter:
            fields["adapter"] = f"{self._adapter.stem}@{model_hash(self._adapter)[:12]}"
        return fields

    @property
    def details(self) -> Mapping[str, str]:
        """See `Engine.details`."""
        return self._text.details

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """Yield replies in depth-first order of the prompts' prefix tree; see `Engine.run`."""
        if self._server is None:
            raise ConfigError("this engine is closed; load it again")
        check_served(self, requests)
        prompts = [self._checked(request) for request in requests]
        for index in prefix_plan(prompts).order:
            request, prompt = requests[index], prompts[index]
            try:
                yield self._reply(request, prompt)
            except EngineError as error:
                yield Failure(request_id=request.id, message=str(error))

    def check(self, request: Request) -> None:
        """See `Engine.check`. A token is at least one byte, so short prompts cost nothing."""
        super().check(request)
        contents = (message.content for message in request.messages)
        bound = sum(len(text.encode()) for text in contents) + len(
            "".join(self._text.markup).encode()
        )
        if bound + self._reply_tokens(request) > self.context_length:
            self._checked(request)

    def prompt_tokens(self, request: Request) -> Tokens:
        """Return the token ids of the chat prompt, up to and with the assistant header."""
        return self._text.prompt(request.messages)

    def close(self) -> None:
        """Stop llama.cpp and free the model."""
        self._text.close()
        self._server = None

    def _checked(self, request: Request) -> Tokens:
        prompt = self.prompt_tokens(request)
        check_fits(len(prompt), self._reply_tokens(request), self.context_length)
        return prompt

    # --- asking ---------------------------------------------------------------------------------

    def _reply(self, request: Request, prompt: Tokens) -> Reply:
        if isinstance(request, ScoreLabels):
            return self._score_labels(request, prompt)
        return self._generate(cast("Generate", request), prompt)

    def _generate(self, request: Generate, prompt: Tokens) -> Generated:
        completions, evaluated = [], 0
        sampling = request.sampling
        for sample in range(request.first_sample, request.first_sample + request.n):
            body = {
                "max_tokens": request.max_tokens,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": 0,
                "min_p": 0.0,
                "seed": int(content_hash([sampling.seed, sample])[:8], 16),
            }
            if request.json_schema is not None:
                body["json_schema"] = _parsed(request.json_schema)
            answer = self._complete(prompt, body)
            evaluated += _evaluated(answer)
            choice = answer["choices"][0]
            completions.append(
                Completion(
                    text=choice["text"],
                    finish_reason="length" if choice["finish_reason"] == "length" else "stop",
                    n_tokens=answer["usage"]["completion_tokens"],
                )
            )
        return Generated(
            request_id=request.id,
            completions=tuple(completions),
            usage=Usage(
                prompt_tokens=len(prompt),
                evaluated_tokens=evaluated,
                generated_tokens=sum(each.n_tokens for each in completions),
            ),
        )

    def _score_labels(self, request: ScoreLabels, prompt: Tokens) -> Reply:
        labels = [self._text.label(label, request.messages) for label in request.labels]
        seen, evaluated = {}, 0
        top: list[tuple[str, float]] = []
        for context, wanted in label_contexts(labels).items():
            keep = self._reuse or bool(context)
            entries, cost = self._likeliest(prompt + context, keep=keep)
            evaluated += cost
            known = {entry["id"]: entry["logprob"] for entry in entries}
            if missing := wanted - known.keys():
                lifted, cost = self._lifted(prompt + context, missing, entries)
                evaluated += cost
                known |= lifted
            shown = {token: known[token] for token in wanted if token in known}
            seen[context] = NextToken(shown, entries[-1]["logprob"])
            top = top or [(entry["token"], entry["logprob"]) for entry in entries[:5]]
        usage = Usage(prompt_tokens=len(prompt), evaluated_tokens=evaluated)
        return score_labels(request, labels, seen, top_tokens=top, usage=usage)

    def _likeliest(self, prompt: Tokens, *, keep: bool) -> tuple[list[dict[str, Any]], int]:
        """Return the likeliest next tokens, best first, and the tokens evaluated for it.

        llama.cpp shows them only with a token that it writes, and not if that one ends the text
        or is part of a character. So it is made to write a plain one; what is shown is from
        before that.
        """
        steer = {"temperature": 0.0, "logit_bias": [[self._plain_token, 1e4]]}
        answer = self._complete(prompt, {"n_probs": TOP, "cache_prompt": keep, **steer})
        return answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"], _evaluated(answer)

    def _lifted(
        self, prompt: Tokens, missing: frozenset[int], entries: Sequence[dict[str, Any]]
    ) -> tuple[dict[int, float], int]:
        """Return the log-probs of tokens far down, and the tokens evaluated for it.

        With their logits lifted by a constant they come out on top, and the ratio to a token
        whose log-prob is known gives theirs: exact, and without asking for the whole
        vocabulary, which takes longer than the evaluation.
        """
        lift = {
            "n_probs": TOP,
            "post_sampling_probs": True,
            "logit_bias": [[token, LIFT] for token in sorted(missing)],
            **{"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "ignore_eos": True},
        }
        answer = self._complete(prompt, lift)
        logprobs = answer["choices"][0]["logprobs"] or {"content": []}
        shares = {
            entry["id"]: entry["prob"]
            for content in logprobs["content"]
            for entry in content["top_probs"]
            if entry["prob"] > 0
        }
        anchor = next((entry for entry in entries if entry["id"] in shares), None)
        if anchor is None:
            return {}, _evaluated(answer)
        base = anchor["logprob"] - math.log(shares[anchor["id"]]) - LIFT
        found = {token: math.log(shares[token]) + base for token in missing & shares.keys()}
        return found, _evaluated(answer)

    @cached_property
    def _plain_token(self) -> int:
        """A token that is a whole character and ends nothing."""
        return self._text.tokenize("A")[-1]

    def _complete(self, prompt: Tokens, body: dict[str, Any]) -> dict[str, Any]:
        if self._server is None:
            raise ConfigError("this engine is closed; load it again")
        answer = self._server.handle_completions(
            {"prompt": list(prompt), "cache_prompt": True, "max_tokens": 1, "seed": 0, **body}
        )
        if "choices" not in answer:
            problem = answer.get("error", answer)
            raise EngineError(f"llama.cpp refused a request: {problem.get('message', problem)}")
        return cast("dict[str, Any]", answer)

    def _reply_tokens(self, request: Request) -> int:
        if isinstance(request, ScoreLabels):
            return max(len(self._text.label(label, request.messages)) for label in request.labels)
        return cast("Generate", request).max_tokens

    # --- starting -------------------------------------------------------------------------------

    def _files(self) -> list[str]:
        return [str(path) for path in (self._path, self._adapter) if path]

    def _start(self) -> tuple[Any, LlamaText]:
        """Return the running server and the private line for its text services."""
        try:
            import xllamacpp
        except ImportError as error:
            raise ConfigError(
                "the llama engine needs xllamacpp: pip install 'adjudge[llama]'"
            ) from error
        folder = tempfile.mkdtemp(prefix="adjudge-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._device = "+".join(str(each["name"]) for each in xllamacpp.get_device_info())
        params = xllamacpp.CommonParams()
        params.model.path = str(self._path)
        params.n_ctx = self._context
        params.n_parallel = 1
        params.cpuparams.n_threads = self._threads
        # Its CPU kernels give other log-probs (by up to 0.06) for other lengths of the part
        # that is evaluated; plain attention gives the same ones, bit for bit, and as fast.
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_ram_mib = 0  # the prefix order makes a second cache useless
        params.fit_params = False
        params.warmup = False
        params.ui = params.endpoint_slots = False
        params.verbosity = -1
        if hasattr(socket, "AF_UNIX"):  # a socket that only this user can reach
            params.hostnames = [f"{folder}/llama.sock"]
        if self._adapter:
            params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(self._adapter))]
        try:
            server = xllamacpp.Server(params)
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"llama.cpp cannot load {' with '.join(map(repr, self._files()))}: {error} "
                "Is it a whole GGUF file of a causal language model (and an adapter made for "
                "it), with memory to spare?"
            ) from error
        text = LlamaText(server.listening_address, self._name)
        weakref.finalize(self, text.close)
        return server, text


def _parsed(json_schema: str) -> Any:
    """Return a JSON schema as what its text says."""
    try:
        return json.loads(json_schema)
    except ValueError as error:
        raise EngineError(f"the JSON schema is not JSON: {error}") from error


def _evaluated(answer: Mapping[str, Any]) -> int:
    """Return how many prompt tokens were evaluated for an answer."""
    return int(answer["timings"]["prompt_n"])


def _usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
