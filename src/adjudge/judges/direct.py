"""Direct scoring: the model is asked for a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from adjudge.errors import ConfigError
from adjudge.exchange import (
    Capability,
    Completion,
    Generate,
    Message,
    Sampling,
    ScoreLabels,
)
from adjudge.judges.base import (
    Judge,
    Steps,
    check_range,
    derived_seed,
    generated,
    judgment,
    label_scores,
)
from adjudge.prompts.verdict import parse_score
from adjudge.schema import Item, Judgment, Scale, Status


@dataclass(frozen=True, kw_only=True)
class DirectJudge(Judge):
    """Scores a response by the number that the model gives it.

    In the mode ``logprobs`` the value is the expected score ``sum_s s p(s)`` over the labels of
    the scale, with ``p`` renormalised over them (Liu et al. 2023, G-Eval, equation 1); where the
    tokens of "1" begin those of "10", the mass of "10" does not count for "1". In the mode
    ``sampled`` it is the mean of the parsed scores of `samples` written answers; answers that
    cannot be parsed are left out of the mean; the coverage is the share of those that can.

    Parameters
    ----------
    prompts
        The method's prompts for the task.
    seed
        Decides the draws in the mode ``sampled``, together with the item.
    mode
        ``logprobs`` or ``sampled``.
    samples, temperature
        Answers drawn in the mode ``sampled``, and how.
    min_coverage
        Scores that together have less probability than this have no label mass.
    low, high
        The ends of the scale of whole numbers.
    """

    name: ClassVar[str] = "direct"
    url: ClassVar[str] = "https://arxiv.org/abs/2303.16634"
    may_need: ClassVar[str] = "generate, for mode=sampled"
    differs: ClassVar[str] = (
        "A baseline of the papers that compare with it; none defines its prompt."
    )
    calls: ClassVar[str] = "1, or `samples` in the mode sampled"

    mode: Literal["logprobs", "sampled"] = "logprobs"
    samples: int = 1
    temperature: float = 1.0
    min_coverage: float = 1e-4
    low: int = 1
    high: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("low", self.low, -1000, 1000)
        check_range("high", self.high, -1000, 1000)
        Scale(low=self.low, high=self.high)
        check_range("temperature", self.temperature, 0, 10)
        check_range("min_coverage", self.min_coverage, 0, 1)
        check_range("samples", self.samples, 1, 10_000)

    @property
    def scale(self) -> Scale:
        """The scores that the model may give."""
        return Scale(low=self.low, high=self.high)

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        wanted = Capability.SCORE_LABELS if self.mode == "logprobs" else Capability.GENERATE
        return frozenset({wanted})

    def judge(self, item: Item) -> Steps:
        """Ask once for the score's distribution, or for `samples` written scores."""
        if not item.response.strip():
            return judgment(item, Status.EMPTY_RESPONSE)
        self.check_rubric(item)
        data = {"source": item.source.text, "response": item.response}
        messages = self.prompts.render("score", data, criterion=item.criterion, scale=self.scale)
        return (yield from self.rated(item, messages))

    def check_rubric(self, item: Item) -> None:
        """Raise ConfigError if a rubric describes another number of scores than there are."""
        if item.criterion.rubric and len(item.criterion.rubric) != len(self.scale.scores):
            raise ConfigError(
                f"the rubric of {item.criterion.name!r} describes {len(item.criterion.rubric)} "
                f"scores, the scale {self.scale} has {len(self.scale.scores)}: set low and high"
            )

    def rated(self, item: Item, messages: tuple[Message, ...]) -> Steps:
        """Judge an item by what the model answers to a prompt that asks for a score."""
        if self.mode == "sampled":
            return (yield from self._sampled(item, messages))
        return (yield from self._expected(item, messages))

    def read(self, text: str) -> int | None:
        """Return the score that a sampled answer gives, or None."""
        return parse_score(text, self.scale)

    def counted(self, item: Item, completions: Sequence[Completion]) -> Judgment:
        """Return the judgment that sampled answers come to."""
        texts = [completion.text for completion in completions]
        parsed = [self.read(text) for text in texts]
        scores = [score for score in parsed if score is not None]
        evidence = {"texts": texts, "unparsed": len(parsed) - len(scores)}
        if not scores:
            cut = all(each.finish_reason == "length" for each in completions)
            status = Status.TRUNCATED if cut else Status.PARSE_FAILED
            return judgment(item, status, evidence=evidence)
        shares = tuple(scores.count(score) / len(scores) for score in self.scale.scores)
        value = float(np.mean(scores))
        return judgment(
            item,
            Status.OK,
            value=value,
            raw=value,
            distribution=(shares,),
            coverage=len(scores) / len(texts),
            evidence=evidence,
        )

    def _expected(self, item: Item, messages: tuple[Message, ...]) -> Steps:
        scores = self.scale.scores
        labels = tuple(str(score) for score in scores)
        (reply,) = label_scores((yield [ScoreLabels(messages=messages, labels=labels)]))
        if not (reply.coverage >= self.min_coverage and sum(reply.masses) > 0):
            return judgment(
                item,
                Status.NO_LABEL_MASS,
                coverage=reply.coverage,
                evidence={"top_tokens": [list(reply.top_tokens)]},
            )
        probabilities = np.array(reply.masses) / sum(reply.masses)
        value = float(probabilities @ np.array(scores))
        return judgment(
            item,
            Status.OK,
            value=value,
            raw=value,
            distribution=(tuple(probabilities.tolist()),),
            coverage=reply.coverage,
            evidence={"exact": reply.exact, "label_tokens": list(reply.n_tokens)},
        )

    def _sampled(self, item: Item, messages: tuple[Message, ...]) -> Steps:
        request = Generate(
            messages=messages,
            max_tokens=int(self.prompts.settings["max_tokens"]),
            sampling=Sampling(
                temperature=self.temperature,
                seed=derived_seed(self.seed, item.id, item.criterion.name),
            ),
            n=self.samples,
        )
        (reply,) = generated((yield [request]))
        return self.counted(item, reply.completions)
