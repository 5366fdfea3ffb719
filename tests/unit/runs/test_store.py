"""The store: what goes in comes out, and other files are refused."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Barrier

import pytest

from adjudge.errors import StoreError
from adjudge.exchange import (
    Completion,
    Failure,
    Generate,
    Generated,
    LabelScores,
    Message,
    Reply,
    Request,
    ScoreLabels,
    Usage,
)
from adjudge.runs.store import MIGRATIONS, Store, reply_key
from adjudge.schema import Judgment, Signature, Status, content_hash

ENGINE = {"engine": "scripted", "model": "m"}
GENERATE = Generate(messages=(Message(role="user", content="write"),), max_tokens=8)
SCORE = ScoreLabels(messages=GENERATE.messages, labels=("A", "B"))
WRITTEN = Generated(
    request_id=GENERATE.id,
    completions=(Completion(text="ä\n'\"", finish_reason="stop", n_tokens=3),),
    usage=Usage(prompt_tokens=5, evaluated_tokens=4, generated_tokens=3),
)
SCORED = LabelScores(
    request_id=SCORE.id, logprobs=(-0.5, -1.5), masses=(0.6, 0.2), n_tokens=(1, 2), coverage=0.8
)
SIGNATURE = Signature({"judge": "ladder", "model": "m"})


def make(item_id: str = "i", value: float | None = 3.5) -> Judgment:
    return Judgment(
        item_id=item_id,
        source_id="s",
        system="m",
        criterion="wit",
        status=Status.OK if value is not None else Status.PARSE_FAILED,
        value=value,
        raw=0.25,
        distribution=((0.5, 0.5), (0.25, 0.75)),
        coverage=0.9,
        feedback="gut, größer",
        evidence={"rungs": ["a", None], "shares": {"x": 0.5}},
        n_calls=4,
    )


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as opened:
        yield opened


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each look at the clock a second later than the last."""
    seconds = count(1000)
    monkeypatch.setattr("adjudge.runs.store.time.time", lambda: float(next(seconds)))


# --- replies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("request_", "reply"), [(GENERATE, WRITTEN), (SCORE, SCORED)])
def test_a_reply_comes_back_as_it_was(store: Store, request_: Request, reply: Reply) -> None:
    assert store.reply(ENGINE, request_) is None
    store.save_reply(ENGINE, request_, reply)
    assert store.reply(ENGINE, request_) == reply
    assert store.n_replies() == 1


def test_a_reply_belongs_to_its_request_and_engine(store: Store) -> None:
    store.save_reply(ENGINE, GENERATE, WRITTEN)
    assert store.reply(ENGINE, replace(GENERATE, max_tokens=9)) is None
    assert store.reply(ENGINE, SCORE) is None
    assert store.reply(ENGINE | {"model": "n"}, GENERATE) is None
    assert store.reply(ENGINE | {"context": "1"}, GENERATE) is None
    assert store.reply({"engine": "scripted"}, GENERATE) is None


def test_an_equal_request_finds_the_reply(store: Store) -> None:
    store.save_reply(ENGINE, GENERATE, WRITTEN)
    again = Generate(messages=(Message(role="user", content="write"),), max_tokens=8)
    assert store.reply(dict(reversed(ENGINE.items())), again) == WRITTEN


def test_the_last_reply_to_a_request_is_kept(store: Store) -> None:
    store.save_reply(ENGINE, GENERATE, Failure(request_id=GENERATE.id, message="busy"))
    store.save_reply(ENGINE, GENERATE, WRITTEN)
    assert store.reply(ENGINE, GENERATE) == WRITTEN
    assert store.n_replies() == 1


def test_a_key_depends_on_every_part_of_the_signature() -> None:
    keys = {
        reply_key(engine, request)
        for engine in ({}, {"a": "1"}, {"a": "2"}, {"b": "1"}, {"a": "1", "b": "1"})
        for request in (GENERATE, SCORE)
    }
    assert len(keys) == 10


def test_no_value_of_a_signature_passes_for_another_name() -> None:
    assert reply_key({"a": "1\nb=2"}, GENERATE) != reply_key({"a": "1", "b": "2"}, GENERATE)


