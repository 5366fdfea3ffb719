"""Checklists: the model answers yes or no to each question of a criterion."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple, Self

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Completion, Generate, Message, Sampling, ScoreLabels
from adjudge.judges.base import (
    Judge,
    Steps,
    Work,
    check_range,
    derived_seed,
    generated,
    judgment,
    label_scores,
)
from adjudge.schema import Item, Question, Status

LABELS = ("Yes", "No")
#: A written answer: the word first, and alone or with a mark behind it ("No one" is no answer).
_ANSWER = re.compile(
    r"""[\W_]*(yes|no)(?![^\W_])[*_"'”’)\]]*(?=[^\S\n]*[.,;:!\n—–]|\s-|\s*\Z)""", re.IGNORECASE
)
_WORD = re.compile(r"(?<![^\W_])(?:yes|no)(?![^\W_])", re.IGNORECASE)


class Answer(NamedTuple):
    """What came of a question.

    Attributes
    ----------
    yes
        Probability of yes, in [0, 1]; None where there is no answer.
    status
        ``ok``, or why there is none.
    coverage
        Probability on yes and no, in [0, 1]; of a written answer 1, or 0 if it cannot be read.
    evidence
        What was said.
    tries
        Answers drawn until one could be read, or none was left.
    """

    yes: float | None
    status: Status
    coverage: float
    evidence: Mapping[str, Any]
    tries: int = 1


