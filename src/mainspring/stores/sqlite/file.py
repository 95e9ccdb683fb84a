"""Creates, opens and migrates the SQLite file."""

from __future__ import annotations

import os
import re
import sqlite3
import time

from ...config import Durability
from ...errors import BadInput, SchemaMismatch, StoreError, StoreUnavailable
from ...records.schema import Schema
from ..migrations import Migrations, load_migrations
from ..rows import decode_failure_kind
from .log_size import LONG_LOG_PAGES, set_log_pages
from .out_of_order import is_out_of_order
from .writer_thread import translate_error

MIN_SQLITE_VERSION = (3, 37, 0)  # STRICT tables, RETURNING, UPDATE FROM
BUSY_SECONDS = 30.0
# Pages that a connection keeps in the process; the system's own cache has the others.
WRITER_CACHE_BYTES, READER_CACHE_BYTES = 24 << 20, 16 << 20


def create_file(path: str) -> str:
    """Creates the file if it is missing, readable by its owner only, and returns its real path. Raises StoreError."""
    if sqlite3.sqlite_version_info < MIN_SQLITE_VERSION:
        need = ".".join(map(str, MIN_SQLITE_VERSION))
        raise StoreError(f"this Python has SQLite {sqlite3.sqlite_version}; the SQLite store needs {need} or newer")
    folder = os.path.dirname(path) or os.curdir
    if not os.path.isdir(folder):
        raise StoreError(f"cannot open SQLite file {path!r}: there is no directory {folder!r}")
    try:
        # Only if the file is missing: closing any handle on an existing file drops the locks that SQLite has on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if os.path.isdir(path) or not os.access(path, os.R_OK | os.W_OK):
            why = "it is a directory" if os.path.isdir(path) else "no permission to read and write it"
            raise StoreError(f"cannot open SQLite file {path!r}: {why}") from None
    except OSError as error:
        raise StoreError(f"cannot open SQLite file {path!r}: {error.strerror}") from None
    return os.path.realpath(path)


def connect(path: str, durability: Durability, cache_bytes: int = WRITER_CACHE_BYTES) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        mode = _enable_wal(db)
    except sqlite3.DatabaseError as error:
        db.close()
        if "not a database" in str(error):
            raise StoreError(f"{path!r} exists and is not a SQLite database; name another file") from None
        raise translate_error(error) from error
    if mode != "wal":
        db.close()
        raise StoreError(f"{path!r} cannot use write-ahead logging (a network file system?): use a local disk")
    db.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
    db.execute(f"PRAGMA cache_size = -{cache_bytes >> 10}")
    set_log_pages(db, LONG_LOG_PAGES)
    return db


def inode(path: str) -> tuple[int, int] | None:
    """Device and inode of the file; None if there is no such file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def check_same_file(path: str, known: tuple[int, int] | None) -> None:
    """Raises StoreError if the path is gone or another file: SQLite would go on in one that no other process sees."""
    if known is not None and inode(path) != known:
        raise StoreError(
            f"SQLite file {path!r} was moved, deleted or replaced while it was in use: start this process again"
        )


def _enable_wal(db: sqlite3.Connection) -> str:
    """Turns write-ahead logging on. SQLite does not wait for the lock here, so this retries while others start too."""
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


def check_caller_connection(db: sqlite3.Connection, path: str) -> None:
    """Raises BadInput unless the connection is to our file and in a transaction; begins one where sqlite3 would."""
    mine = os.path.realpath(path)
    if not any(os.path.realpath(row[2]) == mine for row in db.execute("PRAGMA database_list") if row[1] == "main"):
        raise BadInput(f"within= needs a connection to {path!r}, where the jobs are")
    if not db.in_transaction:
        if db.isolation_level is None or getattr(db, "autocommit", None) is True:
            raise BadInput("within= needs an open transaction: execute BEGIN first, then enqueue, then commit")
        db.execute("BEGIN IMMEDIATE")


# The schema with which releases move flows as this one does. One without flows would end a step and move nothing;
# those before know no plan that grows, or also no signals, no task that yields, no skip and no timeout.
FLOWS_VERSION = 12
# The schema with which releases know jobs with a limit. One without would claim them at once.
LIMITS_VERSION = 13
# The schema that has tables of flows.
_FLOW_TABLES_VERSION = 8
# The schema that has a table of checkpoints.
_CHECKPOINTS_VERSION = 11
MIGRATIONS = load_migrations("sqlite/tables.sql")


def read_schema(db: sqlite3.Connection, migrations: Migrations) -> Schema:
    """The schema version of the file; 0 for a file without tables."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'mainspring_schema'").fetchone():
        return migrations.schema(0, 0)
    version, *oldest = db.execute("SELECT * FROM mainspring_schema").fetchone() or (0,)
    return migrations.schema(version, *oldest or (None,))


