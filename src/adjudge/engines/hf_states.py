"""Keys and values of shared pieces, kept and handed to transformers as its cache.

They are kept piece by piece, and put together for the rows of a batch one layer at a time: a
batch needs the room of one layer, however many of its rows share a piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from adjudge.engines.prefix_tree import Piece

#: Keys and values of one piece in one layer, each ``(n_heads, n_tokens, width)``.
Pair = tuple[Any, Any]


class Rows(NamedTuple):
    """Rows of a batch, `first` until `last`, that have the same pieces before them."""

    first: int
    last: int
    before: list[Piece]


class States:
    """The states that pieces to come still go on after.

    Parameters
    ----------
    n_layers
        Layers of the model that keep such.
    all_kept
        Whether to keep also what no piece goes on after.
    """

    def __init__(self, n_layers: int, *, all_kept: bool = False) -> None:
        self._n_layers, self._all_kept = n_layers, all_kept
        self._kept: dict[Piece, list[Pair]] = {}
        self._waiting: dict[Piece, int] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def wanted(self, batch: Sequence[Piece]) -> bool:
        """Return whether pieces go on after states, or leave some that are kept."""
        return any(piece.parent or self._grows(piece) for piece in batch)

    def cache(self, batch: Sequence[Piece], *, joined: bool = True) -> Any:
        """Return what is before each of a batch's pieces, as a cache of transformers.

        Parameters
        ----------
        batch
            The pieces.
        joined
            Whether to show a layer all states of each row. They end where the row's own begin; a
            row with fewer of them than another has zeros in front, which have to be masked.
            Otherwise a layer is shown its own only, and `before` has the others; see
            `adjudge.engines.hf_attention`.
        """
        from transformers.cache_utils import Cache

        longest = max(piece.start for piece in batch) if joined else 0
        growing = [(i, len(piece.tokens)) for i, piece in enumerate(batch) if self._grows(piece)]
        rows = _grouped([piece.parent for piece in batch])
        layers = [
            _layer_class()(longest, self._before(rows, layer), growing)
            for layer in range(self._n_layers)
        ]
        return Cache(layers=layers)

    def whole(self, rows: Sequence[Piece | None], config: Any) -> Any:
        """Return all that is kept of rows that end with these pieces, to be written on after.

        None stands for a row without any. Shorter rows have zeros in front.
        """
        import torch
        from transformers.cache_utils import DynamicCache

        found, groups = DynamicCache(config=config), _grouped(rows)
        longest = max(piece.end for piece in rows if piece is not None)
        for layer in range(self._n_layers):
            before = self._before(groups, layer)
            joined = []
            for which in (0, 1):
                one = before[0][1][0][which]
                shape = (len(rows), one.shape[0], longest, one.shape[-1])
                joined.append(torch.zeros(shape, dtype=one.dtype, device=one.device))
                _fill(joined[which], before, longest, which)
            found.update(*joined, layer)
        return found

    def keep(self, batch: Sequence[Piece], cache: Any) -> None:
        """Keep what a batch has added that is still to be gone on after; drop the rest."""
        growing = [piece for piece in batch if self._grows(piece)]
        for k, piece in enumerate(growing):
            self._kept[piece] = [layer.grown[k] for layer in cache.layers]
            self._waiting[piece] = len(piece.children)
        for piece in batch:
            if not (piece.children or self._all_kept):
                self._done(piece.parent)

    def _grows(self, piece: Piece) -> bool:
        return bool(piece.children) or self._all_kept

    def _before(self, rows: Sequence[Rows], layer: int) -> list[tuple[slice, list[Pair]]]:
        return [
            (slice(each.first, each.last), [self._kept[piece][layer] for piece in each.before])
            for each in rows
            if each.before
        ]

    def _done(self, parent: Piece | None) -> None:
        """Note that one of a piece's children, and all after it, has been evaluated."""
        while parent is not None:
            self._waiting[parent] -= 1
            if self._waiting[parent]:
                return
            del self._waiting[parent], self._kept[parent]
            parent = parent.parent


def layers_with_states(model: Any) -> int | None:
    """Return how many layers of a model keep keys and values of every token.

    None: some keep something else (a recurrent state, say), which cannot be put together from
    pieces.
    """
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    layers = _layers(model)
    plain = all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
    return len(layers) if plain and layers else None


def sees_all_before(model: Any) -> bool:
    """Return whether every layer of a model attends to all that is before a token."""
    from transformers.cache_utils import DynamicLayer

    return all(type(layer) is DynamicLayer for layer in _layers(model))


def _layers(model: Any) -> list[Any]:
    from transformers.cache_utils import DynamicCache

    return list(DynamicCache(config=model.config).layers)


def _grouped(pieces: Sequence[Piece | None]) -> list[Rows]:
    """Return which rows stand after the same of these pieces, one after another."""
    rows, first = [], 0
    for piece, group in groupby(pieces):
        last = first + len(list(group))
        rows.append(Rows(first, last, [] if piece is None else [*piece.path(), piece]))
        first = last
    return rows


def _fill(states: Any, before: Sequence[tuple[slice, list[Pair]]], end: int, which: int) -> None:
    """Write keys or values into rows of ``(n_rows, n_heads, n_tokens, width)``, up to an end."""
    for rows, pairs in before:
        until = end
        for pair in reversed(pairs):
            n = pair[which].shape[-2]
            states[rows, :, until - n : until] = pair[which]
            until -= n


@cache
def _layer_class() -> Any:
    from transformers.cache_utils import CacheLayerMixin

    class Layer(CacheLayerMixin):  # type: ignore[misc]
        """One layer of a cache that is put together when it is asked for.

        It shows all states also where a layer looks back only a little: masks see to that.
        """

        is_sliding = False

        def __init__(
            self,
            longest: int,
            before: Sequence[tuple[slice, list[Pair]]],
            growing: Sequence[tuple[int, int]],
        ) -> None:
            super().__init__()
            self._longest, self.before, self._growing = longest, before, growing
            self.grown: list[Pair] = []

        def lazy_initialization(self, *_: Any) -> None:
            self.is_initialized = True

        def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Pair:
            self.grown = [
                (key_states[row, :, :n].clone(), value_states[row, :, :n].clone())
                for row, n in self._growing
            ]
            if not self._longest:
                return key_states, value_states
            return self._joined(key_states, 0), self._joined(value_states, 1)

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return self._longest + query_length, 0

        def get_seq_length(self) -> int:
            return self._longest

        def get_max_length(self) -> int:
            return -1

        def _joined(self, new: Any, which: int) -> Any:
            n_rows, n_heads, n_tokens, width = new.shape
            joined = new.new_zeros(n_rows, n_heads, self._longest + n_tokens, width)
            joined[:, :, self._longest :] = new
            _fill(joined, self.before, self._longest, which)
            return joined

    return Layer
