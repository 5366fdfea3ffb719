"""Reads verdicts out of what a model wrote.

A judge writes feedback and then ``[RESULT]`` with a score, a label or a ranking behind it.
Only what can be meant in one way is read (``docs/verdicts.md``); everything else is a failure with
its reason. Every pattern needs time linear in the text, whatever the text is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from adjudge.errors import ConfigError
from adjudge.schema import Scale, Status

V = TypeVar("V")


class Verdict(NamedTuple, Generic[V]):
    """What a written text decides.

    Attributes
    ----------
    status
        ``ok``, ``parse_failed``, or ``truncated`` where the token limit came first.
    value
        The verdict; None unless the status is ``ok``.
    feedback
        The text before the verdict; the whole text where there is none.
    begins
        Index into the text where the verdict begins, or would have to: at the first ``[RESULT]``
        that counts or at the closing phrase, and where there is none after all but the blanks at
        the end.
    reason
        Why there is no value; empty if there is one.
    """

    status: Status
    value: V | None
    feedback: str
    begins: int
    reason: str


def read_score(text: str, scale: Scale, *, cut: bool = False) -> Verdict[float]:
    """Return the score that a text ends in.

    Parameters
    ----------
    text
        What the judge wrote.
    scale
        The allowed scores.
    cut
        Whether the token limit ended the text.

    Examples
    --------
    >>> read_score("Vivid, but slow. [RESULT] 4/5", Scale())[:4]
    (<Status.OK: 'ok'>, 4.0, 'Vivid, but slow.', 17)
    >>> read_score("Vivid. [RESULT] 1", Scale(high=10), cut=True).status
    <Status.TRUNCATED: 'truncated'>
    """
    return _read(text, _scores(scale), cut=cut)


def read_choice(text: str, labels: Sequence[str], *, cut: bool = False) -> Verdict[str]:
    """Return the label that a text ends in, spelled as in `labels`.

    Parameters
    ----------
    text
        What the judge wrote.
    labels
        The allowed answers, such as A, B and, where a tie is allowed, "tie"; read in any case.
    cut
        Whether the token limit ended the text.

    Raises
    ------
    ConfigError
        If labels are missing, blank or the same but for their case.

    Examples
    --------
    >>> read_choice("B is clearer. [RESULT] Response B", ["A", "B"]).value
    'B'
    >>> read_choice("Both will do. [RESULT] Tie", ["A", "B"]).reason
    "after [RESULT] stands 'Tie', where one of A, B is wanted"
    """
    return _read(text, _choices(tuple(labels)), cut=cut)


def read_ranking(text: str, n: int, *, cut: bool = False) -> Verdict[tuple[int, ...]]:
    """Return the order that a text ends in: the responses' numbers, best first.

    Parameters
    ----------
    text
        What the judge wrote.
    n
        How many responses there are; they are numbered from 1.
    cut
        Whether the token limit ended the text.

    Raises
    ------
    ConfigError
        If there are no responses.

    Examples
    --------
    >>> read_ranking("The second has it all. [RESULT] 2 > 3 > 1", 3).value
    (2, 3, 1)
    """
    return _read(text, _rankings(n), cut=cut)


# --- how verdicts are written -------------------------------------------------------------------

_OPEN = r"""[\s*_"'“‘„«`(\[{]*+"""
_OPEN_INLINE = _OPEN.replace(r"\s", r" \t")
_CLOSE = r"""[ \t*_"'”’»`)\]}]*+"""
_JOIN = rf"{_CLOSE}(?:,|;|(?:or|and|to|through|vs)\b|[-–—~&|+=>±→]{{1,3}})?"
_THE = r"(?:(?:so|thus|hence|therefore),?[ \t]{1,3})?(?:(?:the|my|final|overall)[ \t]{1,3}){0,3}"
_ASIDE = r"(?:[ \t]{0,3}\([^()\n]{0,60}\))?[*_]{0,3}"
_COLON = r"[ \t]{0,3}[:=]"
_RESPONSE = r"(?:response|answer|assistant|option|output|summary|story|text|candidate)"
_NO_MORE = r"(?![.,:]?[0-9]|[^\W_])"
_BETTER = (
    r"[ \t]+(?:(?:the|clearly|much|far|slightly|overall)[ \t]+){0,3}"
    r"(?:better|best|superior|stronger|preferred|preferable|winner)\b"
)
_NUMBER = r"[-+]?(?:[0-9]++(?:\.[0-9]++)?|\.[0-9]++)"
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]

