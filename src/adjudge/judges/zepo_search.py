"""What the search for an instruction is made of: how it is rated, and which texts can be one."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from adjudge.exchange import Completion
from adjudge.judges.rungs import is_refusal
from adjudge.schema import Criterion

#: Ratings that are equal to so many digits are equal.
DIGITS = 9
#: Words of a title that need not be kept, besides those of up to three letters.
WEAK_WORDS = frozenset({"from", "into", "over", "that", "their", "this", "with"})
#: What becomes of an instruction that was rated.
KEPT, NOT_BETTER = "kept", "not better"


class Candidate(NamedTuple):
    """An instruction that was tried.

    Attributes
    ----------
    criterion, epoch
        What it was tried for, and when (from 1).
    instruction
        As it stands in the prompts; of a dropped one, what the model wrote.
    a_rate
        See `first_rate`; None also where it was dropped.
    unread
        Comparisons in which the letters had next to no probability.
    outcome
        ``kept``: the best until then; ``not better``; or why it was dropped.
    """

    criterion: str
    epoch: int
    instruction: str
    a_rate: float | None
    unread: int
    outcome: str

    @property
    def fairness(self) -> float | None:
        """Minus the distance of `a_rate` from one half: 0 is the best, -0.5 the worst."""
        return None if self.a_rate is None else 0.0 - abs(self.a_rate - 0.5)

    @property
    def worth(self) -> float:
        """What candidates are compared by."""
        return -1.0 if self.fairness is None else round(self.fairness, DIGITS)


def first_rate(matrices: Sequence[npt.ArrayLike]) -> float | None:
    """Return how often the first place wins: the mean over sources of the share of its wins.

    A_rate of Zhou et al. 2024; a judge that favours neither place has 0.5, whatever the quality
    of the responses, since every pair is there in both orders.

    Parameters
    ----------
    matrices
        One per source, ``(n, n)``: entry (i, j) is the probability that response i, shown first,
        is better than j, shown second. One half and NaN (not known) count for neither place, the
        diagonal not at all.

    Returns
    -------
    float or None
        In [0, 1], over the sources in which a comparison is decided; None where there is none.

    Examples
    --------
    >>> first_rate([[[0, 0.9], [0.7, 0]], [[0, 0.9], [0.2, 0]]])
    0.75
    """
    rates = []
    for each in matrices:
        matrix = np.asarray(each, dtype=np.float64)
        shares = matrix[~np.eye(len(matrix), dtype=bool)]
        wins, losses = int((shares > 0.5).sum()), int((shares < 0.5).sum())
        if wins + losses:
            rates.append(wins / (wins + losses))
    return fmean(rates) if rates else None


def one_line(text: str) -> str:
    """Return a text in one line, without what could open or close a block of a prompt.

    >>> one_line("Which is  <b>better</b>?")
    'Which is ‹b>better‹/b>?'
    """
    return " ".join(text.split()).replace("<", "\u2039")


def keeps(text: str, title: str) -> bool:
    """Return whether a text has a word of a criterion's title that says something.

    >>> keeps("Is the quality high?", "Overall quality"), keeps("Is it good?", "Overall quality")
    (True, False)
    >>> keeps("Which goes better with the text?", "Wit"), keeps("Which has more wit?", "Wit")
    (False, True)
    """
    words = re.findall(r"\w+", title.casefold())
    strong = [word for word in words if len(word) > 3 and word not in WEAK_WORDS] or words
    said = text.casefold()
    # A short word has to stand alone: longer ones may be inflected.
    wanted = (rf"\b{re.escape(word)}" + r"\b" * (len(word) < 5) for word in strong)
    return not strong or any(re.search(each, said) for each in wanted)


def unusable(text: str, completion: Completion, criterion: Criterion, said: Collection[str]) -> str:
    """Return why a paraphrase cannot be used; empty: it can."""
    if not text:
        return "dropped: it is empty"
    if completion.finish_reason == "length":
        return f"dropped: cut after {completion.n_tokens} tokens"
    if is_refusal(text):
        return "dropped: the model declined"
    if not keeps(text, criterion.title):
        return f"dropped: it does not name {criterion.title!r}"
    return "dropped: it was there before" if text in said else ""
