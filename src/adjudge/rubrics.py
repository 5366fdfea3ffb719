"""Rubrics as text: what is judged in brackets, then a line for each score.

::

    [How well does the answer keep to the facts?]
    Score 1: Hardly anything in it is true.
    Score 2: ...

It is the form that Prometheus models are trained on; any scores may be described.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from adjudge.errors import ConfigError
from adjudge.schema import Criterion, Scale

#: On a scale of more scores than these, a rubric may leave out all but the ends.
MOST_DESCRIBED = 10

_NUMBER = r"-?[0-9]{1,6}(?:\.[0-9]{1,6})?"
_SCORE_LINE = re.compile(rf"^[ \t]*Score[ \t]+({_NUMBER})[ \t]*:", re.MULTILINE)
#: What is meant as a description of a score and is not written as one.
_UNREAD = re.compile(
    r"^[\s*_#>-]*(?:score[\s*_]*)?[0-9]+[*_]*\s*(?:[:\uff1a)]|[-\u2013\u2014]\s)", re.M | re.I
)
_SCORE_KEY = re.compile(rf"score({_NUMBER})_description")
#: What is inside the outer brackets of "[a] or [b]": those are no pair.
_NO_PAIR = re.compile(r"[^\[\]]*\].*\[[^\[\]]*", re.DOTALL)


def parse_rubric(
    rubric: str | Mapping[str, object], *, name: str = "rubric", title: str = "Rubric"
) -> Criterion:
    """Return the criterion that a rubric describes.

    Parameters
    ----------
    rubric
        A text: what is judged, with or without brackets around it, then lines that begin with
        ``Score 1:`` and so on; every part may go over several lines. Or a mapping: ``criteria``
        and ``score1_description`` and so on, or ``criteria`` and ``scores``, with what
        `described_levels` takes. Without scores it is a criterion with a description alone.
    name, title
        What the criterion is called.

    Raises
    ------
    ConfigError
        If it does not say what is judged, or the description of a score is empty or there twice.

    Examples
    --------
    >>> wit = parse_rubric("[How funny is it?]\\nScore 0: Not at all.\\nScore 1: Very.")
    >>> wit.description, wit.rubric, wit.levels
    ('How funny is it?', ('Not at all.', 'Very.'), (0.0, 1.0))
    """
    asked, scores = _from_text(rubric) if isinstance(rubric, str) else _from_fields(rubric, name)
    if isinstance(rubric, str) and not scores and _UNREAD.search(rubric):
        raise ConfigError(
            f"the rubric {name!r} speaks of scores but no line describes one: begin a line for "
            "each score with it, as in 'Score 1: ...'"
        )
    if not (isinstance(asked, str) and asked.strip()):
        raise ConfigError(
            f"the rubric {name!r} does not say what is judged: write it first, in brackets, and "
            "then a line for each score, as in 'Score 1: ...'"
        )
    descriptions, levels = _sorted(scores, name) if scores else ((), ())
    try:
        "".join((asked, *descriptions)).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the rubric {name!r} holds half of a surrogate pair: {error}") from error
    return Criterion(
        name=name, title=title, description=asked.strip(), rubric=descriptions, levels=levels
    )


def described_levels(
    scores: object, *, name: str = "rubric"
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return descriptions, lowest score first, and their scores, as a `Criterion` has them.

    Parameters
    ----------
    scores
        Score -> description, in any order and the score as a number or text; or a list of
        descriptions, of which no scores are returned: they go to those of the scale in turn.
    name
        What the rubric is called in messages.

    Raises
    ------
    ConfigError
        If it is none of these, or the description of a score is empty or there twice.
    """
    descriptions, levels = _sorted(_pairs(scores, name), name)
    return descriptions, () if isinstance(scores, list | tuple) else levels


def rubric_levels(criterion: Criterion, scale: Scale) -> tuple[tuple[float, str], ...]:
    """Return each described score and its description, lowest first.

    A criterion without `levels` describes the scores of the scale in turn; on a continuous one
    these are the lowest and each that is 1 above another.

    Raises
    ------
    ConfigError
        If the rubric describes what is not on the scale, or not all of it: every score of a
        scale of up to 10, both ends of a finer or continuous one.

    Examples
    --------
    >>> wit = Criterion(name="wit", title="Wit", description="fun", rubric=("none", "much"))
    >>> rubric_levels(wit, Scale(low=0, high=1))
    ((0.0, 'none'), (1.0, 'much'))
    """
    if not criterion.rubric:
        return ()
    name, levels = criterion.name, criterion.levels or _in_turn(criterion, scale)
    if len(levels) != len(criterion.rubric):
        raise ConfigError(
            f"the rubric of {name!r} has {len(criterion.rubric)} descriptions and {len(levels)} "
            "levels: there must be as many"
        )
    if outside := [level for level in levels if level not in scale]:
        raise ConfigError(
            f"the rubric of {name!r} describes {_listed(outside)}, which the scale {scale} does "
            "not have: drop the description or take another scale"
        )
    wanted: Sequence[float] = (scale.low, scale.high)
    if not scale.continuous:
        few = len(scale.scores) <= MOST_DESCRIBED
        wanted = scale.scores if few else (scale.scores[0], scale.scores[-1])
    if missing := [score for score in wanted if score not in levels]:
        raise ConfigError(
            f"the rubric of {name!r} describes {_listed(sorted(levels))} of the scale {scale} "
            f"and not {_listed(missing)}: describe {'it' if len(missing) == 1 else 'them'} too "
            "or take another scale"
        )
    descriptions, _ = _sorted(zip(levels, criterion.rubric, strict=True), name)
    return tuple(zip(sorted(map(float, levels)), descriptions, strict=True))


