"""Pairs with a preference: Auto-J, LLMBar, JudgeBench, PandaLM, FairEval, MT-Bench votes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from adjudge.benchmarks.base import LocalFile, RatedPair
from adjudge.benchmarks.fields import Row, Sources, Unique, most_votes, read_rows, read_text
from adjudge.errors import ConfigError, DataError

AUTOJ = {0: 1.0, 1: -1.0, 2: 0.0}
LLMBAR = {1: 1.0, 2: -1.0}
JUDGEBENCH = {"A>B": 1.0, "B>A": -1.0, "A=B": 0.0, "tie": 0.0}
PANDALM = {0: 0.0, 1: 1.0, 2: -1.0}
FAIREVAL = {"CHATGPT": 1.0, "VICUNA13B": -1.0, "TIE": 0.0}
FASTCHAT = {"model_a": 1.0, "model_b": -1.0, "tie": 0.0, "tie (inconsistent)": 0.0}


def read_autoj(files: Sequence[LocalFile]) -> list[RatedPair]:
    """Return the pairs of Auto-J's Eval-P, grouped by scenario; the responses are stripped.

    A row has ``prompt``, ``response 1``, ``response 2``, ``scenario`` and ``label``: 0 the first
    is better, 1 the second, 2 a tie.

    Raises
    ------
    DataError
        If a field is missing or wrong.
    """
    sources, found = Sources(), list[RatedPair]()
    for file in files:
        for row in read_rows(file.path):
            name = f"autoj-{len(found) + 1}"
            found.append(
                RatedPair(
                    id=name,
                    source=sources.of(row.text("prompt"), name),
                    systems=("", ""),
                    responses=(
                        row.text("response 1", empty=True).strip(),
                        row.text("response 2", empty=True).strip(),
                    ),
                    gold=row.label("label", AUTOJ),
                    group=row.text("scenario"),
                )
            )
    return found


def read_llmbar(files: Sequence[LocalFile]) -> list[RatedPair]:
    """Return the pairs of LLMBar's subsets, each file with its own group.

    A row has ``input``, ``output_1``, ``output_2`` and ``label``, the number of the better one.

    Raises
    ------
    DataError
        If a field is missing or wrong.
    """
    sources, found = Sources(), list[RatedPair]()
    once = Unique("pair")
    for file in files:
        for row in read_rows(file.path):
            name = f"{file.group or 'llmbar'}-{row.line}"
            once.add(name, row, "label")
            found.append(
                RatedPair(
                    id=name,
                    source=sources.of(row.text("input"), name),
                    systems=("", ""),
                    responses=(
                        row.text("output_1", empty=True),
                        row.text("output_2", empty=True),
                    ),
                    gold=row.label("label", LLMBAR),
                    group=file.group,
                )
            )
    return found


def read_judgebench(files: Sequence[LocalFile]) -> list[RatedPair]:
    """Return the pairs of JudgeBench, grouped by the data set of the question.

    A row has ``pair_id``, ``original_id``, ``source``, ``question``, ``response_model`` (which
    wrote both), ``response_A``, ``response_B`` and ``label``: "A>B" or "B>A".

    Raises
    ------
    DataError
        If a field is missing or wrong, or two pairs have one id.
    """
    sources, found = Sources(), list[RatedPair]()
    once = Unique("pair_id")
    for file in files:
        for row in read_rows(file.path):
            name, model = row.name("pair_id"), row.name("response_model")
            once.add(name, row, "pair_id")
            group = row.text("source")
            found.append(
                RatedPair(
                    id=name,
                    source=sources.of(row.text("question"), f"{group}/{row.name('original_id')}"),
                    systems=(model, model),
                    responses=(
                        row.text("response_A", empty=True),
                        row.text("response_B", empty=True),
                    ),
                    gold=row.label("label", JUDGEBENCH),
                    group=group,
                )
            )
    return found


def read_pandalm(files: Sequence[LocalFile]) -> list[RatedPair]:
    """Return the pairs of PandaLM's test set with the votes of its three annotators.

    A row has ``idx``, ``cmp_key`` (the two systems, joined by "_"), ``instruction``, ``input``
    (NaN where there is none), ``response1``, ``response2`` and ``annotator1`` to ``annotator3``:
    0 a tie, else the number of the better one. Gold has the most votes; NaN where all differ. The
    pairs are grouped by ``motivation_app`` where it is there.

    Raises
    ------
    DataError
        If a field is missing or wrong, or two pairs have one idx.
    """
    sources, found = Sources(), list[RatedPair]()
    once = Unique("idx")
    for file in files:
        for row in read_rows(file.path):
            name = f"pandalm-{row.name('idx')}"
            once.add(name, row, "idx")
            votes = tuple(row.label(f"annotator{i}", PANDALM) for i in (1, 2, 3))
            found.append(
                RatedPair(
                    id=name,
                    source=sources.of(_pandalm_prompt(row), name),
                    systems=_pandalm_systems(row),
                    responses=(
                        row.text("response1", empty=True),
                        row.text("response2", empty=True),
                    ),
                    gold=most_votes(votes),
                    votes=votes,
                    group=row.text("motivation_app") if row.has("motivation_app") else file.group,
                )
            )
    return found


def read_faireval(files: Sequence[LocalFile]) -> list[RatedPair]:
    """Return the pairs of FairEval, ChatGPT's answer first, grouped by category.

    Four files are needed: questions (``question*``: ``question_id``, ``text``, ``category``), the
    answers of ChatGPT and then of Vicuna (``question_id``, ``text``, ``model_id``), and the
    verdicts (``*.txt``: CHATGPT, VICUNA13B or TIE, a line per question in their order).

    Raises
    ------
    ConfigError
        If they are not these four files.
    DataError
        If a field is missing or wrong, or an answer or verdict is.
    """
    verdicts = [file for file in files if file.path.suffix == ".txt"]
    questions = [file for file in files if file.path.name.startswith("question")]
    answers = [file for file in files if file not in (*verdicts, *questions)]
    if (len(verdicts), len(questions), len(answers)) != (1, 1, 2):
        raise ConfigError(
            "FairEval needs four files: question*, two files of answers, and verdicts (*.txt); "
            f"got {', '.join(file.path.name for file in files) or 'none'}"
        )
    first, second = (_answers(file) for file in answers)
    rows = read_rows(questions[0].path)
    gold = _verdicts(verdicts[0], len(rows))
    found, sources, once = list[RatedPair](), Sources(), Unique("question_id")
    for row, preference in zip(rows, gold, strict=True):
        question = row.name("question_id")
        once.add(question, row, "question_id")
        for each, file in zip((first, second), answers, strict=True):
            if question not in each:
                raise row.error(f"{file.path.name} has no answer to {question!r}", "question_id")
        pair = (first[question], second[question])
        found.append(
            RatedPair(
                id=f"faireval-{question}",
                source=sources.of(row.text("text"), f"faireval-{question}"),
                systems=(pair[0].name("model_id"), pair[1].name("model_id")),
                responses=(pair[0].text("text", empty=True), pair[1].text("text", empty=True)),
                gold=preference,
                group=row.text("category") if row.has("category") else questions[0].group,
            )
        )
    return found


def read_fastchat_votes(files: Sequence[LocalFile]) -> list[RatedPair]:
    """Return one pair per question, two systems and turn, with the votes of all its judges.

    A row is a vote: ``question_id``, ``model_a``, ``model_b``, ``winner`` (model_a, model_b or
    tie), ``turn`` (from 1) and ``conversation_a``, ``conversation_b``: lists of ``role`` (user or
    assistant) and ``content``. Rows that name the two systems the other way round are turned and
    counted with the others. Gold has the most votes; NaN where two have as many. The group is
    ``turn 1`` or ``turn 2``.

    A pair is what was seen up to its turn. At turn 1 the source is the question and a response
    is the reply. Later, the source is all the user's turns and a response all the system's
    replies, both under headings that number the turns, as the replies answer each other's.

    Raises
    ------
    DataError
        If a field is missing or wrong, the two conversations have not the same user's turns, or
        two votes on a pair are on different texts.
    """
    sources = Sources()
    pairs: dict[tuple[str, frozenset[str], int], RatedPair] = {}
    for file in files:
        for row in read_rows(file.path):
            pair = _vote(row, sources)
            turn = int(pair.group.removeprefix("turn "))
            key = (row.name("question_id"), frozenset(pair.systems), turn)
            known = pairs.setdefault(key, replace(pair, votes=()))
            if known.systems != pair.systems:
                pair = _turned(pair)
            if (known.source, known.responses) != (pair.source, pair.responses):
                raise row.error(f"other texts than in an earlier vote on {known.id}")
            votes = (*known.votes, *pair.votes)
            pairs[key] = replace(known, votes=votes, gold=most_votes(votes))
    return list(pairs.values())


def _pandalm_prompt(row: Row) -> str:
    instruction, given = row.text("instruction"), row.values.get("input")
    if given is None or (isinstance(given, float) and math.isnan(given)):
        return instruction
    more = row.text("input", empty=True)
    return f"{instruction}\n\n{more}" if more.strip() else instruction


def _pandalm_systems(row: Row) -> tuple[str, str]:
    parts = row.text("cmp_key").split("_")
    if len(parts) != 2 or not all(parts):
        raise row.error(f"must be two systems joined by '_', not {'_'.join(parts)!r}", "cmp_key")
    return parts[0], parts[1]


def _answers(file: LocalFile) -> dict[str, Row]:
    once, found = Unique("question_id"), {}
    for row in read_rows(file.path):
        question = row.name("question_id")
        once.add(question, row, "question_id")
        found[question] = row
    return found


def _verdicts(file: LocalFile, n: int) -> list[float]:
    words = read_text(file.path).split()
    for line, word in enumerate(words, start=1):
        if word not in FAIREVAL:
            raise DataError(
                f"unknown label {word!r}: it must be one of {', '.join(FAIREVAL)}",
                path=file.path,
                line=line,
            )
    if len(words) != n:
        raise DataError(f"{len(words)} verdicts for {n} questions", path=file.path)
    return [FAIREVAL[word] for word in words]


def _vote(row: Row, sources: Sources) -> RatedPair:
    question, turn = row.name("question_id"), row.number("turn")
    if turn < 1 or turn != int(turn):
        raise row.error(f"must be a whole number from 1, not {turn:g}", "turn")
    systems = (row.name("model_a"), row.name("model_b"))
    if systems[0] == systems[1]:
        raise row.error(f"must be another system than model_a, {systems[0]!r}", "model_b")
    asked, first = _turns(row, "conversation_a", int(turn))
    also_asked, second = _turns(row, "conversation_b", int(turn))
    if asked != also_asked:
        raise row.error("the user's turns are not those of conversation_a", "conversation_b")
    name = f"{question}/turn-{int(turn)}"
    vote = row.label("winner", FASTCHAT)
    return RatedPair(
        id=f"{name}/{systems[0]}/{systems[1]}",
        source=sources.of(_numbered(asked), name),
        systems=systems,
        responses=(_numbered(first), _numbered(second)),
        gold=vote,
        votes=(vote,),
        group=f"turn {int(turn)}",
    )


def _turns(row: Row, field: str, turn: int) -> tuple[list[str], list[str]]:
    """Return what the user and the system said up to a turn."""
    messages = row.rows(field)[: 2 * turn]
    if len(messages) < 2 * turn:
        raise row.error(f"has {len(messages)} messages, and turn {turn} needs {2 * turn}", field)
    for i, message in enumerate(messages):
        role = ("user", "assistant")[i % 2]
        if message.text("role") != role:
            raise message.error(f"must be {role!r}, not {message.text('role')!r}", "role")
    said = [message.text("content", empty=i % 2 == 1) for i, message in enumerate(messages)]
    return said[::2], said[1::2]


def _numbered(turns: Sequence[str]) -> str:
    if len(turns) == 1:
        return turns[0]
    return "\n\n".join(f"[Turn {i}]\n{text}" for i, text in enumerate(turns, start=1))


def _turned(pair: RatedPair) -> RatedPair:
    return replace(
        pair,
        systems=(pair.systems[1], pair.systems[0]),
        responses=(pair.responses[1], pair.responses[0]),
        votes=tuple(-vote + 0.0 for vote in pair.votes),
    )
