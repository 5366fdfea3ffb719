"""Sampling as greedy decoding with noise of each draw's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adjudge.engines.base import Tokens
from adjudge.exchange import Sampling
from adjudge.schema import content_hash


class Draw(NamedTuple):
    """A prompt to go on with, how, the number of the draw and the most tokens it may have."""

    tokens: Tokens
    sampling: Sampling
    sample: int
    max_tokens: int


class Noise:
    """Adds to each row of logits the noise that turns greedy decoding into sampling.

    The largest of logits with standard Gumbel noise is a draw from their softmax. Each row has
    its own generator, so a draw does not depend on the rows that share its batch.
    """

    def __init__(self, draws: Sequence[Draw]) -> None:
        seeds = (int(content_hash([d.sampling.seed, d.sample])[:16], 16) for d in draws)
        self._rows = [
            (draw.sampling, np.random.default_rng(seed))
            for draw, seed in zip(draws, seeds, strict=True)
        ]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        del input_ids
        for i, (sampling, rng) in enumerate(self._rows):
            if sampling.temperature > 0:
                scores[i] = _noisy(scores[i], sampling, rng)
        return scores


def _noisy(logits: Any, sampling: Sampling, rng: np.random.Generator) -> Any:
    """Return logits whose largest is a draw by temperature from the `top_p` likeliest tokens."""
    import torch

    scaled = logits.float() / sampling.temperature
    if sampling.top_p < 1:
        ranked, order = torch.softmax(scaled, dim=-1).sort(descending=True)
        beyond = ranked.cumsum(dim=-1) - ranked >= sampling.top_p
        beyond[0] = False
        scaled[order[beyond]] = -torch.inf
    noise = torch.from_numpy(rng.gumbel(size=len(scaled)))
    return scaled + noise.to(scaled)
