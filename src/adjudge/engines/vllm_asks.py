"""What a request asks of vLLM, and the reply that its answers make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from adjudge.engines.base import NextToken, Tokens, label_contexts, score_labels
from adjudge.engines.vllm_core import AT_ONCE, TOP, Answer, Ask
from adjudge.exchange import (
    Completion,
    Failure,
    Generate,
    Generated,
    Reply,
    Request,
    ScoreLabels,
    ScoreText,
    TextScore,
    Usage,
)
from adjudge.schema import content_hash

#: How many of the likeliest tokens are told, if so many are seen.
TOLD = 5
#: The shortest reply: what vLLM shows comes with a token that it writes.
ONE_TOKEN = {"max_tokens": 1, "temperature": 0.0}


class Asked(ABC):
    """A request with what it asks of vLLM, and the answers that have come.

    Attributes
    ----------
    asks
        In any order.
    answers
        By the place of the ask among them.
    """

    def __init__(self, request: Request, prompt: Tokens, asks: Sequence[Ask]) -> None:
        self.request, self.prompt, self.asks = request, prompt, tuple(asks)
        self.answers: dict[int, Answer] = {}

    def take(self, place: int, answer: Answer) -> bool:
        """Keep an answer; return whether it was the last one missing."""
        self.answers[place] = answer
        return len(self.answers) == len(self.asks)

    def reply(self) -> Reply:
        """Return the reply, once all answers have come."""
        for answer in self.answers.values():
            if answer.refused:
                return Failure(request_id=self.request.id, message=answer.refused)
        return self._reply([self.answers[place] for place in range(len(self.asks))])

    @abstractmethod
    def _reply(self, answers: Sequence[Answer]) -> Reply:
        """Return the reply from one answer for each ask."""


class AskedLabels(Asked):
    """Labels: the log-probs of their tokens after the prompt and after each other.

    Parameters
    ----------
    request, prompt, labels
        With the tokens of the prompt and of each label.
    piece
        How a token is written.
    exact
        Whether tokens can be asked for by their ids; if not, the `TOP` likeliest are.
    """

    def __init__(
        self,
        request: ScoreLabels,
        prompt: Tokens,
        labels: Sequence[Tokens],
        *,
        piece: Callable[[int], str],
        exact: bool,
    ) -> None:
        self._labels, self._piece, self._exact = labels, piece, exact
        self._request = request
        self._contexts: list[Tokens] = []
        asks = []
        for context, wanted in label_contexts(labels).items():
            ids = sorted(wanted)
            parts = [ids[i : i + AT_ONCE] for i in range(0, len(ids), AT_ONCE)] if exact else [[]]
            for part in parts:
                shown = {"logprob_token_ids": part} if exact else {"logprobs": TOP}
                asks.append(Ask(prompt + context, ONE_TOKEN | shown))
                self._contexts.append(context)
        super().__init__(request, prompt, asks)

    def _reply(self, answers: Sequence[Answer]) -> Reply:
        shown: dict[Tokens, dict[int, float]] = {}
        for context, answer in zip(self._contexts, answers, strict=True):
            shown.setdefault(context, {}).update(answer.logprobs)
        # The likeliest token is always shown, beside those asked for by their ids: then it bounds
        # all others, as the last of the likeliest does where those are shown.
        bound, told = (max, 1) if self._exact else (min, TOLD)
        likeliest = sorted(shown[()].items(), key=lambda pair: -pair[1])[:told]
        return score_labels(
            self._request,
            self._labels,
            {context: NextToken(seen, bound(seen.values())) for context, seen in shown.items()},
            top_tokens=[(self._piece(token), value) for token, value in likeliest],
            usage=Usage(
                prompt_tokens=len(self.prompt),
                evaluated_tokens=sum(answer.n_evaluated for answer in answers),
            ),
        )


class AskedText(Asked):
    """A text: the log-probs of the tokens of its continuation, from `start` on.

    They are log-probs of a prompt, for which vLLM evaluates the whole prompt: it reads nothing
    of them in its prefix cache.
    """

    def __init__(self, request: ScoreText, tokens: Tokens, start: int) -> None:
        super().__init__(request, tokens, [Ask(tokens, ONE_TOKEN | {"prompt_logprobs": 0})])
        self._start = start

    def _reply(self, answers: Sequence[Answer]) -> Reply:
        (answer,) = answers
        return TextScore(
            request_id=self.request.id,
            logprobs=answer.prompt[self._start :],
            usage=Usage(prompt_tokens=len(self.prompt), evaluated_tokens=answer.n_evaluated),
        )


class AskedDraws(Asked):
    """Texts to write: each draw by itself, with a seed of its own.

    `written` says how tokens are read as text.
    """

    def __init__(
        self, request: Generate, prompt: Tokens, *, written: Callable[[Sequence[int]], str]
    ) -> None:
        self._written = written
        sampling, first = request.sampling, request.first_sample
        super().__init__(
            request,
            prompt,
            [
                Ask(
                    prompt,
                    {
                        "max_tokens": request.max_tokens,
                        "temperature": sampling.temperature,
                        "top_p": sampling.top_p,
                        "seed": int(content_hash([sampling.seed, sample])[:8], 16),
                    },
                    request.json_schema,
                )
                for sample in range(first, first + request.n)
            ],
        )

    def _reply(self, answers: Sequence[Answer]) -> Reply:
        return Generated(
            request_id=self.request.id,
            completions=tuple(
                Completion(
                    text=self._written(each.tokens[:-1] if each.ended else each.tokens),
                    finish_reason="stop" if each.ended else "length",
                    n_tokens=len(each.tokens),
                )
                for each in answers
            ),
            usage=Usage(
                prompt_tokens=len(self.prompt) * len(answers),
                evaluated_tokens=sum(each.n_evaluated for each in answers),
                generated_tokens=sum(len(each.tokens) for each in answers),
            ),
        )
