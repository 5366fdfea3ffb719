"""Rankings by an instruction that was searched for: one that favours no place of a pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Completion, Generate, Sampling, ScoreLabels
from adjudge.judges.base import (
    Judge,
    Steps,
    Work,
    check_range,
    derived_seed,
    different_texts,
    generated,
    judgment,
    label_scores,
    together,
)
from adjudge.judges.pair_choice import Compared, choice_labels, ranked, read_choice
from adjudge.judges.rungs import clean_rung
from adjudge.judges.zepo_search import (
    DIGITS,
    KEPT,
    NOT_BETTER,
    Candidate,
    first_rate,
    one_line,
    unusable,
)
from adjudge.schema import Criterion, Item, Status
from adjudge.stats import ranking

Texts = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ZepoJudge(Judge):
    """Ranks a list by pairs, with an instruction that favours neither place.

    Before the first list is ranked, an instruction is searched for each criterion (Zhou et al.
    2024, section 3): the judge paraphrases the best one so far, compares responses of some
    sources in both orders with each paraphrase, and goes on with the one whose share of wins of
    the first place is nearest to one half. No gold is needed, and none is there to be read. Lists
    are then ranked as by PairS-greedy (Liu et al. 2024): merge sorts from many initial orders;
    the mean place counts. Where a response stands in the item decides nothing; equal texts are
    judged once and tied, empty ones come last.

    Parameters
    ----------
    prompts, seed
        See `Judge`.
    epochs, prompts_per_epoch
        Rounds of the search, and instructions in each; the first has the initial one among them.
    search_sources
        Lists of each criterion that are compared during the search, drawn by the seed.
    search_candidates
        Responses of each that are compared then; 0: all.
    temperature
        How paraphrases are drawn.
    repeats
        Initial orders of a ranking; every second one is the reverse of the one before.
    min_coverage
        A comparison whose letters together have less probability than this is not read.
    published
        As in the code of Zhou et al.: the search takes the first lists instead of drawn ones, a
        letter C, which is not offered, counts in the denominator, and a comparison where C is
        the likeliest, or that is not read, counts as one half.
    instructions, log
        What the search found, by criterion, and everything that it tried.
    """

    name: ClassVar[str] = "zepo"
    url: ClassVar[str] = "https://arxiv.org/abs/2406.11370"
    differs: ClassVar[str] = (
        "The lists of the search are drawn, and paraphrases that lose the criterion dropped; a "
        "list gets the ranks of its mean places over drawn orders and their reverses."
    )
    calls: ClassVar[str] = "up to n (n - 1), and a search beforehand"
    takes = "list"

    not_options = (*Judge.not_options, "instructions", "log")

    epochs: int = 5
    prompts_per_epoch: int = 5
    search_sources: int = 5
    search_candidates: int = 0
    temperature: float = 0.9
    repeats: int = 100
    min_coverage: float = 1e-4
    published: bool = False
    instructions: Mapping[str, str] = field(default_factory=dict)
    log: tuple[Candidate, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("epochs", self.epochs, 1, 1000)
        check_range("prompts_per_epoch", self.prompts_per_epoch, 1, 1000)
        check_range("search_sources", self.search_sources, 1, 1_000_000)
        check_range("search_candidates", self.search_candidates, 0, 1_000_000)
        check_range("temperature", self.temperature, 0.01, 10)
        check_range("repeats", self.repeats, 1, 100_000)
        check_range("min_coverage", self.min_coverage, 0, 1)
        if self.search_candidates == 1:
            raise ConfigError("search_candidates must be 0 (all) or 2 and more: pairs are compared")

    @property
    def has_writer(self) -> bool:
        """See `Judge.has_writer`."""
        return True

    @property
    def adapts(self) -> bool:
        """See `Judge.adapts`."""
        return True

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        return frozenset({Capability.GENERATE, Capability.SCORE_LABELS})

    def stand_in(self, item: Item, request: Generate) -> str:
        """See `Judge.stand_in`: it keeps the name of the quality, which the prompt says."""
        return f"{super().stand_in(item, request)} {request.text}"

    # --- the search -----------------------------------------------------------------------------

    def prepared(self, items: Sequence[Item]) -> Work[Self]:
        """Search an instruction for every criterion, for all at the same time."""
        criteria = list(dict.fromkeys(item.criterion for item in items))
        names = [criterion.name for criterion in criteria]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ConfigError(
                f"several criteria are called {repeated[0]!r}, and an instruction is searched for "
                "each: give them names of their own, or judge them in runs of their own"
            )
        lists = [self.searched(items, criterion) for criterion in criteria]
        logs = yield from together(
            [self._search(*each) for each in zip(criteria, lists, strict=True)]
        )
        tried = tuple(candidate for log in logs for candidate in log)
        found = {each.criterion: each.instruction for each in tried if each.outcome == KEPT}
        return replace(self, instructions=found, log=tried)

    def searched(self, items: Sequence[Item], criterion: Criterion) -> list[Item]:
        """Return the lists that the search for a criterion compares.

        Raises
        ------
        ConfigError
            If no list has two different responses.
        """
        able = [
            each
            for each in items
            if each.criterion == criterion and len(different_texts(each, self.seed)) > 1
        ]
        if not able:
            raise ConfigError(
                f"no source has two different responses to compare by {criterion.name!r}, and an "
                "instruction is searched by comparing: give lists of two or more"
            )
        if not self.published:
            able.sort(
                key=lambda each: derived_seed(
                    self.seed, each.source.hash, *different_texts(each, self.seed)
                )
            )
        return able[: self.search_sources]

    def _search(self, criterion: Criterion, lists: Sequence[Item]) -> Work[list[Candidate]]:
        """Return all that was tried; the last one that was kept is the best."""
        written = self.prompts.render("instruction", {}, criterion=criterion)[-1].content
        best = Candidate(criterion.name, 1, one_line(written), None, 0, NOT_BETTER)
        log: list[Candidate] = []
        drawn: Counter[str] = Counter()
        for epoch in range(1, self.epochs + 1):
            tried = [] if log else [best]
            wanted = self.prompts_per_epoch - len(tried)
            for completion in (yield from self._paraphrases(criterion, best, wanted, drawn)):
                said = {each.instruction for each in (*log, *tried)}
                text = one_line(clean_rung(completion))
                outcome = unusable(text, completion, criterion, said) or NOT_BETTER
                tried.append(Candidate(criterion.name, epoch, text, None, 0, outcome))
            able = [each for each in tried if each.outcome == NOT_BETTER]
            scored = yield from together([self._scored(each, lists) for each in able])
            top = max(scored, key=lambda each: each.worth, default=best)
            if not log or top.worth > best.worth:
                best = top._replace(outcome=KEPT)
                scored[scored.index(top)] = best
            known = dict(zip(able, scored, strict=True))
            log += [known.get(each, each) for each in tried]
        return log

    def _paraphrases(
        self, criterion: Criterion, best: Candidate, n: int, drawn: Counter[str]
    ) -> Work[list[Completion]]:
        """Draw `n` fresh paraphrases; `drawn` counts those that there were of each instruction."""
        if not n:
            return []
        data = {"instruction": best.instruction}
        messages = self.prompts.render("paraphrase", data, criterion=criterion)
        seed = derived_seed(self.seed, *(message.content for message in messages))
        request = Generate(
            messages=messages,
            max_tokens=int(self.prompts.settings["max_tokens"]),
            sampling=Sampling(temperature=self.temperature, seed=seed),
            n=n,
            first_sample=drawn[best.instruction],
        )
        drawn[best.instruction] += n
        (reply,) = generated((yield [request]))
        return list(reply.completions)

    def _scored(self, candidate: Candidate, lists: Sequence[Item]) -> Work[Candidate]:
        """Return a candidate with what comparing the responses of some lists says of it."""
        works = [self._matrix(each, candidate) for each in lists]
        matrices = yield from together(works)
        unread = sum(int(np.isnan(matrix).sum()) - len(matrix) for matrix in matrices)
        return candidate._replace(a_rate=first_rate(matrices), unread=unread)

    def _matrix(self, item: Item, candidate: Candidate) -> Work[npt.NDArray[np.float64]]:
        """Compare the responses of a list in both orders; see `first_rate`."""
        texts = different_texts(item, self.seed)[: self.search_candidates or None]
        pairs = list(permutations(range(len(texts)), 2))
        made = yield from self._compared(item, candidate.instruction, texts, pairs)
        matrix = np.full((len(texts),) * 2, np.nan)
        for pair, each in zip(pairs, made, strict=True):
            matrix[pair] = each.choice.first if each.choice else np.nan
        return matrix

    # --- the ranking ----------------------------------------------------------------------------

    def judge(self, item: Item) -> Steps:
        """Rank the responses of a list."""
        texts = different_texts(item, self.seed)
        if not texts:
            return judgment(item, Status.EMPTY_RESPONSE)
        name = item.criterion.name
        if len(texts) > 1 and name not in self.instructions:
            raise ConfigError(
                f"no instruction was searched for {name!r}: the judge 'zepo' has to look through "
                "all lists before it ranks one"
            )
        instruction = self.instructions.get(name, "")
        places, made = yield from self._places(item, instruction, texts)
        by_text = dict(zip(texts, places.round(DIGITS).tolist(), strict=True))
        evidence = {
            "instruction": instruction,
            "a_rate": next((each.a_rate for each in self._kept(name)), None),
            "mean_places": [by_text.get(response.strip()) for response in item.responses],
        }
        scores = [-by_text[text] for text in texts]
        return ranked(item, texts, scores, made, evidence, lenient=self.published)

    def _kept(self, criterion: str) -> list[Candidate]:
        """Return what was kept during the search for a criterion, the best first."""
        return [
            each
            for each in reversed(self.log)
            if each.criterion == criterion and each.outcome == KEPT
        ]

    def _places(
        self, item: Item, instruction: str, texts: Texts
    ) -> Work[tuple[npt.NDArray[np.float64], list[Compared]]]:
        """Sort the texts from many orders; return their mean places and what was compared."""
        rng = np.random.default_rng(derived_seed(self.seed, item.source.hash, *texts))
        orders = [rng.permutation(len(texts)) for _ in range(0, self.repeats, 2)]
        both = [order[::step] for order in orders for step in (1, -1)][: self.repeats]
        all_made: list[Compared] = []
        sorting = greedy_places(both)
        shares: list[float] | None = None
        while True:
            try:
                pairs = sorting.send(shares)  # type: ignore[arg-type]
            except StopIteration as end:
                return end.value, all_made
            made = yield from self._compared(item, instruction, texts, pairs)
            all_made += made
            # What is not read goes on as a tie, so that all such pairs are named.
            shares = [each.choice.first if each.choice else 0.5 for each in made]

    # --- both -----------------------------------------------------------------------------------

    def _compared(
        self, item: Item, instruction: str, texts: Texts, pairs: Sequence[ranking.Pair]
    ) -> Work[list[Compared]]:
        """Have pairs compared, the first of each shown as A."""
        requests = [
            ScoreLabels(
                messages=self.prompts.render(
                    "compare",
                    {"source": item.source.text, "first": texts[i], "second": texts[j]},
                    instruction=instruction,
                    criterion=item.criterion,
                ),
                labels=choice_labels(with_c=self.published),
            )
            for i, j in pairs
        ]
        made = []
        for pair, reply in zip(pairs, label_scores((yield requests)), strict=True):
            choice = read_choice(reply) if reply.coverage >= self.min_coverage else None
            if choice and 1 - choice.first - choice.second > max(choice[:2]):
                choice = choice._replace(first=0.5, second=0.5)  # C, which only `published` has
            made.append(Compared(pair, choice, (reply,)))
        return made


def greedy_places(
    orders: Sequence[npt.NDArray[np.int64]],
) -> Generator[list[ranking.Pair], Sequence[float], npt.NDArray[np.float64]]:
    """Yield pairs to compare, each once, and return the mean place of each response.

    Each order is sorted by merging, all at the same time: the worst comes first, and of two heads
    the second goes before the first if that is better with a probability above one half
    (PairS-greedy, Liu et al. 2024). In long lists some runs of odd length are halved the other
    way round than there.

    Parameters
    ----------
    orders
        Orders of the responses 0 to n - 1.

    Yields
    ------
    list of (i, j)
        Pairs whose probabilities are to be sent, in this order: that i, shown first, is better.

    Returns
    -------
    ndarray
        ``(n,)``, in [1, n]; 1 is the best.
    """
    known: dict[ranking.Pair, float] = {}
    sorts = [ranking.merge_sort(len(order)) for order in orders]
    sent: dict[int, list[float] | None] = dict.fromkeys(range(len(orders)))
    places = np.zeros((len(orders), len(orders[0])))
    while sent:
        asked: dict[int, list[ranking.Pair]] = {}
        for k, preferences in sent.items():
            order = orders[k].tolist()
            try:
                heads = sorts[k].send(preferences)  # type: ignore[arg-type]
                asked[k] = [(order[i], order[j]) for i, j in heads]
            except StopIteration as end:
                places[k, [order[i] for i in end.value]] = range(len(order), 0, -1)
        pairs = dict.fromkeys(pair for each in asked.values() for pair in each)
        if new := [pair for pair in pairs if pair not in known]:
            known.update(zip(new, (yield new), strict=True))
        sent = {k: [0.5 - known[pair] for pair in each] for k, each in asked.items()}
    return np.asarray(places.mean(axis=0))
