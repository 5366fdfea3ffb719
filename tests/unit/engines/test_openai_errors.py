"""One clear line for what goes wrong with a server."""

from __future__ import annotations

import json
import socket
import ssl

import pytest

from adjudge.engines.openai_errors import (
    RefusedError,
    dooming,
    failure,
    is_too_long,
    key_advice,
    not_served,
    server_words,
    unreachable,
)
from adjudge.engines.openai_line import Answer
from adjudge.errors import ConfigError, EngineError

URL = "http://127.0.0.1:8000/v1"


def words(body: object, redact: str = "") -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    hide = (lambda t: t.replace(redact, "[key]")) if redact else (lambda t: t)
    return server_words(Answer(400, {}, text.encode()), hide)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "too much", "code": 400}}, "too much"),  # OpenAI, vLLM
        ({"object": "error", "message": "too\n much"}, "too much"),  # older vLLM
        ({"error": "model 'x' not found"}, "model 'x' not found"),  # Ollama
        ({"error": "Input validation error", "error_type": "validation"}, "Input validation error"),
        ({"detail": [{"msg": "wrong type"}, {"msg": "missing"}]}, "wrong type; missing"),  # FastAPI
        ({"detail": "Not Found"}, "Not Found"),
        ("<html><body><h1>502 Bad Gateway</h1>\r\nnginx</body>", "502 Bad Gateway nginx"),
        ("", "nothing more"),
        ({"strange": 1}, '{"strange": 1}'),
        ("x" * 1000, "x" * 300 + "..."),
    ],
)
def test_what_servers_say_is_one_line(body: object, expected: str) -> None:
    assert words(body) == expected


def test_what_servers_say_is_without_the_key() -> None:
    assert words({"error": {"message": "wrong key sk-1234!"}}, "sk-1234") == "wrong key [key]!"


@pytest.mark.parametrize(
    "said",
    [
        "request (6031 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "the request exceeds the available context size. try increasing the context size",
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "Requested token count exceeds the model's maximum context length of 4096 tokens.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "prompt is too long: 9000 tokens > 8192 maximum, too many tokens",
    ],
)
def test_prompts_that_are_too_long_however_servers_word_it(said: str) -> None:
    refused = RefusedError(400, said)
    assert is_too_long(refused)
    message = failure(refused, 4096)
    assert message.startswith("a prompt does not fit the model's context of 4096 tokens; ")
    assert said in message
    assert message.endswith("shorten the texts that are shown, or serve the model with more")


@pytest.mark.parametrize(
    "said", ["Unknown parameter: 'top_k'", "top_logprobs must be at most 20", "invalid 'role'"]
)
def test_other_refusals_are_quoted(said: str) -> None:
    assert failure(RefusedError(400, said), None) == f"the server answers 400: {said}"


@pytest.mark.parametrize(
    ("status", "match"),
    [
        (401, "wants a key that it knows: set the environment variable MY_KEY"),
        (403, "does not let this key use 'm', it says: told you; set the environment"),
        (404, "answers 404 for the model 'm', it says: told you; check the URL .* end in /v1"),
    ],
)
def test_refusals_that_all_requests_would_meet(status: int, match: str) -> None:
    advice = key_advice("MY_KEY", is_set=False)
    doom = dooming(RefusedError(status, "told you"), url=URL, model="m", key=advice)
    assert isinstance(doom, ConfigError)
    with pytest.raises(ConfigError, match=match):
        raise doom


def test_an_account_with_nothing_left_ends_all() -> None:
    doom = dooming(RefusedError(429, "quota"), url=URL, model="m", key="")
    assert isinstance(doom, EngineError)
    assert "nothing left: quota; top it up" in str(doom)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_refusals_of_one_request(status: int) -> None:
    assert dooming(RefusedError(status, "no"), url=URL, model="m", key="") is None


def verification_error() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] failed")
    error.reason, error.verify_message = "CERTIFICATE_VERIFY_FAILED", "self-signed certificate"
    return error


def wrong_version() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    error.reason = "WRONG_VERSION_NUMBER"
    return error


@pytest.mark.parametrize(
    ("error", "kind", "match"),
    [
        (
            ConnectionRefusedError(111, "x"),
            EngineError,
            "nothing answers at .*: connection refused",
        ),
        (socket.gaierror(-2, "Name or service not known"), EngineError, "service not known; start"),
        (OSError("the proxy p answers 407"), EngineError, "the proxy p answers 407; start"),
        (verification_error(), ConfigError, r"verify failed \(self-signed certificate\); use a"),
        (wrong_version(), ConfigError, "wrong version number; it speaks plain HTTP: begin"),
    ],
)
def test_servers_that_cannot_be_reached(error: OSError, kind: type[Exception], match: str) -> None:
    found = unreachable(URL, error)
    assert type(found) is kind
    with pytest.raises(kind, match=match):
        raise found
    assert "\n" not in str(found)


def test_a_model_that_is_not_served() -> None:
    with pytest.raises(
        ConfigError, match=f"{URL}: unknown model 'llama3': did you mean 'llama3.2'. Available: "
    ):
        raise not_served(URL, "llama3", ["llama3.2", "qwen"])