#: Where a verdict counts: ``[RESULT]``, ``[RESULT]:``, ``**[RESULT]**``, ``[RESULT: ``, ...
_MARKER = re.compile(
    r"""[*_]{0,3}(?P<bracket>\[)\s*+(?:
        (?:RESULT|SCORE)\s*+\](?:[*_]{1,3}(?=[\s:=]))?(?:[ \t]*+[:=](?:[*_]{1,3}(?=\s))?)?
        | (?:RESULT|SCORE)\s*+:
        | RESULT(?=\s)
    )""",
    re.I | re.X,
)
#: The format repeated before the verdict: ``(an integer number between 1 and 5)``.
_ECHO = re.compile(
    r"\s*+(?:\(([^()\n]{1,200})\)|\[([^][\n]{1,200})]|\{([^{}\n]{1,200})}|<([^<>\n]{1,200})>)\s*+:?"
)
_POINTS = rf"(?:[ \t]{{1,3}}(?:stars?|points?)\b)?{_CLOSE}\(?[ \t]*+"
#: What may go on behind a verdict in small letters.
_REASON = r"because|since|as|for|due|given|stars?|points?|is|are|was|were"
#: What may follow a verdict, and what makes it none: "4/10", "4 or more", "5 is too much", "A: 3",
#: "1 (worst) to 5 (best)", "5 at its end", and the first of a list.
_ENDED = re.compile(
    r"""(?=\Z|\s|[.,:;!。，！](?![0-9])|['’](?![^\W_])|[])}*_"”»›`…—–[]|<[/|a-z])"""
    rf"(?!{_POINTS}(?:[/=%¼-¾⅐-⅞]|:?[ \t]*+[0-9]|(?:out|of|or|to|would|could|might|may)\b"
    rf"|(?:is|are|was|were)\b(?!{_BETTER})|and[ \t]{{1,3}}a[ \t]{{1,3}}half\b))"
    r"(?![ \t]{0,3}\([^()\n]{1,60}\)[ \t]{0,3}(?:to|or|[-–—])[ \t]{0,3}[0-9])"
    r"(?![.)][ \t][^\n]*+\n[ \t]*+[0-9]{1,3}[.)][ \t])"
    rf"(?!{_CLOSE}(?<=[ \t])(?!(?:{_REASON})\b)(?-i:[a-z]){{2}})",
    re.I,
)
_CLOSED = re.compile(r"""[ \t*_"'”’.]*+[)\]}]""")
_END = re.compile(r"""[\s.!。！*_"'”’»`)\]}]*+(?:<[^<>\n]{1,30}>\s*+)*+\Z""")
_GAP = re.compile(r"\n(?:[^\S\n]*+\n)++")
_QUOTED_LINE = re.compile(r"^[ \t]*+>[^\n]*+", re.M)
_FENCE = re.compile(r"^[ \t]*+`{3,}+", re.M)
_QUOTATION = re.compile(
    r"""(?<!\w)"(?=[^\s"])[^"]*+(?<!\s)"(?!\w)
    | (?<!\w)'(?=[^\s'])(?:[^']|(?<=\w)'(?=\w))*+(?<!\s)'(?!\w)
    | (?<!`)(`++)(?=\S)[^`]*+(?<!\s)\1(?!`)
    | “[^“”„]*+” | „[^“”„]*+[“”] | ‘(?:[^‘’]|’(?=\w))*+’ | ‚[^‘’‚]*+[‘’]
    | «[^«»]*+» | »(?=[^\s»])[^«»]*+« | ‹[^‹›]*+› | ›(?=[^\s›])[^‹›]*+‹ | 「[^「」]*+」""",
    re.X,
)
_UNCLOSED = re.compile(r"""(?<!\w)["'](?=[^\s"'])|(?<!`)`++(?=\S)|[“„‘‚«‹「]""")


@dataclass(frozen=True)
class _Kind(Generic[V]):
    """How verdicts of a kind are written and what they mean.

    Attributes
    ----------
    first, again
        A verdict after a marker or phrase, and one more after that: their ``value``.
    phrase
        What may stand before a verdict without a marker; ``strong`` where it must be one.
    parse
        What a written value means; None if that is not allowed.
    longer
        Whether the text from the value on could go on as another allowed value.
    wanted
        What is allowed, in words.
    """

    first: re.Pattern[str]
    again: re.Pattern[str]
    phrase: re.Pattern[str]
    parse: Callable[[str], V | None]
    longer: Callable[[str], bool]
    wanted: str


