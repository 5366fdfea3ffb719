"""Texts written in batches, after prompts whose shared beginnings are evaluated once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from adjudge.engines.base import Tokens
from adjudge.engines.hf_draws import Draw, Noise
from adjudge.engines.hf_load import HELD
from adjudge.engines.hf_rows import batches
from adjudge.engines.hf_tree import HfTree
from adjudge.engines.prefix_tree import Piece, by_parent, prefix_tree, tree_batches


class Written(NamedTuple):
    """The tokens of a draw, with the one that ends it, and whether the model ended it itself.

    `n_evaluated` counts the prompt's tokens that were evaluated for it and for no draw before.
    """

    draw: int
    tokens: Tokens
    ended: bool
    n_evaluated: int


def written(tree: HfTree, draws: Sequence[Draw]) -> Iterator[Written]:
    """Yield each draw's text, batch by batch.

    Draws are greedy decoding with Gumbel noise, each row's from its own generator, so they do not
    depend on the batch.
    """
    lengths = [len(draw.tokens) + draw.max_tokens for draw in draws]
    limit = tree.model.batch * (HELD if tree.shares else 1)
    for found in tree.model.halving(
        batches(lengths, limit), lambda indices: _together(tree, draws, indices)
    ):
        yield from found


def _together(tree: HfTree, draws: Sequence[Draw], indices: Sequence[int]) -> list[Written]:
    import torch

    chosen = [draws[i] for i in indices]
    past, n_evaluated = _prefilled(tree, [draw.tokens for draw in chosen])
    with tree.model.running() as model:
        ids, mask = tree.model.padded([draw.tokens for draw in chosen], left=True)
        limits = torch.tensor([draw.max_tokens for draw in chosen], device=ids.device)
        n_prompt = ids.shape[1]
        sequences = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=int(limits.max()),
            logits_processor=[Noise(chosen)],
            stopping_criteria=[lambda ids, *_, **__: ids.shape[1] - n_prompt >= limits],
            **past,
        )[:, n_prompt:].tolist()
    ends, found = tree.model.ends, []
    for k, tokens in enumerate(sequences):
        ended = next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))
        length = min(ended, chosen[k].max_tokens)
        text = tuple(tokens[:length])
        found.append(Written(indices[k], text, tokens[length - 1] in ends, n_evaluated[k]))
    return found


def _prefilled(tree: HfTree, prompts: Sequence[Tokens]) -> tuple[dict[str, Any], list[int]]:
    """Return the states of prompts but for their last tokens, and what each of them cost."""
    distinct = list(dict.fromkeys(prompt[:-1] for prompt in prompts if len(prompt) > 1))
    if len(distinct) == len(prompts) == 1 or not distinct or not tree.shares:
        return {}, [len(prompt) for prompt in prompts]
    roots, states = prefix_tree(distinct), tree.states(all_kept=True)
    ends: dict[Tokens, Piece] = {}
    for batch in tree_batches(roots, lambda: tree.model.batch):
        tree.logits(by_parent(batch), states, [])
        ends.update((distinct[i], piece) for piece in batch for i in piece.ends)
    paid: set[Piece] = set()
    cost = []
    for prompt in prompts:
        last = ends.get(prompt[:-1])
        new = set() if last is None else {*last.path(), last} - paid
        cost.append(1 + sum(len(piece.tokens) for piece in new))
        paid |= new
    rows = [ends.get(prompt[:-1]) for prompt in prompts]
    return {tree.model.cache_name: states.whole(rows, tree.model.model.config)}, cost
