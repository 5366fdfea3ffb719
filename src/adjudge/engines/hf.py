"""The engine of Hugging Face transformers, in this process.

What prompts begin with alike is evaluated once; what goes on after it, in padded batches. Label
log-probs come from the softmax over the whole vocabulary, those of texts from teacher forcing,
vectors from any hidden layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from adjudge.engines.base import (
    Engine,
    Tokens,
    check_fits,
    check_served,
)
from adjudge.engines.hf_draws import Draw
from adjudge.engines.hf_load import (
    DEVICES,
    DTYPES,
    chosen_device,
    folder_hash,
    load,
    usual_batch,
    usual_dtype,
)
from adjudge.engines.hf_model import HfModel
from adjudge.engines.hf_rows import AskedLabels, Row, unscorable
from adjudge.engines.hf_scoring import scored
from adjudge.engines.hf_text import HfText
from adjudge.engines.hf_tree import HfTree
from adjudge.engines.hf_writing import written
from adjudge.engines.models import one_of, resolve_folder, whole_number
from adjudge.errors import ConfigError
from adjudge.exchange import (
    Capability,
    Completion,
    Embed,
    Embedded,
    Failure,
    Generate,
    Generated,
    LabelScores,
    Reply,
    Request,
    ScoreLabels,
    ScoreText,
    TextScore,
    Usage,
)
from adjudge.registry import unknown_name
from adjudge.schema import content_hash

#: Requests whose prompts are kept as tokens: plans, checks and runs ask for them one after another.
MOST_PROMPTS = 8192
OPTIONS = ("dtype", "device", "threads", "batch", "ctx")


class HfEngine(Engine):
    """A model of transformers run in this process.

    Causal language models write, score and embed; encoders embed. Only safetensors are loaded,
    and no code that comes with a model is run.

    Parameters
    ----------
    folder
        Where the model lies, as transformers' ``save_pretrained`` writes it.
    name
        What to call it in signatures; the folder's name if not given.
    dtype
        ``float32``, ``bfloat16`` or ``float16``; by default 32 bits on a CPU and 16 on a GPU.
    device
        ``cpu`` or ``cuda``; by default a GPU if there is one.
    threads
        CPU threads; by default those that torch uses.
    batch
        Tokens, padding included, that are evaluated together; by default what the memory of the
        device holds, within reason. A batch that does not fit after all is halved.
    context
        Tokens that a prompt and its reply may have; at most, and by default, the model's own.
    reuse
        Whether to evaluate once what prompts share; False only serves to measure what that saves.
    """

    about = "models of transformers (safetensors), in this process, on a CPU or a GPU"
    references = "hf:FOLDER, hf:owner/repo"
    extra, modules = "hf", ("torch", "transformers")
    capabilities = frozenset(Capability)

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str | None = None,
        dtype: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        batch: int | None = None,
        context: int | None = None,
        reuse: bool = True,
    ) -> None:
        self._folder = Path(folder)
        self._name = name or self._folder.resolve().name
        self._device = chosen_device(device)
        self._dtype = dtype or usual_dtype(self._device)
        loaded = load(self._folder, self._name, dtype=self._dtype, device=self._device)
        self._model: HfModel | None = HfModel(
            loaded.model,
            loaded.tokenizer,
            causal=loaded.causal,
            name=self._name,
            threads=threads,
            batch=batch or usual_batch(loaded.model),
        )
        self._events = self._model.events  # told, as all that is not asked, of a closed engine too
        self._attention, self._n_layers = self._model.attention, self._model.n_layers
        self._reuse = reuse
        self._prompts: dict[str, Tokens] = {}
        self._text = HfText(loaded.tokenizer, self._name)
        own = self._model.n_positions
        if context and own and context > own:
            raise ConfigError(f"{self._name} has a context of {own} tokens, not of {context}")
        self.context_length = context or own
        most = loaded.tokenizer.model_max_length
        self._embeds_at_most = int(min(most, self.context_length or most))
        served = {Capability.EMBED}
        if loaded.causal:
            served.add(Capability.SCORE_TEXT)
            if self._text.has_template:
                served |= {Capability.GENERATE, Capability.SCORE_LABELS}
        self.capabilities = frozenset(served)

    @classmethod
    def from_reference(cls, reference: str) -> HfEngine:
        """Return the engine for a model reference, as described in `adjudge.engines.models`."""
        name, folder, options = resolve_folder(reference)
        for option in options.keys() - set(OPTIONS):
            raise unknown_name("model option", option, OPTIONS)
        return cls(
            folder,
            name=name,
            dtype=one_of(options, "dtype", reference, DTYPES),
            device=one_of(options, "device", reference, DEVICES),
            threads=whole_number(options, "threads", reference, 1, 1024),
            batch=whole_number(options, "batch", reference, 1, 1 << 24),
            context=whole_number(options, "ctx", reference, 16, 1 << 24),
        )

    @cached_property
    def signature(self) -> Mapping[str, str]:
        """The model's files and the settings that move a log-prob.

        In 32 bits the batches move none by more than 1e-4; in 16 expect differences of up to
        0.05 between batches and between machines.
        """
        fields = {
            "engine": "hf",
            "model": self._name,
            "sha256": folder_hash(self._folder)[:12],
            "dtype": self._dtype,
            "ctx": str(self.context_length or "any"),
            "device": self._device,
            "attn": self._attention,
            "torch": version("torch"),
            "transformers": version("transformers"),
        }
        if self._text.has_template:
            fields["template"] = content_hash(self._text.markup)[:8]
        return fields

    @property
    def n_layers(self) -> int:
        """How many layers `Embed` can ask for."""
        return self._n_layers

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """Yield replies kind by kind and batch by batch; see `Engine.run`."""
        self._loaded  # noqa: B018 - a closed engine says so first
        check_served(self, requests)
        for request in requests:
            self._check(request)
        for kind, replies in (
            (ScoreLabels, self._score_labels),
            (ScoreText, self._score_texts),
            (Embed, self._embed),
            (Generate, self._generate),
        ):
            if mine := [request for request in requests if isinstance(request, kind)]:
                yield from replies(mine)  # type: ignore[arg-type]

    def check(self, request: Request) -> None:
        """See `Engine.check`."""
        super().check(request)
        self._check(request)

    def prompt_tokens(self, request: Request) -> Tokens:
        """Return the token ids of all that the model is shown for a request."""
        if isinstance(request, ScoreText):
            return self._text.continued(request.context, request.continuation).tokens
        if isinstance(request, Embed):
            return self._text.framed(request.content, self._embeds_at_most).tokens
        if request.id not in self._prompts:
            if len(self._prompts) >= MOST_PROMPTS:
                self._prompts.clear()
            self._prompts[request.id] = self._text.prompt(request.messages)
        return self._prompts[request.id]

    @property
    def details(self) -> Mapping[str, str]:
        """See `Engine.details`."""
        return self._text.details if self._text.has_template else {}

    @property
    def events(self) -> Mapping[str, int]:
        """See `Engine.events`."""
        return dict(self._events)

    def close(self) -> None:
        """Free the model."""
        self._model = None
        self._prompts.clear()
        vars(self).pop("_tree", None)

    @property
    def _loaded(self) -> HfModel:
        if self._model is None:
            raise ConfigError("this engine is closed; load it again")
        return self._model

    @cached_property
    def _tree(self) -> HfTree:
        return HfTree(self._loaded, reuse=self._reuse)

    def _check(self, request: Request) -> None:
        reply, tokens = 0, self.prompt_tokens(request)
        if tokens and max(tokens) >= self._loaded.n_known:
            raise ConfigError(
                f"the tokenizer of {self._name} writes a token {max(tokens)}, and the model knows "
                f"{self._loaded.n_known} of them, from 0: they do not belong together"
            )
        if isinstance(request, Embed):
            if not 1 <= self._layer(request) <= self.n_layers:
                raise ConfigError(
                    f"{self._name} has the layers 1 to {self.n_layers}, not {request.layer}"
                )
            return
        if isinstance(request, Generate):
            if request.json_schema is not None:
                raise ConfigError(
                    "the hf engine cannot hold a reply to a JSON schema; use the llama engine, "
                    "or a judge without one"
                )
            reply = request.max_tokens
        if isinstance(request, ScoreLabels):
            reply = max(map(len, self._labels(request)))
        if self.context_length is not None:
            check_fits(len(tokens), reply, self.context_length)

    # --- log-probabilities ----------------------------------------------------------------------

    def _labels(self, request: ScoreLabels) -> list[Tokens]:
        return [self._text.label(label, request.messages) for label in request.labels]

    def _score_labels(self, requests: Sequence[ScoreLabels]) -> Iterator[LabelScores]:
        asked = [AskedLabels(r, self.prompt_tokens(r), self._labels(r)) for r in requests]
        owners = [(each, context) for each in asked for context in each.longest]
        rows = [each.row(context) for each, context in owners]
        for found in scored(self._tree, rows):
            each, context = owners[found.row]
            each.take(context, found)
            if not each.waiting:
                yield each.reply(self._text.piece)

    def _score_texts(self, requests: Sequence[ScoreText]) -> Iterator[Reply]:
        rows, owners = [], []
        for request in requests:
            tokens, start = self._text.continued(request.context, request.continuation)
            if start == 0 or start == len(tokens):
                yield Failure(request_id=request.id, message=unscorable(request, start))
                continue
            rows.append(Row(tokens, tuple((i - 1, tokens[i]) for i in range(start, len(tokens)))))
            owners.append(request)
        for found in scored(self._tree, rows):
            n = len(rows[found.row].tokens)
            yield TextScore(
                request_id=owners[found.row].id,
                logprobs=tuple(map(float, found.logprobs)),
                usage=Usage(prompt_tokens=n, evaluated_tokens=found.n_evaluated),
            )

    # --- vectors --------------------------------------------------------------------------------

    def _embed(self, requests: Sequence[Embed]) -> Iterator[Embedded]:
        for layer in sorted({self._layer(request) for request in requests}):
            asked = [request for request in requests if self._layer(request) == layer]
            texts = [self._text.framed(r.content, self._embeds_at_most) for r in asked]
            for i, vectors in self._loaded.hidden([text.tokens for text in texts], layer):
                n = len(texts[i].tokens)
                yield Embedded(
                    request_id=asked[i].id,
                    tokens=texts[i].tokens,
                    special=texts[i].special,
                    vectors=vectors,
                    n_cut=texts[i].n_cut,
                    usage=Usage(prompt_tokens=n, evaluated_tokens=n),
                )

    def _layer(self, request: Embed) -> int:
        return self.n_layers if request.layer is None else request.layer

    # --- writing --------------------------------------------------------------------------------

    def _generate(self, requests: Sequence[Generate]) -> Iterator[Generated]:
        prompts = [self.prompt_tokens(request) for request in requests]
        owners = [(i, k) for i, request in enumerate(requests) for k in range(request.n)]
        draws = [
            Draw(prompts[i], r.sampling, r.first_sample + k, r.max_tokens)
            for i, k in owners
            for r in [requests[i]]
        ]
        found: list[dict[int, Completion]] = [{} for _ in requests]
        evaluated = [0] * len(requests)
        for each in written(self._tree, draws):
            i, k = owners[each.draw]
            found[i][k] = Completion(
                text=self._text.written(each.tokens[:-1] if each.ended else each.tokens),
                finish_reason="stop" if each.ended else "length",
                n_tokens=len(each.tokens),
            )
            evaluated[i] += each.n_evaluated
            if len(found[i]) == requests[i].n:
                completions = tuple(found[i][k] for k in sorted(found[i]))
                n = len(prompts[i])
                yield Generated(
                    request_id=requests[i].id,
                    completions=completions,
                    usage=Usage(
                        prompt_tokens=n * len(completions),
                        evaluated_tokens=evaluated[i],
                        generated_tokens=sum(each.n_tokens for each in completions),
                    ),
                )
