"""What a server can do, found out by asking it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from adjudge.engines.openai_answers import first_choice, next_tokens, text_of, thoughts_of
from adjudge.engines.openai_bodies import Probed, body
from adjudge.engines.openai_client import Client
from adjudge.engines.openai_echo import echo_body, token_scores
from adjudge.engines.openai_errors import (
    GaveUpError,
    RefusedError,
    UnusableError,
    many_served,
    not_served,
    wrong_path,
)
from adjudge.exchange import Message, Sampling, ScoreText

#: How many of the likeliest tokens are asked for where nobody says; and where so many are refused
#: by a server that does not say how many it shows.
TOP, FEWER = 100, (20, 5, 1)
#: Statuses of servers that break where they cannot do something.
BREAKS = (500, 501)
QUESTION = (Message(role="user", content="Is water wet? Answer yes or no."),)
#: A reply that breaks off in the middle of a word which can go on in one way only: a reply of
#: its own would not begin so.
BEGUN = "K7 Q4 Z9 K7 Q4 Z9 K7 Q4 Z9 K7 Q4 Z"
GOES_ON = "9"
REPEAT = (
    Message(role="user", content="Write K7 Q4 Z9 again and again."),
    Message(role="assistant", content=BEGUN),
)
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"answer": {"enum": ["K7", "Q4"]}},
        "required": ["answer"],
        "additionalProperties": False,
    }
)
#: How a begun reply may have to be asked for.
WAYS: tuple[Literal["flags", "itself"], ...] = ("flags", "itself")
ECHOED = ScoreText(context="The sun rises in the east and", continuation=" sets in the west")


async def probe(client: Client, url: str, model: str | None, top: int | None) -> Probed:
    """Return what the server at `url` does, by about ten short requests.

    Parameters
    ----------
    client
        Asks the server.
    url
        The server, for messages.
    model
        Which of its models; None: the only one.
    top
        How many of the likeliest tokens to ask for; None: `TOP`.

    Raises
    ------
    ConfigError
        If there is no API or no such model.
    RefusedError, UnreachableError, GaveUpError
        If it cannot be asked at all.
    """
    listed = await _listed(client, url)
    entry = _chosen(listed, url, model)
    name = str(entry["id"]) if model is None else model
    found = Probed(model=name, owner=str(entry.get("owned_by") or "?"))
    found = await _with_api(client, found, url, listed=listed is not None)
    found = replace(found, context=await _context(client, entry))
    found = await _with_extras(client, found)
    found = await _with_logprobs(client, found, TOP if top is None else top)
    if found.api == "chat":
        found = await _with_prefill(client, found)
    found = replace(found, json_schema=await _keeps_schema(client, found))
    found = await _with_seed(client, found)
    return replace(found, echo=await _echoes(client, found))


# --- the model ----------------------------------------------------------------------------------


async def _listed(client: Client, url: str) -> list[dict[str, Any]] | None:
    """Return the models that the server lists, None if it has no list."""
    try:
        answer = await client.get("/models")
    except RefusedError as refused:
        if refused.status not in (404, 405, 501):
            raise
    else:
        return _entries(answer)
    if not url.endswith("/v1"):
        try:
            _entries(await client.get("/v1/models"))
        except (RefusedError, UnusableError):
            pass
        else:
            raise wrong_path(url, f"{url}/v1")
    return None


def _entries(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    data = answer.get("data")
    if not isinstance(data, list):
        raise UnusableError("the list of models has no data")
    return [each for each in data if isinstance(each, dict) and each.get("id")]


def _chosen(listed: list[dict[str, Any]] | None, url: str, model: str | None) -> dict[str, Any]:
    """Return what the server says of the model."""
    names = [str(each["id"]) for each in listed or ()]
    if model is None:
        if listed is None:
            raise wrong_path(url, None)
        if len(listed) != 1:
            raise many_served(url, names)
        return listed[0]
    for each in listed or ():
        others = each.get("aliases")
        known = {str(each["id"]), *(others if isinstance(others, list) else ())}
        if model in known or f"{model}:latest" in known:
            return each
    if listed:
        raise not_served(url, model, names)
    return {}


async def _context(client: Client, entry: Mapping[str, Any]) -> int | None:
    """Return the context length that the server gives its model."""
    meta = entry.get("meta")
    values = [entry.get("max_model_len"), entry.get("context_length")]
    if isinstance(meta, dict):
        values.append(meta.get("n_ctx"))
        if entry.get("owned_by") == "llamacpp" and not meta.get("n_ctx"):
            try:
                properties = await client.get("/props", below_url=False)
                values.append(properties["default_generation_settings"]["n_ctx"])
            except (RefusedError, KeyError, TypeError):
                pass
        values.append(meta.get("n_ctx_train"))
    return next((each for each in values if isinstance(each, int) and each > 0), None)


# --- what it does -------------------------------------------------------------------------------


async def _with_api(client: Client, found: Probed, url: str, *, listed: bool) -> Probed:
    """Find whether chats are understood, and how to limit what is written."""
    chat = (found, replace(found, limit="max_completion_tokens"))
    refusals = []
    for each in (*chat, replace(found, api="completions")):
        try:
            await client.post(each.path, body(each, QUESTION, max_tokens=1))
        except RefusedError as refused:
            refusals.append(refused)
            if refused.status in (401, 403, 429):
                raise
        else:
            return each
    if not listed and all(refused.status == 404 for refused in refusals):
        raise wrong_path(url, None)
    raise refusals[0]


async def _asked(client: Client, path: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a probe, None if the server does not do what it asks."""
    try:
        return await client.post(path, asked)
    except RefusedError:
        return None
    except GaveUpError as error:
        if error.status not in BREAKS:
            raise
        return None


