"""Single texts with human ratings: SummEval, Newsroom, Topical-Chat, PERSONA-CHAT, HANNA."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from adjudge.benchmarks.base import LocalFile, RatedResponse
from adjudge.benchmarks.fields import Row, Sources, Unique, mean, read_mapping, read_rows
from adjudge.errors import ConfigError
from adjudge.schema import Source

#: USR's names of what was rated -> ours.
USR_CRITERIA = {
    "Understandable": "understandability",
    "Natural": "naturalness",
    "Maintains Context": "coherence",
    "Engaging": "engagingness",
    "Uses Knowledge": "groundedness",
    "Overall": "overall",
}
DIALOGUE_CRITERIA = tuple(USR_CRITERIA.values())
HANNA_CRITERIA = ("relevance", "coherence", "empathy", "surprise", "engagement", "complexity")

Ratings = Mapping[str, tuple[float, ...]]


def read_bartscore(files: Sequence[LocalFile]) -> list[RatedResponse]:
    """Return the summaries of a file in BARTScore's layout, with the means of their raters.

    Per article there are ``src``, ``ref_summs`` (or ``ref_summ`` alone) and ``sys_summs``: system
    -> ``sys_summ`` and ``scores``. The file is JSON or a pickle of the same values. Another file,
    named ``*_raters.csv``, may hold the single ratings: ``article_id``, ``system``,
    ``rater_slot`` and a column per criterion; their means must be the scores.

    Raises
    ------
    ConfigError
        If there is not one file of summaries.
    DataError
        If a field is missing or wrong, or the ratings do not fit the scores.
    """
    texts = [file for file in files if not file.path.name.endswith("_raters.csv")]
    if len(texts) != 1:
        raise ConfigError(f"one file of summaries is needed, not {len(texts)}")
    single: dict[tuple[str, str], Ratings] = {}
    for file in files:
        if file not in texts:
            single |= _single_ratings(file)
    found = []
    for article, row in read_mapping(texts[0].path).items():
        source = Source(id=article, text=row.text("src"))
        references = row.texts("ref_summs") if row.has("ref_summs") else (row.text("ref_summ"),)
        systems = row.row("sys_summs")
        for system in systems.values:
            summary = systems.row(system)
            scores = summary.row("scores")
            gold = {criterion: scores.number(criterion) for criterion in scores.values}
            ratings = single.get((article, system), {})
            if len(files) > 1:
                _check_means(ratings, gold, scores)
            found.append(
                RatedResponse(
                    id=f"{article}/{system}",
                    source=source,
                    system=system,
                    response=summary.text("sys_summ", empty=True),
                    gold=gold,
                    ratings=ratings,
                    reference_answers=references,
                    group=texts[0].group,
                )
            )
    return found


def read_unieval(files: Sequence[LocalFile]) -> list[RatedResponse]:
    """Return the dialogue responses of UniEval's result file, with the means of their raters.

    A source is the conversation (``source``) and below it the facts (``context``) that its next
    speaker was given. UniEval's own ``predict_scores`` are not read.

    Raises
    ------
    DataError
        If a field is missing or wrong, or a system answers a conversation twice.
    """
    found, sources = [], Sources()
    pairs = Unique("pair of source and system")
    for file in files:
        for row in read_rows(file.path):
            text = _conversation(row.text("source"), row.text("context", empty=True))
            source = sources.of(text, f"dialogue-{len(sources) + 1}")
            system, scores = row.name("system_id"), row.row("scores")
            pairs.add((source.id, system), row, "system_id")
            found.append(
                RatedResponse(
                    id=f"{source.id}/{system}",
                    source=source,
                    system=system,
                    response=row.text("system_output", empty=True).strip(),
                    gold={name: scores.number(name) for name in DIALOGUE_CRITERIA},
                    group=file.group,
                )
            )
    return found


def read_usr(files: Sequence[LocalFile]) -> list[RatedResponse]:
    """Return the dialogue responses of a USR file, with their single ratings.

    Per conversation there are ``context``, ``fact`` and ``responses``, each with ``response``,
    ``model`` and a list of ratings per criterion. A source is the conversation and below it the
    facts; gold is the mean of the ratings.

    Raises
    ------
    DataError
        If a field is missing or wrong, or a system answers a conversation twice.
    """
    found, sources = [], Sources()
    pairs = Unique("pair of source and system")
    for file in files:
        for row in read_rows(file.path):
            text = _conversation(row.text("context"), row.text("fact", empty=True))
            source = sources.of(text, f"dialogue-{len(sources) + 1}")
            for response in row.rows("responses"):
                system = response.name("model")
                ratings = {ours: response.numbers(usr) for usr, ours in USR_CRITERIA.items()}
                pairs.add((source.id, system), response, "model")
                text = response.text("response", empty=True).strip()
                found.append(_rated(source, system, text, ratings, file.group))
    return found


def read_hanna(files: Sequence[LocalFile]) -> list[RatedResponse]:
    """Return HANNA's stories with their single ratings; gold is the mean of these.

    Two forms are read. ``.csv`` is the published one: a row per rater, with ``Story ID``,
    ``Prompt``, ``Story``, ``Model`` and a column per criterion. Any other file has a
    JSON row per story: ``story_id``, ``prompt_id``, ``prompt``, ``system``, ``story`` and
    ``ratings`` by criterion. In the first, prompts are numbered from 0 as they come, which are
    the ids of the second. The story of the system ``Human`` is the others' reference answer.

    Raises
    ------
    DataError
        If a field is missing or wrong, or there are two stories of a system for a prompt.
    """
    found: list[RatedResponse] = []
    for file in files:
        is_csv = file.path.suffix.lower() == ".csv"
        found += (_hanna_csv if is_csv else _hanna_json)(file)
    human = {each.source.id: each.response for each in found if each.system == "Human"}
    return [
        replace(each, reference_answers=(human[each.source.id],))
        if each.system != "Human" and each.source.id in human
        else each
        for each in found
    ]


def _hanna_json(file: LocalFile) -> list[RatedResponse]:
    found, sources = [], Sources()
    pairs, ids = Unique("pair of source and system"), Unique("story")
    for row in read_rows(file.path):
        source = sources.of(row.text("prompt"), f"hanna-{row.name('prompt_id')}")
        system, single = row.name("system"), row.row("ratings")
        ids.add(row.name("story_id"), row, "story_id")
        pairs.add((source.id, system), row, "system")
        ratings = {name: single.numbers(name) for name in HANNA_CRITERIA}
        story = row.text("story", empty=True)
        found.append(_rated(source, system, story, ratings, file.group))
    return found


def _hanna_csv(file: LocalFile) -> list[RatedResponse]:
    stories: dict[str, list[Row]] = {}
    for row in read_rows(file.path):
        stories.setdefault(row.name("Story ID"), []).append(row)
    found, sources = [], Sources()
    pairs = Unique("pair of source and system")
    for raters in stories.values():
        first = raters[0]
        for row in raters:
            for field in ("Prompt", "Story", "Model"):
                if row.values.get(field) != first.values.get(field):
                    message = f"is not that of row {first.line}, which has the same Story ID"
                    raise row.error(message, field)
        source = sources.of(first.text("Prompt"), f"hanna-{len(sources)}")
        system = first.name("Model")
        pairs.add((source.id, system), first, "Model")
        ratings = {
            name: tuple(row.number(name.capitalize()) for row in raters) for name in HANNA_CRITERIA
        }
        found.append(_rated(source, system, first.text("Story"), ratings, file.group))
    return found


def _rated(
    source: Source, system: str, response: str, ratings: Ratings, group: str
) -> RatedResponse:
    """Return a response whose gold is the mean of its ratings."""
    return RatedResponse(
        id=f"{source.id}/{system}",
        source=source,
        system=system,
        response=response,
        gold={name: mean(single) for name, single in ratings.items()},
        ratings=ratings,
        group=group,
    )


def _conversation(turns: str, facts: str) -> str:
    """Return a conversation with what its next speaker was given to know."""
    turns = "\n".join(line.strip() for line in turns.strip().splitlines())
    facts = facts.strip()
    return f"{turns}\n\nFacts:\n{facts}" if facts else turns


def _single_ratings(file: LocalFile) -> dict[tuple[str, str], Ratings]:
    """Return the single ratings by article and system, in the order of the raters' slots."""
    slots: dict[tuple[str, str], dict[float, Row]] = {}
    once = Unique("slot of article and system")
    for row in read_rows(file.path):
        key, slot = (row.name("article_id"), row.name("system")), row.number("rater_slot")
        once.add((*key, slot), row, "rater_slot")
        slots.setdefault(key, {})[slot] = row
    return {
        key: {
            name: tuple(rows[slot].number(name) for slot in sorted(rows))
            for name in next(iter(rows.values())).values
            if name not in ("article_id", "system", "rater_slot")
        }
        for key, rows in slots.items()
    }


def _check_means(ratings: Ratings, gold: Mapping[str, float], scores: Row) -> None:
    for criterion, value in gold.items():
        if criterion not in ratings:
            raise scores.error("the file of single ratings has none for this score", criterion)
        average = mean(ratings[criterion])
        if not math.isclose(average, value, abs_tol=1e-6):
            message = f"the score is {value}, but the mean of its ratings is {average}"
            raise scores.error(message, criterion)
