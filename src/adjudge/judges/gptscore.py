"""GPTScore: how likely a text is as the continuation of a prompt that asks for a good one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Message, ScoreText, TextScore
from adjudge.judges.base import Judge, Steps, judgment, text_scores
from adjudge.schema import Item, Status

Form = Literal["src_hyp", "ref_hyp", "hyp_ref", "mean", "max", "harmonic"]
#: In which directions a form scores a response and a reference answer.
DIRECTIONS: Mapping[str, tuple[str, ...]] = {
    "ref_hyp": ("ref_hyp",),
    "hyp_ref": ("hyp_ref",),
    "mean": ("ref_hyp", "hyp_ref"),
    "max": ("ref_hyp", "hyp_ref"),
    "harmonic": ("ref_hyp", "hyp_ref"),
}


class Pass(NamedTuple):
    """A text to score: in which direction, and with which reference answer (from 1; 0: none)."""

    direction: str
    reference: int
    request: ScoreText


@dataclass(frozen=True, kw_only=True)
class GPTScoreJudge(Judge):
    """Scores a response by the mean log-probability of its tokens after an instruction.

    The value is ``1/m sum_t log p(h_t | h_<t, prompt)``, natural and at most 0, with equal
    weights (Fu et al. 2023, equation 1). The prompt is plain text, without a chat template: the
    instruction, which names the criterion, the source and a cue. The scored text follows after
    exactly one blank, which belongs to it: copies of the method differ here. In conversations the
    scored text is "Yes", the answer to a question about the response.

    The forms with reference answers score each text as the other one in other words, in one
    direction or both; ``mean``, ``max`` and ``harmonic`` are those of both directions (``max`` is
    not in the paper's code). Of several
    reference answers the best one counts.

    Parameters
    ----------
    prompts, seed
        See `Judge`; nothing is drawn.
    form
        ``src_hyp``: the response after its source. ``ref_hyp``: after a reference answer.
        ``hyp_ref``: a reference answer after the response. ``mean``, ``max``, ``harmonic``: of
        these two.
    published
        Whether to score as the paper's code for GPT-2 and GPT-J does: texts that do not end with
        a full stop get " .", as does the text before the cue, a blank stands before the comma of
        that cue, the first token is not counted, and ``harmonic`` is half the harmonic mean.

    Notes
    -----
    The paper's code is for texts made from data, with reference answers. Of what it does,
    `published` leaves out: its demonstrations; the labels from a tokenisation of the scored text
    alone; sources cut to fit, which here are an error of the engine; exchanged colons and the
    Moses detokeniser; and the ways of its GPT-3 and FLAN-T5 branches.
    """

    name: ClassVar[str] = "gptscore"
    url: ClassVar[str] = "https://arxiv.org/abs/2302.04166"
    differs: ClassVar[str] = (
        "No demonstrations, and every token of the scored text counts. published=true repeats "
        "slips of the paper's code, but not its labels from a text tokenised alone nor its cut "
        "sources."
    )
    calls: ClassVar[str] = "1; with reference answers 1 for each, 2 with both directions"

    form: Form = "src_hyp"
    published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.published and self._answer:
            raise ConfigError(
                f"published repeats slips of code that scores responses, and the prompts "
                f"{self.prompts.reference} score the answer {self._answer!r}: leave published "
                "out, or choose a form with reference answers"
            )

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        return frozenset({Capability.SCORE_TEXT})

    @property
    def _answer(self) -> str:
        """What is scored instead of the response, if anything is."""
        scored = self.prompts.settings.get("scored", "") if self.form == "src_hyp" else ""
        return str(scored).strip()

    def judge(self, item: Item) -> Steps:
        """Score the response after its source, or with every reference answer."""
        if not item.response.strip():
            return judgment(item, Status.EMPTY_RESPONSE)
        passes = [self._from_source(item)] if self.form == "src_hyp" else self._restated(item)
        replies = text_scores((yield [each.request for each in passes]))
        counted = [self._counted(reply) for reply in replies]
        if fault := _fault(counted, replies):
            status, why = fault
            return judgment(item, status, evidence={"error": why})
        means = [fmean(logprobs) for logprobs in counted]
        by_reference: dict[int, list[float]] = {}
        for each, mean in zip(passes, means, strict=True):
            by_reference.setdefault(each.reference, []).append(mean)
        value = max(self._combined(both) for both in by_reference.values())
        evidence: dict[str, Any] = {
            "form": self.form,
            "passes": [
                {"form": each.direction, "logprob": mean, "tokens": len(logprobs)}
                | ({"reference": each.reference} if each.reference else {})
                for each, mean, logprobs in zip(passes, means, counted, strict=True)
            ],
        }
        return judgment(item, Status.OK, value=value, raw=value, evidence=evidence)

    def _from_source(self, item: Item) -> Pass:
        data = {"source": item.source.text}
        if self._answer:
            data["response"] = item.response
        asked = self.prompts.render("src_hyp", data, criterion=item.criterion)
        return Pass("src_hyp", 0, _continued(asked, self._answer or self._text(item.response)))

    def _restated(self, item: Item) -> list[Pass]:
        references = [text for text in item.reference_answers if text.strip()]
        if not references:
            raise ConfigError(
                f"the item {item.id!r} has no reference answer, which the form {self.form} needs: "
                "give it one (reference_answer, or a list reference_answers), or use form=src_hyp"
            )
        response = self._text(item.response)
        passes = []
        for number, reference in enumerate(map(self._text, references), start=1):
            for direction in DIRECTIONS[self.form]:
                first, scored = (
                    (reference, response) if direction == "ref_hyp" else (response, reference)
                )
                asked = self.prompts.render(
                    "restate", {"text": first}, criterion=item.criterion, published=self.published
                )
                passes.append(Pass(direction, number, _continued(asked, scored)))
        return passes

    def _text(self, text: str) -> str:
        """Return a text as it is scored."""
        text = text.strip()
        return f"{text} ." if self.published and not text.endswith(".") else text

    def _counted(self, reply: TextScore) -> Sequence[float]:
        """Return the log-probs of the tokens that count."""
        return reply.logprobs[1:] if self.published else reply.logprobs

    def _combined(self, means: Sequence[float]) -> float:
        """Return what the directions with one reference answer come to."""
        if self.form != "harmonic":
            return max(means) if self.form == "max" else fmean(means)
        product, total = means[0] * means[1], sum(means)
        if not total:  # both texts are certain
            return 0.0
        return product / total if self.published else 2 * product / total


def _continued(messages: Sequence[Message], text: str) -> ScoreText:
    """Return the request to score a text after a prompt and one blank."""
    if len(messages) > 1:
        raise ConfigError("GPTScore shows plain text, no chat: drop the system text of its prompts")
    return ScoreText(context=messages[0].content.rstrip(), continuation=f" {text}")


def _fault(
    counted: Sequence[Sequence[float]], replies: Sequence[TextScore]
) -> tuple[Status, str] | None:
    """Return why there is no score, if there is none."""
    for logprobs, reply in zip(counted, replies, strict=True):
        if not reply.logprobs or not all(map(isfinite, reply.logprobs)):
            why = (
                f"the engine gave {len(reply.logprobs)} log-probs for a text, where a finite "
                "number for each token is wanted"
            )
            return Status.ENGINE_ERROR, why
        if not logprobs:
            why = "the text has one token, and published=true does not count the first"
            return Status.EMPTY_RESPONSE, why
    return None
