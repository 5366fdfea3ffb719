"""Direct assessment with feedback by a rubric, as the Prometheus models do it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

import numpy as np

from adjudge.errors import ConfigError
from adjudge.exchange import Message
from adjudge.judges.base import Steps, judgment
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
from adjudge.prompts.verdict import Verdict, read_score
from adjudge.rubrics import rubric_levels
from adjudge.schema import Item, Scale, Status

#: Scores whose log-probs are asked for at most.
MOST_LABELS = 200


@dataclass(frozen=True, kw_only=True)
class PrometheusAbsoluteJudge(FeedbackJudge):
    """Scores a response by a rubric, after feedback (Kim et al. 2024, Prometheus 2, section 3.1).

    The prompt has the blocks of the published one: instruction, response, reference answer where
    there is one, rubric with a description per score; the reply is ``feedback [RESULT] score``.
    The value is the mean over `runs` of the written score, or of the expected score
    ``sum_s s p(s)`` under the score mode ``logprobs``. Unlike the paper's code, a text without a
    readable verdict stops nothing and is counted, and any scale will do.

    Parameters
    ----------
    scale
        ``1-5``, ``1-10``, ``0-100``; certain whole numbers as in ``1,3,5``; ``0..1`` for all
        between, which only the score mode ``text`` can read.
    """

    name: ClassVar[str] = "prometheus-absolute"
    url: ClassVar[str] = "https://arxiv.org/abs/2405.01535"
    may_need: ClassVar[str] = "score_labels, for score_mode=logprobs"
    differs: ClassVar[str] = (
        "The score is expected over the labels after the feedback where log-probs are to be had; "
        "an unreadable text is drawn again twice, not ten times, and then fails."
    )
    calls: ClassVar[str] = "1 text for each of `runs`, and 1 label scoring after it"

    scale: str = "1-5"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.score_mode == "logprobs" and not self.has_labels and not self.scores.continuous:
            raise ConfigError(
                f"the scale {self.scale} has more than {MOST_LABELS} scores, whose log-probs take "
                "too long: use score_mode=text, or a coarser scale"
            )
        if self.scores.continuous and self.score_mode == "logprobs":
            raise ConfigError(
                f"the scale {self.scale} is continuous and has no labels to score: use "
                "score_mode=text, or a scale of whole numbers such as 0-100"
            )

    @property
    def scores(self) -> Scale:
        """The scale that `scale` names."""
        return Scale.of(self.scale)

    @property
    def has_labels(self) -> bool:
        """See `FeedbackJudge.has_labels`."""
        return not self.scores.continuous and len(self.scores.scores) <= MOST_LABELS

    def example(self, item: Item) -> str:
        """See `FeedbackJudge.example`."""
        del item
        return f"{self.scores.high:g}"

    def judge(self, item: Item) -> Steps:
        """Ask for feedback and score `runs` times."""
        if not item.response.strip():
            return judgment(item, Status.EMPTY_RESPONSE)
        scale = self.scores
        labels = [] if scale.continuous else [str(score) for score in scale.scores]
        runs = yield from self.run_all(self._ask(item, scale), labels, self._read)
        evidence = run_evidence(runs, self.score_mode)
        good = [run for run in runs if run.status is Status.OK]
        if not good:
            return judgment(
                item,
                usual_failure(runs),
                coverage=mean_coverage(runs),
                feedback=told(runs[0]),
                evidence=evidence,
            )
        values = [self._value(run, scale) for run in good]
        shares = mean_shares(good)
        return judgment(
            item,
            Status.OK,
            value=fmean(values),
            raw=fmean(values),
            sd=spread(values),
            distribution=(shares,) if shares else (),
            coverage=mean_coverage(runs),
            feedback=told(good[0]),
            evidence=evidence,
        )

    def _value(self, run: Run, scale: Scale) -> float:
        if run.shares:
            return float(np.array(run.shares) @ np.array(scale.scores))
        assert isinstance(run.written.value, int | float)
        return float(run.written.value)

    def _read(self, text: str, cut: bool) -> Verdict[float]:  # noqa: FBT001 - the form of a reader
        return read_score(text, self.scores, cut=cut)

    def _ask(self, item: Item, scale: Scale) -> tuple[Message, ...]:
        data = {
            "source": item.source.text,
            "response": item.response,
            "reference": self.reference_of(item),
        }
        levels = rubric_levels(item.criterion, scale)
        return self.prompts.render(
            "grade", data, criterion=item.criterion, scale=scale, levels=levels
        )
