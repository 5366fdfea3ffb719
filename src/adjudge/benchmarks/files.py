"""The files of benchmarks: where they lie, how they get there, and whether they are the right ones.

A file is looked for in the cache folder, then below the folder that ``ADJUDGE_DATA`` names. Its
hash is checked whenever it is located, so that no number rests on any other file.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from adjudge.benchmarks.base import Benchmark, DataFile, LocalFile, Rows, loader
from adjudge.cache import cache_folder, file_hash, sha256_of
from adjudge.errors import ConfigError

if TYPE_CHECKING:
    import httpx

#: How often a download is tried, and the seconds before the second attempt (then twice as long).
ATTEMPTS = 3
WAIT_SECONDS = 1.0
TIMEOUT_SECONDS = 30.0

Where = Literal["pulled", "ADJUDGE_DATA", "not here"]
#: Is told the bytes of a file that are here, and all of them; None where the server doesn't say.
ProgressCallback = Callable[[int, int | None], None]


class _Place(NamedTuple):
    """Where a file may lie, the hash that it must have there, and what to do if it has another."""

    path: Path
    sha256: str
    remedy: str


class _DroppedError(Exception):
    """A download ended early; another attempt may succeed."""


def locate(benchmark: Benchmark) -> list[LocalFile]:
    """Return the files of a benchmark on this machine, each with its hash checked.

    Raises
    ------
    ConfigError
        If a file is not here, or is not the one that is declared or was given.
    """
    return [
        LocalFile(_located(benchmark, file), file.group)
        for file in benchmark.files
        if not file.optional or _first_there(benchmark, file)
    ]


def whereabouts(benchmark: Benchmark) -> Where:
    """Return where all files of a benchmark lie; no hash is checked."""
    needed = [file for file in benchmark.files if not file.optional]
    found = [_first_there(benchmark, file) for file in needed]
    if any(place is None for place in found):
        return "not here"
    pulled = all(place and place.path.is_relative_to(_folder(benchmark)) for place in found)
    return "pulled" if pulled else "ADJUDGE_DATA"


def read_benchmark(benchmark: Benchmark) -> Rows:
    """Return the records of a benchmark, read from its files on this machine.

    Raises
    ------
    ConfigError
        If a file is not here, or is not the one that is declared or was given.
    DataError
        If a file cannot be read.
    """
    return loader(benchmark)(locate(benchmark))


def how_to_fetch(benchmark: Benchmark, file: DataFile) -> str:
    """Return what a user can do to get a file, as the end of a sentence."""
    command = f"adjudge benchmarks pull {benchmark.name}"
    if file.sha256:
        return f"fetch it with `{command}`"
    return (
        "no sha256 is declared to check a download against: fetch it by hand from "
        f"{benchmark.url(file)} and give it with `{command} --file PATH`"
    )


def pull(
    benchmark: Benchmark,
    *,
    by_hand: Sequence[Path] = (),
    client: httpx.Client | None = None,
    progress: ProgressCallback | None = None,
) -> list[Path]:
    """Bring the files of a benchmark into the cache, and return their paths.

    A file that is there and right is left alone. Otherwise it is copied from ``ADJUDGE_DATA``, or
    downloaded; an interrupted download goes on where it was. Files get their final names only
    when whole and checked.

    Parameters
    ----------
    by_hand
        Files that the user has fetched: one for each declared file, or one for each of those that
        declare no sha256, in order. Their hashes are checked where declared, else recorded.
    client
        Sends the requests; by default one is made.
    progress
        Called as the bytes of a file arrive.

    Raises
    ------
    ConfigError
        If a file cannot be had, has a wrong hash or cannot be written.
    """
    given = _assigned(benchmark, by_hand)
    paths = []
    for file in benchmark.files:
        if file in given:
            paths.append(_take(benchmark, file, given[file]))
            continue
        pulled, *copies = _places(benchmark, file)
        if right := [each.path for each in (pulled, *copies[:1]) if _is_right(each)]:
            paths.append(right[0])
        elif copies[1:] and copies[1].path.is_file():
            _check(copies[1])
            paths.append(_install_copy(copies[1].path, copies[0], pulled))
        elif file.sha256 or not file.optional:
            paths.append(_download(benchmark, file, pulled.path, client, progress))
    return paths


def _folder(benchmark: Benchmark) -> Path:
    """Return the folder of a benchmark in the cache."""
    return cache_folder() / "benchmarks" / benchmark.name


def _places(benchmark: Benchmark, file: DataFile) -> list[_Place]:
    """Return where a file may lie: pulled; copied into the cache; below ``ADJUDGE_DATA``.

    A copy keeps its name, because its suffix tells the loader its format.
    """
    folder, command = _folder(benchmark), f"adjudge benchmarks pull {benchmark.name}"
    pulled = folder / file.path
    if file.sha256:
        places = [_Place(pulled, file.sha256, f"fetch it anew with `{command}`")]
    else:
        remedy = f"give the right file with `{command} --file PATH`"
        places = [_Place(pulled, _recorded(pulled), remedy)]
    if file.copy:
        expected = file.copy_sha256 or file.sha256
        remedy = f"delete it and run `{command}`"
        places.append(_Place(folder / "copies" / file.copy, expected, remedy))
        if data := os.environ.get("ADJUDGE_DATA"):
            remedy = "put the right file there, or unset ADJUDGE_DATA and get it otherwise: "
            remedy += how_to_fetch(benchmark, file)
            places.append(_Place(Path(data).expanduser() / file.copy, expected, remedy))
    return places


def _first_there(benchmark: Benchmark, file: DataFile) -> _Place | None:
    """Return the first place of a file where one is."""
    return next((place for place in _places(benchmark, file) if place.path.is_file()), None)


def _located(benchmark: Benchmark, file: DataFile) -> Path:
    """Return the path of a file that is here and right."""
    place = _first_there(benchmark, file)
    if place is None:
        data = os.environ.get("ADJUDGE_DATA")
        also = f" and {file.copy} is not in ADJUDGE_DATA ({data})" if data and file.copy else ""
        raise ConfigError(
            f"the benchmark {benchmark.name!r} lacks a file: {file.path} is not in "
            f"{_folder(benchmark)}{also}; {how_to_fetch(benchmark, file)}"
        )
    _check(place)
    return place.path


def _check(place: _Place) -> None:
    """Raise ConfigError if a file has not the hash that it must have."""
    if (got := file_hash(place.path)) != place.sha256:
        expected = place.sha256 or "the one of the file that was given, but none is recorded"
        raise ConfigError(f"{place.path} has the sha256 {got}, expected {expected}; {place.remedy}")


def _is_right(place: _Place) -> bool:
    return place.path.is_file() and file_hash(place.path) == place.sha256


def _record(path: Path) -> Path:
    """Return the file that records the hash of a file given by hand."""
    return path.with_name(f"{path.name}.sha256")


def _recorded(path: Path) -> str:
    """Return the hash of a file given by hand; empty where none was recorded."""
    record = _record(path)
    return record.read_text("utf-8", "replace").strip() if record.is_file() else ""


# --- files given by hand, and copies ------------------------------------------------------------


def _assigned(benchmark: Benchmark, by_hand: Sequence[Path]) -> dict[DataFile, Path]:
    """Return which of the user's files stands for which declared one."""
    unchecked = [file for file in benchmark.files if not file.sha256]
    for wanted in (unchecked, benchmark.files):
        if len(by_hand) == len(wanted):
            return dict(zip(wanted, by_hand, strict=True))
    if not by_hand:
        return {}
    all_of_them = ", ".join(file.path for file in benchmark.files)
    only = ", ".join(file.path for file in unchecked)
    raise ConfigError(
        f"{len(by_hand)} of the files of {benchmark.name!r} given; give one for each of "
        f"{all_of_them}, in this order"
        + (f", or only {only}" if only and len(unchecked) < len(benchmark.files) else "")
    )


