"""The thread that writes to a SQLite file: a call that raises leaves nothing behind."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from mainspring.stores.sqlite.writer_thread import WriterThread


def insert(n: int) -> Callable[[sqlite3.Connection], None]:
    def verb(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO t VALUES (?)", (n,))
        if n < 0:
            raise ValueError(n)

    return verb


@pytest.mark.parametrize("others", [0, 2])
async def test_what_a_failed_call_has_written_is_rolled_back(tmp_path: Path, others: int) -> None:
    """Alone, and beside calls that share its commit: these are written all the same."""
    connection = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None, check_same_thread=False)
    connection.execute("CREATE TABLE t (n)")
    thread = WriterThread("test", connection, "BEGIN IMMEDIATE", nullcontext())
    try:
        calls = [thread.call(insert(n)) for n in (*range(others), -1)]
        *done, failed = await asyncio.gather(*calls, return_exceptions=True)
        assert done == [None] * others
        assert isinstance(failed, ValueError)
        rows = await thread.call(lambda db: db.execute("SELECT n FROM t ORDER BY n").fetchall())
        assert rows == [(n,) for n in range(others)]
    finally:
        thread.close()
