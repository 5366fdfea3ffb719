"""Which of two responses is better, by the probabilities of the letters A and B."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from adjudge.exchange import LabelScores
from adjudge.judges.base import judgment
from adjudge.schema import Item, Judgment, Status
from adjudge.stats import ranking

#: A letter stands straight after the assistant header, or after a blank.
VARIANTS = ("{}", " {}")


class Choice(NamedTuple):
    """Probabilities of a pair.

    Attributes
    ----------
    first, second
        That the response shown as A is better, and the one shown as B; in [0, 1].
    coverage
        Probability that the reply begins with one of the letters, in [0, 1].
    """

    first: float
    second: float
    coverage: float


class Compared(NamedTuple):
    """Two texts (from 0), the first of which was shown as A, and what was said of them.

    `choice` is None where next to nothing was; `replies` are those of each order.
    """

    pair: ranking.Pair
    choice: Choice | None
    replies: Sequence[LabelScores]


def choice_labels(*, with_c: bool = False) -> tuple[str, ...]:
    """Return the labels to score: each letter with and without a blank before it.

    `with_c` adds a letter C, which no prompt offers, as the code of Liu et al. 2024 (PairS) and
    Zhou et al. 2024 (ZEPO) does: it then counts in the denominator.
    """
    letters = ("A", "B", "C") if with_c else ("A", "B")
    return tuple(variant.format(letter) for letter in letters for variant in VARIANTS)


def read_choice(reply: LabelScores, *, likeliest: bool = False) -> Choice | None:
    """Return the probabilities of the letters, None where they have none at all.

    Parameters
    ----------
    reply
        To a request for `choice_labels`.
    likeliest
        The likelier variant of a letter stands for it, instead of their sum, as in the code of
        PairS.
    """
    n = len(VARIANTS)
    take = max if likeliest else sum
    weights = [take(reply.masses[i : i + n]) for i in range(0, len(reply.masses), n)]
    total = sum(weights)
    if not total > 0:
        return None
    return Choice(weights[0] / total, weights[1] / total, reply.coverage)


def both_orders(shown: Choice, swapped: Choice) -> Choice:
    """Return the probabilities averaged over both orders, which takes away the bias for a place.

    As in PairS, what neither letter got in the two orders is added up, not averaged.
    """
    first = (shown.first + swapped.second) / 2
    second = (shown.second + swapped.first) / 2
    rest = max(0.0, 2 - shown.first - shown.second - swapped.first - swapped.second)
    total = first + second + rest
    coverage = (shown.coverage + swapped.coverage) / 2
    return Choice(first / total, second / total, coverage)


def ranked(
    item: Item,
    texts: Sequence[str],
    scores: Sequence[float],
    made: Sequence[Compared],
    evidence: Mapping[str, Any],
    *,
    lenient: bool,
) -> Judgment:
    """Return the judgment of a list whose texts have scores out of comparisons.

    Parameters
    ----------
    item, texts
        The list, and its different texts that are not empty; ``(n,)``.
    scores
        Of each text, higher is better; equal ones share their rank, and empty responses come
        last; ``(n,)``.
    made
        All comparisons.
    evidence
        What else there is to keep.
    lenient
        Whether a comparison without a choice leaves the ranking standing.
    """
    given = [response.strip() for response in item.responses]
    numbers = [given.index(text) + 1 for text in texts]
    kept = {**evidence, **_of_comparisons(made, numbers)}
    if empty := [number for number, text in enumerate(given, start=1) if not text]:
        kept["empty_responses"] = empty
    fields: dict[str, Any] = {}
    if made:
        fields["coverage"] = fmean(each.coverage for one in made for each in one.replies)
        fields["distribution"] = tuple(each.choice[:2] for each in made if each.choice)
    if kept["unjudged"] and not lenient:
        return judgment(item, Status.NO_LABEL_MASS, evidence=kept, **fields)
    by_text = dict(zip(texts, scores, strict=True))
    ranks = ranking.ranks([by_text.get(text, min(scores) - 1) for text in given])
    kept["ranking"] = (np.argsort(ranks, kind="stable") + 1).tolist()
    return judgment(item, Status.OK, ranks=tuple(ranks.tolist()), evidence=kept, **fields)


def _of_comparisons(made: Sequence[Compared], numbers: Sequence[int]) -> dict[str, Any]:
    """Return the evidence of comparisons; `numbers` are the responses (from 1) of the texts."""
    pairs = [[numbers[i] for i in each.pair] for each in made]
    failed = [(pair, each) for pair, each in zip(pairs, made, strict=True) if not each.choice]
    evidence: dict[str, Any] = {
        "comparisons": len(made),
        "unjudged": len(failed),
        "pairs": [
            {"pair": pair, **_probabilities(each.choice)}
            for pair, each in zip(pairs, made, strict=True)
        ],
        "exact": all(reply.exact for each in made for reply in each.replies),
    }
    if failed:
        (a, b), first = failed[0]
        least = min(first.replies, key=lambda reply: reply.coverage)
        likely = ", ".join(f"{token!r} ({math.exp(p):.0%})" for token, p in least.top_tokens)
        evidence["top_tokens"] = [list(least.top_tokens)]
        evidence["error"] = (
            f"no choice between A and B in {len(failed)} of {len(made)} comparisons, such as that "
            f"of the responses {a} and {b}: the model would rather say {likely or 'something else'}"
        )
    return evidence


def _probabilities(choice: Choice | None) -> Mapping[str, float | None]:
    """Return the probabilities that the first and that the second of a pair is better."""
    first, second = choice[:2] if choice else (None, None)
    return {"first": first, "second": second}
