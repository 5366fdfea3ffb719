"""BERTScore: how well the tokens of a response match those of a reference answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Embed, Embedded
from adjudge.judges.base import (
    NO_PROMPTS,
    Judge,
    Steps,
    Work,
    check_range,
    embedded,
    judgment,
)
from adjudge.prompts.template import Prompts
from adjudge.schema import Item, Status
from adjudge.stats.matching import (
    Matched,
    Vectors,
    Weights,
    best_match,
    greedy_match,
    idf_weights,
    unit_rows,
)

#: How many references are embedded at once to count their tokens: vectors take memory.
BATCH = 64


class Usual(NamedTuple):
    """What the published tool does with a model.

    `blank`: it puts a blank before a text; `baselines`: its English ones at that layer.
    """

    layer: int = 0
    blank: bool = False
    baselines: Matched | None = None


#: By the model's name, without its owner.
USUAL: Mapping[str, Usual] = {
    "bert-base-uncased": Usual(9, baselines=Matched(0.35375935, 0.3537393, 0.35219112)),
    "bert-large-uncased": Usual(18),
    "bert-base-multilingual-cased": Usual(9),
    "distilbert-base-uncased": Usual(5),
    "roberta-base": Usual(10, blank=True),
    "roberta-large": Usual(17, blank=True, baselines=Matched(0.83150584, 0.8314941, 0.83122575)),
    "roberta-large-mnli": Usual(19, blank=True),
    "distilroberta-base": Usual(5, blank=True),
    "xlm-roberta-base": Usual(9),
    "xlm-roberta-large": Usual(17),
    "deberta-xlarge-mnli": Usual(40),
}


class Documents(NamedTuple):
    """How many references a run has, and how many of them have each token."""

    n: int = 0
    counts: Mapping[int, int] = {}


NO_DOCUMENTS = Documents()


class _Text(NamedTuple):
    """A text as it is matched; `written` is False if the tokenizer left nothing of it."""

    vectors: Vectors
    weights: Weights
    written: bool
    n_cut: int


@dataclass(frozen=True, kw_only=True)
class BERTScoreJudge(Judge):
    """Scores a response by the cosines between its token vectors and those of a reference.

    Every token takes the best cosine that it has with a token of the other text (Zhang et al.
    2020, section 3). Precision is the mean over the response, recall that over the reference, f1
    their harmonic mean. Tokens that the model puts around a text have no weight, but can be
    matched. Of several references each part takes its own maximum, as in the published tool.

    Parameters
    ----------
    prompts, seed
        None are shown, and nothing is drawn.
    part
        ``f1``, ``precision`` or ``recall``.
    against
        ``reference``: the reference answers of the item. ``source``: its source.
    layer
        The hidden layer whose vectors are matched, from 1; 0: the one that the published tool
        takes for a model of that name, the last one of a model that it does not know.
    idf
        Whether tokens weigh ``log((N + 1) / (df + 1))``, by how many of the run's N references
        have them. Every row's references count, as often as they occur; a row that is judged by
        several criteria counts once. A text whose tokens weigh nothing has precision or recall 0.
    rescale
        Whether the score is ``(x - b) / (1 - b)`` of itself, with a baseline `b`.
    baseline
        That baseline; 0: the published one of the model, for English, where there is one.
    blank
        Whether a blank goes before every text. It does in any case for the models of which the
        published tool wants it: RoBERTa, known by the model's name.
    """

    name: ClassVar[str] = "bertscore"
    url: ClassVar[str] = "https://arxiv.org/abs/1904.09675"
    differs: ClassVar[str] = (
        "A best cosine below 0 stays so, which the published tool makes 0 where a longer text "
        "shares the batch. Special tokens spelled in a text are read as text, and empty texts "
        "have no score instead of 0."
    )
    calls: ClassVar[str] = (
        "1, and 1 for each different reference of the items judged at the same time; idf: 1 "
        "short one more for each reference"
    )
    has_prompts: ClassVar[bool] = False
    not_options = (*Judge.not_options, "documents")

    prompts: Prompts = NO_PROMPTS
    part: Literal["f1", "precision", "recall"] = "f1"
    against: Literal["reference", "source"] = "reference"
    layer: int = 0
    idf: bool = False
    rescale: bool = False
    baseline: float = 0.0
    blank: bool = False
    documents: Documents = NO_DOCUMENTS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("layer", self.layer, 0, 1000)
        check_range("baseline", self.baseline, -1, 0.999)
        if self.baseline and not self.rescale:
            raise ConfigError(
                f"baseline={self.baseline:g} is for rescaled scores: add rescale=true, or leave "
                "it out"
            )

    @property
    def needs(self) -> frozenset[Capability]:
        """See `Judge.needs`."""
        return frozenset({Capability.EMBED})

    @property
    def conventions(self) -> Mapping[str, str]:
        """See `Judge.conventions`."""
        return {"layer": str(self.layer or "last")}

    def fitted(self, capabilities: frozenset[Capability], model: str = "") -> Self:
        """See `Judge.fitted`: the model's name decides the layer, the blank and the baseline."""
        del capabilities
        usual = USUAL.get(model.rpartition("/")[2].lower(), Usual())
        layer = self.layer or usual.layer
        baseline = self.baseline
        if self.rescale and not baseline:
            if usual.baselines is None or layer != usual.layer:
                raise ConfigError(_no_baseline(model, layer))
            baseline = getattr(usual.baselines, self.part)
        return replace(self, layer=layer, blank=self.blank or usual.blank, baseline=baseline)

    def prepared(self, items: Sequence[Item]) -> Work[Self]:
        """See `Judge.prepared`: this counts the references that have a token."""
        if not self.idf or not items:
            return self
        rows = dict.fromkeys((item.id, self._references(item)) for item in items)
        times = Counter(text for _, references in rows for text in references)
        texts = list(times)
        if len(texts) < 2:
            raise ConfigError(
                "idf weighs tokens by how many references have them, and all these items have the "
                f"one reference {texts[0][:40]!r}: leave idf out"
            )
        counts: Counter[int] = Counter()
        for start in range(0, len(texts), BATCH):
            some = texts[start : start + BATCH]
            # Tokens are the same in every layer; the first one's vectors cost least.
            replies = embedded((yield [self._shown(text, layer=1) for text in some]))
            for text, reply in zip(some, replies, strict=True):
                counts.update(dict.fromkeys(reply.tokens, times[text]))
        return replace(self, documents=Documents(times.total(), dict(counts)))

    def judge(self, item: Item) -> Steps:
        """Match the response with every reference."""
        response = item.response.strip()
        if not response:
            return judgment(item, Status.EMPTY_RESPONSE)
        if self.idf and not self.documents.n:
            raise ConfigError("idf needs all items before the first is judged: give them as known")
        shown = [
            self._shown(text, self.layer or None)
            for text in (response, *dict.fromkeys(self._references(item)))
        ]
        replies = embedded((yield shown))
        text, *references = [self._read(reply) for reply in replies]
        references = [each for each in references if each.written]
        if not text.written:
            why = "the model's tokenizer leaves nothing of the response"
            return judgment(item, Status.EMPTY_RESPONSE, evidence={"error": why})
        if not references:
            why = "the model's tokenizer leaves nothing of the references"
            return judgment(item, Status.ENGINE_ERROR, evidence={"error": why})
        best = best_match(
            greedy_match(text.vectors, each.vectors, text.weights, each.weights)
            for each in references
        )
        if not all(map(isfinite, best)):
            why = "the engine gave vectors without a direction, of length 0 or not of numbers"
            return judgment(item, Status.ENGINE_ERROR, evidence={"error": why})
        raw = float(getattr(best, self.part))
        value = (raw - self.baseline) / (1 - self.baseline) if self.rescale else raw
        evidence = {
            **best._asdict(),
            "references": len(references),
            "weightless": sum(not each.weights.any() for each in (text, *references)),
            "cut_tokens": sum(reply.n_cut for reply in replies),
        }
        return judgment(item, Status.OK, value=value, raw=raw, evidence=evidence)

    def _references(self, item: Item) -> tuple[str, ...]:
        """Return the texts that the response is matched with, never none."""
        source = self.against == "source"
        texts = (item.source.text,) if source else item.reference_answers
        if found := tuple(text.strip() for text in texts if text.strip()):
            return found
        raise ConfigError(
            f"the source of the item {item.id!r} is empty: use against=reference"
            if source
            else f"the item {item.id!r} has no reference answer to match with: give it one "
            "(reference_answer, or a list reference_answers), or use against=source"
        )

    def _shown(self, text: str, layer: int | None) -> Embed:
        return Embed(content=f" {text}" if self.blank else text, layer=layer)

    def _read(self, reply: Embedded) -> _Text:
        """Return a text with the weights of its tokens."""
        own = ~np.array(reply.special, dtype=bool)
        weights = own.astype(float)
        if self.idf:
            weights *= idf_weights(reply.tokens, self.documents.counts, self.documents.n)
        return _Text(unit_rows(reply.vectors), weights, bool(own.any()), reply.n_cut)


def _no_baseline(model: str, layer: int) -> str:
    known = ", ".join(f"{name} at layer {each.layer}" for name, each in USUAL.items() if each[2])
    return (
        f"no baseline is known for {model or 'this model'} at layer {layer or 'last'}, but for "
        f"{known}: give one, as in baseline=0.83, or leave rescale out"
    )
