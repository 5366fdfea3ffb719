"""Files of benchmarks: found, checked, and pulled from a server of our own that misbehaves."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from adjudge.benchmarks import files
from adjudge.benchmarks.base import Benchmark, DataFile, LocalFile
from adjudge.benchmarks.files import locate, pull, read_benchmark, whereabouts
from adjudge.errors import ConfigError

CONTENT = bytes(range(256)) * 400
COPY = b'{"the same": "as JSON"}'


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


DATA = DataFile(path="data/a b.pkl", sha256=sha256(CONTENT), group="first")
COPIED = replace(DATA, copy="some/data.json", copy_sha256=sha256(COPY))
UNCHECKED = DataFile(path="data/late.json")


@dataclass
class Site:
    """What a server has, does and was asked.

    `steps` are taken one a request: a status, ``cut N`` (N bytes of the body, then no more),
    ``drop`` (no answer), ``whole`` (no ranges), ``shifted`` (another range); then all goes well.
    """

    url: str = ""
    content: bytes = CONTENT
    steps: list[str] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    sent: int = 0


class Handler(BaseHTTPRequestHandler):
    """Answers as the site's next step says."""

    site: Site

    def do_GET(self) -> None:
        site, asked = self.site, self.headers["Range"]
        site.ranges.append(asked)
        assert self.path == "/data/a%20b.pkl"
        assert self.headers["Accept-Encoding"] == "identity"
        step, _, number = (site.steps.pop(0) if site.steps else "well").partition(" ")
        if step == "drop":
            return
        if step.isdecimal():
            self.answer(int(step), b"sorry")
            return
        match = re.fullmatch(r"bytes=(\d+)-", asked or "")
        start = int(match[1]) if match and step != "whole" else 0
        if start >= len(site.content):
            self.answer(416, b"")
            return
        body, size = site.content[start:], len(site.content)
        shift = 1 if step == "shifted" else 0
        extent = f"bytes {start + shift}-{size - 1}/{size}" if start else ""
        self.answer(206 if start else 200, body, extent, int(number or len(body)))

    def answer(self, status: int, body: bytes, extent: str = "", most: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if extent:
            self.send_header("Content-Range", extent)
        self.end_headers()
        self.wfile.write(body[:most])
        if status < 300:
            self.site.sent += len(body[:most])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.fixture
def site(loopback: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server on this machine, from which all benchmarks are pulled."""
    made = Site()
    handler = type("SiteHandler", (Handler,), {"site": made})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        made.url = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setattr(
            Benchmark, "url", lambda self, file: made.url + file.path.replace(" ", "%20")
        )
        yield made
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the benchmark in an empty cache; waits take no time."""
    monkeypatch.setenv("ADJUDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ADJUDGE_DATA", raising=False)
    monkeypatch.setattr(files, "WAIT_SECONDS", 0.0)
    return tmp_path / "cache" / "benchmarks" / "tiny"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The copy of the file below ADJUDGE_DATA."""
    monkeypatch.setenv("ADJUDGE_DATA", str(tmp_path / "shared"))
    path = tmp_path / "shared" / "some" / "data.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(COPY)
    return path


def declared(*data_files: DataFile) -> Benchmark:
    return Benchmark(
        name="tiny", title="Tiny", about="a test", kind="scores", task="story", format="hanna",
        scale="1-5", gold="score", source="owner/repo", commit="c0ffee", licence="MIT",
        citation="nobody", files=data_files or (DATA,),
    )  # fmt: skip


def kept(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def part_of(cache: Path, content: bytes) -> Path:
    """Leave what an earlier pull had got."""
    path = cache / "data" / "a b.pkl.part"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


# --- downloads ----------------------------------------------------------------------------------


def test_a_pulled_file_is_whole_and_found_and_not_asked_for_again(site: Site, cache: Path) -> None:
    benchmark, seen = declared(), []
    assert whereabouts(benchmark) == "not here"
    paths = pull(benchmark, progress=lambda done, total: seen.append((done, total)))
    assert paths == [cache / "data" / "a b.pkl"]
    assert paths[0].read_bytes() == CONTENT
    assert kept(cache) == {"data/a b.pkl"}
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert pull(benchmark) == paths
    assert site.ranges == [None]
    assert locate(benchmark) == [LocalFile(paths[0], "first")]
    assert whereabouts(benchmark) == "pulled"


def test_the_callers_client_is_used_and_left_open(site: Site) -> None:
    with httpx.Client(headers={"User-Agent": "ours"}) as client:
        assert pull(declared(), client=client)[0].read_bytes() == CONTENT
        assert not client.is_closed


def test_a_wrong_hash_is_refused_and_nothing_is_kept(site: Site, cache: Path) -> None:
    site.content = b"something else"
    with pytest.raises(
        ConfigError, match=rf"sha256 {sha256(site.content)}, expected {DATA.sha256}"
    ):
        pull(declared())
    assert kept(cache) == set()
    assert len(site.ranges) == 1


@pytest.mark.parametrize("step", ["cut 70000", "cut 1"])
def test_a_truncated_download_goes_on_where_it_was(site: Site, step: str) -> None:
    site.steps = [step]
    assert pull(declared())[0].read_bytes() == CONTENT
    assert site.ranges == [None, f"bytes={step.removeprefix('cut ')}-"]
    assert site.sent == len(CONTENT), "no byte was sent twice"


def test_the_part_of_an_earlier_pull_is_used(site: Site, cache: Path) -> None:
    part_of(cache, CONTENT[:5000])
    seen = []
    paths = pull(declared(), progress=lambda done, total: seen.append((done, total)))
    assert paths[0].read_bytes() == CONTENT
    assert site.ranges == ["bytes=5000-"]
    assert site.sent == len(CONTENT) - 5000
    assert seen[0][0] > 5000
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert kept(cache) == {"data/a b.pkl"}


def test_a_server_that_knows_no_ranges_begins_anew(site: Site, cache: Path) -> None:
    part_of(cache, CONTENT[:5000])
    site.steps = ["whole"]
    assert pull(declared())[0].read_bytes() == CONTENT
    assert site.ranges == ["bytes=5000-"]


def test_another_range_than_asked_for_is_not_used(site: Site, cache: Path) -> None:
    part_of(cache, CONTENT[:5000])
    site.steps = ["shifted"]
    assert pull(declared())[0].read_bytes() == CONTENT
    assert site.ranges == ["bytes=5000-", None]


def test_a_part_that_is_whole_only_gets_its_name(site: Site, cache: Path) -> None:
    part_of(cache, CONTENT)
    assert pull(declared())[0].read_bytes() == CONTENT
    assert site.ranges == [f"bytes={len(CONTENT)}-"]
    assert kept(cache) == {"data/a b.pkl"}


def test_a_part_that_is_too_long_is_dropped(site: Site, cache: Path) -> None:
    part_of(cache, CONTENT + b"more")
    assert pull(declared())[0].read_bytes() == CONTENT
    assert site.ranges == [f"bytes={len(CONTENT) + 4}-", None]


def test_a_part_of_another_file_is_found_out_and_deleted(site: Site, cache: Path) -> None:
    part_of(cache, b"other")
    with pytest.raises(ConfigError, match="it was deleted: try again"):
        pull(declared())
    assert kept(cache) == set()
    assert pull(declared())[0].read_bytes() == CONTENT


@pytest.mark.parametrize("step", ["500", "503", "429", "drop"])
def test_a_passing_failure_is_tried_again(site: Site, step: str) -> None:
    site.steps = [step, step]
    assert pull(declared())[0].read_bytes() == CONTENT
    assert len(site.ranges) == 3


def test_a_lasting_failure_says_what_to_do_and_keeps_what_came(site: Site, cache: Path) -> None:
    site.steps = ["cut 100", "500", "502"]
    with pytest.raises(ConfigError, match=r"in 3 attempts: .* 502 Bad Gateway; run `adjudge bench"):
        pull(declared())
    assert kept(cache) == {"data/a b.pkl.part"}
    assert pull(declared())[0].read_bytes() == CONTENT
    assert site.sent == len(CONTENT)


@pytest.mark.parametrize("step", ["404", "403", "416"])
def test_a_refusal_is_final(site: Site, cache: Path, step: str) -> None:
    site.steps = [step]
    with pytest.raises(ConfigError, match=rf"{site.url}data/a%20b.pkl cannot .* answered {step} "):
        pull(declared())
    assert len(site.ranges) == 1
    assert kept(cache) == set()


def test_no_server_at_all_is_one_clear_message(site: Site) -> None:
    with (
        httpx.Client(transport=httpx.MockTransport(_unreachable)) as client,
        pytest.raises(ConfigError, match="could not be fetched in 3 attempts: no route"),
    ):
        pull(declared(), client=client)


def _unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no route", request=request)


def test_a_file_without_a_hash_is_not_downloaded(site: Site) -> None:
    with pytest.raises(
        ConfigError, match=rf"no sha256 .* by hand from {site.url}data/late.json and .*--file PATH"
    ):
        pull(declared(UNCHECKED))
    assert site.ranges == []


def test_a_damaged_pulled_file_is_refused_and_pulled_anew(site: Site) -> None:
    path = pull(declared())[0]
    path.write_bytes(b"oops")
    with pytest.raises(
        ConfigError, match=rf"sha256 {sha256(b'oops')}, expected {DATA.sha256}; fetch it anew with"
    ):
        locate(declared())
    assert pull(declared()) == [path]
    assert locate(declared())[0].path.read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written_says_so(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    monkeypatch.setenv("ADJUDGE_CACHE", str(tmp_path / "taken"))
    with pytest.raises(ConfigError, match=r"cannot write .*a b\.pkl: .*let ADJUDGE_CACHE name ano"):
        pull(declared())
    assert site.ranges == []


# --- copies below ADJUDGE_DATA ------------------------------------------------------------------


def test_a_copy_is_used_where_it_lies_or_pulled_from_there(data: Path, cache: Path) -> None:
    benchmark = declared(COPIED)
    assert locate(benchmark) == [LocalFile(data, "first")]
    assert whereabouts(benchmark) == "ADJUDGE_DATA"
    paths = pull(benchmark)
    assert paths == pull(benchmark) == [cache / "copies" / "some" / "data.json"]
    data.unlink()
    assert locate(benchmark) == [LocalFile(paths[0], "first")]
    assert whereabouts(benchmark) == "pulled"


def test_a_pulled_file_goes_before_a_copy(site: Site, cache: Path, data: Path) -> None:
    pull(declared())
    assert locate(declared(COPIED))[0].path == cache / "data" / "a b.pkl"


def test_a_damaged_copy_is_refused(data: Path, cache: Path) -> None:
    data.write_bytes(b"oops")
    for use in (locate, pull):
        with pytest.raises(ConfigError, match=r"data\.json has the sha256 .*; put the right file"):
            use(declared(COPIED))
    assert kept(cache) == set()


def test_a_copy_takes_the_place_of_a_damaged_file(data: Path, cache: Path) -> None:
    damaged = cache / "data" / "a b.pkl"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"oops")
    paths = pull(declared(COPIED))
    assert locate(declared(COPIED)) == [LocalFile(paths[0], "first")]
    assert not damaged.exists()


def test_a_missing_file_says_where_it_was_looked_for(data: Path) -> None:
    data.unlink()
    with pytest.raises(
        ConfigError,
        match=r"'tiny' lacks .*a b\.pkl is not in .* and some/data\.json is not in ADJUDGE_DATA "
        r".*fetch it with `adjudge benchmarks pull tiny`",
    ):
        locate(declared(COPIED))
    with pytest.raises(
        ConfigError,
        match=r"by hand from https://raw\.\S+/owner/repo/c0ffee/data/late\.json and .* tiny --file",
    ):
        locate(declared(UNCHECKED))


# --- files given by hand ------------------------------------------------------------------------


def test_a_file_given_by_hand_is_kept_with_its_hash(tmp_path: Path, cache: Path) -> None:
    benchmark, mine = declared(UNCHECKED), tmp_path / "mine.json"
    for content in (b"[1]", b"[1, 2]"):
        mine.write_bytes(content)
        paths = pull(benchmark, by_hand=[mine])
        assert paths == pull(benchmark) == [cache / "data" / "late.json"]
        assert locate(benchmark)[0].path.read_bytes() == content
        assert kept(cache) == {"data/late.json", "data/late.json.sha256"}
    paths[0].write_bytes(b"oops")
    with pytest.raises(ConfigError, match=rf"expected {sha256(b'[1, 2]')}; give the right file"):
        locate(benchmark)
    (cache / "data" / "late.json.sha256").unlink()
    with pytest.raises(ConfigError, match="but none is recorded; give the right file"):
        locate(benchmark)


def test_a_file_given_by_hand_is_checked_where_a_hash_is_declared(
    tmp_path: Path, cache: Path
) -> None:
    mine = tmp_path / "download.txt"
    mine.write_bytes(CONTENT)
    assert pull(declared(COPIED), by_hand=[mine]) == [cache / "data" / "a b.pkl"]
    mine.write_bytes(COPY)
    assert pull(declared(COPIED), by_hand=[mine]) == [cache / "copies" / "some" / "data.json"]
    mine.write_bytes(b"another version")
    with pytest.raises(ConfigError, match=rf"expected {DATA.sha256} as .*; it was not taken"):
        pull(declared(COPIED), by_hand=[mine])


def test_files_given_by_hand_are_for_all_or_for_those_without_a_hash(
    site: Site, tmp_path: Path
) -> None:
    benchmark, late, whole = declared(DATA, UNCHECKED), tmp_path / "l.json", tmp_path / "w"
    late.write_bytes(b"[]")
    whole.write_bytes(CONTENT)
    with pytest.raises(ConfigError, match=r"one for each of data/a b\.pkl, data/late\.json, in "):
        pull(benchmark, by_hand=[late, whole, late])
    with pytest.raises(ConfigError, match="it was not taken"):
        pull(benchmark, by_hand=[late, whole])
    assert [path.name for path in pull(benchmark, by_hand=[late])] == ["a b.pkl", "late.json"]
    assert site.ranges == [None]
    assert len(pull(benchmark, by_hand=[whole, late])) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [("none.json", "is not a file"), ("mine.csv", r"whose name ends in '\.json'")],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "mine.csv").write_text("a,b")
    with pytest.raises(ConfigError, match=message):
        pull(declared(UNCHECKED), by_hand=[tmp_path / name])


def test_a_benchmark_is_read_by_its_loader(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "loader", lambda benchmark: [benchmark.name].__add__)
    assert list(read_benchmark(declared(COPIED))) == ["tiny", LocalFile(data, "first")]


def test_an_optional_file_may_be_missing(data: Path, cache: Path) -> None:
    extra = DataFile(
        path="x/extra.csv", copy="some/extra.csv", copy_sha256=sha256(b"a,b"), optional=True
    )
    benchmark = declared(COPIED, extra)
    assert locate(benchmark) == [LocalFile(data, "first")]
    assert whereabouts(benchmark) == "ADJUDGE_DATA"
    assert len(pull(benchmark)) == 1
    (data.parent / "extra.csv").write_bytes(b"a,b")
    assert [file.path.name for file in locate(benchmark)] == ["data.json", "extra.csv"]
    assert len(pull(benchmark)) == 2
