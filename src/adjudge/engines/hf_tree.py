"""Forward passes over the pieces of a prefix tree.

What goes on after a piece is evaluated in batches that attend to the states it left. In 32 bits
this moves no log-prob by more than 1e-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from adjudge.engines.base import Tokens
from adjudge.engines.hf_attention import attending_apart
from adjudge.engines.hf_model import HfModel, NoMemoryError
from adjudge.engines.hf_states import States, layers_with_states, sees_all_before
from adjudge.engines.prefix_tree import Piece, prefix_tree, tree_batches, unshared

#: Rows whose last token a model has to predict alike with and without sharing, and how nearly.
PROOF = ((0,) * 9, (0,) * 7 + (1, 2), (0,) * 7 + (1, 3, 4), (0,) * 5 + (5,))
CLOSE, CLOSE_IN_16_BITS = 5e-3, 0.3
UNSHARED = "model that keeps no states to share: every prompt evaluated whole"


class HfTree:
    """A causal model that evaluates what prompts begin with alike once, if it can.

    Parameters
    ----------
    model
        The model.
    reuse
        False evaluates every prompt whole; it only serves to measure what sharing saves.
    """

    def __init__(self, model: HfModel, *, reuse: bool = True) -> None:
        self.model = model
        self._n_layers = layers_with_states(model.model) if reuse else None
        self._proved = False
        #: Whether rows attend together to what they share, instead of each to a copy.
        self._apart = False
        if reuse and self._n_layers is None:
            model.events[UNSHARED] = 1

    @property
    def shares(self) -> bool:
        """Whether the model can go on after states; tried out when first asked."""
        if not self._proved:
            self._proved = True
            if self._n_layers is not None and not self._found_a_way():
                self._n_layers = None
                self.model.events[UNSHARED] = 1
        return self._n_layers is not None

    def roots(self, prompts: Sequence[Tokens]) -> list[Piece]:
        """Return the first pieces of a tree of prompts, or each prompt whole."""
        tree = prefix_tree(prompts)
        if any(root.children for root in tree) and self.shares:
            return tree
        return unshared(prompts)

    def states(self, *, all_kept: bool = False) -> States:
        """Return room for the states of a tree's pieces."""
        return States(self._n_layers or 0, all_kept=all_kept)

    def logits(self, batch: Sequence[Piece], states: States, columns: Sequence[int]) -> Any:
        """Evaluate pieces after the states of those before them, whose own are kept.

        Parameters
        ----------
        batch
            Pieces; those with one parent stand together.
        states
            Holds those of their parents.
        columns
            Places from the pieces' first tokens on.

        Returns
        -------
        Tensor
            Logits after each place, ``(n_pieces, n_columns, n_vocab)``.
        """
        import torch

        told: dict[str, Any] = {}
        starts = [piece.start for piece in batch]
        with self.model.running() as model, ExitStack() as stack:
            ids, mask = self.model.padded([piece.tokens for piece in batch])
            if self.model.chooses:  # it must show at least one place
                told["logits_to_keep"] = torch.tensor(columns or [0], device=ids.device)
            cache = None
            if states.wanted(batch) and self._apart:
                cache = states.cache(batch, joined=False)
                stack.enter_context(attending_apart(model, cache))
                told |= {self.model.cache_name: cache, "use_cache": True}
                told["position_ids"] = self.model.places(mask, starts)
            elif states.wanted(batch):
                cache = states.cache(batch)
                told |= self.model.after(cache, mask, starts)
            else:
                told |= {"attention_mask": mask, "use_cache": False}
            output = model(input_ids=ids, **told)
            logits = output.logits if self.model.chooses else output.logits[:, columns]
        if cache is not None:
            states.keep(batch, cache)
        return logits

    def _found_a_way(self) -> bool:
        """Return whether there is a way to share: attending apart, or to copies that are joined."""
        on_cpu = self.model.model.device.type == "cpu"
        known = self.model.attention == "sdpa" and self.model.counts
        self._apart = on_cpu and known and sees_all_before(self.model.model)
        if self._apart and self._is_proved():
            return True
        self._apart = False
        return self._is_proved()

    def _is_proved(self) -> bool:
        """Return whether rows are predicted alike with and without sharing."""
        spread = max(1, self.model.n_known // 7)
        prompts = [tuple(1 + token * spread for token in row) for row in PROOF]
        try:
            alone = self._last(unshared(prompts), len(prompts))
            together = self._last(prefix_tree(prompts, least=1), len(prompts))
        except NoMemoryError as error:
            raise self.model.too_large() from error
        except Exception:  # noqa: BLE001 - whatever architectures raise that want another cache
            return False
        close = CLOSE if self.model.dtype == "float32" else CLOSE_IN_16_BITS
        return all(
            float((a - b).abs().max()) <= close for a, b in zip(alone, together, strict=True)
        )

    def _last(self, roots: Sequence[Piece], n: int) -> list[Any]:
        """Return the likelihoods of the tokens after each prompt of a tree, ``(n_vocab,)``."""
        states, found = self.states(), [None] * n
        for batch in tree_batches(roots, lambda: 1):
            (piece,) = batch
            logits = self.logits(batch, states, [len(piece.tokens) - 1])
            for row in piece.ends:
                found[row] = logits[0, -1].float().softmax(dim=-1)
        return found
