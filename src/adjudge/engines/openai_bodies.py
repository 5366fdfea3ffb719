"""What a server turned out to do, and how requests are written for it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from adjudge.engines.chat import TEMPLATE_FIELDS
from adjudge.exchange import Message, Sampling

#: Chat markup and special tokens of the families that are around, which a server would read as
#: such: ChatML and Llama 3, Llama 2 and Mistral, Gemma, DeepSeek, the ends of texts and thoughts.
_MARKUP = re.compile(
    r"<\|[^<>|\n]{1,60}\|>|<｜[^<>｜\n]{1,60}｜>|"
    r"</?(?:s|bos|eos|pad|unk|mask|think|start_of_turn|end_of_turn|end_of_text)>|<<?/?SYS>>|"
    r"\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|gMASK|sMASK)\]"
)
#: Fields that OpenAI's own API does not know: what other servers change on their own otherwise.
EXTRAS = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "chat_template_kwargs": TEMPLATE_FIELDS,
}


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What a server turned out to be and to do.

    Attributes
    ----------
    model
        The model's name on the server.
    owner
        Who runs it, as the server says.
    api
        Whether chats are understood or only plain text.
    limit
        The field that says how many tokens to write.
    extras
        Whether fields are taken that OpenAI's own API does not know.
    top_logprobs
        How many of the likeliest tokens are shown; 0: none.
    thinks
        Whether the model writes thoughts before its reply.
    prefill
        Whether it goes on with a begun reply: by itself, if flags say so, or not.
    repeats
        Whether the begun reply is repeated in the answer.
    json_schema
        Whether a JSON schema constrains what is written.
    seed
        Whether a seed is refused, taken, or also makes a draw repeatable.
    echo
        Whether the log-probs of a plain text's own tokens are shown.
    context
        Tokens that a prompt and its reply may have; None if the server does not say.
    """

    model: str
    owner: str = "?"
    api: Literal["chat", "completions"] = "chat"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    extras: bool = False
    top_logprobs: int = 0
    thinks: bool = False
    prefill: Literal["no", "itself", "flags"] = "no"
    repeats: bool = False
    json_schema: bool = False
    seed: Literal["refused", "taken", "repeatable"] = "refused"
    echo: bool = False
    context: int | None = None

    @property
    def path(self) -> str:
        """Where requests go, below the server's URL."""
        return "/chat/completions" if self.api == "chat" else "/completions"

    @property
    def continues(self) -> bool:
        """Whether a begun reply is gone on with."""
        return self.api == "completions" or self.prefill != "no"

    def signature(self) -> dict[str, str]:
        """Return what moves a reply, by name."""
        texts = self.described() | {"seed": "no" if self.seed == "refused" else "yes"}
        del texts["repeats"]
        return texts

    def described(self) -> dict[str, str]:
        """Return every field as a text to print."""

        def text(value: object) -> str:
            if value is None:
                return "unknown"
            return ("yes" if value else "no") if isinstance(value, bool) else str(value)

        return {name: text(value) for name, value in vars(self).items()}


def body(
    probed: Probed,
    messages: Sequence[Message],
    *,
    max_tokens: int,
    sampling: Sampling | None = None,
    seed: int | None = None,
    top: int = 0,
    json_schema: str | None = None,
) -> dict[str, Any]:
    """Return a request for text as the server wants it.

    Texts that spell chat markup or a special token of a known family are shown with their first
    character exchanged, or servers would read them as such. There is no tokenizer here: an
    unknown family's markup stays.

    Parameters
    ----------
    probed
        What the server does.
    messages
        The chat; a last one of the assistant is a reply that has begun.
    max_tokens
        Most tokens to write.
    sampling
        How to draw; greedily if not given.
    seed
        Sent where the server takes seeds.
    top
        How many of the likeliest tokens to show; 0: none.
    json_schema
        What constrains the text.
    """
    sampling = sampling or Sampling()
    written: dict[str, Any] = {"model": probed.model}
    texts = [(each.role, safe(each.content)) for each in messages]
    if probed.api == "chat":
        written["messages"] = [{"role": role, "content": text} for role, text in texts]
    else:
        written["prompt"] = plain_prompt(texts)
    written[probed.limit] = max_tokens
    written["temperature"], written["top_p"] = sampling.temperature, sampling.top_p
    if seed is not None and probed.seed != "refused":
        written["seed"] = seed
    if top:
        shown = {"logprobs": True, "top_logprobs": top}
        written |= shown if probed.api == "chat" else {"logprobs": top}
    if json_schema is not None:
        schema = {"name": "reply", "strict": True, "schema": json.loads(json_schema)}
        written["response_format"] = {"type": "json_schema", "json_schema": schema}
    if probed.extras:
        written |= EXTRAS
    if probed.prefill == "flags" and messages[-1].role == "assistant":
        written |= {"continue_final_message": True, "add_generation_prompt": False}
    return written


def plain_prompt(texts: Sequence[tuple[str, str]]) -> str:
    """Return a chat as one text, for models that know no chats.

    >>> plain_prompt([("user", "Which?"), ("assistant", "It is")])
    'Which?\\n\\nIt is'
    """
    joined = "\n\n".join(text for _, text in texts)
    return joined if texts[-1][0] == "assistant" else f"{joined}\n\n"


def safe(text: str) -> str:
    """Return a text in which nothing is read as chat markup or a special token.

    >>> safe("<|im_end|> [INST] <b> [1]").isascii(), safe("<b> [1]")
    (False, '<b> [1]')
    """
    if "<" not in text and "[" not in text:
        return text
    return _MARKUP.sub(
        lambda found: ("\u2039" if found[0][0] == "<" else "\u2045") + found[0][1:], text
    )
