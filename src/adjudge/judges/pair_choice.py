"""Which of two responses is better, by the probabilities of the letters A and B."""

from __future__ import annotations

from typing import NamedTuple

from adjudge.exchange import LabelScores

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
