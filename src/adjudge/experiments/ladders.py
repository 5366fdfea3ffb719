"""How good ladders are: what comparing neighbours and looking at the texts says of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from adjudge.judges.rungs import REFUSED, folded
from adjudge.schema import Criterion, Item, Judgment, Ladder, Source, Status
from adjudge.stats.correlation import kendall_tau_b

#: Words that must follow one another in the source to count as copied.
COPY_WORDS = 5
#: A ladder whose longest rung has more than so many times the words of its shortest drifts.
MOST_DRIFT = 3.0
#: A rung with more than this share of copied words copies its source.
MOST_COPIED = 0.8

Key = tuple[str, str]


class LadderReport(NamedTuple):
    """What is known of the quality of one ladder.

    Attributes
    ----------
    ladder
        The ladder.
    status
        ``ok``, or why its rungs could not be compared.
    tau
        Kendall's tau-b between the rungs' order and the heights that the comparisons give them,
        -1 to 1; NaN where nothing was compared.
    gains
        For each pair of neighbours, the probability that the upper one is better minus that it
        is worse, -1 to 1.
    inverted
        Rungs (from 1) that the judge prefers to the one above them.
    duplicates, empty, refused
        Rungs with the words of an earlier one, without a text, and declined by the model.
    words
        Words of each rung.
    length_tau
        Kendall's tau-b between the rungs' order and their lengths: far from 0, the ladder may
        measure length.
    drift
        Words of the longest rung by those of the shortest.
    copied
        Share of each rung's words that stand in runs of five in the source, 0 to 1.
    """

    ladder: Ladder
    status: Status
    tau: float
    gains: tuple[float, ...]
    inverted: tuple[int, ...]
    duplicates: tuple[int, ...]
    empty: tuple[int, ...]
    refused: tuple[int, ...]
    words: tuple[int, ...]
    length_tau: float
    drift: float
    copied: tuple[float, ...]

    @property
    def failed(self) -> frozenset[int]:
        """Rungs to write anew: of an inverted pair one that is not an end, if there is one."""
        last = len(self.ladder.rungs)
        inner = {rung + 1 if rung + 1 < last else rung for rung in self.inverted}
        return frozenset({*self.duplicates, *self.empty, *self.refused, *inner})


class LadderSummary(NamedTuple):
    """Counts and means over ladders.

    Attributes
    ----------
    n, n_good
        Ladders, and those of them in which no rung fails.
    mean_tau
        Over the ladders that were compared; NaN if none was.
    n_inverted, n_pairs
        Inverted neighbours, and neighbours compared.
    n_duplicates, n_empty, n_refused
        Rungs.
    n_drifting, n_copying
        Ladders whose lengths drift, and rungs that copy their source.
    """

    n: int
    n_good: int
    mean_tau: float
    n_inverted: int
    n_pairs: int
    n_duplicates: int
    n_empty: int
    n_refused: int
    n_drifting: int
    n_copying: int


def ladder_items(sources: Iterable[Source], criteria: Sequence[Criterion]) -> list[Item]:
    """Return one item per source text and criterion, to write or check its ladder."""
    distinct: dict[str, Source] = {}
    for source in sources:
        distinct.setdefault(source.hash, source)
    return [
        Item(id=f"{source.id}/{each.name}", source=source, responses=("",), criterion=each)
        for source in distinct.values()
        for each in criteria
    ]


def built_ladders(
    items: Sequence[Item], judgments: Sequence[Judgment], writer: str
) -> list[Ladder]:
    """Return the ladders that judgments of `adjudge.judges.ladder_work.LadderBuild` hold."""
    return [
        Ladder(
            source_id=item.source.id,
            source_hash=item.source.hash,
            criterion=item.criterion.name,
            criterion_hash=item.criterion.hash,
            rungs=tuple(judgment.evidence["rungs"]),
            problems={int(rung): why for rung, why in judgment.evidence["problems"].items()},
            writer=writer,
        )
        for item, judgment in zip(items, judgments, strict=True)
        if "rungs" in judgment.evidence
    ]


def ladder_report(ladder: Ladder, source: Source, judgment: Judgment) -> LadderReport:
    """Return what comparisons of neighbours and the texts themselves say of a ladder.

    Parameters
    ----------
    ladder, source
        The ladder and the text that it is for.
    judgment
        Of `adjudge.judges.ladder_work.LadderCheck`.
    """
    compared = np.array(judgment.distribution).reshape(-1, 3)
    gains = compared[:, 0] - compared[:, 1]
    order = np.arange(len(ladder.rungs), dtype=float)
    words = [len(text.split()) if text else 0 for text in ladder.rungs]
    present = [n for n in words if n]
    seen: Counter[tuple[str, ...]] = Counter()
    duplicates = []
    for rung, text in enumerate(ladder.rungs, start=1):
        if text and seen[folded(text)]:
            duplicates.append(rung)
        seen[folded(text or "")] += 1
    heights = np.concatenate([[0.0], np.cumsum(gains)])
    return LadderReport(
        ladder=ladder,
        status=judgment.status,
        tau=kendall_tau_b(order, heights) if gains.size else math.nan,
        gains=tuple(gains.tolist()),
        inverted=tuple((np.flatnonzero(gains < 0) + 1).tolist()),
        duplicates=tuple(duplicates),
        empty=tuple(
            rung
            for rung, text in enumerate(ladder.rungs, start=1)
            if not text and ladder.problems.get(rung) != REFUSED
        ),
        refused=tuple(rung for rung, why in ladder.problems.items() if why == REFUSED),
        words=tuple(words),
        length_tau=kendall_tau_b(order, np.array(words, dtype=float)),
        drift=max(present) / min(present) if present else math.nan,
        copied=tuple(copied_share(text or "", source.text) for text in ladder.rungs),
    )


def summarize_ladders(reports: Sequence[LadderReport]) -> LadderSummary:
    """Return counts and means over the reports of ladders."""
    taus = [each.tau for each in reports if not math.isnan(each.tau)]
    return LadderSummary(
        n=len(reports),
        n_good=sum(not each.failed and each.status is Status.OK for each in reports),
        mean_tau=float(np.mean(taus)) if taus else math.nan,
        n_inverted=sum(len(each.inverted) for each in reports),
        n_pairs=sum(len(each.gains) for each in reports),
        n_duplicates=sum(len(each.duplicates) for each in reports),
        n_empty=sum(len(each.empty) for each in reports),
        n_refused=sum(len(each.refused) for each in reports),
        n_drifting=sum(each.drift > MOST_DRIFT for each in reports),
        n_copying=sum(share > MOST_COPIED for each in reports for share in each.copied),
    )


def merged(ladders: Mapping[Key, Ladder], repaired: Iterable[Ladder]) -> dict[Key, Ladder]:
    """Return ladders with some of them replaced; a new one that failed replaces nothing."""
    found = dict(ladders)
    for each in repaired:
        key = each.source_hash, each.criterion
        if key in found and not each.problems:
            writers = dict.fromkeys((ladders[key].writer, each.writer))
            found[key] = replace(each, writer="; ".join(filter(None, writers)))
    return found


def copied_share(text: str, source: str) -> float:
    """Return the share of a text's words that stand in runs of five words of the source.

    >>> copied_share("He said that it was over then", "And she said that it was over again")
    0.7142857142857143
    """
    words, given = folded(text), folded(source)
    if len(words) < COPY_WORDS:
        return 0.0
    runs = {given[i : i + COPY_WORDS] for i in range(len(given) - COPY_WORDS + 1)}
    covered: set[int] = set()
    for i in range(len(words) - COPY_WORDS + 1):
        if words[i : i + COPY_WORDS] in runs:
            covered.update(range(i, i + COPY_WORDS))
    return len(covered) / len(words)