def _patterns(
    value: str, nouns: str, unit: str = "", lead: str = r"(?!)"
) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a kind, in which `unit` may stand before each value."""
    lead = rf"(?:{lead}|{_THE}(?:{nouns}|result)(?:[ \t]{{1,3}}(?:is|of)\b|{_COLON})?)"
    first, again = (
        rf"{gap}(?:{lead}{gap})?(?:{_THE}{unit}{gap})?{value}" for gap in (_OPEN, _OPEN_INLINE)
    )
    link = rf"(?:[ \t]{{1,3}}is\b:?|{_COLON})"
    strong = rf"(?<!\w)[*_]{{0,3}}{_THE}(?:(?:{nouns}){_ASIDE}{link}|result{_ASIDE}{_COLON})"
    phrase = rf"(?P<strong>{strong})|^[ \t*_#]*+(?:{nouns}|result)[ \t]++|\A"
    flags = re.I | re.M
    return re.compile(first, flags), re.compile(_JOIN + again, flags), re.compile(phrase, flags)


@lru_cache(maxsize=64)
def _scores(scale: Scale) -> _Kind[float]:
    high = rf"{re.escape(f'{scale.high:g}')}(?:\.0+)?"
    number = rf"(?P<value>{_NUMBER}{_NO_MORE}"
    if scale.high <= 10:
        # "one of the best", "three point five": a word must stand alone.
        words = "|".join(_WORDS)
        number += rf"|(?:{words})(?![^\W_])(?![ \t-]+(?!out\b|of\b)[^\W_])"
        high = rf"(?:{high}|{_WORDS[int(scale.high)]})" if scale.high in range(11) else high
    out_of = rf"{_POINTS}(?:/|out[ \t]+of\b|of\b)[ \t]*+{high}{_NO_MORE}(?:[ \t]*+\))?"
    if scale.high == 100:
        out_of += r"|[ \t]?%"

    def parse(written: str) -> float | None:
        if not written[-1].isdigit():
            word = written.casefold()
            score = float(_WORDS.index(word)) if word in _WORDS else math.nan
        else:
            score = float(written) + 0.0  # -0 is 0
        return score if score in scale else None

    def longer(rest: str) -> bool:
        if not re.fullmatch(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", rest):
            return False
        if scale.continuous:
            score = float(rest)
            return score > scale.low if rest.startswith("-") else score < scale.high
        digits = rest.removeprefix("+")
        return any(s.startswith(digits) and s != digits for s in map(str, scale.scores))

    nouns = "score|rating|grade|verdict"
    of = r"an?[ \t]{1,3}(?:(?:final|overall)[ \t]{1,3})?score[ \t]{1,3}of\b"
    patterns = _patterns(rf"{number})(?:{out_of})?", nouns, lead=of)
    return _Kind(*patterns, parse, longer, f"a score on the scale {scale}")


@lru_cache(maxsize=64)
def _choices(labels: tuple[str, ...]) -> _Kind[str]:
    known = {label.casefold(): label for label in labels}
    if len(known) < max(len(labels), 1) or any(not each or each != each.strip() for each in labels):
        raise ConfigError(
            f"the labels {list(labels)} cannot be told apart: give each a name, in any case its own"
        )
    # "[RESULT] A better response would ..." is no verdict.
    article = r"(?![ \t]+(?!(?:because|since|as|due|over|wins|for|or|and|is)\b)[^\W_])"
    value = "|".join(
        re.escape(label) + _NO_MORE + (article if label.casefold() == "a" else "")
        for label in sorted(labels, key=len, reverse=True)
    )

    def longer(rest: str) -> bool:
        rest = rest.casefold()
        return any(label.startswith(rest) and label != rest for label in known)

    nouns = rf"verdict|winner|(?:better|best|preferred)[ \t]{{1,3}}(?:one|{_RESPONSE})"
    tie = r"(?:it(?:[ \t]{1,3}is|['’]s)[ \t]{1,3})?an?[ \t]{1,3}(?=tie\b)"
    patterns = _patterns(rf"(?P<value>{value})", nouns, _RESPONSE, tie)
    wanted = f"one of {', '.join(labels)}"
    return _Kind(*patterns, lambda written: known.get(written.casefold()), longer, wanted)


@lru_cache(maxsize=64)
def _rankings(n: int) -> _Kind[tuple[int, ...]]:
    if n < 1:
        raise ConfigError(f"there must be one response or more to rank, not {n}")
    item = (
        rf"""[*_"'(\[]{{0,3}}(?:{_RESPONSE}[ \t]{{0,3}})?[#(\[]?"""
        rf"""[0-9]{{1,6}}+{_NO_MORE}[*_"')\]]{{0,3}}"""
    )
    more = "|".join(rf"(?:[ \t]*+{sign}[ \t]*+{item})++" for sign in ">,")

    def parse(written: str) -> tuple[int, ...] | None:
        order = tuple(map(int, re.findall("[0-9]+", written)))
        return order if sorted(order) == list(range(1, n + 1)) else None

    patterns = _patterns(rf"(?P<value>{item}(?:{more})?)", "ranking|verdict", _RESPONSE)
    example = " > ".join(map(str, range(1, min(n, 3) + 1))) + (" > ..." if n > 3 else "")
    wanted = f"an order of all numbers from 1 to {n}, such as {example}"
    return _Kind(*patterns, parse, lambda rest: False, wanted)  # noqa: ARG005


