"""Fills a store with millions of jobs: a seed by the verbs of the store, then copies of its rows by SQL.

A copy differs from its row by the instants, which are shifted, by the id, which begins with the shifted instant, and by
a suffix of its keys. Redis gets all jobs by the verbs.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from datetime import UTC, datetime, timedelta

import asyncpg
from growth_seed import DAYS, QUEUES, RECENT, RECENT_STEPS, STEPS, TASKS, hold, seed
from meter import answer

from mainspring.clock import micros
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres.partitions import DayPartition

URL = os.environ["BENCH_STORE"]
SEED_JOBS = 20_000
STEP_US = {"finished": DAYS * 86_400_000_000 // STEPS, "waiting": int(RECENT.total_seconds() * 1e6) // RECENT_STEPS}
# Statistics as of weeks of work: spans, their seconds and how many of each.
SPANS = (("minute", 60, 180), ("hour", 3600, 96), ("day", 86_400, 400))
SUMS = """{"endings": {"completed": 990, "failed": 10}, "took": 5000000, "last": 1, "errors": {"ValueError: no": 10},
    "spread": {"50": 100, "51": 300, "52": 300, "53": 200, "55": 50, "60": 40, "66": 8, "70": 2}}"""
SHIFTED = ("run_at", "created_at", "expires_at", "started_at", "finished_at")
KEYS = ("unique_key", "idempotency_key")


def changes(step: int, copies: int, id: str) -> dict[str, str]:
    """SQL of the columns of a copy that differ; `id` is SQL for the id, from {ms}."""
    shift = f"(k * CAST({step} AS bigint) / {copies} / 1000 * 1000)"
    columns = {name: f"one.{name} + {shift}" for name in SHIFTED}
    columns |= {name: f"one.{name} || right('0000' || k, 4)" for name in KEYS}
    return columns | {"id": id.format(ms=f"((one.created_at + {shift}) / 1000)")}


# PostgreSQL

PG_ID = "left(lpad(to_hex({ms}), 12, '0'), 8) || '-' || right(lpad(to_hex({ms}), 12, '0'), 4) || substr(one.id, 14)"
PG_COLUMNS = """SELECT attname FROM pg_attribute
    WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"""
PG_DAY = """CREATE TABLE IF NOT EXISTS {day.table} PARTITION OF mainspring_finished
    FOR VALUES FROM ('{day.low}') TO ('{day.high}') WITH (fillfactor = 100)"""
PG_TALLY = f"""INSERT INTO mainspring_tallies (span, at, queue, task, sums)
    SELECT $1::text, ($2::bigint / $3::bigint - k) * $3, 'queue-' || lpad((t % {QUEUES})::text, 2, '0'),
        'task-' || lpad(t::text, 2, '0'), '{SUMS}'
    FROM generate_series(0, $4::bigint - 1) AS k, generate_series(0, {TASKS - 1}) AS t
    ON CONFLICT (span, at, queue, task) DO UPDATE SET sums = excluded.sums"""


PG_INDEXES = """SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
    WHERE indrelid = ANY ('{mainspring_jobs, mainspring_finished}'::regclass[]) AND NOT indisprimary"""


async def pg_without_indexes(db: asyncpg.Connection) -> list[str]:
    """Drops the indexes, since building them at the end takes a fraction of the time; returns the SQL that does."""
    found = await db.fetch(PG_INDEXES)
    for name, _ in found:
        await db.execute(f"DROP INDEX {name}")
    return [sql.replace(" ON ONLY ", " ON ") for _, sql in found]


async def pg_days(db: asyncpg.Connection, end: datetime) -> None:
    for n in range(DAYS + 1):
        day = DayPartition((end - timedelta(days=n)).date())
        await db.execute(PG_DAY.format(day=day))


async def pg_copies(db: asyncpg.Connection, table: str, kind: str, copies: int, where: str = "true") -> None:
    columns = [name for (name,) in await db.fetch(PG_COLUMNS, table)]
    other = changes(STEP_US[kind], copies, PG_ID)
    values = ", ".join(other.get(name, f"one.{name}") for name in columns)
    await db.execute(f"""INSERT INTO {table} ({", ".join(columns)}) SELECT {values}
        FROM (SELECT * FROM {table} WHERE {where} ORDER BY id) AS one
        CROSS JOIN LATERAL generate_series(1, {copies - 1}) AS k""")


async def pg_fill(store: Store, end: datetime, finished: int, waiting: int, later: int) -> None:
    db = await asyncpg.connect(URL)
    await pg_days(db, end)
    await seed(store, end, finished=SEED_JOBS, waiting=SEED_JOBS, later=SEED_JOBS // 4)
    us = micros(end)
    indexes = await pg_without_indexes(db)
    await pg_copies(db, "mainspring_finished", "finished", finished // SEED_JOBS)
    await pg_copies(db, "mainspring_jobs", "waiting", 4 * later // SEED_JOBS, f"run_at > {us} AND NOT retried")
    seeds = f"run_at <= {us} OR retried"
    await pg_copies(db, "mainspring_jobs", "waiting", waiting // SEED_JOBS, seeds)
    for sql in indexes:
        await db.execute(sql)
    for span, seconds, spans in SPANS:
        await db.execute(PG_TALLY, span, us, 1_000_000 * seconds, spans)
    await hold(store, end)
    await db.execute("VACUUM ANALYZE")
    await db.execute("CHECKPOINT")
    await db.close()


# SQLite

LITE_ID = "printf('%08x-%04x', {ms} >> 16, {ms} & 65535) || substr(one.id, 14)"
LITE_TALLY = f"""INSERT OR REPLACE INTO mainspring_tallies
    WITH RECURSIVE past (k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM past WHERE k < :spans - 1),
        tasks (t) AS (SELECT 0 UNION ALL SELECT t + 1 FROM tasks WHERE t < {TASKS - 1})
    SELECT :span, (:now / :size - k) * :size, printf('queue-%02d', t % {QUEUES}), printf('task-%02d', t), '{SUMS}'
    FROM past CROSS JOIN tasks"""
SERIES = "(WITH RECURSIVE s (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM s WHERE k < {copies} - 1) SELECT k FROM s)"
# Tables beside the jobs: their columns, and the column with the id of the job.
BESIDE = {
    "mainspring_tags": ("tag", "job_id"),
    "mainspring_errors": ("job_id", "error"),
    "mainspring_dead": ("task", "error", "finished_at", "job_id"),
    "mainspring_keys": ("key", "job_id"),
}


def lite_copies(db: sqlite3.Connection, kind: str, copies: int, where: str) -> None:
    columns = [row[1] for row in db.execute("PRAGMA table_info(mainspring_jobs)") if row[1] != "n"]
    other = {name: sql.replace("right('0000' || k, 4)", "printf('%04d', k)") for name, sql in
             changes(STEP_US[kind], copies, LITE_ID).items()}  # fmt: skip
    series = SERIES.format(copies=copies)
    db.execute(f"CREATE TEMP TABLE seeds AS SELECT * FROM mainspring_jobs WHERE {where} ORDER BY id")
    db.execute("CREATE INDEX temp.seeds_id ON seeds (id)")
    for table, names in BESIDE.items():
        changed = {"job_id": other["id"], "key": "side.key || printf('%04d', k)", "finished_at": other["finished_at"]}
        values = ", ".join(changed.get(name, f"side.{name}") for name in names)
        db.execute(f"CREATE TEMP TABLE side AS SELECT * FROM {table} WHERE job_id IN (SELECT id FROM seeds)")
        db.execute(f"""INSERT INTO {table} SELECT {values} FROM side CROSS JOIN seeds AS one ON one.id = side.job_id
            CROSS JOIN {series}""")
        db.execute("DROP TABLE side")
    values = ", ".join(other.get(name, f"one.{name}") for name in columns)
    db.execute(f"""INSERT INTO mainspring_jobs ({", ".join(columns)}) SELECT {values}
        FROM seeds AS one CROSS JOIN {series}""")
    db.execute("DROP TABLE seeds")


async def lite_fill(store: Store, end: datetime, finished: int, waiting: int, later: int) -> None:
    await seed(store, end, finished=SEED_JOBS, waiting=SEED_JOBS, later=SEED_JOBS // 4)
    await store.close()
    db, us = sqlite3.connect(URL.removeprefix("sqlite:///"), isolation_level=None), micros(end)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -3000000", "temp_store = MEMORY"):
        db.execute(f"PRAGMA {pragma}")
    db.execute("BEGIN")
    lite_copies(db, "finished", finished // SEED_JOBS, "finished_at IS NOT NULL")
    db.execute("UPDATE mainspring_counts SET count = count * ?", (finished // SEED_JOBS,))
    unfinished = "finished_at IS NULL AND"
    lite_copies(db, "waiting", 4 * later // SEED_JOBS, f"{unfinished} run_at > {us} AND attempt = 0")
    seeds = f"{unfinished} (run_at <= {us} OR attempt > 0)"
    lite_copies(db, "waiting", waiting // SEED_JOBS, seeds)
    for span, seconds, spans in SPANS:
        db.execute(LITE_TALLY, {"span": span, "size": seconds * 1_000_000, "spans": spans, "now": us})
    db.execute("COMMIT")
    db.close()
    store = open_store(URL)
    await store.open()
    await hold(store, end)
    await store.close()


# Redis


async def redis_fill(store: Store, end: datetime, finished: int, waiting: int, later: int) -> None:
    await seed(store, end, finished=finished, waiting=waiting, later=later)
    await hold(store, end)


async def fill(finished: int, waiting: int, later: int) -> None:
    start, end = time.monotonic(), datetime.now(UTC)
    store = open_store(URL)
    await store.open()
    ways = {"postgresql": pg_fill, "sqlite": lite_fill, "redis": redis_fill}
    await ways[URL.partition(":")[0]](store, end, finished, waiting, later)
    await store.close()
    answer(seconds=time.monotonic() - start)


def main() -> None:
    finished, waiting, later = map(int, sys.argv[1:])
    asyncio.run(fill(finished, waiting, later))
