"""Rankings of a list by sorting it with uncertain comparisons (PairS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from adjudge.exchange import Capability, ScoreLabels
from adjudge.judges.base import (
    Judge,
    Steps,
    Work,
    check_range,
    different_texts,
    judgment,
    label_scores,
)
from adjudge.judges.pair_choice import Compared, both_orders, choice_labels, ranked, read_choice
from adjudge.judges.sorting import Compare, anchored_sort, beam_merge, greedy_merge
from adjudge.schema import Item, Status
from adjudge.stats import ranking


@dataclass(frozen=True, kw_only=True)
class PairsJudge(Judge):
    """Ranks a list by a merge sort whose comparisons have probabilities.

    The model is shown two responses, A and B, and the probabilities of these letters say which is
    better (PairS, Liu et al. 2024). ``greedy`` follows the likelier letter of each comparison;
    ``beam`` looks for the order of two sorted halves that has the highest mean log-likelihood,
    and asks about every pair which that search may need. Comparisons that do not wait for each
    other are asked together.

    Where a response stands in the item decides nothing: what the sort begins with is drawn from
    the seed and the texts. Equal texts are judged once and tied, empty ones come last; there are
    no other ties. Where letters have too little probability there is no ranking. A list has ranks
    and no value.

    Parameters
    ----------
    method
        ``beam`` or ``greedy``.
    beam_size
        Orders that the search keeps, of ``beam``.
    gap
        Of ``beam``: both outcomes of a comparison are followed up unless one has a probability
        above 0.5 + `gap`.
    calibrate
        Ask in both orders, and take the mean: a bias for a place falls out.
    anchors
        In a longer list sort so many first, and place the others among them: about log2 of the
        anchors comparisons for each, then a sort between neighbours. 0: never.
    published
        Read the letters as the code of PairS does: the likelier variant of each (with or without
        a blank before it) instead of their sum, a letter C, which is not offered, counts as
        undecided, and a comparison without a letter as one half.
    min_coverage
        With less probability on the letters than this, in either order, nothing was said.
    """

    name: ClassVar[str] = "pairs"
    url: ClassVar[str] = "https://arxiv.org/abs/2403.16950"
    differs: ClassVar[str] = (
        "Letters are read where the reply begins, and their variants summed (published: the "
        "likeliest); with anchors the others are placed all at once, not one by one."
    )
    calls: ClassVar[str] = (
        "1 a comparison, 2 with calibrate; for n responses n log2 n comparisons at most (greedy), "
        "n (n - 1) / 2 at most (beam)"
    )
    takes = "list"

    method: Literal["beam", "greedy"] = "beam"
    beam_size: int = 1000
    gap: float = 0.1
    calibrate: bool = True
    anchors: int = 0
    published: bool = False
    min_coverage: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("beam_size", self.beam_size, 1, 1_000_000)
        check_range("gap", self.gap, 0, 0.5)
        check_range("anchors", self.anchors, 0, 1_000_000)
        check_range("min_coverage", self.min_coverage, 0, 1)

    @property
    def adapts(self) -> bool:
        """See `Judge.adapts`."""
        return True

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        return frozenset({Capability.SCORE_LABELS})

    def judge(self, item: Item) -> Steps:
        """Rank the responses of a list."""
        texts = different_texts(item, self.seed)
        if not texts:
            return judgment(item, Status.EMPTY_RESPONSE)
        made: list[Compared] = []

        def compare(i: int, j: int) -> Work[tuple[float, float]]:
            each = yield from self._compared(item, texts, (i, j))
            made.append(each)
            # Without a choice the sort has failed. It goes on as after a tie, so that all such
            # pairs are counted.
            return each.choice[:2] if each.choice else (0.5, 0.5)

        order = yield from self._sorted(len(texts), compare)
        places = {candidate: place for place, candidate in enumerate(order)}
        scores = [places[i] for i in range(len(texts))]
        evidence = {"method": self.method}
        return ranked(item, texts, scores, made, evidence, lenient=self.published)

    def _sorted(self, n: int, compare: Compare) -> Work[list[int]]:
        """Sort so many candidates, the worst first."""
        if self.method == "greedy":
            merge = partial(greedy_merge, compare=compare)
        else:
            merge = partial(beam_merge, compare=compare, beam_size=self.beam_size, gap=self.gap)
        return (yield from anchored_sort(range(n), self.anchors or n, merge, compare))

    def _compared(self, item: Item, texts: Sequence[str], pair: ranking.Pair) -> Work[Compared]:
        """Compare two texts, in one order or in both."""
        orders = (pair, pair[::-1]) if self.calibrate else (pair,)
        labels = choice_labels(with_c=self.published)
        requests = []
        for i, j in orders:
            data = {"source": item.source.text, "first": texts[i], "second": texts[j]}
            messages = self.prompts.render("compare", data, criterion=item.criterion)
            requests.append(ScoreLabels(messages=messages, labels=labels))
        replies = label_scores((yield requests))
        choices = [
            read_choice(reply, likeliest=self.published)
            for reply in replies
            if reply.coverage >= self.min_coverage
        ]
        read = [each for each in choices if each is not None]
        if len(read) < len(orders):
            return Compared(pair, None, replies)
        return Compared(pair, both_orders(*read) if self.calibrate else read[0], replies)
