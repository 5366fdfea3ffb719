"""Prompts as a tree of shared pieces, and which pieces are evaluated together.

An engine that keeps the states of a piece evaluates what goes on after it without evaluating the
piece again. Pieces too short to be worth a step of their own are written out in each of those
that go on after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from adjudge.engines.prefix import prefix_plan

Tokens = tuple[int, ...]

#: Tokens that sharing a piece must save to be worth a step of its own.
LEAST_SAVED = 32
#: How much of a batch may be padding, and how many tokens it may have whatever the padding.
MOST_PADDING = 0.2
SMALL_BATCH = 256


@dataclass(eq=False)
class Piece:
    """Tokens that stand after those of `parent`, from place `start` on.

    Attributes
    ----------
    ends
        Indices of the prompts that end with this piece.
    children
        The pieces that go on after it.
    """

    tokens: Tokens
    start: int = 0
    parent: Piece | None = None
    ends: list[int] = field(default_factory=list)
    children: list[Piece] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The place after its last token."""
        return self.start + len(self.tokens)

    def path(self) -> list[Piece]:
        """Return the pieces before it, from the first."""
        found: list[Piece] = []
        piece = self.parent
        while piece is not None:
            found.append(piece)
            piece = piece.parent
        return found[::-1]


def unshared(prompts: Sequence[Tokens]) -> list[Piece]:
    """Return every prompt as one piece of its own."""
    return [Piece(tokens, ends=[i]) for i, tokens in enumerate(prompts)]


def prefix_tree(prompts: Sequence[Tokens], *, least: int = LEAST_SAVED) -> list[Piece]:
    """Return the first pieces of the prompts' prefix tree; equal prompts end with one piece.

    Parameters
    ----------
    prompts
        Tokens of each prompt, one or more.
    least
        Tokens that a shared piece must save; 1 keeps all that is shared apart.

    Examples
    --------
    >>> (root,) = prefix_tree([(1, 2, 3), (1, 2, 4, 5)], least=1)
    >>> root.tokens, [child.tokens for child in root.children]
    ((1, 2), [(3,), (4, 5)])
    """
    plan = prefix_plan(prompts)
    top = Piece(())
    path = [top]
    for index, shared in zip(plan.order, plan.shared, strict=True):
        while path[-1].start > shared or (path[-1].start == shared and len(path) > 1):
            path.pop()
        if path[-1].end > shared:
            path.append(_split(path.pop(), shared))
        if len(prompts[index]) > path[-1].end:
            path.append(_grown(path[-1], prompts[index][path[-1].end :]))
        path[-1].ends.append(index)
    _fold(top, least)
    for piece in top.children:
        piece.parent = None
    return top.children


def tree_batches(
    roots: Sequence[Piece],
    limit: Callable[[], int],
    fits: Callable[[Sequence[Piece]], bool] = lambda _: True,
) -> Iterator[list[Piece]]:
    """Yield pieces to evaluate together, none before its parent, of similar lengths.

    The tree is visited depth-first as far as full batches allow, so that few states are kept.

    Parameters
    ----------
    roots
        The first pieces.
    limit
        Says how many tokens, padding included, a batch may have; asked for each.
    fits
        Says whether pieces may be together for other reasons. One alone always may.
    """
    ready = sorted(roots, key=_length)
    while ready:
        batch = [ready.pop()]
        n_tokens, longest = len(batch[0].tokens), len(batch[0].tokens)
        while ready:
            padded = (len(batch) + 1) * longest
            n_next = n_tokens + len(ready[-1].tokens)
            wasteful = padded > SMALL_BATCH and padded - n_next > MOST_PADDING * padded
            if padded > limit() or wasteful or not fits([*batch, ready[-1]]):
                break
            batch.append(ready.pop())
            n_tokens = n_next
        yield batch
        ready += sorted((child for piece in batch for child in piece.children), key=_length)


def by_parent(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces in an order in which those with one parent stand together."""
    first = {piece.parent: i for i, piece in reversed(list(enumerate(pieces)))}
    return sorted(pieces, key=lambda piece: first[piece.parent])


def _length(piece: Piece) -> int:
    return len(piece.tokens)


def _grown(parent: Piece, tokens: Tokens) -> Piece:
    """Return a new piece after another."""
    piece = Piece(tokens, parent.end, parent)
    parent.children.append(piece)
    return piece


def _split(piece: Piece, place: int) -> Piece:
    """Cut the last of its parent's pieces at a place; return the first part."""
    parent, at = piece.parent, place - piece.start
    first = Piece(piece.tokens[:at], piece.start, parent, children=[piece])
    if parent is not None:
        parent.children[-1] = first
    piece.tokens, piece.start, piece.parent = piece.tokens[at:], place, first
    return first


def _fold(top: Piece, least: int) -> None:
    """Write shared pieces that save too little out in those that go on after them."""
    waiting = [top]
    while waiting:
        parent = waiting.pop()
        kept: list[Piece] = []
        looking = parent.children[::-1]
        while looking:
            piece = looking.pop()
            n_uses = len(piece.children) + bool(piece.ends)
            if not piece.children or len(piece.tokens) * (n_uses - 1) >= least:
                kept.append(piece)
                continue
            for child in piece.children:
                child.tokens, child.start = piece.tokens + child.tokens, piece.start
                child.parent = parent
            looking += piece.children[::-1]
            if piece.ends:
                kept.append(Piece(piece.tokens, piece.start, parent, piece.ends))
        parent.children = kept
        waiting += kept
