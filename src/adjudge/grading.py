"""Grading with rubrics in the calls that users of `prometheus-eval` know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adjudge.api import BoundJudge, judge
from adjudge.engines.base import Engine
from adjudge.errors import ConfigError
from adjudge.formats.responses import ResponseRow, given_rows
from adjudge.prompts.template import has_prompts
from adjudge.registry import judges
from adjudge.rubrics import parse_rubric
from adjudge.runs.config import field_names
from adjudge.runs.store import Store
from adjudge.schema import Criterion, Judgment

JUDGES = ("prometheus-absolute", "prometheus-relative")
TASK = "instruction"

#: A rubric as text, or a criterion that is there already.
Rubric = str | Criterion | Mapping[str, object]


class Grader:
    """Grades lists of responses by a rubric, with feedback.

    The same judges as ``prometheus-absolute`` and ``prometheus-relative``, under the names and
    arguments of the `prometheus-eval` package; its templates are used with
    ``prompts="prometheus-eval"`` where it is installed. Scores are those that the model writes;
    with ``score_mode="logprobs"`` they are expected scores.

    Parameters
    ----------
    engine
        What runs the model; see `adjudge.load_engine`.
    prompts
        A folder with prompts, or ``prometheus-eval``; the built-in ones if not given.
    store
        A store, or the path of one, that keeps replies and judgments.
    seed
        Seed of everything that is drawn.
    options
        Of the judges, such as ``runs``, ``temperature`` or ``max_tokens``; ``scale`` goes to
        that of single responses, ``orders`` and ``ties`` to that of pairs.

    Raises
    ------
    ConfigError
        If an option is not known.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        prompts: str | Path | None = None,
        store: str | Path | Store = ":memory:",
        seed: int = 0,
        **options: Any,
    ) -> None:
        given = {"score_mode": "text", **options}
        kinds = {name: field_names(judges.load(name)) for name in JUDGES}
        unknown = given.keys() - set().union(*kinds.values())

        def made(name: str) -> BoundJudge:
            theirs = {key: given[key] for key in given if key in kinds[name] or key in unknown}
            here = prompts if prompts is None or has_prompts(name, TASK, prompts) else None
            none = not any(has_prompts(each, TASK, prompts or "") for each in JUDGES)
            return judge(
                name,
                task=TASK,
                engine=engine,
                seed=seed,
                prompts=prompts if none else here,
                **theirs,
            )

        self._absolute, self._relative = map(made, JUDGES)
        self._store = store

    def absolute_grade(
        self,
        *,
        instructions: Sequence[str],
        responses: Sequence[str],
        rubric: Rubric | Sequence[Rubric],
        reference_answers: Sequence[str | None] | None = None,
    ) -> tuple[list[str | None], list[float | None]]:
        """Return the feedback on each response, and its score; None where there is none.

        Parameters
        ----------
        instructions, responses
            ``(n,)`` texts each.
        rubric
            One for all, or one for each: text as `adjudge.rubrics.parse_rubric` reads it, or
            criteria.
        reference_answers
            ``(n,)`` texts that deserve the best score; None: there is none, and the prompt then
            does not speak of any.

        Raises
        ------
        ConfigError
            If the lists are not as long as each other, or a rubric does not fit the scale.
        """
        made = self._judged(self._absolute, instructions, responses, rubric, reference_answers)
        return [each.feedback for each in made], [each.value for each in made]

    def relative_grade(
        self,
        *,
        instructions: Sequence[str],
        responses_A: Sequence[str],  # noqa: N803 - the name that users know
        responses_B: Sequence[str],  # noqa: N803
        rubric: Rubric | Sequence[Rubric],
        reference_answers: Sequence[str | None] | None = None,
    ) -> tuple[list[str | None], list[str | None]]:
        """Return the feedback on each pair, and "A", "B" or "tie"; None where there is none.

        The parameters and errors are those of `absolute_grade`, with two responses.
        """
        for name, column in (("responses_A", responses_A), ("responses_B", responses_B)):
            if isinstance(column, str) or not isinstance(column, Sequence):
                raise ConfigError(f"{name} must be a list of texts, not {column!r}")
        if len(responses_A) != len(responses_B):
            raise ConfigError(
                f"every A needs a B: got {len(responses_A)} responses A and "
                f"{len(responses_B)} responses B"
            )
        pairs = list(zip(responses_A, responses_B, strict=True))
        made = self._judged(self._relative, instructions, pairs, rubric, reference_answers)
        return [each.feedback for each in made], [_winner(each.value) for each in made]

    def single_absolute_grade(
        self, instruction: str, response: str, rubric: Rubric, reference_answer: str | None = None
    ) -> tuple[str | None, float | None]:
        """Return the feedback on one response, and its score; see `absolute_grade`."""
        feedbacks, scores = self.absolute_grade(
            instructions=[instruction],
            responses=[response],
            rubric=rubric,
            reference_answers=[reference_answer],
        )
        return feedbacks[0], scores[0]

    def single_relative_grade(
        self,
        instruction: str,
        response_A: str,  # noqa: N803
        response_B: str,  # noqa: N803
        rubric: Rubric,
        reference_answer: str | None = None,
    ) -> tuple[str | None, str | None]:
        """Return the feedback on one pair, and "A", "B" or "tie"; see `relative_grade`."""
        feedbacks, winners = self.relative_grade(
            instructions=[instruction],
            responses_A=[response_A],
            responses_B=[response_B],
            rubric=rubric,
            reference_answers=[reference_answer],
        )
        return feedbacks[0], winners[0]

    def _judged(
        self,
        bound: BoundJudge,
        instructions: Sequence[str],
        responses: Sequence[str] | Sequence[Sequence[str]],
        rubric: Rubric | Sequence[Rubric],
        reference_answers: Sequence[str | None] | None,
    ) -> Sequence[Judgment]:
        rows = given_rows(instructions, responses, None, reference_answers, name="instructions")
        criteria = _criteria(rubric, len(rows))
        owned: list[ResponseRow] = [
            row._replace(criterion=criterion) for row, criterion in zip(rows, criteria, strict=True)
        ]
        return bound.score_rows(owned, store=self._store).judgments


def _criteria(rubric: Rubric | Sequence[Rubric], n: int) -> list[Criterion]:
    """Return a criterion for each of n rows."""
    if not isinstance(rubric, str | Criterion | Mapping | Sequence):
        raise ConfigError(f"a rubric is text, a table or a criterion, not {rubric!r}")
    single = isinstance(rubric, str | Criterion | Mapping)
    several: list[Any] = [rubric] * n if single else list(rubric)  # type: ignore[arg-type]
    for each in several:
        if not isinstance(each, str | Criterion | Mapping):
            raise ConfigError(f"a rubric is text, a table or a criterion, not {each!r}")
    if len(several) != n:
        raise ConfigError(
            f"there must be one rubric, or one for each row: got {len(several)} for {n}"
        )
    return [each if isinstance(each, Criterion) else parse_rubric(each) for each in several]


def _winner(value: float | None) -> str | None:
    if value is None:
        return None
    return "A" if value > 0 else "B" if value < 0 else "tie"
