"""One request's questions to a server: as many as it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from adjudge.engines.openai_answers import Shown, completion, next_tokens, usage_of
from adjudge.engines.openai_bodies import Probed, body, safe
from adjudge.engines.openai_client import Client
from adjudge.engines.openai_echo import echo_body, token_scores
from adjudge.engines.openai_errors import UnusableError
from adjudge.engines.openai_labels import label_steps
from adjudge.exchange import (
    Completion,
    Generate,
    Generated,
    LabelScores,
    Message,
    ScoreLabels,
    ScoreText,
    TextScore,
    Usage,
)
from adjudge.schema import content_hash

T = TypeVar("T")


class Asking:
    """Asks for the reply to one request, and counts what its answers took.

    Parameters
    ----------
    client
        Asks the server.
    probed
        What the server does.
    """

    def __init__(self, client: Client, probed: Probed) -> None:
        self._client, self._probed = client, probed
        self._spent: list[Usage] = []

    def usage(self) -> Usage:
        """Return the tokens of all answers; the prompt, which they share, is counted once."""
        return Usage(
            prompt_tokens=next((n for each in self._spent if (n := each.prompt_tokens)), 0),
            evaluated_tokens=sum(each.evaluated_tokens for each in self._spent),
            generated_tokens=sum(each.generated_tokens for each in self._spent),
        )

    async def labels(self, request: ScoreLabels) -> LabelScores:
        """Return the log-probs of labels, each beginning that is followed by a question more."""
        steps = label_steps(request, can_continue=self._probed.continues)
        begun = next(steps)
        while True:
            shown = await self._next_tokens(_begun_with(request.messages, begun))
            try:
                begun = steps.send(shown)
            except StopIteration as end:
                scores: LabelScores = end.value
                return replace(scores, usage=self.usage())

    async def generated(self, request: Generate) -> Generated:
        """Return the texts, each by a question of its own, with the seeds of other engines."""
        completions = []
        for draw in request.draws():
            asked = body(
                self._probed,
                draw.messages,
                max_tokens=draw.max_tokens,
                sampling=draw.sampling,
                seed=int(content_hash([draw.sampling.seed, draw.first_sample])[:8], 16),
                json_schema=draw.json_schema,
            )
            begun = self._repeated(draw.messages)
            completions.append(
                await self._read(asked, draw.messages, draw.max_tokens, completion_after(begun))
            )
        return Generated(request_id=request.id, completions=tuple(completions), usage=self.usage())

    async def text(self, request: ScoreText) -> TextScore:
        """Return the log-probs of a text's own tokens."""
        asked = echo_body(self._probed, request)
        score = await self._usable(
            "/completions", asked, len(request.text) // 4, lambda each: token_scores(each, request)
        )
        return replace(score, usage=self.usage())

    async def _next_tokens(self, messages: tuple[Message, ...]) -> Shown:
        asked = body(self._probed, messages, max_tokens=1, top=self._probed.top_logprobs)
        begun = self._repeated(messages)
        return await self._read(asked, messages, 1, lambda answer: next_tokens(answer, begun))

    async def _read(
        self,
        asked: Mapping[str, Any],
        messages: tuple[Message, ...],
        max_tokens: int,
        read: Callable[[Mapping[str, Any]], T],
    ) -> T:
        n_tokens = sum(len(each.content) for each in messages) // 4 + max_tokens
        return await self._usable(self._probed.path, asked, n_tokens, read)

    async def _usable(
        self,
        path: str,
        asked: Mapping[str, Any],
        n_tokens: int,
        read: Callable[[Mapping[str, Any]], T],
    ) -> T:
        """Return what `read` makes of the answer; one that lacks something is asked for again."""
        try:
            return read(await self._answer(path, asked, n_tokens))
        except UnusableError as unusable:
            if not unusable.again:
                raise
        return read(await self._answer(path, asked, n_tokens))

    async def _answer(
        self, path: str, asked: Mapping[str, Any], n_tokens: int
    ) -> Mapping[str, Any]:
        answer = await self._client.post(path, asked, n_tokens=n_tokens)
        self._spent.append(usage_of(answer))
        return answer

    def _repeated(self, messages: tuple[Message, ...]) -> str:
        """Return the begun reply, if the server's answers repeat it."""
        begun = self._probed.repeats and messages[-1].role == "assistant"
        return safe(messages[-1].content) if begun else ""


def completion_after(begun: str) -> Callable[[Mapping[str, Any]], Completion]:
    """Return what reads a text out of an answer that may repeat a begun reply."""
    return lambda answer: completion(answer, begun)


def _begun_with(messages: tuple[Message, ...], begun: str) -> tuple[Message, ...]:
    """Return a chat in which the reply has begun so."""
    if not begun:
        return messages
    if messages[-1].role == "assistant":
        begun = messages[-1].content + begun
        messages = messages[:-1]
    return (*messages, Message(role="assistant", content=begun))