def check_schema(db: sqlite3.Connection, migrations: Migrations) -> None:
    """Raises SchemaMismatch if this release cannot work on the tables."""
    if trouble := read_schema(db, migrations).trouble:
        raise SchemaMismatch(trouble)


def is_schema_error(error: StoreError) -> bool:
    """Whether SQLite did not know a table or column that a statement names."""
    return any(words in str(error) for words in ("no such table", "no such column", "has no column"))


def apply_migrations(
    db: sqlite3.Connection, migrations: Migrations, target: int | None, now: int, *, only_up: bool = False
) -> list[int]:
    """Migrates the schema to `target`, all or nothing, and returns the versions on the way.

    With `only_up` a later schema is left as it is; raises SchemaMismatch if this release cannot work on it.
    """
    goal = migrations.target(target)
    own_transaction = not db.in_transaction
    if own_transaction:
        if read_schema(db, migrations).version == goal:
            return []
        db.execute("BEGIN IMMEDIATE")
    try:
        versions = _apply(db, migrations, goal, now, only_up)
    except BaseException:
        if own_transaction:
            db.execute("ROLLBACK")
        raise
    if own_transaction:
        db.execute("COMMIT")
    return versions


def _apply(db: sqlite3.Connection, migrations: Migrations, target: int, now: int, only_up: bool) -> list[int]:
    schema = read_schema(db, migrations)
    if schema.version == target:
        return []
    if only_up and schema.version > target:
        check_schema(db, migrations)
        return []
    pending = migrations.between(schema.version, target)
    oldest = _oldest(db, migrations, schema, target)
    if schema.version:
        _refuse_incompatible_workers(db, target, oldest, now)
    db.create_function("mainspring_kind", 1, decode_failure_kind, deterministic=True)
    db.create_function("mainspring_is_odd", 2, is_out_of_order, deterministic=True)
    for _, text in pending:
        for statement in re.sub(r"--.*", "", text).split(";"):
            db.execute(statement)
    db.execute("DROP TABLE IF EXISTS mainspring_schema")
    if target:
        db.execute("CREATE TABLE mainspring_schema (version INTEGER NOT NULL, oldest INTEGER NOT NULL) STRICT")
        db.execute("INSERT INTO mainspring_schema VALUES (?, ?)", (target, oldest))
    return [version for version, _ in pending]


def _oldest(db: sqlite3.Connection, migrations: Migrations, schema: Schema, target: int) -> int:
    """The oldest release that can work on the tables after a migration: those that flows have shut out stay so. Raises
    StoreUnavailable if flows forbid the migration."""
    oldest = migrations.oldest(target)
    if schema.version >= LIMITS_VERSION:
        oldest = max(oldest, _oldest_with_limits(db, target))
    if target < _CHECKPOINTS_VERSION <= schema.version:
        _refuse_checkpoints(db, target)
    if schema.version < _FLOW_TABLES_VERSION:
        return oldest
    (flows,) = db.execute("SELECT count(*) FROM mainspring_flows").fetchone()
    if flows and target < min(schema.version, FLOWS_VERSION):
        raise StoreUnavailable(f"{flows} flows are stored, which schema {target} cannot keep: delete their jobs first")
    return max(oldest, schema.oldest) if flows else oldest


def _oldest_with_limits(db: sqlite3.Connection, target: int) -> int:
    """The oldest release that can work on the jobs with a limit; 0 if there are none."""
    (jobs,) = db.execute("SELECT count(*) FROM mainspring_limited").fetchone()
    if jobs and target < LIMITS_VERSION:
        raise StoreUnavailable(
            f"{jobs} unfinished jobs have a limit, which schema {target} cannot keep: wait for them, or delete them"
        )
    return LIMITS_VERSION if jobs else 0


def _refuse_checkpoints(db: sqlite3.Connection, target: int) -> None:
    """Raises StoreUnavailable if jobs have checkpoints: without them their steps would run again."""
    (jobs,) = db.execute("SELECT count(DISTINCT job_id) FROM mainspring_checkpoints").fetchone()
    if jobs:
        raise StoreUnavailable(f"{jobs} jobs have checkpoints, which schema {target} cannot keep: delete them first")


def _refuse_incompatible_workers(db: sqlite3.Connection, target: int, oldest: int, now: int) -> None:
    """Raises StoreUnavailable if a live worker cannot work on the target schema."""
    sql = """SELECT id, CASE WHEN json_valid(info) THEN json_extract(info, '$.schema') END AS known
        FROM mainspring_workers WHERE until > ? AND typeof(known) = 'integer' AND known > 0
            AND known NOT BETWEEN ? AND ? ORDER BY id"""
    alive = ", ".join(f"{id} (knows {known})" for id, known in db.execute(sql, (now, oldest, target)))
    if alive:
        raise StoreUnavailable(f"workers are alive that cannot work with schema {target}: {alive}; stop them first")
