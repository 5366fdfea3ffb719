"""One SQLite file with every reply that a model gave and every judgment made of them."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from adjudge.errors import StoreError
from adjudge.schema import (
    Judgment,
    Reply,
    Request,
    Signature,
    Status,
    content_hash,
    reply_from_json,
    reply_to_json,
)

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
        try:
            self._db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._migrate()
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path} cannot be opened as a store: {error}; "
                "name a new file or one that adjudge made"
            ) from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _migrate(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} is a store of version {version}; this adjudge knows versions up to "
                f"{len(MIGRATIONS)}: upgrade adjudge or use another store"
            )
        if version == 0 and self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            raise StoreError(f"{self.path} is a database of something else, not a store")
        for number in range(version, len(MIGRATIONS)):
            script = f"BEGIN IMMEDIATE; {MIGRATIONS[number]}; PRAGMA user_version = {number + 1};"
            self._db.executescript(f"{script} COMMIT;")

    # --- replies --------------------------------------------------------------------------------

    def reply(self, engine: Mapping[str, str], request: Request) -> Reply | None:
        """Return what the engine answered to this request before, or None."""
        row = self._db.execute(
            "SELECT reply FROM replies WHERE key = ?", (reply_key(engine, request),)
        ).fetchone()
        return reply_from_json(row[0]) if row else None

    def save_reply(self, engine: Mapping[str, str], request: Request, reply: Reply) -> None:
        """Keep what the engine answered to this request."""
        self._write(
            "INSERT OR REPLACE INTO replies VALUES (?, ?)",
            (reply_key(engine, request), reply_to_json(reply)),
        )

    def n_replies(self) -> int:
        """Return how many replies are stored."""
        return int(self._db.execute("SELECT count(*) FROM replies").fetchone()[0])

    # --- runs -----------------------------------------------------------------------------------

    def start_run(self, signature: Signature, data: str, fingerprint: str, n_items: int) -> str:
        """Return the id of the run of this configuration over this data, new or resumed."""
        run_id = content_hash([signature.fields, fingerprint])[:12]
        self._write(
            "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)",
            (run_id, time.time(), json.dumps(signature.fields), data, n_items),
        )
        return run_id

    def save_judgment(self, run_id: str, position: int, judgment: Judgment) -> None:
        """Keep a judgment as the one of the run's item at `position`."""
        self._write(
            "INSERT OR REPLACE INTO judgments VALUES (?, ?, ?)",
            (run_id, position, json.dumps(asdict(judgment), ensure_ascii=False)),
        )

    def judgments(self, run_id: str) -> Iterator[Judgment]:
        """Yield the judgments of a run in the order of its items."""
        rows = self._db.execute(
            "SELECT judgment FROM judgments WHERE run_id = ? ORDER BY position", (run_id,)
        )
        for (text,) in rows:
            yield _judgment(json.loads(text))

    def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        rows = self._db.execute(
            "SELECT runs.*, (SELECT count(*) FROM judgments WHERE run_id = id) FROM runs "
            "ORDER BY created"
        ).fetchall()
        return [Run(row[0], row[1], Signature(json.loads(row[2])), *row[3:]) for row in rows]

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

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be written: {error}") from error


def reply_key(engine: Mapping[str, str], request: Request) -> str:
    """Return the key of a reply: the engine's whole signature and the request's content."""
    signature = "\n".join(f"{name}={engine[name]}" for name in sorted(engine))
    return hashlib.sha256(f"{signature}\n{request.id}".encode()).hexdigest()


def _judgment(fields: dict[str, Any]) -> Judgment:
    """Return the judgment that was stored as these fields."""
    fields["status"] = Status(fields["status"])
    fields["distribution"] = tuple(tuple(row) for row in fields["distribution"])
    return Judgment(**fields)
