"""Texts and pairs with a rubric of their own: the benchmarks of Prometheus and BiGGen-Bench."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adjudge.benchmarks.base import LocalFile, RatedPair, RatedResponse
from adjudge.benchmarks.fields import Row, Sources, Unique, mean, read_rows
from adjudge.schema import Criterion, content_hash

TIE = {0: 0.0, 1: 1.0}

_INSTRUCTION = re.compile(r"^### ?The instruction to evaluate:", re.MULTILINE)
_RESPONSE = re.compile(r"^### ?Response to evaluate:", re.MULTILINE)
_REFERENCE = re.compile(r"^### ?Reference Answer \(Score 5\):", re.MULTILINE)
_RUBRIC = re.compile(r"^### ?Score Rubrics?:", re.MULTILINE)
_FEEDBACK = re.compile(r"^### ?Feedback:.*\Z", re.MULTILINE | re.DOTALL)
_SCORES = re.compile(
    r"(.+?)" + "".join(rf"^Score {score}:(.*?)" for score in range(1, 6)) + r"\Z",
    re.MULTILINE | re.DOTALL,
)


class Filled(NamedTuple):
    """What a filled prompt of Prometheus was made of."""

    instruction: str
    response: str
    criterion: Criterion
    reference_answers: tuple[str, ...]


def read_scores(files: Sequence[LocalFile]) -> list[RatedResponse]:
    """Return responses scored by a rubric: Vicuna Bench, MT Bench, FLASK, Feedback Bench.

    A row has ``instruction`` (the whole filled prompt) or its parts in ``orig_*`` fields, which
    are then used. Gold ``rubric`` is the mean of ``human_score`` where there is one, with that of
    ``gpt4_score`` as a second gold ``gpt4``; else the mean of ``gpt4_score``; else
    ``orig_score``. ``idx``, ``response_source`` (system) and ``category`` (group) may be missing.

    Each distinct instruction is a source. Where the earlier turns in it are the system's own, as
    in MT Bench, the responses to one ``idx`` have different sources, called ``prompt-IDX-HASH``.

    Raises
    ------
    DataError
        If a field is missing or wrong, a prompt has not the known blocks, or a system answers an
        instruction twice under one rubric.
    """
    rows = [
        (file, row, _filled(row, "instruction")) for file in files for row in read_rows(file.path)
    ]
    names, sources = (
        _prompt_names([(row, filled.instruction) for _, row, filled in rows]),
        Sources(),
    )
    found: list[RatedResponse] = []
    once: dict[Criterion, Unique] = {}
    seen = Counter[str]()
    for file, row, filled in rows:
        source = sources.of(filled.instruction, names[filled.instruction])
        system = row.name("response_source") if row.has("response_source") else ""
        if system:
            under = once.setdefault(filled.criterion, Unique("pair of source and system"))
            under.add((source.id, system), row, "response_source")
        gold, ratings = _rubric_scores(row)
        found.append(
            RatedResponse(
                id=_numbered(f"{source.id}/{system}".rstrip("/"), seen),
                source=source,
                system=system,
                response=filled.response,
                gold=gold,
                ratings=ratings,
                criterion=filled.criterion,
                reference_answers=filled.reference_answers,
                group=row.text("category") if row.has("category") else file.group,
            )
        )
    return found


def read_pairs(files: Sequence[LocalFile]) -> list[RatedPair]:
    """Return pairs of a chosen and a rejected response: HHH Alignment, MT Bench human judgments.

    A row has ``chosen_instruction`` and ``rejected_instruction``, whole filled prompts that
    differ in the response alone; ``source`` (group) and ``tie`` (1 or 0) may be missing. In the
    file the chosen one always comes first, which would reward a judge that prefers the first.
    The two are therefore ordered by a hash of their texts, which is the same on every machine
    and puts the chosen one first in about half of the pairs.

    Raises
    ------
    DataError
        If a field is missing or wrong, a prompt has not the known blocks, or the two prompts
        differ in more than the response.
    """
    sources = Sources()
    return [
        _chosen_pair(row, file, sources, n)
        for n, (file, row) in enumerate(
            ((file, row) for file in files for row in read_rows(file.path)), start=1
        )
    ]


def read_preference_collection(files: Sequence[LocalFile]) -> list[RatedPair]:
    """Return the pairs of Preference Bench, in the file's order.

    A row has ``orig_instruction``, ``orig_response_A``, ``orig_response_B``, ``orig_criteria``
    and ``orig_preference`` (A, B or tie); ``orig_reference_answer`` and the five
    ``orig_scoreN_description`` may be missing. A row with ``chosen_instruction`` instead is read
    as `read_pairs` does.

    Raises
    ------
    DataError
        If a field is missing or wrong.
    """
    sources, found = Sources(), list[RatedPair]()
    for file in files:
        for row in read_rows(file.path):
            n = len(found) + 1
            if row.has("chosen_instruction") and not row.has("orig_response_A"):
                found.append(_chosen_pair(row, file, sources, n))
                continue
            responses = (
                row.text("orig_response_A", empty=True).strip(),
                row.text("orig_response_B", empty=True).strip(),
            )
            found.append(
                RatedPair(
                    id=f"pair-{n}",
                    source=sources.of(row.text("orig_instruction").strip(), f"prompt-{n}"),
                    systems=("", ""),
                    responses=responses,
                    gold=row.label("orig_preference", {"A": 1.0, "B": -1.0, "tie": 0.0}),
                    criterion=_criterion(row, "orig_criteria", "orig_score"),
                    reference_answers=_reference(row, "orig_reference_answer"),
                    group=file.group,
                )
            )
    return found


def read_biggen(files: Sequence[LocalFile]) -> list[RatedResponse]:
    """Return the responses of BiGGen-Bench, each prompt with its own rubric.

    A prompt has ``id``, ``capability`` (group), ``system_prompt``, ``input``,
    ``reference_answer`` and ``score_rubric`` with ``criteria`` and ``score1_description`` to
    ``score5_description``. Its responses are in the same row, in one of two forms:

    - flat, a row per response: ``response`` and ``response_model_name``, ``response_model`` or
      ``model_name``, with the scores beside them;
    - nested, a row per prompt: ``responses``, an object of system -> ``response`` and scores.

    Scores are a number or a list: ``human_score`` and ``gpt4_score`` as in `read_scores`, else
    ``score`` as the file's judge gave it. The file is a list of rows, JSON lines, or an object of
    id -> row. A source is the system prompt, where there is one, and below it the input.

    Raises
    ------
    DataError
        If a field is missing or wrong, or a system answers a prompt twice.
    """
    sources, found = Sources(), list[RatedResponse]()
    once = Unique("pair of prompt and system")
    for file in files:
        for row in read_rows(file.path, keyed=True):
            name, parts = row.name("id"), [row.text("input").strip()]
            if row.has("system_prompt") and row.text("system_prompt", empty=True).strip():
                parts.insert(0, row.text("system_prompt").strip())
            source = sources.of("\n\n".join(parts), name)
            criterion = _criterion(row.row("score_rubric"), "criteria", "score", required=True)
            for system, answer in _biggen_answers(row).items():
                once.add((name, system), row, "id")
                gold, ratings = _rubric_scores(answer, last="score")
                found.append(
                    RatedResponse(
                        id=f"{name}/{system}",
                        source=source,
                        system=system,
                        response=answer.text("response", empty=True).strip(),
                        gold=gold,
                        ratings=ratings,
                        criterion=criterion,
                        reference_answers=_reference(row, "reference_answer"),
                        group=row.text("capability") if row.has("capability") else file.group,
                    )
                )
    return found


def _biggen_answers(row: Row) -> dict[str, Row]:
    if row.has("responses"):
        nested = row.row("responses")
        return {system: nested.row(system) for system in nested.values}
    names = ("response_model_name", "response_model", "model_name")
    field = next((name for name in names if row.has(name)), names[0])
    return {row.name(field): row}


# --- filled prompts -----------------------------------------------------------------------------


def _filled(row: Row, field: str) -> Filled:
    """Return the parts of a row's prompt, from its ``orig_*`` fields where it has them."""
    if row.has("orig_instruction"):
        return Filled(
            instruction=row.text("orig_instruction").strip(),
            response=row.text("orig_response", empty=True).strip(),
            criterion=_criterion(row, "orig_criteria", "orig_score"),
            reference_answers=_reference(row, "orig_reference_answer"),
        )
    return _split(row, field)


