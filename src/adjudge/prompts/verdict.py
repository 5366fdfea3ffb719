"""Reads a verdict out of what a model wrote."""

from __future__ import annotations

import re

from adjudge.schema import Scale

_OUT_OF = r"\s*(?:/|\bout of\b)\s*{high}(?:\.0+)?(?![\w.,]*\d)"
_NUMBER = re.compile(r"(?:(?<!\w)[-+])?(?<![\w.,])\d(?:[\w.,]*\w)?")


def parse_score(text: str, scale: Scale) -> int | None:
    """Return the one score that a text gives, or None.

    A text with no number, with two different ones, or with one that is not on the scale gives
    none: guessing would turn a failure into a score. "4/5" and "4 out of 5" give 4 on a scale
    that ends at 5.

    >>> parse_score("Score: 4/5", Scale()), parse_score("3 or 4", Scale())
    (4, None)
    """
    bare = re.sub(_OUT_OF.format(high=scale.high), " ", text, flags=re.I)
    numbers = _NUMBER.findall(bare)
    scores = {str(score): score for score in scale.scores}
    found = {scores.get(number.removeprefix("+")) for number in numbers}
    return found.pop() if len(found) == 1 else None
