"""Reads a verdict out of what a model wrote."""

from __future__ import annotations

import re

from adjudge.schema import Scale

_OUT_OF = re.compile(r"(?:/|\bout of\b)\s*\d+(?:\.0+)?", re.I)
_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d+(?:[.,]\d+)?(?![\w])")


def parse_score(text: str, scale: Scale) -> int | None:
    """Return the one score that a text gives, or None.

    A text with no number, with two different ones, or with one that is not on the scale gives
    none: guessing would turn a failure into a score.

    >>> parse_score("Score: 4/5", Scale()), parse_score("3 or 4", Scale())
    (4, None)
    """
    found = {number.rstrip(".") for number in _NUMBER.findall(_OUT_OF.sub(" ", text))}
    if len(found) != 1:
        return None
    number = found.pop()
    if not number.lstrip("+").isdecimal():
        return None
    value = int(number)
    return value if value in scale.scores else None
