"""Rankings of a list of responses: all in one call, or out of judged pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Message
from adjudge.judges.base import (
    Steps,
    Work,
    check_range,
    derived_seed,
    different_texts,
    judgment,
    together,
)
from adjudge.judges.feedback import FeedbackJudge, mean_coverage, run_evidence, usual_failure
from adjudge.judges.relative import PrometheusRelativeJudge
from adjudge.prompts.verdict import Verdict, read_ranking
from adjudge.schema import Item, Judgment, Status
from adjudge.stats import ranking

#: Stands between the responses where they are handed to the prompt; no text holds its character.
BETWEEN = "\n\x1e\n"
#: Scores that are equal to so many digits are tied.
DIGITS = 6

#: Each text that is not empty -> the responses (from 1) that it is.
Texts = Mapping[str, list[int]]


class Compared(NamedTuple):
    """A pair of texts (from 0), judged.

    `preference` is for the first of them, None where there is no verdict; `shown` are the
    responses (from 1) that they are, the one that was shown as A first.
    """

    pair: ranking.Pair
    preference: float | None
    shown: list[int]
    made: Judgment


class Found(NamedTuple):
    """A score for each text, higher is better, or none at all; and what the judgment says."""

    scores: Sequence[float] = ()
    evidence: Mapping[str, Any] = {}
    fields: Mapping[str, Any] = {}
    status: Status = Status.OK


@dataclass(frozen=True, kw_only=True)
class ListwiseJudge(FeedbackJudge):
    """Ranks a list of responses, all in one call or out of judged pairs.

    ``one_call`` shows all responses, and asks for feedback and then an order of their numbers, as
    RankGPT (Sun et al. 2023) does for search results; that asks for no feedback, and goes through
    long lists by windows. A text that holds no order of all responses is drawn again; of several
    runs the mean ranks count. The other methods rank by the preferences of `compare`:
    ``merge_sort`` asks about n log2 n pairs at most, ``copeland`` about all and takes the share
    of wins, ``bradley_terry`` about all and fits strengths to p = (1 + preference) / 2.

    Where a response stands in the item decides nothing. Equal texts are judged once and tied,
    empty ones come last. The order in which the others are shown, the same in all runs, and which
    of a pair is A are drawn from the seed and the texts. A list has ranks and no value.

    Parameters
    ----------
    method
        One of these, or ``auto``: one call for up to `short` texts, a merge sort for more.
    short
        See `method`.
    compare
        The judge of pairs.
    """

    name: ClassVar[str] = "listwise"
    url: ClassVar[str] = "https://arxiv.org/abs/2304.09542"
    may_need: ClassVar[str] = "score_labels, for pairs by log-probs"
    differs: ClassVar[str] = (
        "Asks for feedback before the order, and sorts longer lists by judged pairs instead of "
        "passing a window over them."
    )
    calls: ClassVar[str] = "1 for short lists; else up to n log2 n pairs, or n (n - 1) / 2"
    takes = "list"

    not_options = (*FeedbackJudge.not_options, "compare")

    compare: PrometheusRelativeJudge
    method: Literal["auto", "one_call", "merge_sort", "copeland", "bradley_terry"] = "auto"
    short: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("short", self.short, 1, 1000)
        if self.score_mode == "logprobs" and self.method in ("auto", "one_call"):
            raise ConfigError(
                f"the method {self.method} asks for an order of all responses, which has no "
                "labels to score: leave score_mode at auto, or take the method merge_sort, "
                "copeland or bradley_terry"
            )

    @property
    def adapts(self) -> bool:
        """See `Judge.adapts`."""
        return self.method in ("auto", "merge_sort")

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        return super().needs if self.method == "one_call" else self.compare.needs

    def fitted(self, capabilities: frozenset[Capability], model: str = "") -> Self:
        """See `Judge.fitted`."""
        compare = self.compare.fitted(capabilities, model)
        return replace(super().fitted(capabilities, model), compare=compare)

    @property
    def has_labels(self) -> bool:
        """See `FeedbackJudge.has_labels`."""
        return False

    @property
    def conventions(self) -> Mapping[str, str]:
        """What the judge of pairs does otherwise, where it is used."""
        if self.method == "one_call":
            return {}
        return {
            f"compare_{name}": value
            for name, value in self.compare.signature.items()
            if name != "judge" and value != str(getattr(self, name, None))
        }

    def example(self, item: Item) -> str:
        """See `FeedbackJudge.example`."""
        n = len(self._texts(item))
        if self._method(n) == "one_call":
            return " > ".join(map(str, range(1, n + 1)))
        return self.compare.example(item)

    def _method(self, n: int) -> str:
        """Return the method for so many texts."""
        if self.method != "auto":
            return self.method
        return "one_call" if n <= self.short else "merge_sort"

    def judge(self, item: Item) -> Steps:
        """Rank the responses of a list."""
        texts = self._texts(item)
        if not texts:
            return judgment(item, Status.EMPTY_RESPONSE)
        method = self._method(len(texts))
        if len(texts) == 1:
            found = Found([0.0], {"comparisons": 0})
        elif method == "one_call":
            found = yield from self._in_one_call(item, texts)
        elif method == "merge_sort":
            found = yield from self._by_sorting(item, texts)
        else:
            found = yield from self._by_all_pairs(item, texts, method)
        evidence = {"method": method, **found.evidence}
        if empty := [n for n, text in enumerate(item.responses, start=1) if not text.strip()]:
            evidence["empty_responses"] = empty
        if found.status is not Status.OK:
            return judgment(item, found.status, evidence=evidence, **found.fields)
        scores = _by_response(item, texts, found.scores)
        last = min(found.scores) - 1
        placed = ranking.ranks(
            [last if score is None else round(score, DIGITS) for score in scores]
        )
        evidence["ranking"] = (np.argsort(placed, kind="stable") + 1).tolist()
        ranked = tuple(placed.tolist())
        return judgment(item, Status.OK, ranks=ranked, evidence=evidence, **found.fields)

    def _texts(self, item: Item) -> Texts:
        """Return the texts in the order in which they are shown."""
        numbers: dict[str, list[int]] = {}
        for number, response in enumerate(item.responses, start=1):
            if text := response.strip():
                numbers.setdefault(text, []).append(number)
        return {text: numbers[text] for text in different_texts(item, self.seed)}

    def _in_one_call(self, item: Item, texts: Texts) -> Work[Found]:
        """Ask for an order of all texts, `runs` times."""
        n = len(texts)

        def read(text: str, cut: bool) -> Verdict[tuple[int, ...]]:  # noqa: FBT001 - a reader
            return read_ranking(text, n, cut=cut)

        runs = yield from self.run_all(self._ask(item, texts), (), read)
        shown = [numbers[0] for numbers in texts.values()]
        orders = [list(run.written.value or ()) for run in runs]
        evidence = run_evidence(runs, "text") | {"shown": shown}
        evidence["written"] = [order or None for order in orders]
        good = [run for run in runs if run.status is Status.OK]
        told = (good or runs)[0].written.feedback
        if shown != sorted(shown):
            listed = ", ".join(map(str, shown))
            told = f"(The numbers 1 to {n} are the responses {listed}.) {told}"
        fields = {"coverage": mean_coverage(runs), "feedback": told}
        if not good:
            return Found((), evidence, fields, usual_failure(runs))
        means = np.mean([np.argsort(order) + 1 for order in orders if order], axis=0)
        evidence["mean_ranks"] = _by_response(item, texts, means.tolist())
        return Found((-means).tolist(), evidence, fields)

    def _ask(self, item: Item, texts: Texts) -> tuple[Message, ...]:
        data = {
            "source": item.source.text,
            "responses": BETWEEN.join(text.replace(BETWEEN.strip("\n"), " ") for text in texts),
            "reference": self.reference_of(item),
        }
        return self.prompts.render(
            "rank", data, criterion=item.criterion, n=len(texts), between=BETWEEN
        )

    def _by_sorting(self, item: Item, texts: Texts) -> Work[Found]:
        """Sort the texts; neighbours whose comparison was a tie share their rank."""
        sorting = ranking.merge_sort(len(texts))
        pairs = next(sorting)
        order: tuple[int, ...] = ()
        made: list[Compared] = []
        while not order:
            new = yield from self._compared(item, texts, pairs)
            made += new
            try:
                # Without a verdict the sort has failed. It goes on as after a tie, so that all
                # such pairs are named, and a plan, whose texts hold no verdicts, sees every call.
                pairs = sorting.send([each.preference or 0.0 for each in new])
            except StopIteration as end:
                order = end.value
        if failed := [each for each in made if each.preference is None]:
            return _failure(made, failed)
        tied = {frozenset(each.pair) for each in made if not each.preference}
        scores = dict.fromkeys(order, 0.0)
        for before, after in pairwise(order):
            scores[after] = scores[before] - (frozenset((before, after)) not in tied)
        return Found([scores[i] for i in range(len(texts))], *_of_pairs(made))

    def _by_all_pairs(self, item: Item, texts: Texts, method: str) -> Work[Found]:
        """Have all pairs judged, and count wins or fit strengths."""
        n = len(texts)
        made = yield from self._compared(item, texts, ranking.all_pairs(n))
        preferences = np.full((n, n), np.nan)
        for each in made:
            if each.preference is not None:
                preferences[each.pair] = each.preference
                preferences[each.pair[::-1]] = -each.preference
        judged = ~np.isnan(preferences)
        if not judged.any(axis=1).all():
            never = int(np.argmin(judged.any(axis=1)))
            return _failure(made, [each for each in made if never in each.pair])
        evidence, fields = _of_pairs(made)
        if method == "copeland":
            wins = ranking.copeland_scores(preferences)
            evidence["wins"] = _by_response(item, texts, wins.tolist())
            return Found((wins / judged.sum(axis=1)).tolist(), evidence, fields)
        strengths = ranking.bradley_terry_strengths(
            np.where(judged, (1 + preferences) / 2, 0)
        ).tolist()
        evidence["strengths"] = _by_response(item, texts, strengths)
        return Found(strengths, evidence, fields)

    def _compared(
        self, item: Item, texts: Texts, pairs: Sequence[ranking.Pair]
    ) -> Work[list[Compared]]:
        """Have pairs judged together."""
        listed = list(texts)
        asked: list[tuple[str, str]] = []
        for i, j in pairs:
            first, second = sorted((listed[i], listed[j]))
            swap = derived_seed(self.seed, item.source.hash, first, second) % 2
            asked.append((second, first) if swap else (first, second))
        shown = [[texts[first][0], texts[second][0]] for first, second in asked]
        works = [
            self.compare.judge(replace(item, id=f"{item.id}/{a}-{b}", responses=both, systems=()))
            for both, (a, b) in zip(asked, shown, strict=True)
        ]
        signs = [
            1 if first == listed[i] else -1 for (first, _), (i, _) in zip(asked, pairs, strict=True)
        ]
        made = yield from together(works)
        return [
            Compared(pair, None if each.value is None else sign * each.value, numbers, each)
            for pair, sign, numbers, each in zip(pairs, signs, shown, made, strict=True)
        ]


def _by_response(item: Item, texts: Texts, values: Sequence[float]) -> list[float | None]:
    """Return each response's value out of one for each text; None where it is empty."""
    known = {
        number: value
        for numbers, value in zip(texts.values(), values, strict=True)
        for number in numbers
    }
    return [known.get(number) for number in range(1, len(item.responses) + 1)]


