"""The limit: the same work on SQLite (WAL, synchronous=FULL) by a plain loop, with no engine around it."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from pathlib import Path

PAYLOAD = '{"args":[],"kwargs":{}}'
SCHEMA = """
create table jobs (
  id integer primary key, queue text not null, priority integer not null, run_at integer not null,
  state integer not null, payload text not null
);
create index due on jobs (queue, priority desc, run_at, id) where state = 0;
"""
INSERT = "insert into jobs (queue, priority, run_at, state, payload) values ('default', 0, 0, 0, ?)"
CLAIM = """
update jobs set state = 1 where id in (
  select id from jobs where state = 0 and queue = 'default' and run_at <= ?
  order by priority desc, run_at, id limit ?
) returning id, payload
"""
FINISH = "update jobs set state = 2 where id = ? and state = 1"


def connect() -> sqlite3.Connection:
    db = sqlite3.connect(Path(os.environ["BENCH_HOME"]) / "raw.db", isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.executescript(SCHEMA)
    return db


def insert(db: sqlite3.Connection, jobs: int, batch: int) -> None:
    for start in range(0, jobs, batch):
        db.execute("begin immediate")
        db.executemany(INSERT, ((PAYLOAD,) for _ in range(min(batch, jobs - start))))
        db.execute("commit")


def work_off(db: sqlite3.Connection, batch: int) -> None:
    """Claims and finishes until nothing is due: two transactions a batch."""
    while taken := db.execute(CLAIM, (int(time.time() * 1e6), batch)).fetchall():
        db.execute("begin immediate")
        db.executemany(FINISH, ((id,) for id, _ in taken))
        db.execute("commit")


def main() -> None:
    what, jobs, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    db = connect()
    if what == "drain":
        insert(db, jobs, 5_000)
        db.execute("pragma wal_checkpoint(truncate)")
    start = time.perf_counter()
    if what == "drain":
        work_off(db, batch)
    else:
        insert(db, jobs, batch)
    print(json.dumps({"jobs": jobs, "seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
