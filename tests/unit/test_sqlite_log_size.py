"""The log of a SQLite file is short between checkpoints while commits are small, and long while they are large."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.stores.sqlite.file import connect
from mainspring.stores.sqlite.log_size import (
    LONG_LOG_PAGES,
    MAX_SMALL_ROWS,
    MIN_SMALL_COMMITS,
    SHORT_LOG_PAGES,
    LogSize,
)

# A page of log with its header, and the commits after which a log without limit would have twice SHORT_LOG_PAGES.
FRAME_BYTES, MANY_COMMITS = 4096 + 24, 2 * SHORT_LOG_PAGES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def db(file: Path) -> Iterator[sqlite3.Connection]:
    db = connect(str(file), "full")
    db.execute("CREATE TABLE t (x TEXT)")
    yield db
    db.close()


def commit(db: sqlite3.Connection, size: LogSize, rows: int, times: int = 1) -> None:
    for _ in range(times):
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO t VALUES (?)", [("text",)] * rows)
        size.before_commit()
        db.execute("COMMIT")


def log_pages(db: sqlite3.Connection) -> int:
    pages: int = db.execute("PRAGMA wal_autocheckpoint").fetchone()[0]
    return pages


def test_log_is_long_until_several_small_commits_follow_each_other(db: sqlite3.Connection) -> None:
    size = LogSize(db)
    commit(db, size, 1, MIN_SMALL_COMMITS - 1)
    assert log_pages(db) == LONG_LOG_PAGES
    commit(db, size, MAX_SMALL_ROWS)
    assert log_pages(db) == SHORT_LOG_PAGES


def test_large_commit_makes_the_log_long_at_once(db: sqlite3.Connection) -> None:
    size = LogSize(db)
    commit(db, size, 1, MIN_SMALL_COMMITS)
    commit(db, size, MAX_SMALL_ROWS + 1)
    assert log_pages(db) == LONG_LOG_PAGES
    commit(db, size, 1, MIN_SMALL_COMMITS - 1)
    assert log_pages(db) == LONG_LOG_PAGES


def test_log_file_of_small_commits_is_written_over(db: sqlite3.Connection, file: Path) -> None:
    commit(db, LogSize(db), 1, MANY_COMMITS)
    assert Path(f"{file}-wal").stat().st_size < 1.1 * SHORT_LOG_PAGES * FRAME_BYTES
    assert db.execute("SELECT count(*) FROM t").fetchone() == (MANY_COMMITS,)
