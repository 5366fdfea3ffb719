"""G-Eval: the model follows written steps of evaluation and fills in a form with a score."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Completion, Generate
from adjudge.judges.base import Steps, Work, generated, judgment
from adjudge.judges.direct import DirectJudge
from adjudge.judges.rungs import is_refusal
from adjudge.schema import Criterion, Item, Judgment, Status

_SCORE = re.compile(r" ?(-?[\d.]+)")
#: As the paper's code reads, which knows no sign.
_PUBLISHED_SCORE = re.compile(r" ?([\d.]+)")
#: What a line of a list begins with: "1.", "2)", "**Step 3:**", "-" and the like.
_MARK = re.compile(
    r"[ \t]*+[*_#]{0,3}[ \t]*+(?:(?:step[ \t]++)?\d{1,2}[.:)]|[-*\u2022](?=[ \t]))"
    r"[*_]{0,2}(?:[ \t]+|$)",
    re.IGNORECASE,
)


class Written(NamedTuple):
    """Steps of evaluation, or none and why: what a judgment fails with, and the text itself."""

    steps: tuple[str, ...]
    status: Status = Status.OK
    evidence: Mapping[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class GEvalJudge(DirectJudge):
    """Scores a response by a form that the model fills in after steps of evaluation.

    The prompt holds the task, the criterion with its scale, the steps, the source, the response
    and a form for the score alone (Liu et al. 2023). The value is the expected score
    ``sum_s s p(s)`` over the labels of the scale, renormalised over them (equation 1), or the
    mean of sampled scores, which tends to the same. A sampled score is a number at the very
    beginning of an answer, one blank at most before it. One that is not on the scale fails, and
    is left out of the mean.

    All that does not depend on the source and the response stands before them. Steps that are
    generated ("automatic chain of thought") are asked for once by criterion and task, greedily;
    all items share them.

    Parameters
    ----------
    prompts, seed, mode, min_coverage, low, high
        See `DirectJudge`.
    samples, temperature
        Answers drawn in the mode ``sampled``, and how; the paper's code draws at temperature 2.
    steps
        ``frozen``: those of the prompt file, for any criterion; ``generated``: the model's own;
        ``none``.
    published
        Whether sampled answers are read and counted as by the paper's code: what does not begin
        with a number counts as 0 in the mean, and no number is compared with the scale.
    """

    name: ClassVar[str] = "geval"
    url: ClassVar[str] = "https://arxiv.org/abs/2303.16634"
    may_need: ClassVar[str] = "generate, for mode=sampled and steps=generated"
    differs: ClassVar[str] = (
        "Steps are written for any criterion, or generated, and the prompt is a user's message "
        "instead of the system's. Sampled answers without a score on the scale are left out; "
        "published=true counts them as the paper's code does."
    )
    calls: ClassVar[str] = (
        "1, or `samples` in the mode sampled; generated steps: 1 more per criterion"
    )

    samples: int = 20
    steps: Literal["frozen", "generated", "none"] = "frozen"
    published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.published and self.mode != "sampled":
            raise ConfigError(
                "published is what the paper's code does, and that samples its scores: set "
                "mode=sampled, or leave published out"
            )
        limit = self.prompts.settings.get("steps_tokens")
        if self.steps == "generated" and not (isinstance(limit, int) and limit > 0):
            raise ConfigError(
                f"to generate steps, the prompts {self.prompts.reference} need steps_tokens, a "
                f"whole number from 1, not {limit!r}"
            )

    @property
    def has_writer(self) -> bool:
        """See `Judge.has_writer`."""
        return self.steps == "generated" and self.mode == "logprobs"

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        writes = {Capability.GENERATE} if self.steps == "generated" else set()
        return super().needs | writes

    def judge(self, item: Item) -> Steps:
        """Ask for the score's distribution, or for `samples` written scores, after the steps."""
        if not item.response.strip():
            return judgment(item, Status.EMPTY_RESPONSE)
        self.check_rubric(item)
        written = yield from self._steps(item.criterion)
        if written.status is not Status.OK:
            return judgment(item, written.status, evidence=written.evidence)
        messages = self.prompts.render(
            "score",
            {"source": item.source.text, "response": item.response},
            criterion=item.criterion,
            scale=self.scale,
            steps=written.steps,
        )
        made = yield from self.rated(item, messages)
        return replace(made, evidence={**made.evidence, **written.evidence})

    def read(self, text: str) -> int | None:
        """See `DirectJudge.read`: the number at the very beginning."""
        score = _number(_SCORE, text)
        return int(score) if score is not None and score in self.scale else None

    def counted(self, item: Item, completions: Sequence[Completion]) -> Judgment:
        """See `DirectJudge.counted`."""
        if not self.published:
            return super().counted(item, completions)
        texts = [completion.text for completion in completions]
        scores = [_number(_PUBLISHED_SCORE, text) for text in texts]
        zeros = scores.count(None)
        value = fmean(score or 0.0 for score in scores)
        return judgment(
            item,
            Status.OK,
            value=value,
            raw=value,
            coverage=1 - zeros / len(texts),
            evidence={"texts": texts, "counted_as_zero": zeros},
        )

    def _steps(self, criterion: Criterion) -> Work[Written]:
        """Return the steps for a criterion, whatever is judged by it."""
        if self.steps == "none":
            return Written(())
        about = {"criterion": criterion, "scale": self.scale}
        if self.steps == "frozen":
            return Written(read_steps(self.prompts.render("frozen", {}, **about)[-1].content))
        request = Generate(
            messages=self.prompts.render("steps", {}, **about),
            max_tokens=int(self.prompts.settings["steps_tokens"]),
        )
        (reply,) = generated((yield [request]))
        return _written(reply.completions[0])


