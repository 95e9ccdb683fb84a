"""The limit: the same work on PostgreSQL by a plain loop over asyncpg, with no engine around it."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

sys.path.insert(0, str(Path(__file__).parent / "apps"))
from meter import answer

DSN = os.environ["BENCH_STORE"]
PAYLOAD = '{"args":[],"kwargs":{}}'
SCHEMA = """
CREATE TABLE jobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL, priority smallint NOT NULL DEFAULT 0,
  run_at timestamptz NOT NULL DEFAULT now(), state smallint NOT NULL DEFAULT 0, payload jsonb NOT NULL
);
CREATE INDEX jobs_ready ON jobs (queue, priority, run_at, id) WHERE state = 0;
"""
CLAIM = """WITH taken AS (
  SELECT id FROM jobs WHERE state = 0 AND queue = 'default' AND run_at <= now()
  ORDER BY priority, run_at, id LIMIT {} FOR UPDATE SKIP LOCKED)
UPDATE jobs SET state = 1 FROM taken WHERE jobs.id = taken.id RETURNING jobs.id, jobs.payload::text"""
FINISH = "DELETE FROM jobs WHERE id = ANY($1::bigint[])"
INSERT = "INSERT INTO jobs (queue, payload) VALUES ($1, $2) RETURNING id"
INSERT_MANY = """INSERT INTO jobs (queue, payload)
SELECT queue, payload FROM unnest($1::text[], $2::jsonb[]) AS new (queue, payload) RETURNING id"""
COLUMNS = ("queue", "priority", "run_at", "state", "payload")


async def copy(db: Any, jobs: int) -> None:
    now = datetime.now(UTC)
    rows = (("default", 0, now, 0, PAYLOAD) for _ in range(jobs))
    await db.copy_records_to_table("jobs", records=rows, columns=COLUMNS)


async def insert(db: Any, jobs: int, batch: int) -> None:
    """`batch` rows a statement; 0 is one COPY of all."""
    if not batch:
        await copy(db, jobs)
    elif batch == 1:
        one = await db.prepare(INSERT)
        for _ in range(jobs):
            await one.fetchval("default", PAYLOAD)
    else:
        many = await db.prepare(INSERT_MANY)
        for _ in range(jobs // batch):
            await many.fetch(["default"] * batch, [PAYLOAD] * batch)


async def work_off(db: Any, batch: int) -> int:
    """Claims and deletes until nothing is due: two transactions a batch."""
    claim, finish, done = await db.prepare(CLAIM.format(batch)), await db.prepare(FINISH), 0
    while taken := await claim.fetch():
        await finish.fetch([id for id, _ in taken])
        done += len(taken)
    return done


async def command(words: list[str]) -> None:
    db = await asyncpg.connect(DSN)
    start = time.time()
    match words:
        case ["setup"]:
            await db.execute(SCHEMA)
            answer()
        case ["insert", jobs, batch]:
            await insert(db, int(jobs), int(batch))
            answer(jobs=int(jobs), seconds=time.time() - start)
        case ["drain", batch]:
            done = await work_off(db, int(batch))
            answer(jobs=done, first=start, last=time.time())
        case other:
            sys.exit(f"raw_postgres does not know {other}")
    await db.close()


if __name__ == "__main__":
    uvloop.run(command(sys.argv[1:]))
