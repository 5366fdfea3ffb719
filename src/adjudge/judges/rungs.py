"""Writing the rungs of a ladder: the worst and the best text, then the ones between."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from adjudge.errors import ConfigError
from adjudge.exchange import Completion, Generate, Reply, Request, Sampling
from adjudge.judges.base import check_range, derived_seed, generated
from adjudge.prompts.template import Prompts
from adjudge.schema import Criterion, Source, Status, text_hash

PromptOrder = Literal["paper", "shared"]
MOST_RUNGS = 129
#: Draws of a rung: the first and two more, each at a temperature higher by this.
ATTEMPTS = 3
WARMER = 0.3
REFUSED = "refused"
_SENTENCE_END = re.compile(r"[.!?][\"'\u201d\u2019)]*(?=\s|\Z)")
_QUOTED = re.compile(r'"([^"]*)"|\u201c([^\u201c\u201d]*)\u201d')
#: Small models repeat the tags of the prompt around what they write.
_OUTER_TAGS = re.compile(r"\A(?:\s*</?[a-z_]+>)+|(?:</?[a-z_]+>\s*)+\Z")
#: How models decline: an apology or "I", that they cannot, and the work asked for.
_REFUSAL = re.compile(
    r"\A\W*(?:(?:i'm |i am )?(?:very |so )?sorry\b[^.!?]{0,20}?\W+(?:but\W+)?)?"
    r"(?:as an ai\b.{0,60}?)?"
    r"(?:i (?:can't|cannot|won't|will not|must decline to|am (?:unable|not able) to)"
    r"|i'm (?:unable|not able) to)\s+(?:\w+\s+)?"
    r"(?:write|create|provide|produce|generate|fulfil|fulfill|assist|help|comply|do)\b"
    r"|\A\W*as an ai\b",
    re.I | re.S,
)


class Written(NamedTuple):
    """Rung texts from worst to best; a rung that could not be written is None, with why."""

    rungs: tuple[str | None, ...]
    problems: Mapping[int, str]

    @property
    def status(self) -> Status:
        """How a judgment that needs this ladder ends, if it ends here."""
        if not self.problems:
            return Status.OK
        return Status.REFUSED if REFUSED in self.problems.values() else Status.LADDER_FAILED

    @property
    def evidence(self) -> dict[str, object]:
        """What a judgment says of this ladder."""
        problems = {str(rung): why for rung, why in self.problems.items()}
        return {"rungs": list(self.rungs), "problems": problems}


@dataclass(frozen=True, kw_only=True)
class RungWriter:
    """Has a model write the rungs of a ladder, level by level.

    The draws depend on the seed, the source's text, the criterion and the rung's place, so that
    all responses of a source share one ladder and ladders of more rungs contain those of fewer;
    `fresh` makes them depend on the number of rungs too. A rung that comes out empty, refused or
    equal to a neighbour is drawn again with another seed and at a higher temperature.
    """

    prompts: Prompts
    seed: int
    rungs: int
    temperature: float
    top_p: float
    fresh: bool = False
    prompt_order: PromptOrder = "paper"

    def __post_init__(self) -> None:
        check_range("rungs", self.rungs, 2, MOST_RUNGS)
        check_range("temperature", self.temperature, 0, 10)
        check_range("top_p", self.top_p, 0.001, 1)

    def write(
        self, source: Source, criterion: Criterion
    ) -> Generator[Sequence[Request], Sequence[Reply], Written]:
        """Write all rungs; where one fails for good, what is there is given back."""
        return (yield from self._write(source, criterion, {}, {}))

    def rewrite(
        self,
        source: Source,
        criterion: Criterion,
        rungs: Sequence[str | None],
        failed: Collection[int],
    ) -> Generator[Sequence[Request], Sequence[Reply], Written]:
        """Write the failed rungs anew and keep the others.

        The draw of a rung depends on the text that it replaces too, so that each repair of a
        ladder draws anew.

        Parameters
        ----------
        source, criterion
            What the ladder is for.
        rungs
            Its texts, worst first.
        failed
            Rungs (from 1) to write.
        """
        before = {rung: text or "" for rung, text in enumerate(rungs, start=1)}
        kept = {rung: text for rung, text in before.items() if text and rung not in failed}
        return (yield from self._write(source, criterion, kept, before))

    def _write(
        self,
        source: Source,
        criterion: Criterion,
        kept: Mapping[int, str],
        before: Mapping[int, str],
    ) -> Generator[Sequence[Request], Sequence[Reply], Written]:
        written = dict(kept)
        problems: dict[int, str] = {}
        for level in levels(self.rungs):
            missing = {rung: near for rung, near in level if rung not in written}
            for attempt in range(ATTEMPTS):
                if not missing:
                    break
                replies = yield [
                    _rung_request(
                        self,
                        source,
                        criterion,
                        rung,
                        tuple(written[each] for each in near),
                        attempt,
                        before.get(rung),
                    )
                    for rung, near in missing.items()
                ]
                for (rung, near), reply in zip(
                    list(missing.items()), generated(replies), strict=True
                ):
                    text = clean_rung(reply.completions[0])
                    beside = near or tuple({1, self.rungs} - {rung})
                    if problem := _problem(text, beside, written, before):
                        problems[rung] = problem
                        continue
                    written[rung] = text
                    problems.pop(rung, None)
                    del missing[rung]
            if problems:
                break
        return Written(tuple(written.get(rung) for rung in range(1, self.rungs + 1)), problems)


@lru_cache(maxsize=4096)  # all responses of a source ask for the same rungs
def _rung_request(
    writer: RungWriter,
    source: Source,
    criterion: Criterion,
    rung: int,
    near: tuple[str, ...],
    attempt: int,
    replaced: str | None,
) -> Generate:
    """Return the request for a rung between two texts, or for the worst or best one."""
    data = {"source": source.text}
    shown = {"criterion": criterion, "order": writer.prompt_order}
    if near:
        data |= {"lower": near[0], "upper": near[1]}
        # The first draw is asked as if there were no other, so that it stays what it was.
        messages = writer.prompts.render("between", data, again=attempt > 0, **shown)
    else:
        quality = "worst possible" if rung == 1 else "best possible"
        messages = writer.prompts.render("extreme", data, quality=quality, **shown)
    # By its place, not its number: ladders of 3, 5 and 9 rungs are nested.
    place: list[object] = [Fraction(rung - 1, writer.rungs - 1)]
    if writer.fresh:
        place.append(writer.rungs)
    if replaced is not None:
        place.append(text_hash(replaced))
    seed = derived_seed(writer.seed, source.hash, criterion.name, *place, attempt)
    warmth = round(writer.temperature + WARMER * attempt, 6)
    sampling = Sampling(temperature=warmth, top_p=writer.top_p, seed=seed)
    limit = int(writer.prompts.settings["max_tokens"])
    return Generate(messages=messages, max_tokens=limit, sampling=sampling)


def levels(rungs: int) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Return the dyadic order of writing: levels of (rung, its lower and upper neighbour).

    The first level, worst and best, has no neighbours to lie between.

    Raises
    ------
    ConfigError
        If `rungs` is not 2**k + 1.

    Examples
    --------
    >>> levels(5)
    [[(1, ()), (5, ())], [(3, (1, 5))], [(2, (1, 3)), (4, (3, 5))]]
    """
    step = rungs - 1
    if step < 1 or step & (step - 1):
        raise ConfigError(f"a ladder has 2, 3, 5, 9, ... (2**k + 1) rungs, not {rungs}")
    order: list[list[tuple[int, tuple[int, ...]]]] = [[(1, ()), (rungs, ())]]
    while step > 1:
        half = step // 2
        order.append([(low + half, (low, low + step)) for low in range(1, rungs, step)])
        step = half
    return order


