"""How planning and judging take many items: time, and memory above what the items take.

    python benchmarks/streaming.py [--items 100000]

Judges synthetic items with one request each, answered by an engine that answers at once, through
runner and store, and prints judgments per second and the growth of the resident memory; then, with
ADJUDGE_DATA, plans SummEval whole (100 sources x 4 criteria x 5 rungs x 16 systems) for the
embedded model.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from adjudge.benchmarks.base import RatedResponse, find_benchmark
from adjudge.benchmarks.files import read_benchmark
from adjudge.criteria.named import load_criterion
from adjudge.engines.base import Engine
from adjudge.engines.llama import LlamaEngine
from adjudge.exchange import Capability, LabelScores, Reply, Request, Usage
from adjudge.experiments.bench import bench_items
from adjudge.judges.direct import DirectJudge
from adjudge.judges.ladder import LadderJudge
from adjudge.prompts.template import load_prompts
from adjudge.runs.plan import plan_run
from adjudge.runs.start import run_signature, start_run
from adjudge.runs.store import Store
from adjudge.schema import Item, Source

SYSTEMS = 16


class InstantEngine(Engine):
    """Gives every label the same probability."""

    capabilities = frozenset(Capability)

    @property
    def signature(self) -> Mapping[str, str]:
        """See `Engine.signature`."""
        return {"engine": "instant"}

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """See `Engine.run`."""
        for request in requests:
            yield LabelScores(
                request_id=request.id,
                logprobs=(-1.6,) * 5,
                masses=(0.2,) * 5,
                n_tokens=(1,) * 5,
                coverage=1.0,
                usage=Usage(prompt_tokens=10),
            )


def synthetic(n: int) -> list[Item]:
    """Return items of about 60 words."""
    criterion = load_criterion("coherence", "summarization")
    sources = [
        Source(id=f"s{i}", text=f"What article {i} says. " * 8) for i in range(-(-n // SYSTEMS))
    ]
    return [
        Item(
            id=f"i{i}",
            source=sources[i // SYSTEMS],
            systems=(f"m{i % SYSTEMS}",),
            responses=(f"What summary {i} says. " * 8,),
            criterion=criterion,
        )
        for i in range(n)
    ]


def memory() -> float:
    """Return the largest resident memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def judge_many(n: int) -> None:
    """Print how fast items are judged, and what that takes."""
    judge = DirectJudge(prompts=load_prompts("direct", "summarization"))
    engine, items = InstantEngine(), synthetic(n)
    before = memory()
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "store.db")) as store:
        started = time.perf_counter()
        signature = run_signature(judge, [items[0].criterion], engine)
        run = start_run(judge, engine, items, store, signature=signature)
        checked = time.perf_counter() - started
        started = time.perf_counter()
        judged = sum(event.judgment is not None for event in run.events)
        taken = time.perf_counter() - started
    print(
        f"{judged:,} items: checked in {checked:.1f} s, judged at {judged / taken:,.0f} a second; "
        f"memory grew by {memory() - before:.0f} MB"
    )


def plan_summeval() -> None:
    """Print how long planning SummEval whole takes."""
    benchmark = find_benchmark("summeval")
    criteria = [load_criterion(name, benchmark.task) for name in benchmark.criteria]
    rows = cast("Sequence[RatedResponse]", read_benchmark(benchmark))
    items = bench_items(rows, criteria)
    judge = LadderJudge(prompts=load_prompts("ladder", benchmark.task))
    engine = LlamaEngine.from_reference("smollm2-135m#threads=1")
    before, started = memory(), time.perf_counter()
    with Store() as store:
        plan = plan_run(judge, items, engine, store)
    taken = time.perf_counter() - started
    engine.close()
    print(
        f"SummEval, {plan.n_items:,} items: {plan.n_calls:,} calls planned in {taken:.1f} s; "
        f"memory grew by {memory() - before:.0f} MB"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    judge_many(parser.parse_args().items)
    if os.environ.get("ADJUDGE_DATA"):
        plan_summeval()


if __name__ == "__main__":
    main()
