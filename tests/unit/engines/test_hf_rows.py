"""Which rows are evaluated together, and what labels want of theirs."""

from __future__ import annotations

import math
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge.engines.hf_rows import AskedLabels, Row, Scored, batches
from adjudge.exchange import Message, ScoreLabels

lengths_ = st.lists(st.integers(1, 50), max_size=30)


@given(lengths_, st.integers(1, 120))
def test_every_row_is_in_one_batch_that_is_within_the_limit(lengths: list[int], limit: int) -> None:
    found = list(batches(lengths, limit))
    assert sorted(chain.from_iterable(found)) == list(range(len(lengths)))
    for batch in found:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or len(batch) * longest <= limit


@given(lengths_, st.integers(1, 120))
def test_batches_are_as_large_as_they_may_be(lengths: list[int], limit: int) -> None:
    for batch, after in pairwise(batches(lengths, limit)):
        assert (len(batch) + 1) * lengths[batch[0]] > limit
        assert lengths[batch[-1]] >= lengths[after[0]], "the longest come first"


def test_labels_want_one_row_for_each_beginning_that_begins_no_other() -> None:
    request = ScoreLabels(messages=(Message(role="user", content="?"),), labels=tuple("abcd"))
    asked = AskedLabels(request, (9, 9), [(1,), (1, 2, 3), (1, 4), (5, 6)])
    rows = {context: asked.row(context) for context in asked.longest}
    assert rows == {
        (5,): Row((9, 9, 5), ((1, 1), (1, 5), (2, 6))),
        (1, 2): Row((9, 9, 1, 2), ((1, 1), (1, 5), (2, 2), (2, 4), (3, 3))),
    }
    shares = {1: 0.5, 5: 0.25, 6: 0.5, 2: 0.25, 4: 0.5, 3: 0.125}
    for k, (context, row) in enumerate(rows.items()):
        assert asked.waiting == 2 - k
        values = np.log([shares[token] for _, token in row.wanted])
        asked.take(context, Scored(k, values, ((1, math.log(0.5)),), 4 - k))
    reply = asked.reply(str)
    assert np.exp(reply.logprobs) == pytest.approx([0.5, 0.5 * 0.25 * 0.125, 0.25, 0.125])
    assert reply.exact
    assert reply.top_tokens == (("1", math.log(0.5)),)
    assert (reply.usage.prompt_tokens, reply.usage.evaluated_tokens) == (2, 3 + 4)