def subset(rungs: Sequence[str | None], n: int) -> tuple[str | None, ...]:
    """Return the n rungs of a longer ladder that divide it evenly, worst and best among them.

    Raises
    ------
    ConfigError
        If a ladder of so many rungs does not contain one of n.

    Examples
    --------
    >>> subset(["a", "b", "c", "d", "e"], 3)
    ('a', 'c', 'e')
    """
    step, rest = divmod(len(rungs) - 1, n - 1)
    if rest or not step:
        last = len(rungs) - 1
        some = [str(last // by + 1) for by in range(last, 0, -1) if last % by == 0]
        raise ConfigError(
            f"a ladder of {len(rungs)} rungs has none of {n} in it; it has those of "
            f"{', '.join(some)}: --option rungs={some[-1]}"
        )
    return tuple(rungs[::step])


def clean_rung(completion: Completion) -> str:
    """Return a rung's text: whole sentences if it was cut off, no tags or quotes around it."""
    text = _OUTER_TAGS.sub("", completion.text).strip()
    if completion.finish_reason == "length":
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        text = text[: ends[-1]] if ends else text
    if quoted := _QUOTED.fullmatch(text):
        text = (quoted[1] or quoted[2] or "").strip()
    return text


def is_refusal(text: str) -> bool:
    """Return whether a model declined to write instead of writing.

    >>> is_refusal("I'm sorry, but I can't write that."), is_refusal("I can't wait to see it!")
    (True, False)
    """
    return _REFUSAL.search(text.replace("\u2019", "'")) is not None


def folded(text: str) -> tuple[str, ...]:
    """Return a text's words as they are compared: equal ones make equal rungs."""
    return tuple(text.casefold().split())


def _problem(
    text: str, neighbours: Sequence[int], written: Mapping[int, str], before: Mapping[int, str]
) -> str:
    """Return what is wrong with a rung, or an empty string."""
    if not text:
        return "empty"
    if is_refusal(text):
        return REFUSED
    if re.search(r"</?think", text):
        return "reasoning about the task instead of a text"
    for rung in neighbours:
        if rung in written and folded(written[rung]) == folded(text):
            return f"the same as rung {rung}"
    if folded(text) in set(map(folded, before.values())):
        return "the same as before"
    return ""
