"""What passes between judges and engines: requests and replies.

All are frozen and keyword-only. Requests are content-addressed: two requests that ask the same
thing have the same ``id``, which is how replies are matched, shared and stored.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from adjudge.errors import ConfigError
from adjudge.schema import content_hash, plain


@dataclass(frozen=True, kw_only=True)
class Message:
    """One turn of a chat: ``system``, ``user`` or ``assistant``, and what it says."""

    role: Literal["system", "user", "assistant"]
    content: str


class Capability(StrEnum):
    """What an engine can be asked for; a judge declares which it needs."""

    GENERATE = "generate"
    SCORE_LABELS = "score_labels"
    SCORE_TEXT = "score_text"
    EMBED = "embed"


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How text is drawn: `temperature` 0 is greedy; `seed` makes a draw repeatable."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        # Equal numbers must be written alike, or equal requests would have different ids.
        object.__setattr__(self, "temperature", float(self.temperature) + 0.0)
        object.__setattr__(self, "top_p", float(self.top_p) + 0.0)
        object.__setattr__(self, "seed", int(self.seed))


class Request:
    """What an engine is asked. Equal content, equal ``id``.

    `messages` is a chat, empty where plain text is shown. A last message of the assistant is a
    reply that has begun, and that what is asked for goes on with.
    """

    capability: ClassVar[Capability]
    #: Whether replies are worth keeping in a store.
    kept: ClassVar[bool] = True
    messages: tuple[Message, ...] = ()

    @property
    def text(self) -> str:
        """All that the model is shown, as one text."""
        return "\n".join(message.content for message in self.messages)

    @cached_property
    def id(self) -> str:
        """A sha256 over the kind and every field."""
        return content_hash([type(self).__name__, plain(self)])


@dataclass(frozen=True, kw_only=True)
class Generate(Request):
    """Ask for `n` texts of at most `max_tokens` tokens each.

    The draws are numbered from `first_sample`, so that n=5 after n=3 asks for two more.
    `json_schema` (JSON text) constrains what may be written.
    """

    capability = Capability.GENERATE
    messages: tuple[Message, ...]
    max_tokens: int
    sampling: Sampling = Sampling()
    n: int = 1
    first_sample: int = 0
    json_schema: str | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.n < 1:
            raise ConfigError(
                f"max_tokens and n must be 1 or more, not {self.max_tokens} and {self.n}"
            )

    def draws(self) -> tuple[Generate, ...]:
        """Return the `n` requests for one text each that this one stands for."""
        return tuple(
            Generate(
                messages=self.messages,
                max_tokens=self.max_tokens,
                sampling=self.sampling,
                first_sample=self.first_sample + i,
                json_schema=self.json_schema,
            )
            for i in range(self.n)
        )


@dataclass(frozen=True, kw_only=True)
class ScoreLabels(Request):
    """Ask for the log-probability of each label as the next text of the reply."""

    capability = Capability.SCORE_LABELS
    messages: tuple[Message, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.labels:
            raise ConfigError("there are no labels to score")


@dataclass(frozen=True, kw_only=True)
class ScoreText(Request):
    """Ask for the log-probability of each token of a text that goes on after another.

    Both are plain text, without a chat template. `continuation` begins with the white space that
    separates it from `context`, and the first token that reaches into it counts as its own.
    """

    capability = Capability.SCORE_TEXT
    context: str
    continuation: str

    def __post_init__(self) -> None:
        if not self.continuation.strip():
            raise ConfigError("there is no text to score")

    @property
    def text(self) -> str:
        """See `Request.text`."""
        return self.context + self.continuation


@dataclass(frozen=True, kw_only=True)
class Embed(Request):
    """Ask for a vector for each token of a text, out of a hidden layer of the model.

    `layer` counts from 1, the first one's output; None: the last one's. What does not fit the
    model is cut off at the end, and counted in the reply.
    """

    capability = Capability.EMBED
    kept = False  # large, and quickly made again
    content: str
    layer: int | None = None

    @property
    def text(self) -> str:
        """See `Request.text`."""
        return self.content


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one reply: in its prompt, evaluated by the model for it, and written."""

    prompt_tokens: int = 0
    evaluated_tokens: int = 0
    generated_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Completion:
    """One written text; `finish_reason` is ``length`` where the token limit cut it."""

    text: str
    finish_reason: Literal["stop", "length"]
    n_tokens: int


