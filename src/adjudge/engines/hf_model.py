"""A model of transformers in memory, and what it is asked for in batches.

Rows of tokens go in, padded to one length; numbers come out row by row. In 32 bits a row's
numbers do not depend, to 1e-4, on the rows that share its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from adjudge.engines.base import Tokens
from adjudge.engines.hf_draws import Draw, Noise
from adjudge.engines.hf_rows import Row, Scored, batches, row_batches
from adjudge.errors import EngineError

#: How many of the likeliest tokens are told.
TOP = 5


class HfModel:
    """A causal language model or an encoder that is loaded.

    Parameters
    ----------
    model, tokenizer
        Of transformers.
    causal
        Whether the model writes.
    name
        What to call it in messages.
    threads
        CPU threads; None: as torch has been told.
    batch
        Tokens, padding included, that are evaluated together.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        causal: bool,
        name: str,
        threads: int | None,
        batch: int,
    ) -> None:
        self._model, self._causal, self._name = model, causal, name
        self._threads, self._batch = threads, batch
        self._lock = Lock()  # one batch at a time: some leave before the last layer
        self._pad = int(tokenizer.pad_token_id or 0)  # it is masked, so any token will do
        self._end = tokenizer.eos_token_id
        self.n_layers = int(model.config.num_hidden_layers)
        self.n_vocab = int(model.config.vocab_size)
        self.n_known = int(model.get_input_embeddings().weight.shape[0])
        self._layers = self._list_of_layers()
        self.n_dimensions = int(model.config.hidden_size)
        self.attention = str(getattr(model.config, "_attn_implementation", None))
        self.n_positions = self._n_positions()
        self._chooses = "logits_to_keep" in signature(model.forward).parameters
        self._ends = self._own_generation() if causal else frozenset[int]()

    # --- log-probabilities ----------------------------------------------------------------------

    def scored(self, rows: Sequence[Row]) -> Iterator[Scored]:
        """Yield what each row wants, from the softmax over the whole vocabulary."""
        for indices in row_batches(rows, self._batch, self.n_vocab):
            yield from self._scored(rows, indices)

    def _scored(self, rows: Sequence[Row], indices: Sequence[int]) -> list[Scored]:
        import torch

        columns = sorted({place for i in indices for place in rows[i].places})
        column = {place: k for k, place in enumerate(columns)}
        with self._running():
            ids, mask = self._padded([rows[i].tokens for i in indices])
            shown: dict[str, Any] = {}
            if self._chooses:
                shown["logits_to_keep"] = torch.tensor(columns, device=ids.device)
            output = self._model(input_ids=ids, attention_mask=mask, use_cache=False, **shown)
            logits = output.logits if shown else output.logits[:, columns]
            found = []
            for k, i in enumerate(indices):
                at, tokens = zip(*((column[place], t) for place, t in rows[i].wanted), strict=True)
                own = logits[k].float()
                every = own.logsumexp(dim=-1)
                values = own[list(at), list(tokens)] - every[list(at)]
                top = (own[at[0]] - every[at[0]]).topk(TOP)
                likeliest = zip(top.indices.tolist(), top.values.tolist(), strict=True)
                found.append(Scored(i, values.cpu().numpy(), tuple(likeliest)))
        return found

    # --- vectors --------------------------------------------------------------------------------

    def hidden(
        self, rows: Sequence[Tokens], layer: int
    ) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """Yield the index of each row with ``(n_tokens, n_dimensions)`` outputs of a layer.

        Layers count from 1. The last one's output has the model's final normalisation.
        """
        nothing = np.zeros((0, self.n_dimensions), dtype=np.float32)
        yield from ((i, nothing) for i, row in enumerate(rows) if not row)
        filled = [i for i, row in enumerate(rows) if row]
        for places in batches([len(rows[i]) for i in filled], self._batch):
            indices = [filled[place] for place in places]
            with self._running():
                ids, mask = self._padded([rows[i] for i in indices])
                states = self._states(layer, input_ids=ids, attention_mask=mask)
                found = [states[k, : len(rows[i])].float().cpu() for k, i in enumerate(indices)]
            for index, vectors in zip(indices, found, strict=True):
                yield index, vectors.numpy()

    def _states(self, layer: int, **inputs: Any) -> Any:
        """Return what a layer puts out: what goes into the next one, which then need not run."""
        model = self._model.base_model
        if self._causal:
            inputs["use_cache"] = False
        if layer == self.n_layers:
            return model(**inputs).last_hidden_state
        if self._layers is None:
            return model(**inputs, output_hidden_states=True).hidden_states[layer]

        def stop(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            raise _EnoughError(args[0] if args else kwargs["hidden_states"])

        hook = self._layers[layer].register_forward_pre_hook(stop, with_kwargs=True)
        try:
            model(**inputs)
        except _EnoughError as enough:
            return enough.states
        finally:
            hook.remove()
        raise EngineError(f"{self._name} has no layer {layer} that can be looked into")

    # --- writing --------------------------------------------------------------------------------

    def written(self, draws: Sequence[Draw]) -> Iterator[tuple[int, Tokens, bool]]:
        """Yield the index of each draw, its tokens and whether the model ended it itself.

        The token that ends a text is the last of its tokens. Draws are greedy decoding with
        Gumbel noise, each row's from its own generator, so they do not depend on the batch.
        """
        for indices in batches([len(d.tokens) + d.max_tokens for d in draws], self._batch):
            yield from self._written(draws, indices)

    def _written(
        self, draws: Sequence[Draw], indices: Sequence[int]
    ) -> Iterator[tuple[int, Tokens, bool]]:
        import torch

        chosen = [draws[i] for i in indices]
        with self._running():
            ids, mask = self._padded([draw.tokens for draw in chosen], left=True)
            limits = torch.tensor([draw.max_tokens for draw in chosen], device=self._model.device)
            n_prompt = ids.shape[1]
            sequences = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=int(limits.max()),
                logits_processor=[Noise(chosen)],
                stopping_criteria=[lambda ids, *_, **__: ids.shape[1] - n_prompt >= limits],
            )[:, n_prompt:].tolist()
        for index, draw, tokens in zip(indices, chosen, sequences, strict=True):
            length = next(
                (i + 1 for i, token in enumerate(tokens) if token in self._ends), len(tokens)
            )
            length = min(length, draw.max_tokens)
            yield index, tuple(tokens[:length]), tokens[length - 1] in self._ends

    def _own_generation(self) -> frozenset[int]:
        """Return the tokens that end a text; of the model's other habits none is kept."""
        from transformers import GenerationConfig

        theirs = self._model.generation_config.eos_token_id
        ends = {theirs} if isinstance(theirs, int) else set(theirs or ())
        ends |= {self._end} - {None}
        self._model.generation_config = GenerationConfig(
            do_sample=False, eos_token_id=sorted(ends) or None, pad_token_id=self._pad
        )
        return frozenset(ends)

    # --- parts ----------------------------------------------------------------------------------

    def _padded(self, rows: Sequence[Tokens], *, left: bool = False) -> tuple[Any, Any]:
        """Return token ids and attention mask, ``(n_rows, longest)``."""
        import torch

        shape = len(rows), max(map(len, rows))
        ids, mask = np.full(shape, self._pad), np.zeros(shape, dtype=np.int64)
        for i, row in enumerate(rows):
            place = slice(shape[1] - len(row), None) if left else slice(len(row))
            ids[i, place], mask[i, place] = row, 1
        return tuple(torch.from_numpy(each).to(self._model.device) for each in (ids, mask))

    def _n_positions(self) -> int | None:
        """Return how many tokens the model can tell apart by their place; None: any number."""
        n = getattr(self._model.config, "max_position_embeddings", None)
        if n is None:
            return None
        for name, module in self._model.named_modules():
            padding = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and padding is not None:
                return int(n) - int(padding) - 1  # places count from after the padding's
        return int(n)

    def _list_of_layers(self) -> Any:
        """Return the model's layers in order; None where they are not kept as a list."""
        import torch

        for module in self._model.modules():
            if isinstance(module, torch.nn.ModuleList) and len(module) == self.n_layers:
                return module
        return None

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Evaluate without gradients and with the threads that were asked for."""
        import torch

        with self._lock:
            before = torch.get_num_threads()
            torch.set_num_threads(self._threads or before)
            try:
                with torch.inference_mode():
                    yield
            except torch.OutOfMemoryError as error:
                raise EngineError(
                    f"{self._name} needs more memory than there is; load it with fewer tokens "
                    f"together, as in #batch={max(1, self._batch // 4)}"
                ) from error
            finally:
                torch.set_num_threads(before)


class _EnoughError(Exception):
    """Ends an evaluation whose further layers are not wanted."""

    def __init__(self, states: Any) -> None:
        super().__init__("evaluated far enough")
        self.states = states
