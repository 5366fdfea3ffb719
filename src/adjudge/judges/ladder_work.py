"""Work on ladders themselves: writing them, comparing their rungs, writing some anew.

Each is a judge of one item per ladder, whose response plays no part, so that the runner, the
store and the plan serve them as they serve judges of responses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np

from adjudge.exchange import Capability
from adjudge.judges.base import Steps, judgment, label_scores
from adjudge.judges.ladder import LadderJudge, Question, outcomes
from adjudge.judges.rungs import Written
from adjudge.schema import Item, Status, content_hash


@dataclass(frozen=True, kw_only=True)
class LadderBuild(LadderJudge):
    """Writes the ladder of an item's source and criterion; the evidence holds the rungs.

    With `ladders` given, only the rungs in `failed` are written anew. How responses would be
    compared is no option of it.

    Parameters
    ----------
    failed
        By (source hash, criterion name): rungs (from 1) to write anew.
    """

    name: ClassVar[str] = "ladder-build"
    not_options: ClassVar[tuple[str, ...]] = (
        *LadderJudge.not_options, "failed", "rung_values", "prediction", "labels",
        "leading_space", "label_score", "orders", "samples", "trial", "value", "min_coverage",
    )  # fmt: skip

    failed: Mapping[tuple[str, str], Collection[int]] = field(default_factory=dict)

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        return frozenset({Capability.GENERATE})

    @property
    def conventions(self) -> Mapping[str, str]:
        """See `Judge.conventions`."""
        if self.ladders is None:
            return {}
        failed = sorted([*key, *sorted(rungs)] for key, rungs in self.failed.items())
        return {"ladders": self.ladders_mark, "failed": content_hash(failed)[:8]}

    def judge(self, item: Item) -> Steps:
        """Write the ladder, or those of its rungs that failed."""
        if self.ladders is None:
            ladder = yield from self.writer.write(item.source, item.criterion)
        else:
            key = item.source.hash, item.criterion.name
            ladder = yield from self.writer.rewrite(
                item.source, item.criterion, self.ladders[key].rungs, self.failed[key]
            )
        return judgment(item, ladder.status, evidence=ladder.evidence)


@dataclass(frozen=True, kw_only=True)
class LadderCheck(LadderJudge):
    """Compares every rung of a given ladder with the next one, in both orders.

    The distribution has one row per pair of neighbours: the probabilities that the upper one is
    better than, worse than and similar to the lower one, averaged over the orders.
    """

    name: ClassVar[str] = "ladder-check"
    not_options: ClassVar[tuple[str, ...]] = (
        *LadderJudge.not_options, "rungs", "temperature", "top_p", "fresh", "rung_values",
        "orders", "samples", "trial", "value",
    )  # fmt: skip

    @property
    def conventions(self) -> Mapping[str, str]:
        """See `Judge.conventions`."""
        return {
            "labels": "/".join(self.label_texts),
            "orders": "both",
            "ladders": self.ladders_mark,
        }

    def judge(self, item: Item) -> Steps:
        """Ask about all neighbours at once."""
        found = self.given(item)
        ladder = Written(found.rungs, found.problems)
        if ladder.problems:
            return judgment(item, ladder.status, evidence=ladder.evidence)
        both = [
            Question(each.prompt, each.asked, swapped)
            for each in self.questions
            if not each.swapped
            for swapped in (False, True)
        ]
        pairs = list(pairwise(rung or "" for rung in ladder.rungs))
        replies = label_scores(
            (
                yield [
                    self.ask(item, question, target=upper, reference=lower)
                    for lower, upper in pairs
                    for question in both
                ]
            )
        )
        coverage = float(np.mean([reply.coverage for reply in replies]))
        if not self.readable(replies):
            top = [list(reply.top_tokens) for reply in replies]
            return judgment(
                item,
                Status.NO_LABEL_MASS,
                coverage=coverage,
                evidence=ladder.evidence | {"top_tokens": top},
            )
        answers = np.array([self.probabilities(reply) for reply in replies])
        answers = answers.reshape(len(pairs), len(both), -1)
        said = np.mean([outcomes(answers[:, i], each) for i, each in enumerate(both)], axis=0)
        return judgment(
            item,
            Status.OK,
            distribution=tuple(map(tuple, said.tolist())),
            coverage=coverage,
            evidence=ladder.evidence,
        )