# --- reading ------------------------------------------------------------------------------------


class _Reading(NamedTuple, Generic[V]):
    """What stands at a place: its values (None: not allowed), how written, from where to where."""

    values: frozenset[V | None]
    written: str
    start: int
    stop: int

    def problem(self, kind: _Kind[V]) -> str:
        """Return why this is no verdict, or nothing."""
        if len(self.values) > 1:
            return f"{self.written[:60]!r} is more than one verdict"
        return f"{self.written[:60]!r} is not {kind.wanted}" if None in self.values else ""


def _read(text: str, kind: _Kind[V], *, cut: bool) -> Verdict[V]:
    quoted = _quoted(text, cut=cut)
    markers = list(_MARKER.finditer(text))
    stops = [*(marker.start() for marker in markers), len(text)][1:]
    counted = [
        (marker, stop)
        for marker, stop in zip(markers, stops, strict=True)
        if not quoted[marker.start("bracket")]
    ]
    begins = counted[0][0].start() if counted else len(text.rstrip())
    after = counted[-1][0].end() if counted else len(text)
    found = [
        (marker, behind)
        for marker, stop in counted
        if (behind := _behind(kind, text, marker.end(), stop)) is not None
    ]
    start = len(text)
    if found:
        reading, start = found[-1][1], found[0][0].start()
        reason = _disagreement(kind, [each for _, each in found])
        if cut and not reason:
            going_on = kind.longer(text[reading.start :]) or not text[after:].strip()
            reason = f"{reading.written[:60]!r} may not be all of the verdict" if going_on else ""
    elif not cut and (ending := _ending(kind, text, quoted)) is not None:
        start, reading, reason = ending
    else:
        reason = _nothing(kind, text, counted, quoted=bool(markers) and not counted)
    if not reason:
        (value,) = reading.values
        return Verdict(Status.OK, value, text[:start].strip(), start, "")
    if cut:
        reason = f"the text was cut at the token limit: {reason}; allow more tokens"
    status = Status.TRUNCATED if cut else Status.PARSE_FAILED
    return Verdict(status, None, text.strip(), begins, reason)


def _behind(kind: _Kind[V], text: str, start: int, stop: int) -> _Reading[V] | None:
    """Return the verdict behind a marker; the format in brackets may stand before it."""
    echo = _ECHO.match(text, start, stop)
    if echo is not None and echo.lastindex is not None:
        begin, end = echo.span(echo.lastindex)
        inside = _at(kind, text, begin, end)
        rest = "" if inside is None else text[inside.stop : end]
        if inside is None or len(inside.values) > 1 or any(map(str.isalnum, rest)):
            reading = _at(kind, text, echo.end(), stop)
            if reading is not None and not reading.problem(kind):
                return reading
    return _at(kind, text, start, stop)


def _at(kind: _Kind[V], text: str, start: int, stop: int) -> _Reading[V] | None:
    """Return the verdict that stands at a place, with all that are joined to it."""
    first = kind.first.match(text, start, stop)
    if first is None:
        return None
    last = first
    values = {kind.parse(first["value"])}
    while (again := kind.again.match(text, last.end(), stop)) is not None:
        last = again
        values.add(kind.parse(last["value"]))
    if not _ENDED.match(text, last.end(), stop):
        return None
    begin, end = first.start("value"), last.end()
    opened = any(bracket in text[first.start() : begin] for bracket in "([{")
    if opened and not any(
        _CLOSED.match(text, at, stop) for at in (first.end("value"), end, end - 1)
    ):
        return None
    return _Reading(frozenset(values), text[begin:end], begin, end)


