"""Direct scoring by pairwise comparison with a ladder of synthetic examples."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, LabelScores, ScoreLabels
from adjudge.judges.base import (
    Judge,
    Steps,
    check_range,
    derived_seed,
    judgment,
    label_scores,
    softmax,
)
from adjudge.judges.rungs import PromptOrder, RungWriter, Written, levels, subset
from adjudge.schema import Item, Judgment, Ladder, Status, canonical_json, content_hash

Prediction = Literal["better_worse_similar", "yes_no", "yes_no_double"]
RungValues = Literal["linear15", "index"]
#: What the labels are unless others are given, in this order.
LABELS: dict[str, tuple[str, ...]] = {
    "better_worse_similar": ("Better", "Worse", "Similar"),
    "yes_no": ("Yes", "No"),
    "yes_no_double": ("Yes", "No"),
}


class Question(NamedTuple):
    """One question about a response and a rung.

    Attributes
    ----------
    prompt
        Which prompt asks it.
    asked
        ``better`` or ``worse``: what a yes says of the target.
    swapped
        Whether the rung is the target and the response the reference.
    """

    prompt: str
    asked: str
    swapped: bool


class LadderScore(NamedTuple):
    """The scores that probabilities against every rung give.

    Attributes
    ----------
    raw
        ``sum_i v_i (p_better_i - p_worse_i)``: -S to S with S the sum of the rungs' values.
    rescaled
        The raw score mapped linearly to 1-5.
    position
        1 + 4 times the share of rungs beaten, a similar one counting half: linear in rungs.
    """

    raw: float
    rescaled: float
    position: float


@dataclass(frozen=True, kw_only=True)
class LadderJudge(Judge):
    """Scores a response by comparing it with every rung of its source's ladder.

    For rung i of N the model is asked whether the response is Better, Worse or Similar; the
    softmax over the three labels' log-probs gives ``p``, and the raw score is
    ``sum_i v_i (p_better_i - p_worse_i)`` with ``v_i = 1 + 4 (i - 1) / (N - 1)``: -15 to 15 for
    N = 5. The value is the raw score mapped linearly to 1-5. An ideal judge gives a text between
    rungs k and k + 1 the raw scores -15, -13, -9, -3, 5, 15 for k = 0..5, which is 1, 1.27, 1.8,
    2.6, 3.67, 5: ordered, not evenly spaced; its position is 1 + 4 k / N: 1, 1.8, 2.6, 3.4, 4.2,
    5. Lawrence, Williamson and Shelton (2025), section 2; the paper gives no range.

    Parameters
    ----------
    prompts
        The method's prompts for the task.
    seed
        Decides the draws of the rungs, together with source, criterion and rung.
    rungs
        Rungs of a ladder, 2**k + 1: the middle ones are written between their neighbours. Of
        ladders that are given, any number that divides them evenly.
    temperature, top_p
        How rungs are drawn; the paper does not say.
    fresh
        Draw rungs anew for each number of rungs; else ladders of 9 contain those of 5, 3 and 2.
    rung_values
        ``linear15``: v as above; ``index``: v_i = i, the paper's formula read for any N.
    prediction
        ``better_worse_similar``; ``yes_no``: is the response better (yes: better, no: worse;
        Tables 16-18); ``yes_no_double``: asks too whether it is worse, so that the raw score is
        ``sum_i v_i (p_yes_better_i - p_yes_worse_i)``.
    labels
        Other labels in the same order, between slashes: ``better/worse/equal``.
    leading_space
        Score the labels with a space before them.
    label_score
        ``sum`` of a label's token log-probs, or their ``mean``.
    orders
        ``one``; ``both``: ask with response and rung exchanged too, and average.
    samples, trial
        0: exact probabilities; n: shares among n draws from them for each question, as
        constrained decoding would give (Table 2). Another trial is another draw.
    value
        Which score the judgment's value is: ``rescaled``, ``raw`` or ``position``.
    prompt_order
        ``paper``: the criterion before the source; ``shared``: the source first, so that all
        criteria of a source share it.
    min_coverage
        A comparison whose labels have less probability than this has no label mass.
    ladders
        Ladders by (source hash, criterion name) to use instead of writing them; longer ones
        than `rungs` are thinned out.
    """

    name: ClassVar[str] = "ladder"
    url: ClassVar[str] = "https://arxiv.org/abs/2509.05440"
    differs: ClassVar[str] = (
        "Rungs are written by halving, which the paper's circular rule leaves open; the value is "
        "mapped to 1-5, raw is the paper's sum; prompts speak of the task at hand, where some of "
        "the paper's speak of news articles."
    )
    calls: ClassVar[str] = (
        "5, one per rung; and 5 texts for each source and criterion, shared by its responses"
    )
    not_options: ClassVar[tuple[str, ...]] = (*Judge.not_options, "ladders")

    rungs: int = 5
    temperature: float = 0.7
    top_p: float = 0.9
    fresh: bool = False
    rung_values: RungValues = "linear15"
    prediction: Prediction = "better_worse_similar"
    labels: str = ""
    leading_space: bool = False
    label_score: Literal["sum", "mean"] = "sum"
    orders: Literal["one", "both"] = "one"
    samples: int = 0
    trial: int = 0
    value: Literal["rescaled", "raw", "position"] = "rescaled"
    prompt_order: PromptOrder = "paper"
    min_coverage: float = 1e-4
    ladders: Mapping[tuple[str, str], Ladder] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("min_coverage", self.min_coverage, 0, 1)
        check_range("samples", self.samples, 0, 1_000_000)
        check_range("trial", self.trial, 0, 1_000_000)
        self.writer  # noqa: B018 - checks its own options
        if self.ladders is None:
            levels(self.rungs)
        given, wanted = self.label_texts, LABELS[self.prediction]
        if len(given) != len(wanted) or len(set(given)) != len(given) or not all(given):
            raise ConfigError(
                f"the prediction {self.prediction} takes {len(wanted)} different labels in the "
                f"order {'/'.join(wanted)}, not {self.labels!r}"
            )

    @cached_property
    def writer(self) -> RungWriter:
        """What writes the ladders."""
        return RungWriter(
            prompts=self.prompts,
            seed=self.seed,
            rungs=self.rungs,
            temperature=self.temperature,
            top_p=self.top_p,
            fresh=self.fresh,
            prompt_order=self.prompt_order,
        )

    @cached_property
    def label_texts(self) -> tuple[str, ...]:
        """The labels as they are scored."""
        labels = tuple(self.labels.split("/")) if self.labels else LABELS[self.prediction]
        return tuple(f" {each}" for each in labels) if self.leading_space else labels

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """What is asked about every rung."""
        prompt = "compare" if self.prediction == "better_worse_similar" else "yes_no"
        asked = ("better", "worse") if self.prediction == "yes_no_double" else ("better",)
        swaps = (False, True) if self.orders == "both" else (False,)
        return tuple(Question(prompt, each, swap) for each in asked for swap in swaps)

    @property
    def has_writer(self) -> bool:
        """See `Judge.has_writer`."""
        return True

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        written = {Capability.GENERATE} if self.ladders is None else set()
        return frozenset({*written, Capability.SCORE_LABELS})

    @cached_property
    def conventions(self) -> Mapping[str, str]:
        """See `Judge.conventions`."""
        most = rung_values_of(self.rungs, self.rung_values).sum()
        scale = f"{-most:g}-{most:g}" if self.value == "raw" else "1-5"
        texts = {"labels": "/".join(self.label_texts), "scale": scale}
        if self.ladders is None:
            return texts
        return texts | {"ladders": self.ladders_mark}

    @cached_property
    def ladders_mark(self) -> str:
        """How many ladders are given, the beginning of their hash, and who wrote them."""
        content = sorted(
            canonical_json([each.source_hash, each.criterion_hash, list(each.rungs)])
            for each in (self.ladders or {}).values()
        )
        writers = sorted({_writer(each.writer) for each in (self.ladders or {}).values()})
        return f"{len(content)}#{content_hash(content)[:8]}@{','.join(writers) or 'nobody'}"

    def judge(self, item: Item) -> Steps:
        """Write or find the ladder of the item's source, then compare with each rung."""
        if not item.response.strip():
            return judgment(item, Status.EMPTY_RESPONSE)
        if self.ladders is None:
            ladder = yield from self.writer.write(item.source, item.criterion)
        else:
            found = self.given(item)
            whole = found.rungs if found.problems else subset(found.rungs, self.rungs)
            ladder = Written(whole, found.problems)
        if ladder.problems:
            return judgment(item, ladder.status, evidence=ladder.evidence)
        replies = label_scores(
            (
                yield [
                    self.ask(item, each, target=item.response, reference=rung or "")
                    for rung in ladder.rungs
                    for each in self.questions
                ]
            )
        )
        return self._judged(item, ladder, replies)

    def _judged(self, item: Item, ladder: Written, replies: Sequence[LabelScores]) -> Judgment:
        """Return the judgment that the replies to all questions about all rungs give."""
        evidence = {
            "rungs": list(ladder.rungs),
            "exact": all(reply.exact for reply in replies),
            "label_tokens": list(replies[0].n_tokens),
        }
        coverage = float(np.mean([reply.coverage for reply in replies]))
        if not self.readable(replies):
            evidence["top_tokens"] = [list(reply.top_tokens) for reply in replies]
            return judgment(item, Status.NO_LABEL_MASS, coverage=coverage, evidence=evidence)
        answers = np.array([self.probabilities(reply) for reply in replies])
        if self.samples:
            rng = np.random.default_rng(
                derived_seed(self.seed, "samples", self.trial, item.id, item.criterion.name)
            )
            answers = rng.multinomial(self.samples, answers) / self.samples
        answers = answers.reshape(len(ladder.rungs), len(self.questions), -1)
        probabilities = np.mean(
            [outcomes(answers[:, i], each) for i, each in enumerate(self.questions)], axis=0
        )
        score = ladder_score(probabilities, self.rung_values)
        return judgment(
            item,
            Status.OK,
            value=getattr(score, self.value),
            raw=score.raw,
            distribution=tuple(map(tuple, probabilities.tolist())),
            coverage=coverage,
            evidence=evidence,
        )

    def readable(self, replies: Sequence[LabelScores]) -> bool:
        """Return whether every reply has numbers, and enough probability on the labels."""
        return all(
            reply.coverage >= self.min_coverage
            and math.isfinite(max(reply.logprobs))
            and not any(map(math.isnan, reply.logprobs))
            for reply in replies
        )

    def probabilities(self, reply: LabelScores) -> np.ndarray:
        """Return the probabilities of the labels among themselves."""
        logprobs = np.array(reply.logprobs)
        if self.label_score == "mean":
            logprobs = logprobs / np.array(reply.n_tokens)
        return softmax(logprobs.tolist())

    def ask(self, item: Item, question: Question, *, target: str, reference: str) -> ScoreLabels:
        """Return the request that asks a question about two texts."""
        if question.swapped:
            target, reference = reference, target
        shown: dict[str, object] = {"criterion": item.criterion, "order": self.prompt_order}
        if question.prompt == "yes_no":
            shown["asked"] = question.asked
        data = {"source": item.source.text, "reference": reference, "target": target}
        messages = self.prompts.render(question.prompt, data, **shown)
        return ScoreLabels(messages=messages, labels=self.label_texts)

    def given(self, item: Item) -> Ladder:
        """Return the ladder that is given for an item.

        Raises
        ------
        ConfigError
            If there is none, or it was written for something else.
        """
        ladders = self.ladders or {}
        found = ladders.get((item.source.hash, item.criterion.name))
        if found is None:
            same = [each for each in ladders.values() if each.source_id == item.source.id]
            raise ConfigError(
                f"there is no ladder for the source {item.source.id!r} and the criterion "
                f"{item.criterion.name!r}"
                + (
                    f"; that of {same[0].criterion!r} was written for another text of this id"
                    if same and same[0].source_hash != item.source.hash
                    else f"; there are {len(ladders)} ladders, write the missing ones with "
                    "`adjudge ladder build`"
                )
            )
        if found.criterion_hash != item.criterion.hash:
            raise ConfigError(
                f"the ladder for the source {item.source.id!r} was written for another meaning of "
                f"{item.criterion.name!r}: use the criterion that it was written for"
            )
        return found


