"""What folders of transformers are refused, and how that is said."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from pathlib import Path

import pytest

from adjudge.engines.hf_load import folder_hash, load, quiet
from adjudge.errors import ConfigError

pytestmark = pytest.mark.usefixtures("transformers")


def loaded(folder: Path) -> None:
    load(folder, folder.name, dtype="float32", device="cpu")


@pytest.fixture
def copy(tiny_hf_folder: Path, tmp_path: Path) -> Path:
    """A folder of the tiny model to break."""
    return Path(shutil.copytree(tiny_hf_folder, tmp_path / "copy"))


def configured(folder: Path, **fields: object) -> None:
    """Change fields of a configuration."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_weights_that_could_run_code_are_refused(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"only in pytorch_model\.bin, .* can run any code"):
        loaded(copy)


def test_a_folder_without_weights_or_configuration_is_refused(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"holds no weights: no \*\.safetensors"):
        loaded(copy)
    (copy / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"holds no config\.json; the hf engine takes a folder"):
        loaded(copy)


def test_code_of_a_model_is_not_run(copy: Path) -> None:
    (copy / "evil.py").write_text("raise SystemExit('ran')")
    own = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    configured(copy, model_type="evil", auto_map=own)
    with pytest.raises(ConfigError, match=r"transformers cannot load '.*copy': "):
        loaded(copy)


def test_weights_that_lack_a_layer_are_refused(copy: Path) -> None:
    configured(copy, num_hidden_layers=4)
    with pytest.raises(
        ConfigError, match=r"lack 9 that the model needs, such as 'model\.layers\.3\."
    ):
        loaded(copy)


def test_a_folder_without_a_tokenizer_is_refused(copy: Path) -> None:
    for path in copy.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(ConfigError, match=r"transformers cannot load '.*copy': "):
        loaded(copy)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_file_that_is_cut_short_is_refused(copy: Path, name: str) -> None:
    path = copy / name
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ConfigError, match=r"transformers cannot load '.*copy': "):
        loaded(copy)


def test_models_of_another_kind_are_refused(copy: Path) -> None:
    configured(copy, architectures=["LlavaForConditionalGeneration"])
    with pytest.raises(ConfigError, match="copy is a LlavaForConditionalGeneration; the hf engine"):
        loaded(copy)


def test_the_head_of_a_model_is_what_says_whether_it_writes(copy: Path) -> None:
    configured(copy, architectures=["LlamaModel"])
    assert not load(copy, "copy", dtype="float32", device="cpu").causal
    configured(copy, architectures=None)
    assert load(copy, "copy", dtype="float32", device="cpu").causal


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_package_says_how_to_get_it(
    package: str, tiny_hf_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adjudge.engines.hf import HfEngine

    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=r"pip install 'adjudge\[hf\]'"):
        HfEngine(tiny_hf_folder)


def test_the_hash_is_over_weights_configuration_and_tokenizer_alone(copy: Path) -> None:
    first = folder_hash(copy)
    (copy / "README.md").write_text("new")
    assert folder_hash(copy) == first
    seen = {first}
    for name in ("config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"):
        (copy / name).write_bytes((copy / name).read_bytes() + b" ")
        seen.add(folder_hash(copy))
    assert len(seen) == 5


def test_what_transformers_says_is_as_loud_afterwards_as_before(
    tiny_hf_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded(tiny_hf_folder)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert capfd.readouterr() == ("", "")
    with pytest.raises(RuntimeError, match="stop"), quiet():
        raise RuntimeError("stop")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
