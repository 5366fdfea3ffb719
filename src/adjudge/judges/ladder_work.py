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

from adjudge.judges.base import Steps, judgment, label_scores
from adjudge.judges.ladder import LadderJudge, Question, outcomes
from adjudge.judges.rungs import Written
from adjudge.schema import Capability, Item, Status


@dataclass(frozen=True, kw_only=True)
class LadderBuild(LadderJudge):
    """Writes the ladder of an item's source and criterion; the evidence holds the rungs.

    With `ladders` given, only the rungs in `failed` are written anew.

    Parameters
    ----------
    failed
        By (source hash, criterion name): rungs (from 1) to write anew.
    repair
        Which repair this is, from 1: each draws anew.
    """

    name: ClassVar[str] = "ladder-build"
    not_options: ClassVar[tuple[str, ...]] = (*LadderJudge.not_options, "failed")

    failed: Mapping[tuple[str, str], Collection[int]] = field(default_factory=dict)
    repair: int = 0

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        return frozenset({Capability.GENERATE})

    def judge(self, item: Item) -> Steps:
        """Write the ladder, or those of its rungs that failed."""
        key = item.source.hash, item.criterion.name
        if self.ladders is None:
            ladder = yield from self.writer.write(item.source, item.criterion)
        else:
            ladder = yield from self.writer.rewrite(
                item.source,
                item.criterion,
                self.ladders[key].rungs,
                self.failed[key],
                repair=self.repair,
            )
        return judgment(item, ladder.status, evidence=ladder.evidence)


@dataclass(frozen=True, kw_only=True)
class LadderCheck(LadderJudge):
    """Compares every rung of a given ladder with the next one, in both orders.

    The distribution has one row per pair of neighbours: the probabilities that the upper one is
    better than, worse than and similar to the lower one, averaged over the orders.
    """

    name: ClassVar[str] = "ladder-check"

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
