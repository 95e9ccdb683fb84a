"""The SQLite file itself: making it, connecting to it, stepping its schema."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from importlib.resources import files
from pathlib import Path

from ..config import Durability
from ..errors import BadInput, SchemaMismatch, StoreError
from .lane import translated
from .rows import kind_of

MINIMUM = (3, 37, 0)  # STRICT tables, RETURNING, UPDATE FROM
BUSY_SECONDS = 30.0


def prepare(path: str) -> str:
    """Makes the file if need be, readable by its owner only; says clearly what stands in the way."""
    if sqlite3.sqlite_version_info < MINIMUM:
        need = ".".join(map(str, MINIMUM))
        raise StoreError(f"this Python has SQLite {sqlite3.sqlite_version}; the SQLite store needs {need} or newer")
    file = Path(path)
    if not file.parent.is_dir():
        raise StoreError(f"cannot open SQLite file {path!r}: there is no directory {str(file.parent)!r}")
    try:
        # Only a file that is not there: closing any handle on one that is drops the locks SQLite has on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if file.is_dir() or not os.access(path, os.R_OK | os.W_OK):
            why = "it is a directory" if file.is_dir() else "no permission to read and write it"
            raise StoreError(f"cannot open SQLite file {path!r}: {why}") from None
    except OSError as error:
        raise StoreError(f"cannot open SQLite file {path!r}: {error.strerror}") from None
    return os.path.realpath(path)


def connect(path: str, durability: Durability) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        mode = _write_ahead(db)
    except sqlite3.DatabaseError as error:
        db.close()
        if "not a database" in str(error):
            raise StoreError(f"{path!r} exists and is not a SQLite database; name another file") from None
        raise translated(error) from error
    if mode != "wal":
        db.close()
        raise StoreError(f"{path!r} cannot use write-ahead logging (a network file system?): use a local disk")
    db.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
    db.execute("PRAGMA cache_size = -65536")
    # 32 MB of log between checkpoints instead of 4: bulk enqueue is a third faster.
    db.execute("PRAGMA wal_autocheckpoint = 8000")
    return db


def _write_ahead(db: sqlite3.Connection) -> str:
    """Turns write-ahead logging on; SQLite does not wait for a lock here, so several that start at once must."""
    for _ in range(int(BUSY_SECONDS / 0.02)):
        try:
            mode: str = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(0.02)
        else:
            return mode
    raise sqlite3.OperationalError("database is locked")


def join(db: sqlite3.Connection, path: str) -> None:
    """Makes sure the caller's connection is to our file and inside a transaction that the caller ends."""
    mine = os.path.realpath(path)
    if not any(os.path.realpath(row[2]) == mine for row in db.execute("PRAGMA database_list") if row[1] == "main"):
        raise BadInput(f"within= needs a connection to {path!r}, where the jobs are")
    if not db.in_transaction:
        if db.isolation_level is None or getattr(db, "autocommit", None) is True:
            raise BadInput("within= needs an open transaction: execute BEGIN first, then enqueue, then commit")
        db.execute("BEGIN IMMEDIATE")


def _steps() -> dict[tuple[str, int], list[str]]:
    """The numbered steps of sqlite.sql, each as its statements."""
    text = files("mainspring.stores").joinpath("sqlite.sql").read_text()
    parts = re.split(r"^-- (up|down) (\d+)\n", text, flags=re.MULTILINE)[1:]
    steps = {}
    for way, number, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        body = re.sub(r"--.*", "", body)
        steps[way, int(number)] = [part.strip() for part in body.split(";") if part.strip()]
    return steps


STEPS = _steps()
NEWEST = max(number for _, number in STEPS)


def version(db: sqlite3.Connection) -> int:
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'mainspring_schema'").fetchone():
        return 0
    row = db.execute("SELECT version FROM mainspring_schema").fetchone()
    return row[0] if row else 0


def migrate(db: sqlite3.Connection, target: int | None, *, only_up: bool = False) -> list[int]:
    """Steps the schema to `target`, all or nothing; returns the versions it passed through."""
    target = NEWEST if target is None else target
    if not 0 <= target <= NEWEST:
        raise BadInput(f"there is no schema version {target}; this release knows 0 to {NEWEST}")
    alone = not db.in_transaction
    if alone:
        if version(db) == target:
            return []
        db.execute("BEGIN IMMEDIATE")
    try:
        passed = _step(db, target, only_up)
    except BaseException:
        if alone:
            db.execute("ROLLBACK")
        raise
    if alone:
        db.execute("COMMIT")
    return passed


def _step(db: sqlite3.Connection, target: int, only_up: bool) -> list[int]:
    db.execute("CREATE TABLE IF NOT EXISTS mainspring_schema (version INTEGER NOT NULL) STRICT")
    at = version(db)
    if at > NEWEST:
        raise SchemaMismatch(f"the file has schema {at}, this release knows {NEWEST} at most: upgrade mainspring")
    if only_up and at > target:
        return []
    db.create_function("mainspring_kind", 1, kind_of, deterministic=True)
    passed: list[int] = []
    while at != target:
        way, number, after = ("up", at + 1, at + 1) if at < target else ("down", at, at - 1)
        for statement in STEPS[way, number]:
            db.execute(statement)
        at = after
        passed.append(at)
    db.execute("DELETE FROM mainspring_schema")
    db.execute("INSERT INTO mainspring_schema VALUES (?)", (at,))
    return passed
