"""Pairs decided by two absolute scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Generate
from adjudge.judges.base import Judge, Steps, Work, check_range, judgment, together
from adjudge.schema import Item, Judgment, Status


@dataclass(frozen=True, kw_only=True)
class PairsByScores(Judge):
    """Scores both responses of a pair with another judge, and prefers the one with more.

    The absolute-to-relative mode of Prometheus 2 (Kim et al. 2024). Equal scores are a tie; the
    published code draws them again where gold is no tie, which lets gold into the verdict. An
    empty response, which gets no score, loses to one with a score.

    Parameters
    ----------
    scorer
        The judge of single responses.
    tie_margin
        Scores that differ by this or less are equal.
    """

    name: ClassVar[str] = "by_scores"
    url: ClassVar[str] = "https://arxiv.org/abs/2405.01535"
    takes = "pair"

    not_options = (*Judge.not_options, "scorer")

    scorer: Judge
    tie_margin: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("tie_margin", self.tie_margin, 0, 1e6)
        if self.scorer.takes != "response":
            raise ConfigError(f"the judge {self.scorer.name!r} scores no single responses")

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        return self.scorer.needs

    @property
    def signature(self) -> Mapping[str, str]:
        """The scorer's, and how a pair is decided."""
        return {**self.scorer.signature, "pairs": "by_scores", "tie_margin": f"{self.tie_margin:g}"}

    def fitted(self, capabilities: frozenset[Capability], model: str = "") -> Self:
        """See `Judge.fitted`."""
        return replace(self, scorer=self.scorer.fitted(capabilities, model))

    def prepared(self, items: Sequence[Item]) -> Work[Self]:
        """See `Judge.prepared`."""
        return replace(self, scorer=(yield from self.scorer.prepared(items)))

    def stand_in(self, item: Item, request: Generate) -> str:
        """See `Judge.stand_in`."""
        return self.scorer.stand_in(item, request)

    def judge(self, item: Item) -> Steps:
        """Score both, and compare the scores."""
        single = [
            replace(
                item,
                id=f"{item.id}/{place}",
                responses=(response,),
                systems=item.systems[i : i + 1],
            )
            for i, (place, response) in enumerate(zip("AB", item.pair, strict=True))
        ]
        scored = yield from together([self.scorer.judge(each) for each in single])
        evidence = {
            "scores": [each.value for each in scored],
            "statuses": [each.status.value for each in scored],
            "scored": [dict(each.evidence) for each in scored],
            **_joined(scored),
        }
        lead = _lead(scored)
        if lead is None:
            failed = [each.status for each in scored if each.status is not Status.OK]
            other = [status for status in failed if status is not Status.EMPTY_RESPONSE]
            evidence["orders"] = [None]
            return judgment(
                item, [*other, *failed][0], coverage=_coverage(scored), evidence=evidence
            )
        value = 0.0 if abs(lead) <= self.tie_margin else 1.0 if lead > 0 else -1.0
        return judgment(
            item,
            Status.OK,
            value=value,
            raw=lead if math.isfinite(lead) else None,
            distribution=tuple(row for each in scored for row in each.distribution),
            coverage=_coverage(scored),
            feedback="\n\n".join(
                f"{place}: {each.feedback}"
                for place, each in zip("AB", scored, strict=True)
                if each.feedback
            )
            or None,
            evidence={**evidence, "orders": [value]},
        )


def _lead(scored: Sequence[Judgment]) -> float | None:
    """Return by how much the first of two scores is higher; None if that cannot be said."""
    first, second = (
        -math.inf if each.status is Status.EMPTY_RESPONSE else each.value for each in scored
    )
    if first is None or second is None or first == second == -math.inf:
        return None
    return round(first - second, 9)


def _coverage(scored: Sequence[Judgment]) -> float | None:
    masses = [each.coverage for each in scored if each.coverage is not None]
    return sum(masses) / len(masses) if masses else None


def _joined(scored: Sequence[Judgment]) -> dict[str, Any]:
    """Return what both judgments say of how they came about, as one judgment says it."""
    evidence: dict[str, Any] = {}
    for each in scored:
        for name in ("texts", "written_statuses", "problems_of_verdicts", "top_tokens"):
            if name in each.evidence:
                evidence[name] = [*evidence.get(name, []), *each.evidence[name]]
        for name in ("resampled", "unparsed", "cut_tokens"):
            if name in each.evidence:
                evidence[name] = evidence.get(name, 0) + each.evidence[name]
        if "exact" in each.evidence:
            evidence["exact"] = evidence.get("exact", True) and each.evidence["exact"]
        if "score_mode" in each.evidence:
            evidence["score_mode"] = each.evidence["score_mode"]
    return evidence
