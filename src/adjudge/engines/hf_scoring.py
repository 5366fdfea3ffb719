"""Log-probs of tokens, out of forward passes over the prefix tree of the rows that want them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjudge.engines.hf_rows import Row, Scored
from adjudge.engines.hf_states import States
from adjudge.engines.hf_tree import HfTree
from adjudge.engines.prefix_tree import Piece, by_parent, tree_batches

#: How many of the likeliest tokens are told.
TOP = 5
#: How many logits one batch may make, unless a single row makes more: 256 MiB in 32 bits.
LOGITS = 1 << 26


class _Want(NamedTuple):
    """A token that a row wants after a place: the `k`-th of its wishes."""

    place: int
    token: int
    row: int
    k: int


def scored(tree: HfTree, rows: Sequence[Row]) -> Iterator[Scored]:
    """Yield what each row wants, from the softmax over the whole vocabulary."""
    roots = tree.roots([row.tokens for row in rows])
    wishes, states = _Wishes(roots, rows), tree.states()
    n_vocab = tree.model.n_vocab

    def fits(pieces: Sequence[Piece]) -> bool:
        return len(pieces) * len(wishes.columns(pieces)) * n_vocab <= LOGITS

    def step(pieces: Sequence[Piece]) -> Sequence[Piece]:
        _evaluate(tree, by_parent(pieces), states, wishes)
        return pieces

    batches = tree_batches(roots, lambda: tree.model.batch, fits)
    for batch in tree.model.halving(batches, step):
        for piece in batch:
            yield from map(wishes.scored, piece.ends)


def _evaluate(tree: HfTree, batch: Sequence[Piece], states: States, wishes: _Wishes) -> None:
    columns = wishes.columns(batch)
    logits = tree.logits(batch, states, columns)
    column = {place: k for k, place in enumerate(columns)}
    for i, piece in enumerate(batch):
        wishes.fulfil(piece, logits[i], column)


class _Wishes:
    """What rows want of the pieces of their tree, and what has been found."""

    def __init__(self, roots: Sequence[Piece], rows: Sequence[Row]) -> None:
        self._of: dict[Piece, list[_Want]] = {}
        self._found = [np.zeros(len(row.wanted), dtype=np.float32) for row in rows]
        self._top: list[tuple[tuple[int, float], ...]] = [()] * len(rows)
        self._n_evaluated = [0] * len(rows)
        waiting = list(roots)
        while waiting:
            piece = waiting.pop()
            waiting += piece.children
            for row in piece.ends:
                self._add(row, rows[row], [*piece.path(), piece])

    def columns(self, pieces: Sequence[Piece]) -> list[int]:
        """Return the places after which something is wanted, counted within the pieces."""
        return sorted({want.place - p.start for p in pieces for want in self._of[p]})

    def fulfil(self, piece: Piece, logits: Any, column: dict[int, int]) -> None:
        """Take what is wanted of a piece from its logits, ``(n_columns, n_vocab)``."""
        wants = self._of[piece]
        if not wants:
            return
        own = logits.float()
        every = own.logsumexp(dim=-1)
        at = [column[want.place - piece.start] for want in wants]
        values = (own[at, [want.token for want in wants]] - every[at]).cpu().numpy()
        tops: dict[int, tuple[tuple[int, float], ...]] = {}
        for want, place, value in zip(wants, at, values, strict=True):
            self._found[want.row][want.k] = value
            if want.k == 0:
                if place not in tops:
                    top = (own[place] - every[place]).topk(TOP)
                    tops[place] = tuple(zip(top.indices.tolist(), top.values.tolist(), strict=True))
                self._top[want.row] = tops[place]

    def scored(self, row: int) -> Scored:
        """Return what has been found of a row."""
        return Scored(row, self._found[row], self._top[row], self._n_evaluated[row])

    def _add(self, index: int, row: Row, path: Sequence[Piece]) -> None:
        new = [piece for piece in path if piece not in self._of]
        self._of.update((piece, []) for piece in new)
        self._n_evaluated[index] = sum(len(piece.tokens) for piece in new)
        for k, (place, token) in enumerate(row.wanted):
            piece = next(each for each in path if place < each.end)
            self._of[piece].append(_Want(place, token, index, k))
