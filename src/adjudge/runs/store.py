"""One SQLite file with every reply that a model gave and every judgment made of them."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from adjudge.errors import StoreError
from adjudge.exchange import Reply, Request, reply_from_json, reply_to_json
from adjudge.schema import Judgment, Signature, Status, canonical_json, content_hash, text_hash

#: Marks a file as ours ("adju"), and how many seconds to wait for others who use it.
APPLICATION_ID = 0x61646A75
BUSY_TIMEOUT = 30.0
#: What reading a damaged row may raise.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
#: Numbered by their place, append-only: a store of version n has had the first n of them.
MIGRATIONS = (
    """
    CREATE TABLE replies (
        key TEXT PRIMARY KEY,
        reply TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        created REAL NOT NULL,
        signature TEXT NOT NULL,
        data TEXT NOT NULL,
        n_items INTEGER NOT NULL
    );
    CREATE TABLE judgments (
        run_id TEXT NOT NULL REFERENCES runs (id),
        position INTEGER NOT NULL,
        judgment TEXT NOT NULL,
        PRIMARY KEY (run_id, position)
    ) WITHOUT ROWID;
    """,
)


class Run(NamedTuple):
    """Judgments of one configuration over one data set.

    `data` names the data set, `n_items` is how many judgments the run is to have and `n_judged`
    how many it has; `created` is in seconds since 1970.
    """

    id: str
    created: float
    signature: Signature
    data: str
    n_items: int
    n_judged: int


class Store:
    """Replies by content and judgments by run, in one SQLite file.

    Everything is written as it arrives, so that a killed run loses nothing and no model is asked
    twice. Several processes may use one store.

    Parameters
    ----------
    path
        The file; it is made if it is not there. ``":memory:"`` keeps nothing.

    Raises
    ------
    StoreError
        If the file cannot be opened, is no store or was made by a newer adjudge.
    """

    def __init__(self, path: str | Path = ":memory:") -> None:
        self.path = str(path)
        self._engine: Mapping[str, str] | None = None
        self._engine_text = ""
        if not self.path:
            raise StoreError("a store needs a name; leave the flag out for adjudge.db")
        try:
            self._db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None)
        except sqlite3.Error as error:
            raise self._error("cannot be opened as a store", error) from error
        try:
            self._migrate()
            self._write_ahead()
        except sqlite3.Error as error:
            self._db.close()
            raise self._error("cannot be opened as a store", error) from error
        except StoreError:
            self._db.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _migrate(self) -> None:
        """Make the file a store of this version, if it is an older one or nothing yet."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            (owner,) = self._db.execute("PRAGMA application_id").fetchone()
            used = self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            if owner != APPLICATION_ID and (owner or version or used):
                raise StoreError(f"{self.path} is a database of something else, not a store")
            if version > len(MIGRATIONS):
                raise StoreError(
                    f"{self.path} is a store of version {version}; this adjudge knows versions "
                    f"up to {len(MIGRATIONS)}: upgrade adjudge or use another store"
                )
            for migration in MIGRATIONS[version:]:
                for statement in migration.split(";"):
                    self._db.execute(statement)
            if version < len(MIGRATIONS):
                self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _write_ahead(self) -> None:
        """Switch to write-ahead logging, which lets others read while one writes."""
        self._db.execute("PRAGMA synchronous = NORMAL")
        deadline = time.monotonic() + BUSY_TIMEOUT
        while True:  # SQLite does not wait by itself for another opener to finish this switch
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _key(self, engine: Mapping[str, str], request: Request) -> str:
        """Return a reply's key; the engine's part is made once as long as it is the same."""
        if self._engine is not engine:
            self._engine, self._engine_text = engine, canonical_json(dict(engine))
        return _reply_key(self._engine_text, request)

    # --- replies --------------------------------------------------------------------------------

    def reply(self, engine: Mapping[str, str], request: Request) -> Reply | None:
        """Return what the engine answered to this request before, or None."""
        key = self._key(engine, request)
        rows = self._execute("SELECT reply FROM replies WHERE key = ?", key)
        if not rows:
            return None
        try:
            return reply_from_json(rows[0][0])
        except UNREADABLE as error:
            raise self._error(f"holds a reply that cannot be read, {key}", error) from error

    def save_reply(self, engine: Mapping[str, str], request: Request, reply: Reply) -> None:
        """Keep what the engine answered to this request."""
        key = self._key(engine, request)
        self._execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", key, reply_to_json(reply))

    def n_replies(self) -> int:
        """Return how many replies are stored."""
        return int(self._execute("SELECT count(*) FROM replies")[0][0])

    # --- runs -----------------------------------------------------------------------------------

    def start_run(self, signature: Signature, data: str, fingerprint: str, n_items: int) -> str:
        """Return the id of the run of this configuration over this data, new or resumed."""
        run_id = content_hash([signature.fields, fingerprint])[:12]
        fields, data = json.dumps(dict(signature.fields)), data.encode(errors="replace").decode()
        self._execute(
            "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)",
            *(run_id, time.time(), fields, data, n_items),
        )
        return run_id

    def save_judgment(self, run_id: str, position: int, judgment: Judgment) -> None:
        """Keep a judgment as the one of the run's item at `position`."""
        text = json.dumps(asdict(judgment))
        self._execute("INSERT OR REPLACE INTO judgments VALUES (?, ?, ?)", run_id, position, text)

    def judgments(self, run_id: str) -> Iterator[Judgment]:
        """Yield the judgments of a run in the order of its items."""
        after = -1
        while rows := self._execute(
            "SELECT position, judgment FROM judgments WHERE run_id = ? AND position > ? "
            "ORDER BY position LIMIT 1000",
            *(run_id, after),
        ):
            for after, text in rows:  # noqa: B007 - the last one is where to go on
                try:
                    yield _judgment(json.loads(text))
                except UNREADABLE as error:
                    raise self._error("holds a judgment that cannot be read", error) from error

    def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        rows = self._execute(
            "SELECT runs.*, (SELECT count(*) FROM judgments WHERE run_id = id) FROM runs "
            "ORDER BY created"
        )
        return [self._run(row) for row in rows]

    def _run(self, row: Sequence[Any]) -> Run:
        try:
            return Run(row[0], row[1], Signature(json.loads(row[2])), *row[3:])
        except UNREADABLE as error:
            raise self._error(f"holds a run that cannot be read, {row[0]}", error) from error

    def find_run(self, prefix: str) -> Run:
        """Return the one run whose id begins with `prefix`.

        Raises
        ------
        StoreError
            If there is none or more than one.
        """
        runs = self.runs()
        found = [run for run in runs if run.id.startswith(prefix)]
        if len(found) != 1:
            there = ", ".join(run.id for run in runs) or "none"
            many = "more than one run" if found else "no run"
            raise StoreError(f"{many} in {self.path} begins with {prefix!r}; runs: {there}")
        return found[0]

    def _execute(self, statement: str, *values: object) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._error("cannot be used", error) from error

    def _error(self, what: str, error: Exception) -> StoreError:
        return StoreError(f"{self.path} {what}: {error}")


def reply_key(engine: Mapping[str, str], request: Request) -> str:
    """Return the key of a reply: the engine's whole signature and the request's content."""
    return _reply_key(canonical_json(dict(engine)), request)


def _reply_key(engine: str, request: Request) -> str:
    """Return `reply_key` from the engine's signature as JSON: it is the hash of both in a list."""
    return text_hash(f'[{engine},"{request.id}"]')


def _judgment(fields: dict[str, Any]) -> Judgment:
    """Return the judgment that was stored as these fields."""
    fields["status"] = Status(fields["status"])
    fields["distribution"] = tuple(tuple(row) for row in fields["distribution"])
    fields["ranks"] = tuple(fields.get("ranks", ()))
    return Judgment(**fields)


def open_store(path: str) -> Store:
    """Return a store that must be there already.

    Raises
    ------
    StoreError
        If it is not there.
    """
    if not Path(path).is_file():
        raise StoreError(f"there is no store {path!r}; name one with --store")
    return Store(path)
