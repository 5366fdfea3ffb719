"""What judges share that write feedback before a verdict: drawing, reading, drawing again."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Completion, Generate, Message, Sampling, ScoreLabels
from adjudge.judges.base import Judge, Work, check_range, derived_seed, generated, label_scores
from adjudge.prompts.verdict import Verdict
from adjudge.schema import Item, Status

#: What stands before a verdict, in what models write and in what they are asked to go on from.
MARKER = "[RESULT]"
_HEADING = re.compile(r"\A[#*\s]*Feedback[*\s]*:[*\s]*", re.IGNORECASE)

Read = Callable[[str, bool], Verdict[Any]]


class Run(NamedTuple):
    """What one drawn feedback came to.

    Attributes
    ----------
    status
        ``ok`` where there is a verdict.
    written
        The verdict in the text; its own status says whether it could be read.
    text
        All that the model wrote, in the last of its tries.
    tries
        Texts drawn until one could be read, or none was left.
    shares
        Probability of each label at the verdict's place, or 1 for the one that was written.
    coverage
        Probability on the labels there, in [0, 1]; None where they were not scored.
    """

    status: Status
    written: Verdict[Any]
    text: str
    tries: int
    shares: tuple[float, ...] = ()
    coverage: float | None = None
    top_tokens: tuple[tuple[str, float], ...] = ()
    exact: bool = True


@dataclass(frozen=True, kw_only=True)
class FeedbackJudge(Judge):
    """Writes feedback and then a verdict; a base of judges.

    With the score mode ``text`` the verdict is what is written; a text without a readable one is
    drawn again, up to `retries` times. With ``logprobs`` it is the distribution over the labels
    where the verdict stands, after the feedback of the same text (the second way of scoring in
    the published code of Kim et al. 2024, Prometheus 2, for any engine): what is written there
    does not count. ``auto`` is ``logprobs`` on engines that serve it.

    Parameters
    ----------
    prompts, seed
        See `Judge`.
    score_mode
        ``auto``, ``logprobs`` or ``text``.
    runs
        Feedbacks drawn for every item; the value is the mean over them.
    retries
        How often a text without a readable verdict is drawn again.
    temperature, top_p
        How texts are drawn; the published defaults.
    max_tokens
        Of a feedback with its verdict; 0: as the prompts say.
    use_reference
        Whether the reference answer is shown where there is one.
    min_coverage
        Labels that together have less probability than this have no mass.
    """

    score_mode: Literal["auto", "logprobs", "text"] = "auto"
    runs: int = 1
    retries: int = 2
    temperature: float = 1.0
    top_p: float = 0.9
    max_tokens: int = 0
    use_reference: bool = True
    min_coverage: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("runs", self.runs, 1, 1000)
        check_range("retries", self.retries, 0, 100)
        check_range("temperature", self.temperature, 0, 10)
        check_range("top_p", self.top_p, 0, 1)
        check_range("max_tokens", self.max_tokens, 0, 1_000_000)
        check_range("min_coverage", self.min_coverage, 0, 1)
        if self.runs > 1 and self.temperature == 0:
            raise ConfigError(
                f"{self.runs} runs at temperature 0 would all be the same: set a temperature, "
                "or runs=1"
            )

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        scores = {Capability.SCORE_LABELS} if self.score_mode == "logprobs" else set()
        return frozenset({Capability.GENERATE, *scores})

    def fitted(self, capabilities: frozenset[Capability], model: str = "") -> Self:
        """See `Judge.fitted`: this decides what ``auto`` is."""
        del model
        if self.score_mode != "auto":
            return self
        able = Capability.SCORE_LABELS in capabilities and self.has_labels
        return replace(self, score_mode="logprobs" if able else "text")

    @property
    def has_labels(self) -> bool:
        """Whether the verdicts can be listed, so that log-probs can be asked for."""
        return True

    @abstractmethod
    def example(self, item: Item) -> str:
        """Return a verdict that can be read."""

    def stand_in(self, item: Item, request: Generate) -> str:
        """See `Judge.stand_in`: its verdict can be read, so that no retries are planned."""
        return f"{super().stand_in(item, request)} {MARKER} {self.example(item)}"

    def reference_of(self, item: Item) -> str:
        """Return the reference answer to show; empty: none."""
        return item.reference_answer if self.use_reference else ""

    def run_all(
        self, messages: tuple[Message, ...], labels: Sequence[str], read: Read
    ) -> Work[list[Run]]:
        """Draw and read `runs` feedbacks; equal prompts get equal draws, whatever the item.

        Parameters
        ----------
        messages
            The prompt.
        labels
            How each verdict is written, in the order of the shares.
        read
            The verdict of a text, and whether that was cut.
        """
        drawn = yield from self._drawn(messages, read)
        if self.score_mode != "logprobs":
            return [_as_written(run, labels) for run in drawn]
        requests = [
            ScoreLabels(
                messages=(*messages, Message(role="assistant", content=_before_verdict(run))),
                labels=tuple(f" {label}" for label in labels),
            )
            for run in drawn
        ]
        replies = label_scores((yield requests))
        found = []
        for run, reply in zip(drawn, replies, strict=True):
            mass = sum(reply.masses)
            enough = reply.coverage >= self.min_coverage and mass > 0
            found.append(
                run._replace(
                    status=Status.OK if enough else Status.NO_LABEL_MASS,
                    shares=tuple(each / mass for each in reply.masses) if enough else (),
                    coverage=reply.coverage,
                    top_tokens=reply.top_tokens,
                    exact=reply.exact,
                )
            )
        return found

    def _drawn(self, messages: tuple[Message, ...], read: Read) -> Work[list[Run]]:
        """Draw a text for each run; where its verdict has to be read, again if it cannot be."""
        limit = self.max_tokens or int(self.prompts.settings["max_tokens"])
        seed = derived_seed(self.seed, *(message.content for message in messages))
        sampling = Sampling(temperature=self.temperature, top_p=self.top_p, seed=seed)
        again = self.score_mode != "logprobs" and self.temperature > 0
        found: dict[int, Run] = {}
        missing = list(range(self.runs))
        for attempt in range(1 + (self.retries if again else 0)):
            requests = [
                Generate(
                    messages=messages,
                    max_tokens=limit,
                    sampling=sampling,
                    first_sample=run + self.runs * attempt,
                )
                for run in missing
            ]
            for run, reply in zip(missing, generated((yield requests)), strict=True):
                found[run] = _read(reply.completions[0], read, attempt + 1)
            missing = [run for run in missing if found[run].status is not Status.OK]
            if not missing:
                break
        return [found[run] for run in range(self.runs)]


def _read(completion: Completion, read: Read, tries: int) -> Run:
    verdict = read(completion.text, completion.finish_reason == "length")
    return Run(verdict.status, verdict, completion.text, tries)


def _as_written(run: Run, labels: Sequence[str]) -> Run:
    """Return a run whose shares are all on the label that was written."""
    if run.status is not Status.OK or not labels:
        return run
    said = run.written.value
    spelled = f"{said:g}" if isinstance(said, float) else said
    return run._replace(shares=tuple(float(label == spelled) for label in labels))


def _before_verdict(run: Run) -> str:
    """Return the feedback of a run up to where its verdict stands, or its first unread one."""
    return f"{run.text[: run.written.begins].strip()} {MARKER}".strip()


def told(run: Run) -> str:
    """Return the feedback of a run without the heading that some models repeat."""
    return _HEADING.sub("", run.written.feedback)


def usual_failure(runs: Sequence[Run]) -> Status:
    """Return the most frequent status of runs that all failed."""
    return Counter(run.status for run in runs).most_common(1)[0][0]


def mean_shares(runs: Sequence[Run]) -> tuple[float, ...]:
    """Return the mean distribution of runs with a verdict; ``()`` where they have none."""
    if not runs or not runs[0].shares:
        return ()
    return tuple(np.mean([run.shares for run in runs], axis=0).tolist())


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation over runs, None for a single one."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def mean_coverage(runs: Sequence[Run]) -> float:
    """Return the mean mass on the labels, or the share of runs whose verdict could be read."""
    masses = [run.coverage for run in runs if run.coverage is not None]
    return fmean(masses) if masses else fmean(run.status is Status.OK for run in runs)


def run_evidence(runs: Sequence[Run], mode: str) -> dict[str, Any]:
    """Return what a judgment keeps of its runs: texts as they came, and how they were read."""
    evidence: dict[str, Any] = {
        "score_mode": mode,
        "texts": [run.text for run in runs],
        "statuses": [run.status.value for run in runs],
        "written": [run.written.value for run in runs],
        "written_statuses": [run.written.status.value for run in runs],
        "resampled": sum(run.tries - 1 for run in runs),
    }
    if problems := [run.written.reason for run in runs if run.written.reason]:
        evidence["problems_of_verdicts"] = problems
    if mode == "logprobs":
        evidence["exact"] = all(run.exact for run in runs)
    if any(run.status is Status.NO_LABEL_MASS for run in runs):
        evidence["top_tokens"] = [list(run.top_tokens) for run in runs]
    return evidence