def outcomes(answers: np.ndarray, question: Question) -> np.ndarray:
    """Return what answers to a question say of the response: better, worse, similar.

    Parameters
    ----------
    answers
        ``(n_rungs, n_labels)`` probabilities of the labels.
    question
        What was asked.

    Returns
    -------
    np.ndarray
        ``(n_rungs, 3)``; a yes or no says nothing of similar.
    """
    said = answers if answers.shape[1] == 3 else np.pad(answers, ((0, 0), (0, 1)))
    turned = question.swapped != (question.asked == "worse")
    return said[:, [1, 0, 2]] if turned else said


def rung_values_of(n: int, rung_values: RungValues) -> np.ndarray:
    """Return what each of n rungs weighs, ``(n,)``: from 1 to 5, or its number."""
    return np.linspace(1.0, 5.0, n) if rung_values == "linear15" else np.arange(1.0, n + 1)


def ladder_score(probabilities: np.ndarray, rung_values: RungValues = "linear15") -> LadderScore:
    """Return the scores of a response.

    Parameters
    ----------
    probabilities
        ``(n_rungs, 3)``: better, worse, similar for each rung, worst rung first.
    rung_values
        See `LadderJudge`.

    Examples
    --------
    >>> beaten, lost = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
    >>> ladder_score(np.array([beaten, beaten, lost, lost, lost]))
    LadderScore(raw=-9.0, rescaled=1.8, position=2.6)
    """
    n = len(probabilities)
    better, worse, similar = probabilities.T
    values = rung_values_of(n, rung_values)
    raw = float(values @ (better - worse))
    position = float(1 + 4 * np.mean(better + similar / 2))
    return LadderScore(raw, float(3 + 2 * raw / values.sum()), position)


def _writer(signature: str) -> str:
    """Return the model that a ladder's signature names; what is no signature says it itself."""
    named = re.search(r"(?:^|\|)model:([^|]*)", signature)
    return named[1] if named else signature.partition("|")[0] or "unknown"