def _ending(kind: _Kind[V], text: str, quoted: bytearray) -> tuple[int, _Reading[V], str] | None:
    """Return where the phrase that ends the text begins, its verdict and what is wrong with it."""
    phrases = [each for each in kind.phrase.finditer(text) if not quoted[each.start()]]
    stops = [*(phrase.start() for phrase in phrases), len(text)][1:]
    readings = [
        (phrase, reading)
        for phrase, stop in zip(phrases, stops, strict=True)
        if (reading := _at(kind, text, phrase.end(), stop)) is not None
    ]
    if not readings or not _END.match(text, readings[-1][1].stop):
        return None
    phrase, last = readings[-1]
    strong = [
        reading for phrase, reading in readings if phrase["strong"] and not reading.problem(kind)
    ]
    return phrase.start(), last, _disagreement(kind, [*strong, last])


def _disagreement(kind: _Kind[V], readings: Sequence[_Reading[V]]) -> str:
    """Return why these are not one verdict, or nothing."""
    for reading in readings:
        if problem := reading.problem(kind):
            return problem
        if reading.values != readings[0].values:
            one, other = readings[0].written[:60], reading.written[:60]
            return f"the verdicts {one!r} and {other!r} contradict each other"
    return ""


def _nothing(
    kind: _Kind[V], text: str, counted: Sequence[tuple[re.Match[str], int]], *, quoted: bool
) -> str:
    """Return why there is nothing to read."""
    if not text.strip():
        return "the text is empty"
    if quoted:
        return "every [RESULT] in the text is quoted"
    if not counted:
        return f"the text has no [RESULT], and its end does not clearly name {kind.wanted}"
    marker, stop = counted[-1]
    behind = text[marker.end() : stop].strip()
    stands = f"stands {behind[:40]!r}" if behind else "stands nothing"
    return f"after [RESULT] {stands}, where {kind.wanted} is wanted"


def _quoted(text: str, *, cut: bool) -> bytearray:
    """Return a flag for each character, and one for the end: whether it is inside a quotation.

    A quotation in marks stays within its paragraph; one in a fence is lines between lines that
    begin with three backticks; a line that begins with ">" is one. What encloses the whole text
    is none. A cut text may end in one.
    """
    fences = [(fence.start(), fence.end()) for fence in _FENCE.finditer(text)]
    if cut and len(fences) % 2:
        fences.append((len(text), len(text)))
    spans = [(a[0], b[1]) for a, b in zip(fences[::2], fences[1::2], strict=False)]
    spans += (line.span() for line in _QUOTED_LINE.finditer(text))
    start = 0
    for gap in _GAP.finditer(text):
        spans += (quotation.span() for quotation in _QUOTATION.finditer(text, start, gap.start()))
        start = gap.end()
    spans += (quotation.span() for quotation in _QUOTATION.finditer(text, start))
    flags = bytearray(len(text) + 1)
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    for begin, end in spans:
        if begin > first or end < last:
            flags[begin:end] = b"\1" * (end - begin)
    opened = (mark.start() for mark in _UNCLOSED.finditer(text, start) if cut)
    begin = next((at for at in opened if at > first and not flags[at]), len(text))
    flags[begin:] = b"\1" * (len(flags) - begin)
    return flags


# --- texts that are a score and little else -----------------------------------------------------

_OUT_OF = r"\s*(?:/|\bout of\b)\s*{high}(?:\.0+)?(?![\w.,]*\d)"
_LOOSE_NUMBER = re.compile(r"(?:(?<!\w)[-+])?(?<![\w.,])\d(?:[\w.,]*\w)?")


def parse_score(text: str, scale: Scale) -> int | None:
    """Return the one score that a text gives, or None.

    A text with no number, with two different ones, or with one that is not on the scale gives
    none: guessing would turn a failure into a score. "4/5" and "4 out of 5" give 4 on a scale
    that ends at 5.

    >>> parse_score("Score: 4/5", Scale()), parse_score("3 or 4", Scale())
    (4, None)
    """
    bare = re.sub(_OUT_OF.format(high=scale.high), " ", text, flags=re.I)
    numbers = _LOOSE_NUMBER.findall(bare)
    scores = {str(score): score for score in scale.scores}
    found = {scores.get(number.removeprefix("+")) for number in numbers}
    return found.pop() if len(found) == 1 else None
