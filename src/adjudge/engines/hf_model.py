"""A model of transformers in memory, and what it is asked for in batches.

Rows of tokens go in, padded to one length; numbers come out row by row. In 32 bits a row's
numbers do not depend, to 1e-4, on the rows that share its batch.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from adjudge.engines.base import Tokens
from adjudge.engines.hf_rows import batches
from adjudge.errors import EngineError

#: What a run says of batches that did not fit.
HALVED = "batches halved for want of memory"
#: What torch says where a CPU has no memory left.
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")

_GROUPED = "TRANSFORMERS_SDPA_FORCE_GQA"

Part = TypeVar("Part")
Found = TypeVar("Found")


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

    Attributes
    ----------
    batch
        As given; less once that was more than memory holds.
    events
        What happened that is worth telling, and how often.
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
        self.model, self._causal, self._name = model, causal, name
        self._threads, self.batch = threads, batch
        self.events: Counter[str] = Counter()
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
        self.dtype = str(model.dtype).removeprefix("torch.")
        asks = signature(model.forward).parameters
        #: Whether it can be told of which places to show logits.
        self.chooses = "logits_to_keep" in asks
        #: Whether it can be told the places of tokens.
        self.counts = "position_ids" in asks
        self.cache_name = "cache" if "cache" in asks else "past_key_values"
        #: The tokens that end a text.
        self.ends = self._own_generation() if causal else frozenset[int]()

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

        def run(indices: Sequence[int]) -> list[tuple[int, Any]]:
            with self.running():
                ids, mask = self.padded([rows[i] for i in indices])
                states = self._states(layer, input_ids=ids, attention_mask=mask)
                return [(i, states[k, : len(rows[i])].float().cpu()) for k, i in enumerate(indices)]

        parts = batches([len(rows[i]) for i in filled], self.batch)
        for found in self.halving(([filled[k] for k in part] for part in parts), run):
            yield from ((index, vectors.numpy()) for index, vectors in found)

    def _states(self, layer: int, **inputs: Any) -> Any:
        """Return what a layer puts out: what goes into the next one, which then need not run."""
        model = self.model.base_model
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

    # --- parts ----------------------------------------------------------------------------------

    def padded(self, rows: Sequence[Tokens], *, left: bool = False) -> tuple[Any, Any]:
        """Return token ids and attention mask, ``(n_rows, longest)``."""
        import torch

        shape = len(rows), max(map(len, rows))
        ids, mask = np.full(shape, self._pad), np.zeros(shape, dtype=np.int64)
        for i, row in enumerate(rows):
            place = slice(shape[1] - len(row), None) if left else slice(len(row))
            ids[i, place], mask[i, place] = row, 1
        return tuple(torch.from_numpy(each).to(self.model.device) for each in (ids, mask))

    def _own_generation(self) -> frozenset[int]:
        """Return the tokens that end a text; of the model's other habits none is kept."""
        from transformers import GenerationConfig

        theirs = self.model.generation_config.eos_token_id
        ends = {theirs} if isinstance(theirs, int) else set(theirs or ())
        ends |= {self._end} - {None}
        self.model.generation_config = GenerationConfig(
            do_sample=False, eos_token_id=sorted(ends) or None, pad_token_id=self._pad
        )
        return frozenset(ends)

    def _n_positions(self) -> int | None:
        """Return how many tokens the model can tell apart by their place; None: any number."""
        n = getattr(self.model.config, "max_position_embeddings", None)
        if n is None:
            return None
        for name, module in self.model.named_modules():
            padding = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and padding is not None:
                return int(n) - int(padding) - 1  # places count from after the padding's
        return int(n)

    def _list_of_layers(self) -> Any:
        """Return the model's layers in order; None where they are not kept as a list."""
        import torch

        for module in self.model.modules():
            if isinstance(module, torch.nn.ModuleList) and len(module) == self.n_layers:
                return module
        return None

    def after(self, cache: Any, mask: Any, starts: Sequence[int]) -> dict[str, Any]:
        """Return what to tell a model that goes on after a cache of states.

        Parameters
        ----------
        cache
            Of transformers; states end in one column for all rows.
        mask
            Which of the new tokens are no padding, ``(n_rows, n_tokens)``.
        starts
            How many of the states are each row's own: the last ones.
        """
        import torch

        start = torch.tensor(starts, device=mask.device)[:, None]
        n_states = int(start.max())
        before = torch.arange(n_states, device=mask.device) >= n_states - start
        told = {self.cache_name: cache, "use_cache": True}
        told["attention_mask"] = torch.cat([before.to(mask.dtype), mask], dim=1)
        if self.counts:
            told["position_ids"] = self.places(mask, starts)
        return told

    def places(self, mask: Any, starts: Sequence[int]) -> Any:
        """Return the places of new tokens that are no padding, from each row's start.

        Padding has the place of the last token: some models know no further.
        """
        import torch

        return torch.tensor(starts, device=mask.device)[:, None] + mask.cumsum(dim=1) - 1

    def halving(
        self, parts: Iterable[Sequence[Part]], run: Callable[[Sequence[Part]], Found]
    ) -> Iterator[Found]:
        """Yield what `run` returns for each part; one that memory does not hold is halved."""
        for part in parts:
            waiting = deque([part])
            while waiting:
                here = waiting.popleft()
                try:
                    found = run(here)
                except NoMemoryError as error:
                    if len(here) == 1:
                        raise self.too_large() from error
                    self.events[HALVED] += 1
                    self.batch = max(1, self.batch // 2)
                    middle = len(here) // 2
                    waiting.extendleft([here[middle:], here[:middle]])
                    continue
                yield found

    def too_large(self) -> EngineError:
        """Return the error for a prompt that memory does not hold."""
        return EngineError(
            f"{self._name} needs more memory for one prompt than there is; "
            "shorten the texts that are shown, or load it with dtype=bfloat16"
        )

    @contextmanager
    def running(self) -> Iterator[Any]:
        """Give the model, to be run without gradients and with the threads that were asked for."""
        import torch

        with self._lock:
            before = torch.get_num_threads()
            torch.set_num_threads(self._threads or before)
            try:
                with torch.inference_mode(), self._grouped_heads():
                    yield self.model
            except RuntimeError as error:  # torch.OutOfMemoryError is one
                if any(words in str(error).lower() for words in _NO_MEMORY):
                    raise NoMemoryError(str(error)) from error
                raise
            finally:
                torch.set_num_threads(before)

    @contextmanager
    def _grouped_heads(self) -> Iterator[None]:
        """Let query heads share keys and values without copies of these.

        Transformers copies them where there is a mask, as GPU kernels need; the CPU's do not.
        """
        if self.model.device.type != "cpu":
            yield
            return
        before = os.environ.get(_GROUPED)
        os.environ[_GROUPED] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_GROUPED]
            else:
                os.environ[_GROUPED] = before


class NoMemoryError(Exception):
    """A batch did not fit into memory."""


class _EnoughError(Exception):
    """Ends an evaluation whose further layers are not wanted."""

    def __init__(self, states: Any) -> None:
        super().__init__("evaluated far enough")
        self.states = states