def rubric_text(criterion: Criterion, scale: Scale) -> str:
    """Return a criterion as text that `parse_rubric` reads; without a rubric the first line alone.

    Raises
    ------
    ConfigError
        As `rubric_levels` does.

    Examples
    --------
    >>> wit = Criterion(name="wit", title="Wit", description="fun", rubric=("none", "much"))
    >>> print(rubric_text(wit, Scale(low=0, high=1)))
    [fun]
    Score 0: none
    Score 1: much
    """
    scores = [f"Score {_shown(level)}: {text}" for level, text in rubric_levels(criterion, scale)]
    return "\n".join([f"[{criterion.description}]", *scores])


# --- reading ------------------------------------------------------------------------------------


def _from_text(text: str) -> tuple[str, list[tuple[object, object]]]:
    """Return what is judged, and score and description in the text's order."""
    asked, *parts = _SCORE_LINE.split(text)
    asked = asked.strip()
    if asked.startswith("[") and asked.endswith("]") and not _NO_PAIR.fullmatch(asked[1:-1]):
        asked = asked[1:-1]
    return asked, list(zip(parts[::2], parts[1::2], strict=True))


def _from_fields(
    fields: Mapping[str, object], name: str
) -> tuple[object, list[tuple[object, object]]]:
    """Return what is judged, and score and description in the mapping's order."""
    pairs = _pairs(fields["scores"], name) if "scores" in fields else []
    for key, value in fields.items():
        if found := _SCORE_KEY.fullmatch(key):
            pairs.append((found[1], value))
        elif key not in ("criteria", "scores"):
            raise ConfigError(
                f"the rubric {name!r} has an unknown field {key!r}: it has criteria and either "
                "scores or score1_description and so on"
            )
    return fields.get("criteria"), pairs


def _pairs(scores: object, name: str) -> list[tuple[object, object]]:
    """Return score and description in the given order."""
    if isinstance(scores, list | tuple):
        scores = dict(enumerate(scores, start=1))
    if not (isinstance(scores, Mapping) and scores):
        raise ConfigError(
            f"the rubric of {name!r} must be a table of score -> description or a list of "
            f"descriptions, not {scores!r}"
        )
    return list(scores.items())


def _sorted(
    pairs: Iterable[tuple[object, object]], name: str
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return checked descriptions and their scores, lowest first."""
    found: dict[float, str] = {}
    for score, description in pairs:
        if isinstance(score, bool) or not (
            isinstance(score, int | float)
            or (isinstance(score, str) and re.fullmatch(_NUMBER, score.strip()))
        ):
            raise ConfigError(f"the rubric of {name!r} describes {score!r}, which is no number")
        level = float(score) + 0.0  # of 0 and -0 one
        if level in found:
            raise ConfigError(
                f"the rubric of {name!r} describes the score {_shown(level)} twice: drop one"
            )
        if not (isinstance(description, str) and description.strip()):
            raise ConfigError(
                f"the rubric of {name!r} has no text for the score {_shown(level)}: say what "
                f"deserves it, not {description!r}"
            )
        found[level] = description.strip()
    levels = sorted(found)
    return tuple(found[level] for level in levels), tuple(levels)


def _in_turn(criterion: Criterion, scale: Scale) -> tuple[float, ...]:
    """Return the lowest scores of the scale, as many as there are descriptions."""
    n = len(criterion.rubric)
    if scale.continuous:
        return tuple(scale.low + step for step in range(n))
    if n > len(scale.scores):
        raise ConfigError(
            f"the rubric of {criterion.name!r} has {n} descriptions and the scale {scale} has "
            f"{len(scale.scores)} scores: drop some or take another scale"
        )
    return tuple(map(float, scale.scores[:n]))


def _shown(level: float) -> str:
    return f"{level:.12g}"


def _listed(levels: Sequence[float]) -> str:
    """Return numbers as words do: 1, 2 and 4."""
    *most, last = map(_shown, levels)
    return f"{', '.join(most)} and {last}" if most else last
