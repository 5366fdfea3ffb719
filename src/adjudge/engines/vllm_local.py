"""The engine of vLLM, in this process.

Prompts go in as the token ids that the `hf` engine makes of them, in depth-first order of their
prefix tree, so that vLLM's prefix cache serves what they share. Label log-probs come from the
first token that is written, exactly for any token; only those of texts are log-probs of prompts,
which vLLM takes past its cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path

from adjudge.engines.base import Engine, Tokens, check_fits, check_served
from adjudge.engines.hf_load import DTYPES, folder_hash, imported, loading, quiet
from adjudge.engines.hf_rows import unscorable
from adjudge.engines.hf_text import HfText
from adjudge.engines.models import one_of, resolve_folder, whole_number
from adjudge.engines.vllm_asks import Asked, AskedDraws, AskedLabels, AskedText
from adjudge.engines.vllm_core import TOP, VllmCore, imported_vllm
from adjudge.errors import ConfigError
from adjudge.exchange import (
    Capability,
    Failure,
    Generate,
    Reply,
    Request,
    ScoreLabels,
    ScoreText,
)
from adjudge.registry import unknown_name
from adjudge.schema import content_hash

OPTIONS = ("dtype", "ctx", "memory")


class VllmEngine(Engine):
    """A causal model of transformers run by vLLM in this process.

    It runs on what vLLM was built for, a GPU or a CPU. What prompts share is computed once, in
    blocks of tokens: 16 on most GPUs, 32 on a CPU. `ScoreText` is served by log-probs of the
    prompt: for such a request vLLM switches its prefix cache off and evaluates every token.

    Parameters
    ----------
    folder
        Where the model lies, as transformers' ``save_pretrained`` writes it.
    name
        What to call it in signatures; the folder's name if not given.
    dtype
        ``float32``, ``bfloat16`` or ``float16``; by default 32 bits on a CPU and on a GPU what
        vLLM makes of the model's own.
    context
        Tokens that a prompt and its reply may have; at most, and by default, the model's own.
    memory
        Share of the GPU's memory that vLLM takes, in (0, 1], by default its own choice; on a CPU
        that of the machine's memory that its cache takes, by default 0.2.
    """

    about = "models of transformers, by vLLM in this process"
    references = "vllm:FOLDER, vllm:owner/repo"
    extra, modules = "vllm", ("vllm",)
    capabilities = frozenset({Capability.GENERATE, Capability.SCORE_LABELS, Capability.SCORE_TEXT})
    context_length: int

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str | None = None,
        dtype: str | None = None,
        context: int | None = None,
        memory: float | None = None,
    ) -> None:
        self._folder = Path(folder)
        self._name = name or self._folder.resolve().name
        _check_files(self._folder)
        imported_vllm()  # it brings along what the tokenizer needs, so it is missed first
        self._text = _text(self._folder, self._name)
        self._core = VllmCore(self._folder, self._name, dtype=dtype, context=context, memory=memory)
        self.context_length = self._core.context_length
        if not self._text.has_template:
            self.capabilities = frozenset({Capability.SCORE_TEXT})

    @classmethod
    def from_reference(cls, reference: str) -> VllmEngine:
        """Return the engine for a model reference, as described in `adjudge.engines.models`."""
        name, folder, options = resolve_folder(reference)
        for option in options.keys() - set(OPTIONS):
            raise unknown_name("model option", option, OPTIONS)
        return cls(
            folder,
            name=name,
            dtype=one_of(options, "dtype", reference, DTYPES),
            context=whole_number(options, "ctx", reference, 16, 1 << 24),
            memory=_share(options, "memory", reference),
        )

    @cached_property
    def signature(self) -> Mapping[str, str]:
        """The model's files and the settings that move a log-prob.

        In 32 bits what runs together moves none by more than 1e-3; in 16 expect differences of up
        to 0.05, as between machines. `labels` says whether any label's log-prob is seen, or only
        those of the likeliest tokens.
        """
        fields = {
            "engine": "vllm",
            "model": self._name,
            "sha256": folder_hash(self._folder)[:12],
            "dtype": self._core.dtype,
            "ctx": str(self.context_length),
            "device": self._core.device,
            "labels": "exact" if self._core.exact else f"top {TOP}",
            "vllm": self._core.version,
        }
        if self._text.has_template:
            fields["template"] = content_hash(self._text.markup)[:8]
        return fields

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """Yield replies as vLLM has them ready; see `Engine.run`."""
        check_served(self, requests)
        asked = [self._asked(request) for request in requests]
        owners = []
        for each in asked:
            if isinstance(each, Failure):
                yield each
            else:
                owners += [(each, place) for place in range(len(each.asks))]
        asks = [each.asks[place] for each, place in owners]
        with closing(self._core.answers(asks)) as answers:
            for index, answer in answers:
                each, place = owners[index]
                if each.take(place, answer):
                    yield each.reply()

    def check(self, request: Request) -> None:
        """See `Engine.check`."""
        super().check(request)
        self._asked(request)

    def prompt_tokens(self, request: Request) -> Tokens:
        """Return the token ids of all that the model is shown for a request."""
        if isinstance(request, ScoreText):
            return self._text.continued(request.context, request.continuation).tokens
        return self._text.prompt(request.messages)

    def close(self) -> None:
        """Stop vLLM and free the model."""
        self._core.close()

    def _asked(self, request: Request) -> Asked | Failure:
        """Return what a request asks of vLLM, or why it has no reply; it fits the context."""
        if isinstance(request, ScoreText):
            tokens, start = self._text.continued(request.context, request.continuation)
            self._check(tokens, 1)
            if start == 0 or start == len(tokens):
                return Failure(request_id=request.id, message=unscorable(request, start))
            return AskedText(request, tokens, start)
        prompt = self._text.prompt(request.messages)
        if isinstance(request, ScoreLabels):
            labels = [self._text.label(label, request.messages) for label in request.labels]
            self._check(prompt, max(map(len, labels)))
            return AskedLabels(
                request, prompt, labels, piece=self._text.piece, exact=self._core.exact
            )
        assert isinstance(request, Generate)
        self._check(prompt, request.max_tokens)
        return AskedDraws(request, prompt, written=self._text.written)

    def _check(self, prompt: Tokens, reply: int) -> None:
        if prompt and max(prompt) >= self._core.n_known:
            raise ConfigError(
                f"the tokenizer of {self._name} writes a token {max(prompt)}, and the model knows "
                f"{self._core.n_known} of them, from 0: they do not belong together"
            )
        check_fits(len(prompt), reply, self.context_length)


def _text(folder: Path, name: str) -> HfText:
    """Return the chat template and the tokenizer of a folder."""
    with loading(folder), quiet():
        tokenizer = imported("transformers").AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    if not tokenizer.is_fast:
        raise ConfigError(
            f"the tokenizer in {str(folder)!r} has no tokenizer.json, which the vllm engine needs"
        )
    return HfText(tokenizer, name)


def _check_files(folder: Path) -> None:
    """Raise ConfigError if a folder holds no configuration or no weights that are safe to load."""
    for pattern in ("config.json", "*.safetensors"):
        if not any(folder.glob(pattern)):
            raise ConfigError(
                f"{str(folder)!r} holds no {pattern}; the vllm engine takes a folder as "
                "transformers' save_pretrained writes it, and no other weights than safetensors"
            )


def _share(options: Mapping[str, str], key: str, reference: str) -> float | None:
    """Return an option as a share in (0, 1], None if it is not given."""
    if key not in options:
        return None
    try:
        share = float(options[key])
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ConfigError(
            f"{reference!r}: {key} must be a number above 0 and up to 1, not {options[key]!r}"
        )
    return share