def _take(benchmark: Benchmark, file: DataFile, given: Path) -> Path:
    """Return the path in the cache of a copy of the user's file."""
    if not given.is_file():
        raise ConfigError(f"{given} is not a file; {file.path} of {benchmark.name!r} was meant")
    pulled, *copies = _places(benchmark, file)
    got = sha256_of(given)
    if got == file.sha256:
        return _install(given, pulled.path)
    if copies and got == copies[0].sha256:
        return _install_copy(given, copies[0], pulled)
    if file.sha256:
        raise ConfigError(
            f"{given} has the sha256 {got}, expected {file.sha256} as {file.path} of "
            f"{benchmark.name!r} has; it was not taken: fetch {benchmark.url(file)}"
        )
    if given.suffix.lower() != Path(file.path).suffix.lower():
        raise ConfigError(
            f"{given} was given for {file.path} of {benchmark.name!r}; the format is told by the "
            f"end of the name, so give a file whose name ends in {Path(file.path).suffix!r}"
        )
    # The old hash must go first: a file and a hash that do not match would look like damage.
    with _writing(pulled.path):
        pulled.path.unlink(missing_ok=True)
        _record(pulled.path).write_text(got, "utf-8")
    return _install(given, pulled.path)


def _install(source: Path, target: Path) -> Path:
    """Return a path in the cache after a file was copied to it."""
    with _writing(target), tempfile.TemporaryDirectory(dir=target.parent, prefix=".pull-") as work:
        part = Path(work, target.name)
        shutil.copyfile(source, part)
        part.replace(target)
    return target


