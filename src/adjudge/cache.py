"""The user's cache folder, and hashes of files that are remembered there."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder for models and data: ``$ADJUDGE_CACHE`` or the user's cache folder."""
    if override := os.environ.get("ADJUDGE_CACHE"):
        return Path(override)
    from platformdirs import user_cache_path

    return user_cache_path("adjudge")


def file_hash(path: Path) -> str:
    """Return a file's sha256, remembered for as long as its size and time stay the same."""
    stat, memory = path.stat(), cache_folder() / "hashes.json"
    key = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
    try:
        read = json.loads(memory.read_text())
    except (OSError, ValueError):
        read = None
    known: dict[str, str] = read if isinstance(read, dict) else {}
    if key not in known:
        known[key] = sha256_of(path)
        _write_memory(memory, known)
    return known[key]


def sha256_of(path: Path) -> str:
    """Return a file's sha256 hex digest."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_memory(memory: Path, known: dict[str, str]) -> None:
    """Replace the file of remembered hashes; it is only a memory, so failing is no harm."""
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=memory.parent, delete=False) as part:
            json.dump(known, part)
        Path(part.name).replace(memory)
    except OSError:  # a read-only cache folder: the hash is computed again next time
        return
