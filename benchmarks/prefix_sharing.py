"""Comparisons per second with the prefix plan and without it, measured in one run.

One article of 450 words x 5 rungs x 16 targets, the ladder judge's own comparison prompts, on
the embedded model with all cores, in three ways: in depth-first order with what neighbours share
kept (the plan); one target after the other, with what neighbours share kept; and every
comparison from its first token (nothing kept between comparisons, but between the labels of
one). Prints the speeds, their ratios, the tokens in all, unique and evaluated, and the largest
difference between the log-probs of the first and the last way.

    python benchmarks/prefix_sharing.py [--model smollm2-135m] [--every 1]

``--every N`` runs only every N-th comparison of the last way, to save time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from adjudge.criteria.named import load_criterion
from adjudge.engines.llama import LlamaEngine
from adjudge.engines.models import resolve
from adjudge.engines.prefix import prefix_plan
from adjudge.exchange import LabelScores, ScoreLabels
from adjudge.judges.ladder import LABELS
from adjudge.prompts.template import load_prompts

EXAMPLES = Path(__file__).parents[1] / "examples" / "news.jsonl"
WORDS, RUNGS, TARGETS = 450, 5, 16


def comparisons() -> list[ScoreLabels]:
    """Return the prompts: texts of the examples, cut and joined to size."""
    rows = [json.loads(line) for line in EXAMPLES.read_text("utf-8").splitlines()]
    articles = list(dict.fromkeys(row["source"] for row in rows))
    article = " ".join(" ".join(articles).split()[:WORDS])
    texts = [row["response"] for row in rows]
    targets = texts[:TARGETS]
    rungs = [" ".join(text.split()[::-1]) for text in texts[-RUNGS:]]
    prompts = load_prompts("ladder", "summarization")
    criterion = load_criterion("coherence", "summarization")
    return [
        ScoreLabels(
            messages=prompts.render(
                "compare",
                {"source": article, "reference": rung, "target": target},
                criterion=criterion,
                order="paper",
            ),
            labels=LABELS["better_worse_similar"],
        )
        for rung in rungs
        for target in targets
    ]


def timed(
    engine: LlamaEngine, batches: Sequence[Sequence[ScoreLabels]]
) -> tuple[float, dict[str, LabelScores]]:
    """Return comparisons per second, and the replies."""
    started = time.perf_counter()
    replies = {
        reply.request_id: reply
        for batch in batches
        for reply in engine.run(batch)
        if isinstance(reply, LabelScores)
    }
    return len(replies) / (time.perf_counter() - started), replies


def evaluated(replies: Mapping[str, LabelScores]) -> int:
    """Return how many prompt tokens were evaluated for the replies."""
    return sum(reply.usage.evaluated_tokens for reply in replies.values())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    name, path, _ = resolve(arguments.model)
    requests = comparisons()

    engine = LlamaEngine(path, name=name)
    tree = prefix_plan([engine.prompt_tokens(request) for request in requests])
    fast, shared = timed(engine, [requests])
    engine.close()
    engine = LlamaEngine(path, name=name)
    by_target = [[each] for start in range(TARGETS) for each in requests[start::TARGETS]]
    kept, unplanned = timed(engine, by_target)
    engine.close()
    engine = LlamaEngine(path, name=name, reuse=False)
    slow, apart = timed(engine, [[each] for each in requests[:: arguments.every]])
    engine.close()

    difference = max(
        abs(a - b)
        for key, reply in apart.items()
        for a, b in zip(reply.logprobs, shared[key].logprobs, strict=True)
    )
    print(f"model {name}; {len(requests)} comparisons of one {WORDS}-word article")
    print(
        f"tokens: {tree.total_tokens} in all, {tree.unique_tokens} unique, "
        f"{evaluated(shared)} evaluated ({evaluated(shared) / tree.unique_tokens:.3f} x unique)"
    )
    print(f"with the plan:                  {fast:.3f} comparisons/s")
    print(
        f"target by target, cache kept:   {kept:.3f} comparisons/s, "
        f"{evaluated(unplanned)} tokens evaluated; ratio {fast / kept:.2f}"
    )
    print(
        f"every one from its first token: {slow:.3f} comparisons/s "
        f"({len(apart)} of them run); ratio {fast / slow:.2f}"
    )
    print(f"largest difference of a log-prob: {difference:.2e}")


if __name__ == "__main__":
    main()
