"""Attention to shared states on a CPU: once for all rows that share them.

The rows that stand after the same states put their queries to these together, as if they were one
long row: keys and values are read once and never copied. Each row attends to its own tokens
apart, and the two are joined by their normalisers, which gives the attention to both exactly
(https://arxiv.org/abs/2402.05099).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

NAME = "adjudge_shared"
#: What transformers tells of a pass that changes nothing in how rows attend.
_TOLD = {"position_ids", "use_cache", "logits_to_keep"}

_layers: ContextVar[Any] = ContextVar("layers")


@contextmanager
def attending_apart(model: Any, cache: Any) -> Iterator[None]:
    """Let a model's rows attend to what a cache says is before them, which is not put together.

    Raises
    ------
    NotImplementedError
        From the model, if it attends in another way than to all that is before, evenly scaled.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attend)
    config, token = model.config, _layers.set(cache.layers)
    usual, config._attn_implementation = config._attn_implementation, NAME
    try:
        yield
    finally:
        config._attn_implementation = usual
        _layers.reset(token)


def _attend(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    **told: Any,
) -> tuple[Any, None]:
    """Return ``(n_rows, n_tokens, n_heads, width)``; rows are padded at their ends only."""
    other = [name for name, given in told.items() if given is not None and name not in _TOLD]
    if attention_mask is not None or dropout or other:
        raise NotImplementedError(f"attention with a mask, dropout or {other}")
    found, normaliser = _flash(query, key, value, causal=True, scaling=scaling)
    for rows, pairs in _layers.get()[module.layer_idx].before:
        earlier, of_earlier = _attend_together(query[rows], pairs, scaling)
        share = (of_earlier - normaliser[rows]).sigmoid()[..., None]
        found[rows] = found[rows].float().lerp(earlier.float(), share).to(found.dtype)
    return found.transpose(1, 2).contiguous(), None


def _attend_together(query: Any, pairs: Any, scaling: float | None) -> tuple[Any, Any]:
    """Return what rows find in the states before them, and the normalisers."""
    import torch

    keys, values = (torch.cat([pair[which] for pair in pairs], dim=1)[None] for which in (0, 1))
    n_rows, n_heads, n_tokens, width = query.shape
    n_groups = keys.shape[1]  # of heads that share keys
    asked = query.reshape(n_rows, n_groups, -1, width).transpose(0, 1)
    found, normaliser = _flash(
        asked.reshape(1, n_groups, -1, width), keys, values, causal=False, scaling=scaling
    )
    return (
        found.view(n_groups, n_rows, -1, values.shape[-1]).transpose(0, 1).reshape_as(query),
        normaliser.view(n_groups, n_rows, -1).transpose(0, 1).reshape(n_rows, n_heads, n_tokens),
    )


def _flash(
    query: Any, key: Any, value: Any, *, causal: bool, scaling: float | None
) -> tuple[Any, Any]:
    """Return what torch's kernel finds, and the logarithms of the sums that it divided by."""
    import torch

    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    found, normaliser = kernel(query, key, value, 0.0, causal, scale=scaling)
    return found, normaliser