def read_steps(text: str) -> tuple[str, ...]:
    """Return the steps that a text lists, without their numbers.

    A line that begins with a number or a bullet begins a step, and lines straight below belong
    to it. In a text that has no such line, every line is a step. Headings and what stands around
    the list are left out.

    >>> read_steps("Steps:\\n1. Read it.\\n   Twice.\\n2. Score it.\\n\\nGood luck!")
    ('Read it. Twice.', 'Score it.')
    """
    lines = text.splitlines()
    if any(_MARK.match(line) for line in lines):
        steps: list[list[str]] = []
        inside = False
        for line in lines:
            if mark := _MARK.match(line):
                steps.append([line[mark.end() :]])
            elif inside and line.strip():
                steps[-1].append(line)
            inside = bool(line.strip()) and (inside or mark is not None)
        found = [" ".join(part.strip() for part in step).strip() for step in steps]
    else:
        found = [line.strip() for line in lines if not line.rstrip(" \t*_").endswith(":")]
    return tuple(step for step in found if any(map(str.isalnum, step)))


def _written(completion: Completion) -> Written:
    """Return the steps that the model wrote; a last line that was cut is none."""
    text, cut = completion.text, completion.finish_reason == "length"
    if is_refusal(text):
        status, why = Status.REFUSED, "the model declined to write steps"
    elif steps := read_steps(text.rpartition("\n")[0] if cut else text):
        return Written(steps, evidence={"steps": list(steps)})
    elif cut:
        status, why = Status.TRUNCATED, "the token limit cut the first step; raise steps_tokens"
    else:
        status, why = Status.PARSE_FAILED, "the text holds no step"
    error = f"no steps of evaluation: {why}; the model said {text[:80]!r}"
    return Written((), status, {"steps_text": text, "error": error})


def _number(pattern: re.Pattern[str], text: str) -> float | None:
    """Return the number that a text begins with, or None."""
    match = pattern.match(text)
    try:
        number = float(match[1]) if match else None
    except ValueError:  # "4.5.1", "..."
        return None
    return number if number is not None and isfinite(number) else None