def _failure(made: Sequence[Compared], failed: Sequence[Compared]) -> Found:
    """Return what there is without the verdicts on some pairs; the first says how it ends."""
    evidence, fields = _of_pairs(made)
    pairs = ", ".join("{} and {}".format(*each.shown) for each in failed)
    first = failed[0].made
    said = first.evidence.get("problems_of_verdicts", [""])[-1]
    evidence["error"] = f"no verdict on the responses {pairs}: {said or first.status}"
    return Found((), evidence, fields, first.status)


def _of_pairs(made: Sequence[Compared]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the evidence of judged pairs, and their mean coverage and distributions."""
    found = [each.made.evidence for each in made]
    evidence: dict[str, Any] = {
        "score_mode": found[0]["score_mode"],
        "comparisons": len(made),
        "unjudged": sum(each.preference is None for each in made),
        "verdicts": [
            {
                "pair": each.shown,
                "status": each.made.status.value,
                "value": each.made.value,
                "evidence": dict(each.made.evidence),
            }
            for each in made
        ],
        "written_statuses": [status for each in found for status in each["written_statuses"]],
        "resampled": sum(each["resampled"] for each in found),
        "exact": all(each.get("exact", True) for each in found),
    }
    masses = [each.made.coverage for each in made if each.made.coverage is not None]
    rows = tuple(row for each in made for row in each.made.distribution)
    return evidence, {"coverage": fmean(masses), "distribution": rows}
