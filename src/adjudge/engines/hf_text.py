"""How models of transformers turn chats and texts into tokens."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

from adjudge.engines.base import Tokens
from adjudge.engines.chat import TEMPLATE_FIELDS, ChatText
from adjudge.errors import ConfigError
from adjudge.exchange import Message


class Continued(NamedTuple):
    """A text and the place, among its tokens, of the first that reaches into its continuation."""

    tokens: Tokens
    start: int


class Framed(NamedTuple):
    """A text between the special tokens that the model puts around it, cut to what fits."""

    tokens: Tokens
    special: tuple[bool, ...]
    n_cut: int


class HfText(ChatText):
    """The chat template and the tokenizer of a model of transformers.

    Text that spells a special token is text in all that is measured (`continued`, `framed`).

    Parameters
    ----------
    tokenizer
        A tokenizer of transformers that has a ``tokenizer.json``.
    name
        The model's name, for messages.
    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        super().__init__(name)
        self._tokenizer, self._backend = tokenizer, tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._lock = Lock()  # whether special tokens are read as such is a state of the tokenizer

    @property
    def has_template(self) -> bool:
        """Whether the model knows how to chat."""
        return bool(self._tokenizer.chat_template)

    def tokenize(self, text: str, *, special: bool = False, begin: bool = False) -> Tokens:
        """See `ChatText.tokenize`. Chat templates write the beginning themselves."""
        del begin
        return tuple(self._encoded(text, special=special, framed=False).ids)

    def continued(self, context: str, continuation: str) -> Continued:
        """Return the tokens of two texts as one, with what the model wants at the beginning."""
        encoded = self._encoded(context + continuation, special=False, framed=True)
        tokens = list(zip(encoded.ids, encoded.offsets, encoded.special_tokens_mask, strict=True))
        while tokens and tokens[-1][2]:
            tokens.pop()
        reach = (
            i
            for i, (_, (_, end), special) in enumerate(tokens)
            if end > len(context) and not special
        )
        start = next(reach, len(tokens))
        return Continued(tuple(token for token, *_ in tokens), start)

    def framed(self, text: str, at_most: int) -> Framed:
        """Return the tokens of a text for an encoder; those that close it are never cut off."""
        encoded = self._encoded(text, special=False, framed=True)
        tokens, special = encoded.ids, [bool(each) for each in encoded.special_tokens_mask]
        closing = next((i for i, each in enumerate(reversed(special)) if not each), 0)
        n_cut = max(0, len(tokens) - at_most)
        until = len(tokens) - closing
        kept = [*range(until - n_cut), *range(until, len(tokens))]
        return Framed(tuple(tokens[i] for i in kept), tuple(special[i] for i in kept), n_cut=n_cut)

    def written(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens that the model wrote."""
        text: str = self._tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def piece(self, token: int) -> str:
        """Return the text of one token, special or not."""
        text: str = self._tokenizer.decode([token], clean_up_tokenization_spaces=False)
        return text

    def _encoded(self, text: str, *, special: bool, framed: bool) -> Any:
        with self._lock:
            self._backend.encode_special_tokens = not special
            return self._backend.encode(text, add_special_tokens=framed)

    def _render(self, messages: Sequence[Message]) -> str:
        """See `ChatText._render`."""
        from jinja2 import TemplateError

        chat = [{"role": each.role, "content": each.content} for each in messages]
        try:
            text: str = self._tokenizer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=True, **TEMPLATE_FIELDS
            )
        except TemplateError as error:
            raise ConfigError(
                f"the chat template of {self._name} refuses a chat of "
                f"{', '.join(each.role for each in messages)}: {error}"
            ) from error
        return text