def test_half_of_a_surrogate_pair_comes_back_as_it_was(store: Store) -> None:
    completion = replace(WRITTEN.completions[0], text="half \ud83d")
    reply = replace(WRITTEN, completions=(completion,))
    store.save_reply(ENGINE, GENERATE, reply)
    assert store.reply(ENGINE, GENERATE) == reply
    judgment = replace(make(), feedback="half \ud83d")
    run_id = store.start_run(SIGNATURE, "rows.csv", "fingerprint", 1)
    store.save_judgment(run_id, 0, judgment)
    assert list(store.judgments(run_id)) == [judgment]


# --- runs ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ticking")
def test_a_run_is_listed_as_it_was_started(store: Store) -> None:
    run_id = store.start_run(SIGNATURE, "rows.csv", "fingerprint", 3)
    store.save_judgment(run_id, 2, make())
    assert store.runs() == [(run_id, 1000.0, SIGNATURE, "rows.csv", 3, 1)]
    assert str(store.runs()[0].signature) == "judge:ladder|model:m"


@pytest.mark.usefixtures("ticking")
def test_the_same_run_again_is_resumed(store: Store) -> None:
    run_id = store.start_run(SIGNATURE, "rows.csv", "fingerprint", 3)
    store.save_judgment(run_id, 0, make())
    assert store.start_run(SIGNATURE, "rows.csv", "fingerprint", 3) == run_id
    (run,) = store.runs()
    assert (run.created, run.n_judged) == (1000.0, 1)


def test_a_run_is_known_by_signature_and_fingerprint_not_by_file_name(store: Store) -> None:
    run_id = store.start_run(SIGNATURE, "rows.csv", "fingerprint", 3)
    assert store.start_run(SIGNATURE, "moved.csv", "fingerprint", 3) == run_id
    assert store.start_run(SIGNATURE, "rows.csv", "another", 3) != run_id
    assert store.start_run(SIGNATURE | {"seed": "1"}, "rows.csv", "fingerprint", 3) != run_id
    assert len(store.runs()) == 3


@pytest.mark.usefixtures("ticking")
def test_runs_are_listed_oldest_first(store: Store) -> None:
    started = [store.start_run(SIGNATURE, "rows.csv", str(number), 1) for number in range(8)]
    assert [run.id for run in store.runs()] == started


def test_judgments_come_in_the_order_of_the_items(store: Store) -> None:
    run_id = store.start_run(SIGNATURE, "rows.csv", "fingerprint", 12)
    for position in (10, 2, 0, 11):
        store.save_judgment(run_id, position, make(f"item {position}"))
    found = [judgment.item_id for judgment in store.judgments(run_id)]
    assert found == ["item 0", "item 2", "item 10", "item 11"]


def test_every_one_of_many_judgments_comes_once(store: Store) -> None:
    run_id = store.start_run(SIGNATURE, "rows.csv", "fingerprint", 1001)
    for position in range(1001):
        store.save_judgment(run_id, position, make(str(position)))
    found = [judgment.item_id for judgment in store.judgments(run_id)]
    assert found == [str(position) for position in range(1001)]


@pytest.mark.parametrize("value", [3.5, None])
def test_a_judgment_comes_back_as_it_was(store: Store, value: float | None) -> None:
    run_id = store.start_run(SIGNATURE, "rows.csv", "fingerprint", 1)
    store.save_judgment(run_id, 0, make(value=value))
    (judgment,) = store.judgments(run_id)
    assert judgment == make(value=value)
    assert isinstance(judgment.status, Status)


def test_a_new_judgment_replaces_the_one_of_the_same_item(store: Store) -> None:
    run_id = store.start_run(SIGNATURE, "rows.csv", "fingerprint", 1)
    store.save_judgment(run_id, 0, make(value=None))
    store.save_judgment(run_id, 0, make(value=2.0))
    assert [judgment.value for judgment in store.judgments(run_id)] == [2.0]


def test_judgments_belong_to_their_run(store: Store) -> None:
    first = store.start_run(SIGNATURE, "rows.csv", "first", 1)
    second = store.start_run(SIGNATURE, "rows.csv", "second", 1)
    store.save_judgment(first, 0, make())
    assert list(store.judgments(second)) == []
    assert {run.id: run.n_judged for run in store.runs()} == {first: 1, second: 0}


