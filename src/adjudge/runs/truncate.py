"""Cutting sources that are too long: only where it is asked for, and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from adjudge.engines.base import Engine
from adjudge.errors import ConfigError
from adjudge.exchange import Message, ScoreLabels
from adjudge.schema import Item, Source, text_hash


class Truncated(NamedTuple):
    """Items with their sources cut, and how many sources were."""

    items: list[Item]
    n_cut: int


def truncate_sources(items: Sequence[Item], limit: int, engine: Engine) -> Truncated:
    """Return items whose sources have at most `limit` tokens of the engine's.

    A longer source ends after the last whole word that fits. With a limit of 0 nothing is cut.

    Raises
    ------
    ConfigError
        If the limit is negative, or the engine cannot count tokens.
    """
    if limit < 0:
        raise ConfigError(f"truncate_source must be 0 (off) or more tokens, not {limit}")
    if not limit:
        return Truncated(list(items), 0)
    around = _count("", engine)
    cut: dict[str, str] = {}
    for item in items:
        if item.source.hash not in cut:
            cut[item.source.hash] = _shortened(item.source.text, limit + around, engine)
    return Truncated(
        [
            replace(item, source=Source(id=item.source.id, text=cut[item.source.hash]))
            for item in items
        ],
        sum(text_hash(text) != key for key, text in cut.items()),
    )


def _shortened(text: str, most: int, engine: Engine) -> str:
    """Return the longest beginning of whole words that has at most so many tokens."""
    if _count(text, engine) <= most:
        return text
    ends = [i for i, character in enumerate(text) if character.isspace()]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        if _count(text[: ends[middle]], engine) <= most:
            low = middle + 1
        else:
            high = middle
    kept = text[: ends[low - 1]].rstrip() if low else ""
    if not kept:
        raise ConfigError(f"not one word of the source {text[:40]!r} fits: allow more tokens")
    return kept


def _count(text: str, engine: Engine) -> int:
    """Return the tokens of a prompt that is this text."""
    request = ScoreLabels(messages=(Message(role="user", content=text),), labels=("x",))
    tokens = engine.prompt_tokens(request)
    if tokens is None:
        raise ConfigError("this engine does not count tokens, so it cannot say where to cut")
    return len(tokens)
