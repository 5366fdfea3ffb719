"""Comparisons per second with the prefix plan and without it, measured in one run.

One article of 450 words x 5 rungs x 16 targets, the ladder judge's own comparison prompts, on
the embedded model with all cores: first in depth-first order with the shared beginnings kept,
then every prompt from its first token. Prints both speeds, their ratio, the tokens in all,
unique and evaluated, and the largest difference between the log-probs of the two ways.

    python benchmarks/prefix_sharing.py [--model smollm2-135m] [--every 1]

``--every N`` runs only every N-th comparison without the plan, to save time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from adjudge.criteria.named import load_criterion
from adjudge.engines.llama import LlamaEngine
from adjudge.engines.models import resolve
from adjudge.engines.prefix import prefix_plan
from adjudge.judges.ladder import LABELS
from adjudge.prompts.template import load_prompts
from adjudge.schema import LabelScores, ScoreLabels

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
                {"source": article, "rung": rung, "response": target},
                criterion=criterion,
            ),
            labels=LABELS,
        )
        for rung in rungs
        for target in targets
    ]


def timed(
    engine: LlamaEngine, requests: Sequence[ScoreLabels]
) -> tuple[float, dict[str, LabelScores]]:
    """Return comparisons per second, and the replies."""
    started = time.perf_counter()
    replies = {
        reply.request_id: reply for reply in engine.run(requests) if isinstance(reply, LabelScores)
    }
    return len(requests) / (time.perf_counter() - started), replies


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
    fast, shared = timed(engine, requests)
    engine.close()
    engine = LlamaEngine(path, name=name, reuse=False)
    slow, apart = timed(engine, requests[:: arguments.every])
    engine.close()

    evaluated = sum(reply.usage.evaluated_tokens for reply in shared.values())
    difference = max(
        abs(a - b)
        for key, reply in apart.items()
        for a, b in zip(reply.logprobs, shared[key].logprobs, strict=True)
    )
    print(f"model {name}; {len(requests)} comparisons of one {WORDS}-word article")
    print(
        f"tokens: {tree.total_tokens} in all, {tree.unique_tokens} unique, {evaluated} evaluated "
        f"({evaluated / tree.unique_tokens:.3f} x unique)"
    )
    print(f"with the plan:    {fast:.3f} comparisons/s")
    print(f"without the plan: {slow:.3f} comparisons/s ({len(apart)} of them run)")
    print(f"ratio: {fast / slow:.2f}")
    print(f"largest difference of a log-prob: {difference:.2e}")


if __name__ == "__main__":
    main()
