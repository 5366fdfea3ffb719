"""Label log-probs from the few likeliest tokens that a server shows.

Without a tokenizer, labels are compared with tokens as texts. A token that equals a label up to
leading white space is that label, unless another label differs from it in that alone. One that
begins a label leaves open how the reply goes on: a server that goes on with a begun reply is
asked again after it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from functools import lru_cache
from typing import NamedTuple

from adjudge.engines.openai_answers import Shown
from adjudge.errors import ConfigError
from adjudge.exchange import LabelScores, ScoreLabels, Usage

#: A part of a label's probability that is too small to ask for, or to call the rest inexact.
NEGLIGIBLE = 1e-3
#: The least probability that has a logarithm.
LEAST = 5e-324


class _Texts(NamedTuple):
    """The number of each label, and who goes on after a text.

    `begun` holds every text that properly begins a label, the empty one too. If `strips`, white
    space that labels and first tokens begin with does not count.
    """

    strips: bool

    whole: Mapping[str, int]
    begun: Mapping[str, tuple[int, ...]]


@lru_cache(maxsize=64)
def label_texts(labels: tuple[str, ...]) -> _Texts:
    """Return labels as they are compared with tokens.

    Raises
    ------
    ConfigError
        If a label is blank, or given twice.
    """
    bare = [label.lstrip() for label in labels]
    if not all(bare) or len(set(labels)) < len(labels):
        raise ConfigError(
            f"the labels {', '.join(map(repr, labels))} cannot be scored: one of them is blank, "
            "or given twice"
        )
    strips = len(set(bare)) == len(bare)
    if not strips:  # " A" beside "A": each is what it is
        bare = list(labels)
    begun: dict[str, tuple[int, ...]] = {}
    for i, text in enumerate(bare):
        for n in range(len(text)):
            begun[text[:n]] = (*begun.get(text[:n], ()), i)
    return _Texts(strips, {text: i for i, text in enumerate(bare)}, begun)


def label_steps(request: ScoreLabels, *, can_continue: bool) -> Generator[str, Shown, LabelScores]:
    """Yield what the reply is to begin with, be sent the next tokens after it, return the scores.

    The first text is empty. Probabilities of tokens that equal a label up to leading white space
    are summed. A beginning of labels is followed where it may hold more than a thousandth of a
    label's probability; where it cannot be followed, its probability bounds that of the labels
    from above, and the reply is not exact. So does the least probability shown, for a label that
    is not among the tokens that are.

    Parameters
    ----------
    request
        The labels.
    can_continue
        Whether the server goes on with a begun reply.
    """
    texts = label_texts(request.labels)
    shown = {"": (yield "")}
    while True:
        tally = _Tally(request.labels, texts, shown)
        tally.visit("", 1.0, 1)
        following = tally.open_beginning() if can_continue else None
        if following is None:
            return tally.reply(request, shown[""])
        shown[following] = yield tally.spelled[following]


class _Tally:
    """Adds up what is shown.

    For each label: the probability that is `known`, what may come on top of it (`loose`), and
    its own `mass`, without that of the labels which it begins.
    """

    def __init__(self, labels: tuple[str, ...], texts: _Texts, shown: Mapping[str, Shown]) -> None:
        n = len(labels)
        self._labels, self._texts, self._shown = labels, texts, shown
        self._known, self._loose, self._mass = [0.0] * n, [0.0] * n, [0.0] * n
        self._surest, self._n_tokens = [0.0] * n, [1] * n
        self._open: dict[str, float] = {}
        #: Beginnings as the likeliest tokens spell them, which may be with leading white space.
        self.spelled = {"": ""}
        self._merged: list[str] = []

    def visit(self, begun: str, reach: float, depth: int) -> float:
        """Add what is shown after a beginning that has the probability `reach`.

        Returns the probability of all labels that go on after it.
        """
        covered = 0.0
        direct: set[int] = set()
        touched: set[int] = set()
        longer: dict[str, float] = {}
        likeliest: dict[str, float] = {}
        for token, logprob in self._shown[begun].tokens:
            text = begun + token
            if not begun and self._texts.strips:
                text = text.lstrip()
            whole, goes_on = self._texts.whole.get(text), self._texts.begun.get(text)
            if text == begun or (whole is None and goes_on is None):
                continue
            mass = reach * math.exp(logprob)
            if whole is not None:
                self._add(whole, mass, depth)
                covered += mass
                direct.add(whole)
                if not begun and token != self._labels[whole]:
                    self._merged.append(token)
            if goes_on is not None:
                longer[text] = longer.get(text, 0.0) + mass
                if mass > likeliest.get(text, 0.0):
                    likeliest[text] = mass
                    self.spelled[text] = self.spelled[begun] + token
                touched.update(goes_on)
        for text, mass in longer.items():
            covered += self._go_on(text, mass, depth)
        rest = reach * math.exp(self._shown[begun].floor)
        for label in set(self._texts.begun[begun]) - direct:
            self._loose[label] += rest  # it may be a token that is not shown
            if label not in touched:
                self._mass[label] += rest
                covered += rest
        return covered

    def _go_on(self, text: str, mass: float, depth: int) -> float:
        """Add what comes after a beginning; return what that adds to the labels' probability."""
        itself, going_on = self._texts.whole.get(text), self._texts.begun[text]
        if text in self._shown:
            below = self.visit(text, mass, depth + 1)
            if itself is None:
                return below
            self._mass[itself] -= below
            return 0.0
        self._open[text] = self._open.get(text, 0.0) + mass
        for label in going_on:
            self._loose[label] += mass
            if itself is None:  # nothing says whose it is
                self._mass[label] += mass / len(going_on)
        return mass if itself is None else 0.0

    def _add(self, label: int, mass: float, depth: int) -> None:
        self._known[label] += mass
        self._mass[label] += mass
        if mass > self._surest[label]:
            self._surest[label], self._n_tokens[label] = mass, depth

    def open_beginning(self) -> str | None:
        """Return the likeliest beginning that matters to a label and was not followed."""
        mattering = [
            (mass, text)
            for text, mass in self._open.items()
            if any(
                mass > NEGLIGIBLE * (self._known[label] + self._loose[label])
                for label in self._texts.begun[text]
            )
        ]
        return max(mattering)[1] if mattering else None

    def reply(self, request: ScoreLabels, first: Shown) -> LabelScores:
        """Return the scores; tokens are counted by whoever asked for them."""
        both = list(zip(self._known, self._loose, strict=True))
        masses = tuple(max(0.0, mass) for mass in self._mass)
        return LabelScores(
            request_id=request.id,
            logprobs=tuple(min(0.0, math.log(max(LEAST, known + loose))) for known, loose in both),
            masses=masses,
            n_tokens=tuple(self._n_tokens),
            coverage=min(1.0, math.fsum(masses)),
            exact=all(loose <= NEGLIGIBLE * known for known, loose in both),
            top_tokens=first.tokens[:5],
            usage=Usage(),
            merged=tuple(self._merged),
        )
