"""The doctor's checks of a SQLite file: SQLite's release, modes, sizes, and free disk space."""

from __future__ import annotations

import os
import shutil
import sqlite3

from ...records.finding import Finding, format_size
from ...records.job import UNREADABLE
from ...records.unreadable import record_finding
from ..rows import HELD_INDEX_SQL
from .schedules import unreadable_names

# Releases with the WAL-reset bug, and the branches with a backported fix: sqlite.org/wal.html#walresetbug
_BUG = ((3, 7, 0), (3, 51, 2))
_FIXED = ((3, 44, 6), (3, 50, 7))
# Checkpoints come every 32 MB of log; a log this long means that a reader keeps it from being reset.
MAX_LOG_BYTES = 256 << 20
# Free disk space below which the doctor warns.
LOW_DISK_BYTES = 1 << 30
# Free disk space below which the doctor reports an error.
MIN_DISK_BYTES = 100 << 20
_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


def findings(db: sqlite3.Connection, path: str) -> list[Finding]:
    """Read only. The file is never opened here, since closing a handle on it would drop SQLite's locks."""
    real = os.path.realpath(path)
    return [
        release(sqlite3.sqlite_version_info),
        journal(db.execute("PRAGMA journal_mode").fetchone()[0]),
        synchronous(db.execute("PRAGMA synchronous").fetchone()[0]),
        _file(db),
        log(os.path.getsize(f"{real}-wal") if os.path.exists(f"{real}-wal") else 0),
        space(shutil.disk_usage(os.path.dirname(real)).free),
        _records(db),
    ]


def _records(db: sqlite3.Connection) -> Finding:
    sql = f"SELECT id FROM mainspring_jobs WHERE {HELD_INDEX_SQL} AND state = 'paused' AND worker IS NULL AND lease = ?"
    jobs = [id for (id,) in db.execute(sql, (UNREADABLE,))]
    return record_finding(jobs, unreadable_names(db))


def release(version: tuple[int, ...]) -> Finding:
    text = ".".join(map(str, version))
    patched = any(version[:2] == fixed[:2] and version >= fixed for fixed in _FIXED)
    if patched or not _BUG[0] <= version <= _BUG[1]:
        return Finding("SQLite", "ok", text)
    return Finding(
        "SQLite",
        "warn",
        f"{text} has the WAL-reset bug: several processes on one file can, rarely, damage it",
        "use SQLite 3.51.3 or newer (or 3.50.7, 3.44.6), or one process; keep backups until then",
    )


def journal(mode: str) -> Finding:
    if mode == "wal":
        return Finding("journal mode", "ok", "wal")
    return Finding("journal mode", "bad", f"{mode}: readers and writers block each other", "PRAGMA journal_mode = WAL")


def synchronous(level: int) -> Finding:
    name = _SYNCHRONOUS[level]
    if level >= _SYNCHRONOUS.index("FULL"):
        return Finding("synchronous", "ok", f"{name}: what was acknowledged survives a power loss")
    return Finding(
        "synchronous", "warn", f"{name}: a power loss may take the last commits", "durability='full' keeps them"
    )


def _file(db: sqlite3.Connection) -> Finding:
    page, count, free = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_size", "page_count", "freelist_count")
    )
    unused = f", {format_size(free * page)} of it unused" if free else ""
    return Finding("file", "ok", format_size(count * page) + unused)


def log(length: int) -> Finding:
    if length < MAX_LOG_BYTES:
        return Finding("log", "ok", format_size(length))
    return Finding(
        "log",
        "warn",
        f"{format_size(length)}: a read transaction has been open for long, so it cannot be reset",
        "end that transaction (a shell, a backup?), then PRAGMA wal_checkpoint(TRUNCATE)",
    )


def space(free: int) -> Finding:
    if free >= LOW_DISK_BYTES:
        return Finding("disk", "ok", f"{format_size(free)} free")
    remedy = "make room, delete finished jobs, or move the file to a larger disk"
    return Finding("disk", "bad" if free < MIN_DISK_BYTES else "warn", f"only {format_size(free)} free", remedy)
