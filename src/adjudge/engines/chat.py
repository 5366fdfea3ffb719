"""How chats become tokens: what templates and tokenizers of all engines have in common."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

from adjudge.engines.base import Tokens, label_tokens
from adjudge.errors import ConfigError
from adjudge.exchange import Message
from adjudge.schema import content_hash

#: What may be chat markup or a special token: <|im_end|>, </s>, [/INST], <<SYS>>.
_MARKUP = re.compile(r"<<?[^<>\n]{1,60}>|\[[^\[\]\n]{1,60}\]")
#: How many of the last characters of a begun reply can move the tokens of what follows.
ENOUGH = 16
#: What templates are told: a fixed date, or prompts would change by the day, and not to think
#: before the reply.
TEMPLATE_FIELDS = {
    "date_string": "26 Jul 2024",
    "datetime": "Jul 26 2024",
    "enable_thinking": False,
}


class ChatText(ABC):
    """The chat template and the tokenizer of a model.

    Parameters
    ----------
    name
        The model's name, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._label_cache: dict[tuple[str, str], Tokens] = {}
        self._markup_cache: dict[str, str] = {}

    @abstractmethod
    def tokenize(self, text: str, *, special: bool = False, begin: bool = False) -> Tokens:
        """Return the token ids of a text.

        Parameters
        ----------
        text
            The text.
        special
            Whether what spells a special token is one.
        begin
            Whether to add what the model wants at the beginning of a prompt.
        """

    @abstractmethod
    def _render(self, messages: Sequence[Message]) -> str:
        """Return the chat prompt, with `TEMPLATE_FIELDS`, as the model's own template writes it."""

    def prompt(self, messages: Sequence[Message]) -> Tokens:
        """Return the token ids of a chat prompt, up to and with the assistant header.

        A last message of the assistant is a reply that has begun: it stands after the header,
        and nothing closes it. Text inside a message that spells chat markup or a special token
        stays text: its first character is exchanged.
        """
        safe = [Message(role=each.role, content=self._safe(each.content)) for each in messages]
        begun = safe.pop().content if safe[-1].role == "assistant" else ""
        text = self._render(safe) + (self._header[1] + begun if begun else "")
        return self.tokenize(text, special=True, begin=True)

    def label(self, label: str, messages: Sequence[Message]) -> Tokens:
        """Return the token ids of a label where it goes on after these messages."""
        last = messages[-1]
        begun = self._safe(last.content)[-ENOUGH:] if last.role == "assistant" else ""
        key = label, begun
        if key not in self._label_cache:
            header, separator = (begun, "") if begun else self._header
            self._label_cache[key] = label_tokens(
                lambda text: self.tokenize(text, special=True), header, label, separator=separator
            )
        return self._label_cache[key]

    @cached_property
    def markup(self) -> tuple[str, ...]:
        """What the chat template puts around a question, a reply and the next question.

        The second part stands between a question and its reply.
        """
        marks = [f"text-{i}-{content_hash(i)}" for i in range(3)]
        roles = ("user", "assistant", "user")
        rest = self._render(
            [Message(role=role, content=mark) for role, mark in zip(roles, marks, strict=True)]  # type: ignore[arg-type]
        )
        parts = []
        for mark in marks:
            before, found, rest = rest.partition(mark)
            if not found:
                raise ConfigError(
                    f"the chat template of {self._name} does not write messages as they are; "
                    "this model cannot be used"
                )
            parts.append(before)
        return (*parts, rest)

    @property
    def details(self) -> Mapping[str, str]:
        """What a prompt and a reply stand between."""
        before, between, *_ = self.markup
        return {"chat template": f"{before!r} prompt {between!r} reply"}

    @cached_property
    def _header(self) -> tuple[str, str]:
        """How a prompt ends, and what the template puts between that and a reply."""
        mark = f"text-{content_hash(0)}"
        header = self._render([Message(role="user", content=mark)]).partition(mark)[2]
        if re.search(r"<think[^<]*\Z", header):
            raise ConfigError(
                f"the chat template of {self._name} makes it think before it replies, so that "
                "no label can come first; use a model that replies at once"
            )
        begins = self.markup[1].startswith(header)
        return header, self.markup[1][len(header) :] if begins else ""

    def _safe(self, text: str) -> str:
        """Return a text in which nothing is read as chat markup or a special token."""
        safe = _MARKUP.sub(lambda found: self._safe_markup(found[0]), text)
        if self.tokenize(safe) != self.tokenize(safe, special=True):
            safe = safe.replace("<", "\u2039").replace("[", "\u2045")
        if self.tokenize(safe) != self.tokenize(safe, special=True):
            raise ConfigError(
                f"a text spells special tokens of {self._name} in a way that cannot be "
                f"neutralised: {text[:80]!r}; remove them"
            )
        return safe

    def _safe_markup(self, piece: str) -> str:
        if piece not in self._markup_cache:
            spelled = any(piece in part for part in self.markup)
            special = self.tokenize(piece) != self.tokenize(piece, special=True)
            exchanged = ("\u2039" if piece[0] == "<" else "\u2045") + piece[1:]
            self._markup_cache[piece] = exchanged if spelled or special else piece
        return self._markup_cache[piece]
