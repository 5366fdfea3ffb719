"""One model in two formats, GGUF and a folder of transformers, run by two engines."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from adjudge.engines.convert import write_folder
from adjudge.engines.hf import HfEngine
from adjudge.engines.llama import LlamaEngine
from adjudge.errors import ConfigError
from adjudge.exchange import LabelScores, Message, ScoreLabels
from tests.conftest import MODEL

pytestmark = pytest.mark.usefixtures("transformers")
QUESTIONS = [
    "Which text is better?\n\nText A: The cat sat.\nText B: Cat the sat the.",
    "a < b and [c] <b>bold</b> <|im_end|> caf\u00e9 \U0001f600",
    "Is Paris the capital of France? " * 9,
]


def asked() -> list[ScoreLabels]:
    chats: list[tuple[Message, ...]] = [(Message(role="user", content=q),) for q in QUESTIONS]
    chats.append((*chats[0], Message(role="assistant", content="Text")))
    chats.append((Message(role="system", content="Be brief."), *chats[2]))
    labels = ("Yes", "No", "Better", "Worse", " A", " Bad")
    return [ScoreLabels(messages=chat, labels=labels) for chat in chats]


def largest_difference(llama: LlamaEngine, hf: HfEngine, requests: list[ScoreLabels]) -> float:
    """Return by how much log-probs of labels differ at most."""
    replies = [{reply.request_id: reply for reply in e.run(requests)} for e in (llama, hf)]
    differences = []
    for request in requests:
        one, two = (found[request.id] for found in replies)
        assert isinstance(one, LabelScores)
        assert isinstance(two, LabelScores)
        assert one.n_tokens == two.n_tokens
        differences.append([abs(a - b) for a, b in zip(one.logprobs, two.logprobs, strict=True)])
    return max(chain.from_iterable(differences))


@pytest.fixture(scope="module")
def converted(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model in its own 16 bits, which lose nothing."""
    folder = tmp_path_factory.mktemp("converted") / "new" / "tiny"
    write_folder(str(tiny_model), folder, dtype="float16")
    return folder


def test_a_converted_model_reads_and_answers_as_before(tiny: LlamaEngine, converted: Path) -> None:
    hf, requests = HfEngine(converted, device="cpu", threads=1), asked()
    for request in requests:
        assert hf.prompt_tokens(request) == tiny.prompt_tokens(request)
    assert hf._text.markup == tiny._text.markup
    assert largest_difference(tiny, hf, requests) < 0.03


def test_a_folder_is_written_whole_in_the_precision_asked_for(converted: Path) -> None:
    from safetensors import safe_open

    assert [path.name for path in converted.parent.iterdir()] == ["tiny"]
    with safe_open(converted / "model.safetensors", framework="np") as weights:
        assert {str(weights.get_tensor(name).dtype) for name in weights.keys()} == {"float16"}  # noqa: SIM118


def test_what_cannot_be_converted_says_so(
    tiny_model: Path, converted: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"'.*tiny' is not an empty folder; name a new one"):
        write_folder(str(tiny_model), converted)
    with pytest.raises(ConfigError, match="dtype must be float32 or bfloat16 or float16, not 'x'"):
        write_folder(str(tiny_model), tmp_path / "new", dtype="x")
    with pytest.raises(ConfigError, match=r"there is no model file '.*nothing\.gguf'"):
        write_folder(str(tmp_path / "nothing.gguf"), tmp_path / "new")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF but not really")
    with pytest.raises(ConfigError, match=r"transformers cannot load '.*broken\.gguf': "):
        write_folder(str(tmp_path / "broken.gguf"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_the_embedded_model_answers_as_before(embedded_model: Path, tmp_path: Path) -> None:
    write_folder(MODEL, tmp_path / "folder")
    hf, llama = HfEngine(tmp_path / "folder", device="cpu"), LlamaEngine(embedded_model)
    assert largest_difference(llama, hf, asked()) < 0.05
    llama.close()
