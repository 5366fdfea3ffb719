"""Direct scoring by pairwise comparison with a ladder of synthetic examples."""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from adjudge.errors import ConfigError
from adjudge.judges.base import (
    Judge,
    Steps,
    check_range,
    derived_seed,
    generated,
    judgment,
    label_scores,
    softmax,
)
from adjudge.schema import (
    Capability,
    Completion,
    Criterion,
    Generate,
    Item,
    Reply,
    Request,
    Sampling,
    ScoreLabels,
    Source,
    Status,
)

LABELS = ("Better", "Worse", "Similar")
MOST_RUNGS = 129
#: Draws of a rung: the first and one retry.
ATTEMPTS = 2
_SENTENCE_END = re.compile(r"[.!?][\"'\u201d\u2019)]*(?=\s|\Z)")
_QUOTED = re.compile(r'"([^"]*)"|\u201c([^\u201c\u201d]*)\u201d')
#: Small models repeat the tags of the prompt around what they write.
_OUTER_TAGS = re.compile(r"\A(?:\s*</?[a-z_]+>)+|(?:</?[a-z_]+>\s*)+\Z")


class Ladder(NamedTuple):
    """Rung texts from worst to best; a rung that could not be written is None, with why."""

    rungs: tuple[str | None, ...]
    problems: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class LadderJudge(Judge):
    """Scores a response by comparing it with every rung of its source's ladder.

    For rung i of N the model is asked whether the response is Better, Worse or Similar; the
    softmax over the three labels' log-probs gives ``p``, and the raw score is
    ``sum_i v_i (p_better_i - p_worse_i)`` with ``v_i = 1 + 4 (i - 1) / (N - 1)``: -15 to 15 for
    N = 5. The value is the raw score mapped linearly to 1-5. An ideal judge gives a text between
    rungs k and k + 1 the raw scores -15, -13, -9, -3, 5, 15 for k = 0..5: ordered, not evenly
    spaced. Lawrence, Williamson and Shelton (2025), section 2; the paper gives no range.

    Parameters
    ----------
    prompts
        The method's prompts for the task.
    seed
        Decides the draws of the rungs, together with source, criterion and rung.
    rungs
        Rungs of a ladder, 2**k + 1: the middle ones are written between their neighbours.
    temperature, top_p
        How rungs are drawn; the paper does not say.
    min_coverage
        A comparison whose labels have less probability than this has no label mass.
    """

    name: ClassVar[str] = "ladder"
    url: ClassVar[str] = "https://arxiv.org/abs/2509.05440"

    rungs: int = 5
    temperature: float = 0.7
    top_p: float = 0.9
    min_coverage: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("rungs", self.rungs, 2, MOST_RUNGS)
        levels(self.rungs)
        check_range("temperature", self.temperature, 0, 10)
        check_range("top_p", self.top_p, 0.001, 1)
        check_range("min_coverage", self.min_coverage, 0, 1)

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        return frozenset({Capability.GENERATE, Capability.SCORE_LABELS})

    @property
    def conventions(self) -> Mapping[str, str]:
        """See `Judge.conventions`."""
        return {"labels": "/".join(LABELS), "rung_scores": "linear15", "scale": "1-5"}

    def judge(self, item: Item) -> Steps:
        """Write the ladder of the item's source, then compare the response with each rung."""
        if not item.response.strip():
            return judgment(item, Status.EMPTY_RESPONSE)
        ladder = yield from self.write_ladder(item.source, item.criterion)
        if ladder.problems:
            return judgment(
                item,
                Status.LADDER_FAILED,
                evidence={
                    "rungs": list(ladder.rungs),
                    "problems": {str(rung): why for rung, why in ladder.problems.items()},
                },
            )
        replies = label_scores((yield [self._comparison(item, rung) for rung in ladder.rungs]))
        evidence = {
            "rungs": list(ladder.rungs),
            "exact": all(reply.exact for reply in replies),
            "label_tokens": list(replies[0].n_tokens),
        }
        coverages = [reply.coverage for reply in replies]
        coverage = float(np.mean(coverages))
        readable = all(
            math.isfinite(max(reply.logprobs)) and not any(map(math.isnan, reply.logprobs))
            for reply in replies
        )
        if not (readable and all(each >= self.min_coverage for each in coverages)):
            evidence["top_tokens"] = [list(reply.top_tokens) for reply in replies]
            return judgment(item, Status.NO_LABEL_MASS, coverage=coverage, evidence=evidence)
        probabilities = np.array([softmax(reply.logprobs) for reply in replies])
        raw, value = ladder_score(probabilities)
        return judgment(
            item,
            Status.OK,
            value=value,
            raw=raw,
            distribution=tuple(map(tuple, probabilities.tolist())),
            coverage=coverage,
            evidence=evidence,
        )

    def write_ladder(
        self, source: Source, criterion: Criterion
    ) -> Generator[Sequence[Request], Sequence[Reply], Ladder]:
        """Write the rungs of a source for a criterion, level by level.

        The draws depend on the seed, the source's text, the criterion and the rung's place, so
        that all responses of a source share one ladder and ladders of more rungs contain those
        of fewer.

        A rung that comes out empty or equal to a neighbour is drawn once more with another
        seed. If it fails again, the ladder is given back with the problem and what is there.
        """
        written: dict[int, str] = {}
        problems: dict[int, str] = {}
        for level in levels(self.rungs):
            open_rungs = dict(level)
            for attempt in range(ATTEMPTS):
                replies = yield [
                    self._rung(source, criterion, rung, neighbours, written, attempt)
                    for rung, neighbours in open_rungs.items()
                ]
                for (rung, neighbours), reply in zip(
                    list(open_rungs.items()), generated(replies), strict=True
                ):
                    text = clean_rung(reply.completions[0])
                    near = neighbours or tuple({1, self.rungs} - {rung})
                    if problem := _problem(text, near, written):
                        problems[rung] = problem
                        continue
                    written[rung] = text
                    problems.pop(rung, None)
                    del open_rungs[rung]
                if not open_rungs:
                    break
            if problems:
                break
        rungs = tuple(written.get(rung) for rung in range(1, self.rungs + 1))
        return Ladder(rungs, problems)

    def _rung(
        self,
        source: Source,
        criterion: Criterion,
        rung: int,
        neighbours: tuple[int, ...],
        written: Mapping[int, str],
        attempt: int,
    ) -> Generate:
        data = {"source": source.text}
        if neighbours:
            data |= {"lower": written[neighbours[0]], "upper": written[neighbours[1]]}
            messages = self.prompts.render("between", data, criterion=criterion)
        else:
            quality = "worst possible" if rung == 1 else "best possible"
            messages = self.prompts.render("extreme", data, criterion=criterion, quality=quality)
        # By its place, not its number: ladders of 3, 5 and 9 rungs are nested.
        place = Fraction(rung - 1, self.rungs - 1)
        seed = derived_seed(self.seed, source.hash, criterion.name, place, attempt)
        sampling = Sampling(temperature=self.temperature, top_p=self.top_p, seed=seed)
        limit = int(self.prompts.settings["max_tokens"])
        return Generate(messages=messages, max_tokens=limit, sampling=sampling)

    def _comparison(self, item: Item, rung: str | None) -> ScoreLabels:
        data = {"source": item.source.text, "rung": rung or "", "response": item.response}
        return ScoreLabels(
            messages=self.prompts.render("compare", data, criterion=item.criterion),
            labels=LABELS,
        )