def _install_copy(source: Path, target: _Place, pulled: _Place) -> Path:
    """Return a path in the cache after a copy was put there, which a damaged file must not hide."""
    path = _install(source, target.path)
    if pulled.path.is_file() and not _is_right(pulled):
        with _writing(pulled.path):
            pulled.path.unlink()
    return path


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Make the folder of a file to be written, and say what to do where that is not possible."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot write {target}: {error.strerror or error}; mend that, or let ADJUDGE_CACHE "
            "name another folder for the cache"
        ) from error


# --- downloads ----------------------------------------------------------------------------------


def _download(
    benchmark: Benchmark,
    file: DataFile,
    target: Path,
    client: httpx.Client | None,
    progress: ProgressCallback | None,
) -> Path:
    """Return a path in the cache after a file was downloaded to it and checked."""
    if not file.sha256:
        raise ConfigError(
            f"{file.path} of {benchmark.name!r} is not downloaded: {how_to_fetch(benchmark, file)}"
        )
    import httpx

    url, part = benchmark.url(file), target.with_name(f"{target.name}.part")
    with nullcontext(client) if client else httpx.Client(timeout=TIMEOUT_SECONDS) as session:
        for attempt in range(ATTEMPTS):
            try:
                with _writing(target):
                    _fetch(session, url, part, file.sha256, progress)
                break
            except (httpx.RequestError, _DroppedError) as error:
                reason = str(error) or type(error).__name__
            if attempt + 1 < ATTEMPTS:
                time.sleep(WAIT_SECONDS * 2**attempt)
        else:
            raise ConfigError(
                f"{url} could not be fetched in {ATTEMPTS} attempts: {reason}; run "
                f"`adjudge benchmarks pull {benchmark.name}` again to go on with what has come"
            )
    if (got := sha256_of(part)) != file.sha256:
        part.unlink()
        raise ConfigError(
            f"{url} gave a file with the sha256 {got}, expected {file.sha256}; it was deleted: try "
            "again, and if that does not help, see whether a proxy changes it"
        )
    with _writing(target):
        part.replace(target)
    return target


def _fetch(
    session: httpx.Client,
    url: str,
    part: Path,
    sha256: str,
    progress: ProgressCallback | None,
) -> None:
    """Download what is lacking of a file.

    Raises
    ------
    _DroppedError
        If something is still lacking, and another attempt may bring it.
    ConfigError
        If the server has no such file.
    """
    have = part.stat().st_size if part.is_file() else 0
    # A compressed body could not be taken up in the middle.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with session.stream("GET", url, headers=headers, follow_redirects=True) as response:
        status = response.status_code
        if status == 416 and have:  # nothing is lacking, or the part is of another file
            if sha256_of(part) != sha256:
                part.unlink()
                raise _DroppedError("what had come before was not the beginning of the file")
            return
        if status == 429 or status >= 500:
            raise _DroppedError(f"the server answered {status} {response.reason_phrase}")
        if status not in (200, 206):
            raise ConfigError(
                f"{url} cannot be fetched: the server answered {status} {response.reason_phrase}; "
                "see in a browser whether it is still there, and if you have the file already, "
                "give it with `--file PATH`"
            )
        if (extent := _extent(response, have)) is None:
            part.unlink(missing_ok=True)
            raise _DroppedError(f"bytes from {have} were asked for, others were sent")
        start, total = extent
        done = start
        with part.open("ab" if start else "wb") as sink:
            for chunk in response.iter_raw():
                sink.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, total)
    if total is not None and done < total:
        raise _DroppedError(f"{done:,} of {total:,} bytes came")


def _extent(response: httpx.Response, have: int) -> tuple[int, int | None] | None:
    """Return where the body of a response begins in the file, and the file's size.

    None where a part was sent that was not asked for.
    """
    if response.status_code == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    stated = response.headers.get("Content-Range", "")
    extent = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", stated)
    if not extent or int(extent[1]) != have:
        return None
    return have, int(extent[2]) if extent[2] != "*" else None