def test_a_run_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    ids = [store.start_run(SIGNATURE, "rows.csv", str(number), 1) for number in range(3)]
    for run_id in ids:
        others = [other for other in ids if other != run_id]
        length = next(n for n in range(1, 13) if not any(o.startswith(run_id[:n]) for o in others))
        assert store.find_run(run_id[:length]).id == store.find_run(run_id).id == run_id


def test_no_run_or_more_than_one_is_told_with_all_ids(store: Store) -> None:
    ids = [store.start_run(SIGNATURE, "rows.csv", str(number), 1) for number in range(2)]
    with pytest.raises(StoreError, match=f"no run in :memory: begins with '%'; runs: .*{ids[0]}"):
        store.find_run("%")
    with pytest.raises(StoreError, match=f"more than one run .* begins with ''; .*{ids[1]}"):
        store.find_run("")


def test_an_empty_store_has_no_run_to_find(store: Store) -> None:
    with pytest.raises(StoreError, match="no run in :memory: begins with 'a'; runs: none"):
        store.find_run("a")


# --- the file -----------------------------------------------------------------------------------


def test_what_was_stored_is_there_when_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Store(path) as store:
        store.save_reply(ENGINE, GENERATE, WRITTEN)
        run_id = store.start_run(SIGNATURE, "rows.csv", "fingerprint", 1)
        store.save_judgment(run_id, 0, make())
    with Store(path) as store:
        assert store.reply(ENGINE, GENERATE) == WRITTEN
        assert list(store.judgments(run_id)) == [make()]
        assert [run.id for run in store.runs()] == [run_id]


def test_two_openings_of_one_file_see_each_others_replies(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Store(path) as one, Store(path) as other:
        one.save_reply(ENGINE, GENERATE, WRITTEN)
        other.save_reply(ENGINE, SCORE, SCORED)
        assert other.reply(ENGINE, GENERATE) == WRITTEN
        assert one.reply(ENGINE, SCORE) == SCORED


def test_a_new_store_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    n_threads, n_files = 6, 30
    start = Barrier(n_threads, timeout=60)

    def n_replies(path: Path) -> int:
        start.wait()
        with Store(path) as store:
            return store.n_replies()

    with ThreadPoolExecutor(n_threads) as threads:
        for number in range(n_files):
            paths = [tmp_path / f"{number}.db"] * n_threads
            assert list(threads.map(n_replies, paths)) == [0] * n_threads


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"")
    with Store(path) as store:
        assert store.runs() == []


def test_a_store_carries_the_number_of_its_migrations(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Store(path).close()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path, newer = tmp_path / "a.db", len(MIGRATIONS) + 1
    Store(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {newer}")
    before = path.read_bytes()
    with pytest.raises(
        StoreError,
        match=f"{re.escape(str(path))} is a store of version {newer}; this adjudge knows versions "
        f"up to {len(MIGRATIONS)}: upgrade adjudge",
    ):
        Store(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"text", b"text" * 1000, b'{"source": "s"}\n'])
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    with pytest.raises(
        StoreError, match=f"{re.escape(str(path))} cannot be opened as a store: .*not a database"
    ):
        Store(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.parametrize("version", [0, 1, 5])
def test_a_database_of_something_else_is_refused_and_kept(
    tmp_path: Path, version: int, journal: str
) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA journal_mode = {journal}")
        database.execute("CREATE TABLE songs (title TEXT)")
        database.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(
        StoreError, match=f"{re.escape(str(path))} is a database of something else, not a store"
    ):
        Store(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "a.db"):
        with pytest.raises(
            StoreError,
            match=f"{re.escape(str(path))} cannot be opened as a store: unable to open",
        ):
            Store(path)


def test_a_closed_store_can_be_neither_written_nor_read() -> None:
    store = Store()
    store.close()
    uses: list[Callable[[], object]] = [
        lambda: store.save_reply(ENGINE, GENERATE, WRITTEN),
        lambda: store.save_judgment("run", 0, make()),
        lambda: store.reply(ENGINE, GENERATE),
        lambda: list(store.judgments("run")),
        lambda: store.find_run("run"),
        store.n_replies,
        store.runs,
    ]
    for use in uses:
        with pytest.raises(StoreError, match=":memory: cannot be used: "):
            use()


def test_a_reply_is_found_under_the_hash_of_signature_and_request() -> None:
    expected = content_hash([{"b": "2", "a": "1"}, GENERATE.id])
    assert reply_key({"a": "1", "b": "2"}, GENERATE) == expected