async def _text(client: Client, found: Probed, asked: Mapping[str, Any]) -> str | None:
    """Return the text that answers a probe, None if there is none."""
    answer = await _asked(client, found.path, asked)
    try:
        return None if answer is None else text_of(first_choice(answer), "")
    except UnusableError:
        return None


async def _with_extras(client: Client, found: Probed) -> Probed:
    more = replace(found, extras=True)
    taken = await _asked(client, more.path, body(more, QUESTION, max_tokens=1))
    return found if taken is None else more


async def _with_logprobs(client: Client, found: Probed, top: int) -> Probed:
    """Find how many of the likeliest tokens are shown."""
    waiting = [top, *(n for n in FEWER if n < top)]
    while waiting:
        n = waiting.pop(0)
        asked = body(found, QUESTION, max_tokens=1, top=n)
        try:
            answer = await client.post(found.path, asked)
        except RefusedError as refused:
            if n == top:
                waiting = _said_numbers(refused.words, n) + waiting
            continue
        except GaveUpError as error:
            if error.status not in BREAKS:
                raise
            continue
        return replace(found, **_shown(answer, n))
    return found


def _shown(answer: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Return what an answer shows of the next tokens; replies are checked each for itself."""
    thinks = False
    try:
        thinks = bool(thoughts_of(first_choice(answer)))
        next_tokens(answer, "")
    except UnusableError as unusable:
        return {"thinks": thinks} if unusable.again or thinks else {"top_logprobs": n}
    return {"top_logprobs": n}


def _said_numbers(words: str, below: int) -> list[int]:
    """Return the largest number in a refusal that is less than what was asked, if any."""
    numbers = [int(each) for each in re.findall(r"\d{1,6}", words)]
    fitting = [each for each in numbers if 0 < each < below]
    return [max(fitting)] if fitting else []


async def _with_prefill(client: Client, found: Probed) -> Probed:
    """Find whether a begun reply is gone on with."""
    for way in WAYS:
        trial = replace(found, prefill=way)
        text = await _text(client, trial, body(trial, REPEAT, max_tokens=3)) or ""
        if text.removeprefix(BEGUN).startswith(GOES_ON):
            return replace(trial, repeats=text.startswith(BEGUN))
    return found


async def _keeps_schema(client: Client, found: Probed) -> bool:
    """Return whether what is written keeps to a schema that nothing else would suggest."""
    asked = body(found, QUESTION, max_tokens=60, json_schema=SCHEMA)
    try:
        value = json.loads(await _text(client, found, asked) or "")
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("answer") in ("K7", "Q4")


async def _with_seed(client: Client, found: Probed) -> Probed:
    """Find whether a seed is taken, and whether draws repeat with it."""
    trial = replace(found, seed="taken")
    asked = body(trial, QUESTION, max_tokens=8, sampling=Sampling(temperature=1.0), seed=7)
    first = await _text(client, trial, asked)
    if first is None:
        return found
    again = await _text(client, trial, asked)
    return replace(trial, seed="repeatable") if first == again else trial


async def _echoes(client: Client, found: Probed) -> bool:
    """Return whether the tokens of a plain text come back with their log-probs."""
    answer = await _asked(client, "/completions", echo_body(found, ECHOED))
    try:
        return answer is not None and bool(token_scores(answer, ECHOED).logprobs)
    except UnusableError:
        return False
