"""What probes find out about servers of several kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from adjudge.engines.openai_bodies import Probed
from adjudge.engines.openai_client import Client, Limits, Timing
from adjudge.engines.openai_errors import GaveUpError, RefusedError
from adjudge.engines.openai_probe import BEGUN, ECHOED, probe
from adjudge.errors import ConfigError
from tests.fault_server import MODEL, Act, Asked, FaultServer, Script, Working, chat, error

pytestmark = pytest.mark.usefixtures("loopback")
WORKING = Probed(
    model=MODEL,
    owner="tests",
    extras=True,
    top_logprobs=20,
    prefill="flags",
    json_schema=True,
    seed="repeatable",
    context=512,
)


async def no_wait(seconds: float) -> None:
    await asyncio.sleep(0)


def probed(
    script: Script, *, model: str | None = None, top: int | None = None, path: str = "/v1"
) -> Probed:
    async def run(url: str) -> Probed:
        client = Client(url, key=None, limits=Limits(), timing=Timing(sleep=no_wait))
        try:
            return await probe(client, url, model, top)
        finally:
            client.close()
            await asyncio.sleep(0)

    with FaultServer(script) as server:
        return asyncio.run(run(server.url.removesuffix("/v1") + path))


def but(change: Callable[[Asked], Act | None]) -> Script:
    """Return a script of a working server but for what `change` answers."""
    working = Working()
    return lambda asked: change(asked) or working(asked)


def without(*fields: str, status: int = 400) -> Script:
    """Return a script of a working server that refuses requests with these fields."""

    def change(asked: Asked) -> Act | None:
        found = [field for field in fields if field in asked.body]
        return error(status, f"Unrecognized: {found[0]}") if found else None

    return but(change)


def differs(found: Probed) -> dict[str, Any]:
    """Return how a server differs from one that does all."""
    return {k: v for k, v in vars(found).items() if v != getattr(WORKING, k)}


def test_a_server_that_does_all() -> None:
    assert probed(Working()) == WORKING
    assert probed(Working(), model=MODEL) == WORKING


def test_the_number_of_log_probs_is_read_from_the_refusal() -> None:
    assert probed(Working(most_top=50)).top_logprobs == 50


def test_so_many_are_asked_for_as_wanted() -> None:
    assert probed(Working(most_top=1000)).top_logprobs == 100
    assert probed(Working(), top=7).top_logprobs == 7
    assert probed(Working(), top=400).top_logprobs == 20


@pytest.mark.parametrize(("limit", "expected"), [(20, 20), (19, 5), (5, 5), (4, 1), (0, 0)])
def test_fewer_are_tried_where_the_refusal_does_not_say(limit: int, expected: int) -> None:
    def change(asked: Asked) -> Act | None:
        return error(422, "too many") if asked.body.get("top_logprobs", 0) > limit else None

    assert probed(but(change)).top_logprobs == expected


def test_a_server_without_log_probs() -> None:
    assert differs(probed(without("top_logprobs"))) == {"top_logprobs": 0}

    def ignored(asked: Asked) -> Act | None:
        return chat("yes") if "top_logprobs" in asked.body else None

    assert differs(probed(but(ignored))) == {"top_logprobs": 0}


def test_openais_own_api_refuses_what_it_does_not_know() -> None:
    strict = without("top_k", "chat_template_kwargs", "continue_final_message", "max_tokens")
    assert differs(probed(strict)) == {
        "extras": False,
        "prefill": "no",
        "limit": "max_completion_tokens",
    }


def test_a_model_that_thinks_first() -> None:
    def change(asked: Asked) -> Act | None:
        return (
            chat("", {"Let": 0.5}, reasoning_content="Let")
            if asked.body.get("top_logprobs")
            else None
        )

    assert differs(probed(but(change))) == {"thinks": True, "top_logprobs": 0}


def test_servers_that_go_on_with_a_begun_reply_by_themselves() -> None:
    def change(asked: Asked) -> Act | None:
        if asked.begun != BEGUN:
            return None
        flagged = asked.body.get("continue_final_message")
        return error(400, "unknown flag") if flagged else chat(f"{BEGUN}9 K7")

    found = probed(but(lambda asked: change(asked) if "messages" in asked.body else None))
    assert differs(found) == {"prefill": "itself", "repeats": True}


def test_a_reply_of_its_own_is_no_going_on() -> None:
    assert differs(probed(Working(prefill=False))) == {"prefill": "no"}


def test_schemas_that_are_refused_or_not_kept_to() -> None:
    def ignored(asked: Asked) -> Act | None:
        return chat('{"answer": "yes"}') if "response_format" in asked.body else None

    for script in (without("response_format"), but(ignored)):
        assert differs(probed(script)) == {"json_schema": False}


def test_seeds_that_are_refused_or_do_not_repeat() -> None:
    def random(asked: Asked) -> Act | None:
        return chat(f"draw {asked.attempt}") if "seed" in asked.body else None

    assert differs(probed(without("seed"))) == {"seed": "refused"}
    assert differs(probed(but(random))) == {"seed": "taken"}


def echo(asked: Asked) -> Act | None:
    """Answer as vLLM does to a plain text that is to be echoed."""
    if asked.path != "/v1/completions":
        return None
    assert asked.body["prompt"] == ECHOED.text
    tokens = [word if i == 0 else f" {word}" for i, word in enumerate(ECHOED.text.split(" "))]
    logprobs = {"tokens": [*tokens, "."], "token_logprobs": [None, *(-1.0 for _ in tokens)]}
    usage = {"prompt_tokens": len(tokens), "completion_tokens": 1}
    return Act(body={"choices": [{"text": "", "logprobs": logprobs}], "usage": usage})


def test_texts_that_are_echoed() -> None:
    assert differs(probed(but(echo))) == {"echo": True}


def test_a_server_that_breaks_where_it_cannot() -> None:
    found = probed(without("response_format", status=500))
    assert differs(found) == {"json_schema": False}


def test_a_server_of_plain_texts() -> None:
    def plain(asked: Asked) -> Act:
        if asked.path == "/v1/models":
            return Working()(asked)
        if asked.path != "/v1/completions":
            return error(404, "no chats here")
        if "response_format" in asked.body or asked.body.get("echo"):
            return error(400, "unknown")
        choice: dict[str, Any] = {"text": " yes", "finish_reason": "length"}
        if n := asked.body.get("logprobs", 0):
            if n > 5:
                return error(400, "at most 5")
            choice["logprobs"] = {"tokens": [" yes"], "top_logprobs": [{" yes": -0.5}]}
        return Act(body={"choices": [choice]})

    assert differs(probed(plain)) == {
        "api": "completions",
        "top_logprobs": 5,
        "prefill": "no",
        "json_schema": False,
    }


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"context_length": 8192}, 8192),
        ({"meta": {"n_ctx": 2048, "n_ctx_train": 8192}}, 2048),
        ({"meta": {"n_ctx_train": 8192}, "owned_by": "llamacpp"}, 1024),  # what /props says
        ({"meta": {"n_ctx_train": 8192}}, 8192),
        ({}, None),
        ({"max_model_len": None, "meta": None}, None),
    ],
)
def test_the_context_length(entry: dict[str, Any], expected: int | None) -> None:
    def change(asked: Asked) -> Act | None:
        if asked.path == "/props":
            return Act(body={"default_generation_settings": {"n_ctx": 1024}})
        return Act(body={"data": [{"id": MODEL, **entry}]}) if asked.method == "GET" else None

    assert probed(but(change)).context == expected


@pytest.mark.parametrize(
    ("models", "model", "match"),
    [
        (("a", "b"), None, "serves 2 models; name one with #model=NAME: a, b$"),
        ((), None, "lists no model; name one with #model=NAME"),
        (("llama3", "qwen"), "llama", "unknown model 'llama': did you mean 'llama3'.*llama3, qwen"),
    ],
)
def test_models_that_are_not_there(models: tuple[str, ...], model: str | None, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        probed(Working(models=models), model=model)


def test_names_that_servers_take_for_others() -> None:
    found = probed(Working(models=("llama3.2:latest", "qwen")), model="llama3.2")
    assert found.model == "llama3.2"

    def change(asked: Asked) -> Act | None:
        listed = {"id": "/models/m.gguf", "aliases": ["m"]}
        return Act(body={"data": [listed]}) if asked.path == "/v1/models" else None

    assert probed(but(change), model="m").model == "m"


def test_a_server_without_a_list_can_be_used_by_name() -> None:
    def change(asked: Asked) -> Act | None:
        return error(404, "no list") if asked.method == "GET" else None

    assert differs(probed(but(change), model=MODEL)) == {"owner": "?", "context": None}
    with pytest.raises(ConfigError, match="no list of models and #model=NAME must name one"):
        probed(but(change))


@pytest.mark.parametrize("path", ["", "/api"])
def test_a_wrong_path(path: str) -> None:
    def below(asked: Asked) -> Act:
        at = f"{path}/v1/models"
        return Act(body={"data": [{"id": MODEL}]}) if asked.path == at else error(404, "nothing")

    with pytest.raises(ConfigError, match=rf"answers 404, but there is .*: http:.*{path}/v1$"):
        probed(below, path=path)


def test_a_path_below_which_nothing_lies() -> None:
    with pytest.raises(ConfigError, match=r"there is no OpenAI-compatible API below it .most URLs"):
        probed(lambda asked: error(404, "nothing"), path="/v2", model="m")


def test_a_server_that_lists_models_but_does_not_chat() -> None:
    def script(asked: Asked) -> Act:
        return Working()(asked) if asked.method == "GET" else error(400, "embeddings only")

    with pytest.raises(RefusedError, match="400: embeddings only"):
        probed(script)


def test_trouble_that_does_not_pass_is_no_missing_capability() -> None:
    with pytest.raises(GaveUpError, match="503: Unrecognized: response_format"):
        probed(without("response_format", status=503))
