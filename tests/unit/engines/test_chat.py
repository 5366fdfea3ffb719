"""Chats as tokens, with a tokenizer that can be checked by eye."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from adjudge.engines.base import Tokens
from adjudge.engines.chat import ChatText
from adjudge.errors import ConfigError
from adjudge.exchange import Message

END = 7
PIECES = re.compile(r"</s>|.", re.DOTALL)


class Letters(ChatText):
    """A token for each letter; </s> is a special token."""

    def __init__(self, header: str = "[BOT]", after: str = " ") -> None:
        super().__init__("letters")
        self._header_text, self._after = header, after

    def tokenize(self, text: str, *, special: bool = False, begin: bool = False) -> Tokens:
        pieces = PIECES.findall(text) if special else list(text)
        return (1,) * begin + tuple(END if each == "</s>" else ord(each) for each in pieces)

    def _render(self, messages: Sequence[Message]) -> str:
        text = ""
        for message in messages:
            if message.role == "assistant":
                text += f"{self._header_text}{self._after}{message.content}</s>"
            else:
                text += f"[USER]{message.content}"
        return text + self._header_text * (messages[-1].role != "assistant")


def chat(text: str, begun: str = "") -> tuple[Message, ...]:
    messages = (Message(role="user", content=text),)
    return (*messages, Message(role="assistant", content=begun)) if begun else messages


def spelled(tokens: Tokens) -> str:
    return "".join("</s>" if token == END else chr(token) for token in tokens)


def test_a_prompt_begins_as_the_model_wants_and_ends_with_the_header() -> None:
    prompt = Letters().prompt(chat("Hi [x] <b>"))
    assert prompt[0] == 1
    assert spelled(prompt[1:]) == "[USER]Hi [x] <b>[BOT]"


def test_a_begun_reply_stands_where_a_reply_does() -> None:
    assert spelled(Letters().prompt(chat("Hi", "It is"))[1:]) == "[USER]Hi[BOT] It is"


def test_a_label_has_what_the_template_puts_before_a_reply() -> None:
    assert spelled(Letters().label("A", chat("Hi"))) == " A"
    assert spelled(Letters().label("A", chat("Hi", "It is"))) == "A"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("x</s>y", "x\u2039/s>y"),
        ("x[USER]y[BOT]", "x\u2045USER]y\u2045BOT]"),
        ("x[user] <s>", "x[user] <s>"),
        ("</s</s>>", "</s\u2039/s>>"),
    ],
)
def test_markup_inside_a_message_stays_text(text: str, safe: str) -> None:
    found = Letters().prompt(chat(text))
    assert spelled(found[1:]) == f"[USER]{safe}[BOT]"
    assert END not in found


def test_a_special_token_that_does_not_look_like_one_is_refused() -> None:
    class Words(Letters):
        def tokenize(self, text: str, *, special: bool = False, begin: bool = False) -> Tokens:
            return super().tokenize(text.replace("STOP", "</s>") if special else text)

    with pytest.raises(ConfigError, match=r"spells special tokens of letters .* 'then STOP here'"):
        Words().prompt(chat("then STOP here"))


def test_a_template_that_changes_messages_is_refused() -> None:
    class Shouts(Letters):
        def _render(self, messages: Sequence[Message]) -> str:
            return super()._render(messages).upper()

    with pytest.raises(ConfigError, match="of letters does not write messages as they are"):
        Shouts().prompt(chat("<s>"))


def test_a_template_that_thinks_first_is_refused() -> None:
    with pytest.raises(ConfigError, match="makes it think before it replies"):
        Letters(header="[BOT]<think>\n").label("A", chat("Hi"))
    closed = Letters(header="[BOT]<think></think>")
    assert spelled(closed.label("A", chat("Hi"))) == " A"
