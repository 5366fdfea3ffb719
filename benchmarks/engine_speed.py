"""Comparisons per second of the transformers engine in three ways, measured in one run.

One article of 450 words x 5 rungs x 16 targets, the ladder judge's own comparison prompts, on
the embedded weights in 32 bits (`adjudge models convert`): (a) one prompt at a time; (b) in
left-padded batches of 16, as is usual; (c) by the engine, with what prompts share evaluated once.
Then the most prompt tokens per second that this model reaches here, in batches without sharing.
Prints times, ratios, the tokens in all, unique and evaluated, and the largest difference between
the log-probs of the ways.

    python benchmarks/engine_speed.py [--model FOLDER] [--threads 2] [--every 1]

``--every N`` runs only every N-th comparison of (a) and every N-th batch of (b), and scales.
Without ``--model`` the embedded weights are converted into a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adjudge.criteria.named import load_criterion
from adjudge.engines.convert import write_folder
from adjudge.engines.hf import HfEngine
from adjudge.engines.prefix import prefix_plan
from adjudge.exchange import LabelScores, ScoreLabels
from adjudge.judges.ladder import LABELS
from adjudge.prompts.template import load_prompts

EXAMPLES = Path(__file__).parents[1] / "examples" / "news.jsonl"
WORDS, RUNGS, TARGETS, BATCH = 450, 5, 16, 16
PEAK = ((1, 512), (2, 512), (4, 512), (16, 128))


def comparisons() -> list[ScoreLabels]:
    """Return the prompts: texts of the examples, cut and joined to size."""
    rows = [json.loads(line) for line in EXAMPLES.read_text("utf-8").splitlines()]
    articles = list(dict.fromkeys(row["source"] for row in rows))
    article = " ".join(" ".join(articles).split()[:WORDS])
    texts = [row["response"] for row in rows]
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
        for target in texts[:TARGETS]
    ]


class Plain:
    """Transformers as it is usually asked: chat prompts, padded left, the last place's logits."""

    def __init__(self, folder: Path, threads: int) -> None:
        import torch
        import transformers

        torch.set_num_threads(threads)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
        self._model.eval()

    def scores(self, prompts: Sequence[Sequence[int]], labels: Sequence[int]) -> Any:
        """Return the log-probs of labels of one token, ``(n_prompts, n_labels)``."""
        import torch

        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(each)) + list(each) for each in prompts])
        mask = torch.tensor([[0] * (longest - len(each)) + [1] * len(each) for each in prompts])
        places = (mask.cumsum(1) - 1).clamp(min=0)
        with torch.inference_mode():
            output = self._model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=places,
                use_cache=False,
                logits_to_keep=1,
            )
            return output.logits[:, -1].log_softmax(-1)[:, list(labels)]


def timed(plain: Plain, batches: Sequence[Sequence[Sequence[int]]], labels: Sequence[int]) -> Any:
    """Return seconds and the log-probs, batch by batch."""
    started = time.perf_counter()
    found = [plain.scores(batch, labels) for batch in batches]
    return time.perf_counter() - started, found


def difference(found: Sequence[Any], expected: Sequence[LabelScores]) -> float:
    """Return the largest difference of a log-prob."""
    rows = [row for batch in found for row in batch.tolist()]
    return max(
        abs(float(a) - b)
        for row, reply in zip(rows, expected, strict=True)
        for a, b, n in zip(row, reply.logprobs, reply.n_tokens, strict=True)
        if n == 1  # of longer labels, (a) and (b) see the first token only
    )


def measure(folder: Path, threads: int, every: int) -> None:
    """Measure and print."""
    requests = comparisons()
    engine = HfEngine(folder, device="cpu", threads=threads)
    prompts = [list(engine.prompt_tokens(request)) for request in requests]
    labels = [engine._labels(requests[0])[k][0] for k in range(len(requests[0].labels))]
    tree = prefix_plan(prompts)
    print(
        f"{folder.name}, 32 bits, {threads} threads: {len(requests)} comparisons of one "
        f"{WORDS}-word article; {tree.total_tokens} tokens, {tree.unique_tokens} unique: "
        f"no way of sharing is more than {tree.total_tokens / tree.unique_tokens:.2f} x as fast"
    )

    started = time.perf_counter()
    replies: Mapping[str, LabelScores] = {
        reply.request_id: reply for reply in engine.run(requests) if isinstance(reply, LabelScores)
    }
    shared = time.perf_counter() - started
    expected = [replies[request.id] for request in requests]
    evaluated = sum(reply.usage.evaluated_tokens for reply in expected)
    engine.close()
    print(
        f"(c) shared: {shared:.1f} s, {evaluated} tokens evaluated "
        f"({evaluated / tree.unique_tokens:.3f} x unique)"
    )

    plain = Plain(folder, threads)
    batches = [prompts[i : i + BATCH] for i in range(0, len(prompts), BATCH)]
    ways = {
        "(a) one at a time": [[prompt] for prompt in prompts],
        f"(b) left-padded batches of {BATCH}": batches,
    }
    for name, parts in ways.items():
        step = every if len(parts) > every else 1
        seconds, found = timed(plain, parts[::step], labels)
        seconds *= sum(map(len, parts)) / sum(map(len, parts[::step]))
        places = [i for i, part in enumerate(parts) for _ in part if i % step == 0]
        compared = [each for each, i in zip(expected, _owners(parts), strict=True) if i in places]
        print(
            f"{name}: {seconds:.1f} s; (c) is {seconds / shared:.2f} x as fast; "
            f"largest difference of a log-prob {difference(found, compared):.1e}"
        )

    peak = 0.0
    for n_rows, n_tokens in PEAK:
        rows = [prompts[0][:n_tokens]] * n_rows
        seconds = min(timed(plain, [rows], labels)[0] for _ in range(2))
        peak = max(peak, n_rows * n_tokens / seconds)
    ideal = tree.unique_tokens / peak
    print(
        f"most prompt tokens per second: {peak:.0f}; the unique ones alone take {ideal:.1f} s, "
        f"(c) {shared / ideal:.2f} x as long"
    )


def _owners(parts: Sequence[Sequence[object]]) -> list[int]:
    """Return the index of the part that each prompt is in."""
    return [i for i, part in enumerate(parts) for _ in part]


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    if given.model:
        measure(given.model, given.threads, given.every)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "smollm2-135m-hf"
        write_folder("smollm2-135m", path)
        measure(path, given.threads, given.every)


if __name__ == "__main__":
    main()