def levels(rungs: int) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Return the dyadic order of writing: levels of (rung, its lower and upper neighbour).

    The first level, worst and best, has no neighbours to lie between.

    Raises
    ------
    ConfigError
        If `rungs` is not 2**k + 1.

    Examples
    --------
    >>> levels(5)
    [[(1, ()), (5, ())], [(3, (1, 5))], [(2, (1, 3)), (4, (3, 5))]]
    """
    step = rungs - 1
    if step < 1 or step & (step - 1):
        raise ConfigError(f"a ladder has 2, 3, 5, 9, ... (2**k + 1) rungs, not {rungs}")
    order: list[list[tuple[int, tuple[int, ...]]]] = [[(1, ()), (rungs, ())]]
    while step > 1:
        half = step // 2
        order.append([(low + half, (low, low + step)) for low in range(1, rungs, step)])
        step = half
    return order


def ladder_score(probabilities: np.ndarray) -> tuple[float, float]:
    """Return the raw score and its place on 1-5.

    Parameters
    ----------
    probabilities
        ``(n_rungs, 3)``: better, worse, similar for each rung, worst rung first.
    """
    values = np.linspace(1.0, 5.0, len(probabilities))
    raw = float(values @ (probabilities[:, 0] - probabilities[:, 1]))
    return raw, float(3.0 + 2.0 * raw / values.sum())


def clean_rung(completion: Completion) -> str:
    """Return a rung's text: whole sentences if it was cut off, no tags or quotes around it."""
    text = _OUTER_TAGS.sub("", completion.text).strip()
    if completion.finish_reason == "length":
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        text = text[: ends[-1]] if ends else text
    if quoted := _QUOTED.fullmatch(text):
        text = (quoted[1] or quoted[2] or "").strip()
    return text


def _problem(text: str, neighbours: Sequence[int], written: Mapping[int, str]) -> str:
    """Return what is wrong with a rung, or an empty string."""
    if not text:
        return "empty"
    if re.search(r"</?think", text):
        return "reasoning about the task instead of a text"
    words = text.casefold().split()
    for rung in neighbours:
        if rung in written and written[rung].casefold().split() == words:
            return f"the same as rung {rung}"
    return ""