def _split(row: Row, field: str) -> Filled:
    """Return the parts of a filled prompt.

    Instruction, response and reference answer are any text and may hold such markers
    themselves. The first marker of the instruction and the first one of a response after it
    count; from the other end, the last rubric that has all five scores and the last reference
    answer before it.
    """
    text = row.text(field)
    start = _INSTRUCTION.search(text)
    if start is None:
        raise row.error("the prompt has no block 'The instruction to evaluate'", field)
    middle = _RESPONSE.search(text, start.end())
    if middle is None:
        raise row.error("the prompt has no block 'Response to evaluate'", field)
    rubrics = [(mark, _rubric(text[mark.end() :])) for mark in _RUBRIC.finditer(text, middle.end())]
    whole = [(mark, criterion) for mark, criterion in rubrics if criterion is not None]
    if not whole:
        raise row.error("the prompt has no block 'Score Rubrics' with the scores 1 to 5", field)
    end, criterion = whole[-1]
    references = list(_REFERENCE.finditer(text, middle.end(), end.start()))
    cut = references[-1] if references else end
    reference = text[cut.end() : end.start()].strip() if references else ""
    instruction = text[start.end() : middle.start()].strip()
    if not instruction:
        raise row.error("the prompt's instruction is empty", field)
    return Filled(
        instruction=instruction,
        response=text[middle.end() : cut.start()].strip(),
        criterion=criterion,
        reference_answers=(reference,) if reference else (),
    )


