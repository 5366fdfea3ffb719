"""The tree of shared pieces against the prompts that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from adjudge.engines.prefix import prefix_plan
from adjudge.engines.prefix_tree import (
    MOST_PADDING,
    SMALL_BATCH,
    Piece,
    prefix_tree,
    tree_batches,
    unshared,
)

Tokens = tuple[int, ...]
prompts_ = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple), max_size=10)
long_ = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 90), st.integers(1, 90)).map(
        lambda each: (each[0],) * each[1] + (9,) * each[2]
    ),
    max_size=20,
)


def every(roots: Sequence[Piece]) -> Iterator[Piece]:
    """Yield all pieces of a tree."""
    waiting = list(roots)
    while waiting:
        piece = waiting.pop()
        yield piece
        waiting += piece.children


def written(piece: Piece) -> Tokens:
    """Return the tokens of a piece and of all before it."""
    return tuple(token for each in [*piece.path(), piece] for token in each.tokens)


def check(roots: Sequence[Piece], prompts: Sequence[Tokens]) -> None:
    """Assert that a tree stands for exactly these prompts."""
    found = {index: written(piece) for piece in every(roots) for index in piece.ends}
    assert found == dict(enumerate(prompts))
    for piece in every(roots):
        assert piece.tokens
        assert piece.start == sum(len(each.tokens) for each in piece.path())
        assert all(child.parent is piece for child in piece.children)
        assert piece.ends or piece.children, "nothing is evaluated for nobody"
    assert all(root.parent is None for root in roots)


@given(prompts_)
def test_the_whole_tree_has_as_many_tokens_as_the_plan_says(prompts: list[Tokens]) -> None:
    roots = prefix_tree(prompts, least=1)
    check(roots, prompts)
    n_tokens = sum(len(piece.tokens) for piece in every(roots))
    assert n_tokens == prefix_plan(prompts).unique_tokens


@given(long_, st.integers(1, 200))
def test_a_shared_piece_saves_what_is_asked_and_folding_loses_little(
    prompts: list[Tokens], least: int
) -> None:
    roots = prefix_tree(prompts, least=least)
    check(roots, prompts)
    for piece in every(roots):
        uses = len(piece.children) + bool(piece.ends)
        assert not piece.children or len(piece.tokens) * (uses - 1) >= least
    n_tokens = sum(len(piece.tokens) for piece in every(roots))
    apart = sum(map(len, prompts))
    assert prefix_plan(prompts).unique_tokens <= n_tokens <= apart


def test_a_prompt_that_begins_another_ends_inside_the_tree() -> None:
    (root,) = prefix_tree([(1, 2, 3, 4), (1, 2), (1, 2)], least=1)
    assert (root.tokens, root.ends) == ((1, 2), [1, 2])
    assert [(child.tokens, child.ends) for child in root.children] == [((3, 4), [0])]


def test_what_saves_too_little_is_written_out() -> None:
    roots = prefix_tree([(1, 2, 3), (1, 2, 4), (1, 2)], least=5)
    assert sorted((piece.tokens, piece.ends) for piece in roots) == [
        ((1, 2), [2]),
        ((1, 2, 3), [0]),
        ((1, 2, 4), [1]),
    ]


def test_thousands_of_nested_prompts_need_no_deep_recursion() -> None:
    prompts = [(1,) * n for n in range(1, 3000)]
    for least in (1, 10**9):
        check(prefix_tree(prompts, least=least), prompts)


@given(long_, st.integers(1, 400), st.sampled_from([prefix_tree, unshared]))
def test_batches_hold_every_piece_once_after_its_parent_and_within_the_limits(
    prompts: list[Tokens], limit: int, grown: Callable[[list[Tokens]], list[Piece]]
) -> None:
    roots = grown(prompts)
    done: list[Piece] = []
    for batch in tree_batches(roots, lambda: limit, lambda pieces: len(pieces) <= 5):
        padded = len(batch) * max(len(piece.tokens) for piece in batch)
        n_tokens = sum(len(piece.tokens) for piece in batch)
        if len(batch) > 1:
            assert padded <= limit
            assert padded <= SMALL_BATCH or padded - n_tokens <= MOST_PADDING * padded
        assert len(batch) <= 5
        assert all(piece.parent is None or piece.parent in done for piece in batch)
        done += batch
    assert len(done) == len(set(map(id, done)))
    assert set(map(id, done)) == set(map(id, every(roots)))