@dataclass(frozen=True, kw_only=True)
class Generated:
    """Reply to `Generate`: its `n` texts in order."""

    request_id: str
    completions: tuple[Completion, ...]
    usage: Usage = Usage()


@dataclass(frozen=True, kw_only=True)
class LabelScores:
    """Reply to `ScoreLabels`.

    Attributes
    ----------
    logprobs
        Natural-log probability of each label, summed over its tokens; ``(n_labels,)``. That of
        a label whose tokens begin another's includes the other.
    masses
        Probability of each label with those of the labels that it begins taken off;
        ``(n_labels,)``, summing to the coverage.
    n_tokens
        Tokens of each label.
    coverage
        Probability, in [0, 1], that the reply begins with one of the labels.
    exact
        False if a label was outside what the engine shows; its log-prob is then an upper bound.
    top_tokens
        The likeliest first tokens with their log-probs: what the model wanted to say.
    merged
        Texts of tokens that were counted for a label which they equal but for leading white
        space, beside the labels' own.
    """

    request_id: str
    logprobs: tuple[float, ...]
    masses: tuple[float, ...]
    n_tokens: tuple[int, ...]
    coverage: float
    exact: bool = True
    top_tokens: tuple[tuple[str, float], ...] = ()
    usage: Usage = Usage()
    merged: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """Reply to `ScoreText`: the natural-log probability of each token, ``(n_tokens,)``."""

    request_id: str
    logprobs: tuple[float, ...]
    usage: Usage = Usage()


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedded:
    """Reply to `Embed`.

    Attributes
    ----------
    tokens
        Token ids of the text with the special tokens that the model puts around it;
        ``(n_tokens,)``.
    special
        Which of them are such; ``(n_tokens,)``.
    vectors
        ``(n_tokens, n_dimensions)``, 32 bits.
    n_cut
        Tokens that did not fit.
    """

    request_id: str
    tokens: tuple[int, ...]
    special: tuple[bool, ...]
    vectors: npt.NDArray[np.float32]
    n_cut: int = 0
    usage: Usage = Usage()


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Reply to a request that the engine could not serve."""

    request_id: str
    message: str
    usage: Usage = Usage()


Reply = Generated | LabelScores | TextScore | Embedded | Failure


def reply_to_json(reply: Reply) -> str:
    """Return a reply as one line of JSON."""
    values = {"kind": type(reply).__name__} | asdict(reply)
    if isinstance(reply, Embedded):
        little_endian = reply.vectors.astype("<f4").tobytes()
        values["vectors"] = base64.b64encode(little_endian).decode("ascii")
        values["width"] = reply.vectors.shape[1]
    return json.dumps(values)


def reply_from_json(text: str) -> Reply:
    """Return the reply that `reply_to_json` wrote."""
    values: dict[str, Any] = json.loads(text)
    kind = values.pop("kind")
    values["usage"] = Usage(**values["usage"])
    if kind == "Generated":
        values["completions"] = tuple(Completion(**each) for each in values["completions"])
        return Generated(**values)
    if kind == "LabelScores":
        values["logprobs"] = tuple(values["logprobs"])
        values["masses"] = tuple(values["masses"])
        values["n_tokens"] = tuple(values["n_tokens"])
        values["top_tokens"] = tuple((token, value) for token, value in values["top_tokens"])
        values["merged"] = tuple(values.get("merged", ()))  # not in older stores
        return LabelScores(**values)
    if kind == "TextScore":
        values["logprobs"] = tuple(values["logprobs"])
        return TextScore(**values)
    if kind == "Embedded":
        values["tokens"], values["special"] = tuple(values["tokens"]), tuple(values["special"])
        flat = np.frombuffer(base64.b64decode(values["vectors"]), dtype="<f4")
        shape = len(values["tokens"]), values.pop("width")
        values["vectors"] = flat.reshape(shape).astype(np.float32)
        return Embedded(**values)
    return Failure(**values)
