"""Pairwise ranking with feedback, as the Prometheus models do it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from adjudge.judges.base import Steps, Work, judgment, together
from adjudge.judges.feedback import (
    FeedbackJudge,
    Run,
    mean_coverage,
    mean_shares,
    run_evidence,
    spread,
    told,
    usual_failure,
)
from adjudge.prompts.verdict import Verdict, read_choice
from adjudge.schema import Item, Status


class Side(NamedTuple):
    """The runs of one order; preferences, their mean's and each one's, are for the item's first."""

    runs: list[Run]
    preference: float | None
    shares: tuple[float, ...]
    by_run: list[float | None]


@dataclass(frozen=True, kw_only=True)
class PrometheusRelativeJudge(FeedbackJudge):
    """Says which of two responses is better, after feedback on both (Kim et al. 2024, section 3.2).

    The prompt has the blocks of the published one: instruction, response A, response B, reference
    answer where there is one, and the criterion without descriptions of scores; the reply is
    ``feedback [RESULT] A`` or ``B``. One response may be empty, as some in benchmarks are. The
    value is a preference: 1 for the first response, -1 for the second; with the score mode
    ``logprobs`` p(A) - p(B).

    Parameters
    ----------
    orders
        ``one``, or ``both``: the pair is also asked about in the other order.
    resolve
        What counts when the two orders disagree: ``tie`` (as FastChat has it), ``first`` (the
        order of the item), or ``mean`` of both preferences. Agreement is always the mean.
    ties
        Whether the model may call a tie; the published models may not.
    """

    name: ClassVar[str] = "prometheus-relative"
    url: ClassVar[str] = "https://arxiv.org/abs/2405.01535"
    may_need: ClassVar[str] = "score_labels, for score_mode=logprobs"
    differs: ClassVar[str] = (
        "The preference is expected over the labels; both orders and ties can be asked for; gold "
        "is never read to decide whether to ask again."
    )
    calls: ClassVar[str] = "1 text for each of `runs` and order, and 1 label scoring after it"
    takes = "pair"

    orders: Literal["one", "both"] = "one"
    resolve: Literal["tie", "first", "mean"] = "tie"
    ties: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The verdicts that may be given."""
        return ("A", "B", "tie") if self.ties else ("A", "B")

    def example(self, item: Item) -> str:
        """See `FeedbackJudge.example`."""
        del item
        return "A"

    def judge(self, item: Item) -> Steps:
        """Ask about the pair, in one order or both."""
        first, second = item.pair
        if not (first.strip() or second.strip()):
            orders = [None] * (1 if self.orders == "one" else 2)
            return judgment(item, Status.EMPTY_RESPONSE, evidence={"orders": orders})
        asked = [self._side(item, first, second, swapped=False)]
        if self.orders == "both":
            asked.append(self._side(item, second, first, swapped=True))
        sides = yield from together(asked)
        runs = [run for side in sides for run in side.runs]
        preferences = [side.preference for side in sides]
        evidence = {**run_evidence(runs, self.score_mode), "orders": preferences}
        known = [each for each in preferences if each is not None]
        if len(known) < len(preferences):
            failed = [run for run in runs if run.status is not Status.OK]
            return judgment(
                item,
                usual_failure(failed),
                coverage=mean_coverage(runs),
                feedback=told(failed[0]),
                evidence=evidence,
            )
        consistent = len({float(np.sign(each)) for each in known}) == 1
        if len(known) > 1:
            evidence["consistent"] = consistent
        value = self._resolved(known, consistent=consistent)
        return judgment(
            item,
            Status.OK,
            value=value,
            raw=fmean(known),
            sd=_spread(sides),
            distribution=tuple(side.shares for side in sides),
            coverage=mean_coverage(runs),
            feedback=told(next(run for run in runs if run.status is Status.OK)),
            evidence=evidence,
        )

    def _resolved(self, preferences: list[float], *, consistent: bool) -> float:
        """Return the preference that counts."""
        if consistent or self.resolve == "mean":
            return fmean(preferences)
        return 0.0 if self.resolve == "tie" else preferences[0]

    def _side(self, item: Item, first: str, second: str, *, swapped: bool) -> Work[Side]:
        """Ask about the pair in one order; preferences are for the item's first response."""
        data = {
            "source": item.source.text,
            "first": first,
            "second": second,
            "reference": self.reference_of(item),
        }
        messages = self.prompts.render("compare", data, criterion=item.criterion, ties=self.ties)
        runs = yield from self.run_all(messages, self.labels, self._read)
        good = [run for run in runs if run.status is Status.OK]
        shares = mean_shares(good)
        if swapped and shares:
            shares = (shares[1], shares[0], *shares[2:])
        turn = -1 if swapped else 1
        by_run = [turn * _preference(run.shares) if run in good else None for run in runs]
        return Side(runs, _preference(shares) if good else None, shares, by_run)

    def _read(self, text: str, cut: bool) -> Verdict[str]:  # noqa: FBT001 - the form of a reader
        return read_choice(text, self.labels, cut=cut)


def _spread(sides: list[Side]) -> float | None:
    """Return the standard deviation over runs of the mean preference of the orders."""
    runs = zip(*(side.by_run for side in sides), strict=True)
    return spread([fmean(map(float, each)) for each in runs if None not in each])


def _preference(shares: tuple[float, ...]) -> float:
    """Return the preference for A: p(A) - p(B)."""
    return shares[0] - shares[1]
