"""How often commits of other processes wake the waiters of a SQLite store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mainspring.stores.broadcast import Broadcast
from mainspring.stores.sqlite.commit_watch import MAX_WAKES_AT_ONCE, POLL_SECONDS, CommitWatcher
from mainspring.testing import VirtualClock


def test_wakes_are_limited_after_a_few_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    waiters, slept = Broadcast(clock), list[float]()

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))
        clock.advance(seconds=seconds)

    monkeypatch.setattr("mainspring.stores.sqlite.commit_watch.time.sleep", sleep)
    writer, reader = (sqlite3.connect(tmp_path / "jobs.db", isolation_level=None) for _ in range(2))
    writer.execute("CREATE TABLE t (n)")
    watcher = CommitWatcher(reader, str(tmp_path / "jobs.db-wal"), waiters, clock)
    before = waiters._change
    for n in range(MAX_WAKES_AT_ONCE + 2):
        writer.execute("INSERT INTO t VALUES (?)", (n,))
        watcher._on_write()
    assert slept == [0.0] * MAX_WAKES_AT_ONCE + [POLL_SECONDS] * 2
    clock.advance(seconds=1)
    writer.execute("INSERT INTO t VALUES (9)")
    watcher._on_write()
    assert slept[-1] == 0
    assert waiters._change - before == MAX_WAKES_AT_ONCE + 3
    writer.close()
    watcher.close()
