"""Ranking many lists at once against one comparison after the other, measured in one run.

100 sources with 16 candidates each are ranked by PairS, greedy and by beam search, on an engine
that takes 20 ms for a batch of any size. At once, the runner fills each batch with what all lists
ask for; one by one, each list is ranked alone and each request is a batch of its own. Prints the
time of both and their ratio. The second way is measured on some lists and scaled to all.

    python benchmarks/interleaving.py [--sources 100] [--alone 3]
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from adjudge.criteria.named import load_criterion
from adjudge.engines.base import Engine
from adjudge.exchange import Capability, LabelScores, Reply, Request, Usage
from adjudge.judges.pairs import PairsJudge
from adjudge.prompts.template import load_prompts
from adjudge.runs.runner import Runner
from adjudge.runs.store import Store
from adjudge.schema import Item, Source

CANDIDATES = 16
SECONDS = 0.02
QUALITY = re.compile(r"of quality (\d+)")


class SlowEngine(Engine):
    """Prefers the better candidate, not always clearly; takes its time for every batch."""

    capabilities = frozenset({Capability.SCORE_LABELS})

    def __init__(self, *, one_by_one: bool) -> None:
        self.one_by_one, self.n_batches = one_by_one, 0

    @property
    def signature(self) -> Mapping[str, str]:
        """See `Engine.signature`."""
        return {"engine": "slow"}

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """See `Engine.run`."""
        size = 1 if self.one_by_one else len(requests)
        for start in range(0, len(requests), size):
            time.sleep(SECONDS)
            self.n_batches += 1
            yield from map(_reply, requests[start : start + size])


def _reply(request: Request) -> Reply:
    first, second = map(int, QUALITY.findall(request.text))
    chance = 1 / (1 + 2.0 ** ((second - first) / 2))
    return LabelScores(
        request_id=request.id,
        logprobs=(0.0,) * 4,
        masses=(chance, 0.0, 1 - chance, 0.0),
        n_tokens=(1,) * 4,
        coverage=1.0,
        usage=Usage(prompt_tokens=10),
    )


def lists(n: int) -> list[Item]:
    """Return lists of candidates that say how good they are."""
    criterion = load_criterion("coherence", "summarization")
    return [
        Item(
            id=f"list {i}",
            source=Source(id=f"s{i}", text=f"What article {i} says. " * 40),
            responses=tuple(
                f"Summary {i}.{k}, of quality {7 * k % CANDIDATES}. " for k in range(CANDIDATES)
            ),
            criterion=criterion,
        )
        for i in range(n)
    ]


def timed(judge: PairsJudge, items: Sequence[Item], *, one_by_one: bool) -> tuple[float, int, int]:
    """Return the seconds, batches and calls that ranking takes."""
    engine = SlowEngine(one_by_one=one_by_one)
    groups = [[item] for item in items] if one_by_one else [items]
    calls = judged = 0
    started = time.perf_counter()
    for group in groups:
        with Store() as store:
            runner = Runner(judge, engine, store)
            judged += sum(event.judgment is not None for event in runner.run(group))
            calls += runner.counters.calls
    taken = time.perf_counter() - started
    assert judged == len(items)
    return taken, engine.n_batches, calls


def compare(method: Literal["greedy", "beam"], n_sources: int, n_alone: int) -> None:
    """Print what a method takes in both ways."""
    judge = PairsJudge(prompts=load_prompts("pairs", "summarization"), method=method)
    items = lists(n_sources)
    together, batches, calls = timed(judge, items, one_by_one=False)
    few = items[: min(n_alone, n_sources)]
    some, batches_alone, _ = timed(judge, few, one_by_one=True)
    alone = some * n_sources / len(few)
    print(
        f"{method}: {calls:,} calls for {n_sources} lists of {CANDIDATES}\n"
        f"  at once:    {together:7.1f} s, {batches:,} batches\n"
        f"  one by one: {alone:7.1f} s, from {len(few)} lists: {some:.1f} s, "
        f"{batches_alone:,} batches\n"
        f"  ratio:      {alone / together:7.1f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=100)
    parser.add_argument("--alone", type=int, default=3)
    arguments = parser.parse_args()
    print(f"an engine that takes {SECONDS * 1000:.0f} ms for a batch of any size")
    compare("greedy", arguments.sources, arguments.alone)
    compare("beam", arguments.sources, arguments.alone)


if __name__ == "__main__":
    main()