def _rubric(text: str) -> Criterion | None:
    """Return the criterion of a rubric block, or None if it is not one."""
    found = _SCORES.match(_FEEDBACK.sub("", text))
    if found is None:
        return None
    asked, *scores = (part.strip() for part in found.groups())
    if asked.startswith("[") and asked.endswith("]"):
        asked = asked[1:-1].strip()
    return _named(asked, scores)


def _criterion(row: Row, asked: str, score: str, *, required: bool = False) -> Criterion:
    """Return the criterion of a row's own fields; without five descriptions it has no rubric."""
    fields = [f"{score}{i}_description" for i in range(1, 6)]
    given = required or any(row.has(field) for field in fields)
    return _named(row.text(asked).strip(), [row.text(field).strip() for field in fields if given])


def _named(asked: str, scores: Sequence[str]) -> Criterion:
    return Criterion(
        name="rubric",
        title="Rubric",
        description=asked,
        rubric=tuple(scores),
        levels=tuple(range(1, len(scores) + 1)),
    )


def _reference(row: Row, field: str) -> tuple[str, ...]:
    text = row.text(field, empty=True).strip() if row.has(field) else ""
    return (text,) if text else ()


def _chosen_pair(row: Row, file: LocalFile, sources: Sources, n: int) -> RatedPair:
    chosen, rejected = _split(row, "chosen_instruction"), _split(row, "rejected_instruction")
    if chosen._replace(response="") != rejected._replace(response=""):
        raise row.error(
            "differs from chosen_instruction in more than the response", "rejected_instruction"
        )
    responses, gold = (chosen.response, rejected.response), 1.0
    if _hash(chosen) > _hash(rejected):
        responses, gold = (rejected.response, chosen.response), -1.0
    if row.has("tie") and row.label("tie", TIE):
        gold = 0.0
    return RatedPair(
        id=f"pair-{n}",
        source=sources.of(chosen.instruction, f"prompt-{n}"),
        systems=("", ""),
        responses=responses,
        gold=gold,
        criterion=chosen.criterion,
        reference_answers=chosen.reference_answers,
        group=row.text("source") if row.has("source") else file.group,
    )


def _hash(filled: Filled) -> str:
    return content_hash([filled.instruction, filled.response])


def _rubric_scores(
    row: Row, *, last: str = "orig_score"
) -> tuple[dict[str, float], Mapping[str, tuple[float, ...]]]:
    """Return gold and ratings: those of people first, then GPT-4's, then the field `last`."""
    ratings = {}
    if row.has("human_score"):
        ratings["rubric"] = row.numbers("human_score")
        if row.has("gpt4_score"):
            ratings["gpt4"] = row.numbers("gpt4_score")
    elif row.has("gpt4_score") or not row.has(last):
        ratings["rubric"] = row.numbers("gpt4_score")
    else:
        ratings["rubric"] = row.numbers(last)
    return {name: mean(single) for name, single in ratings.items()}, ratings


def _prompt_names(rows: Sequence[tuple[Row, str]]) -> dict[str, str]:
    """Return text -> name: from ``idx`` where there is one, with a hash where texts share it."""
    by_idx: dict[str, set[str]] = {}
    names: dict[str, str] = {}
    for row, text in rows:
        name = f"prompt-{row.name('idx') if row.has('idx') else len(names) + 1}"
        if text not in names:
            names[text] = name
            by_idx.setdefault(name, set()).add(text)
    return {
        text: name if len(by_idx[name]) == 1 else f"{name}-{content_hash(text)[:8]}"
        for text, name in names.items()
    }


def _numbered(name: str, seen: Counter[str]) -> str:
    """Return a name, with its number from the second time on."""
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}#{seen[name]}"