@dataclass(frozen=True, kw_only=True)
class ChecklistJudge(Judge):
    """Asks the questions of the criterion, one at a time, and returns the weighted share of yes.

    The value is ``sum_q w_q p_q(yes) / sum_q w_q``, in [0, 1], with p(yes) renormalised over yes
    and no. CheckEval (Lee et al. 2024) takes the share of questions that are answered by yes,
    which is `hard` with equal weights; there a model also writes the checklist, here it is part
    of the criterion. A question without an answer fails the judgment: no other is left to stand
    for it.

    Parameters
    ----------
    prompts, seed
        See `Judge`.
    score_mode
        ``logprobs``, ``text`` (a written answer, p is 1 or 0), or ``auto``: log-probs on engines
        that serve them.
    retries
        How often a written answer that cannot be read is drawn again, at temperature 1; the
        first is the likeliest one.
    hard
        Whether a question counts as answered by yes if p(yes) > 0.5, and else by no.
    use_reference
        Whether the reference answer is shown where there is one.
    min_coverage
        Yes and no that together have less probability than this have no mass.
    """

    name: ClassVar[str] = "checklist"
    url: ClassVar[str] = "https://arxiv.org/abs/2403.18771"
    may_need: ClassVar[str] = "generate, for score_mode=text"
    differs: ClassVar[str] = (
        "The checklist is part of the criterion instead of being written by a model, and answers "
        "count with their probability."
    )
    calls: ClassVar[str] = "1 per question"

    score_mode: Literal["auto", "logprobs", "text"] = "auto"
    retries: int = 2
    hard: bool = False
    use_reference: bool = True
    min_coverage: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("retries", self.retries, 0, 100)
        check_range("min_coverage", self.min_coverage, 0, 1)

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        written = self.score_mode == "text"
        return frozenset({Capability.GENERATE if written else Capability.SCORE_LABELS})

    def fitted(self, capabilities: frozenset[Capability], model: str = "") -> Self:
        """See `Judge.fitted`: this decides what ``auto`` is."""
        del model
        if self.score_mode != "auto":
            return self
        able = Capability.SCORE_LABELS in capabilities
        return replace(self, score_mode="logprobs" if able else "text")

    def stand_in(self, item: Item, request: Generate) -> str:
        """See `Judge.stand_in`."""
        del item, request
        return "Yes."

    def judge(self, item: Item) -> Steps:
        """Ask all questions at once."""
        questions = item.criterion.questions
        if not questions:
            raise ConfigError(
                f"the criterion {item.criterion.name!r} has no questions for a checklist: write "
                'it in a TOML file, with questions = ["Is it short?", { text = "Is it true?", '
                "weight = 2 }] below its description"
            )
        if not item.response.strip():
            return judgment(item, Status.EMPTY_RESPONSE)
        asked = [self._ask(item, question) for question in questions]
        written = self.score_mode == "text"
        answers = yield from (self._written(asked) if written else self._scored(asked))
        evidence: dict[str, Any] = {
            "score_mode": "text" if written else "logprobs",
            "answers": [
                {"question": each.text, "weight": each.weight, "yes": answer.yes, **answer.evidence}
                for each, answer in zip(questions, answers, strict=True)
            ],
        }
        if written:
            evidence["resampled"] = sum(answer.tries - 1 for answer in answers)
        else:
            evidence["exact"] = all(answer.evidence["exact"] for answer in answers)
        known = [answer.yes for answer in answers if answer.yes is not None]
        fields = {
            "distribution": tuple((yes, 1 - yes) for yes in known),
            "coverage": fmean(answer.coverage for answer in answers),
            "evidence": evidence,
        }
        if len(known) < len(answers):
            status, evidence["error"] = _failure(questions, answers)
            return judgment(item, status, **fields)
        weights = [question.weight for question in questions]
        share = _mean(known, weights)
        counted = _mean([float(yes > 0.5) for yes in known], weights) if self.hard else share
        return judgment(item, Status.OK, value=counted, raw=share, **fields)

    def _scored(self, asked: Sequence[tuple[Message, ...]]) -> Work[list[Answer]]:
        """Ask for the probability of yes and no."""
        requests = [ScoreLabels(messages=messages, labels=LABELS) for messages in asked]
        answers = []
        for reply in label_scores((yield requests)):
            mass = sum(reply.masses)
            evidence: dict[str, Any] = {"coverage": reply.coverage, "exact": reply.exact}
            if reply.coverage >= self.min_coverage and mass > 0:
                yes = reply.masses[0] / mass
                answers.append(Answer(yes, Status.OK, reply.coverage, evidence))
            else:
                evidence["top_tokens"] = list(reply.top_tokens)
                answers.append(Answer(None, Status.NO_LABEL_MASS, reply.coverage, evidence))
        return answers

    def _written(self, asked: Sequence[tuple[Message, ...]]) -> Work[list[Answer]]:
        """Have the answers written; those that cannot be read are drawn again."""
        found: dict[int, Answer] = {}
        missing = list(range(len(asked)))
        for attempt in range(1 + self.retries):
            requests = [self._generate(asked[i], attempt) for i in missing]
            for i, reply in zip(missing, generated((yield requests)), strict=True):
                found[i] = _read(reply.completions[0])._replace(tries=attempt + 1)
            missing = [i for i in missing if found[i].yes is None]
            if not missing:
                break
        return [found[i] for i in range(len(asked))]

    def _generate(self, messages: tuple[Message, ...], attempt: int) -> Generate:
        seed = derived_seed(self.seed, *(message.content for message in messages))
        return Generate(
            messages=messages,
            max_tokens=int(self.prompts.settings["max_tokens"]),
            sampling=Sampling(temperature=min(attempt, 1), seed=seed),
            first_sample=attempt,
        )

    def _ask(self, item: Item, question: Question) -> tuple[Message, ...]:
        data = {
            "source": item.source.text,
            "response": item.response,
            "reference": item.reference_answer if self.use_reference else "",
        }
        return self.prompts.render("check", data, criterion=item.criterion, question=question.text)


def _read(completion: Completion) -> Answer:
    """Return the answer that was written; a text with both words in it has none."""
    text, cut = completion.text, completion.finish_reason == "length"
    evidence = {"text": text}
    answer = _ANSWER.match(text)
    words = {word.casefold() for word in _WORD.findall(text)}
    # What ends in "No" at the limit may go on as "Not at all", or as "No, but".
    if answer is None or len(words) > 1 or (cut and not text[answer.end() :].strip()):
        status = Status.TRUNCATED if cut else Status.PARSE_FAILED
        return Answer(None, status, 0.0, evidence)
    return Answer(float(answer[1].casefold() == "yes"), Status.OK, 1.0, evidence)


def _failure(questions: Sequence[Question], answers: Sequence[Answer]) -> tuple[Status, str]:
    """Return the status of the first question without an answer, and which have none in words."""
    failed = [i for i, answer in enumerate(answers) if answer.yes is None]
    first = answers[failed[0]]
    likeliest = [token for token, _ in first.evidence.get("top_tokens", ())]
    said = first.evidence.get("text") or "".join(likeliest[:1])
    why = f"{first.status}, the model says {said!r}" if said else str(first.status)
    asked = ", ".join(repr(questions[i].text) for i in failed)
    return first.status, f"no answer to {asked}: {why}"


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted mean; divided last, so that equal values give just that."""
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
