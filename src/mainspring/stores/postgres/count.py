"""Numbers of jobs in the PostgreSQL store: exact for small tables, estimated from a sample for large ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ...clock import instant
from ...records.queue import DeadGroup, Overview, Queue
from .finish import circuits
from .job_groups import FINISHED, GROUP, GROUPS, IN_OPEN_LEASE, JOBS, Table, hops, shown_sql
from .pool import Session

# A table of up to this many pages of 8 KiB is counted whole.
MAX_COUNTED_PAGES = 4_000
# Pages that are sampled of a larger table.
SAMPLE_PAGES = 500
# Rows of a larger table that are counted one by one, in all groups together.
MAX_COUNTED_ROWS = 20_000
# Up to this number of jobs with an error, the dead are grouped row by row.
MAX_DEAD_ROWS = 200_000

_SIZE = """SELECT sum(pg_relation_size(oid)) / 8192 FROM (
    SELECT $1::text::regclass AS oid UNION SELECT relid FROM pg_partition_tree($1::text::regclass)) AS parts"""
_SHOWN = shown_sql("$1::bigint")
_EVERY = {
    JOBS: f"SELECT queue, {_SHOWN}, count(*) FROM mainspring_jobs GROUP BY 1, 2",
    FINISHED: "SELECT '', state, count(*) FROM mainspring_finished WHERE $1::bigint IS NOT NULL GROUP BY 2",
}
# REPEATABLE samples the same pages each time, so that a number does not change while nothing happens.
_PART = "TABLESAMPLE SYSTEM ($2::float8) REPEATABLE (1)"
_SAMPLED = {
    JOBS: f"SELECT queue, {_SHOWN}, task, rank, count(*) FROM mainspring_jobs {_PART} GROUP BY 1, 2, 3, 4",
    FINISHED: f"""SELECT queue, state, task, 0, count(*) FROM mainspring_finished {_PART}
        WHERE $1::bigint IS NOT NULL GROUP BY 1, 2, 3""",
}
_NEW = "state = 'pending' AND NOT retried AND (expires_at IS NULL OR expires_at > $1)"
_GROUP_SHARE = f"(SELECT greatest({MAX_COUNTED_ROWS} / (2 * count(*)), 10) FROM groups)"
# Each group of jobs along its index, up to its share of MAX_COUNTED_ROWS; and the jobs of each special index, up to
# MAX_COUNTED_ROWS. `many` is true where the limit was reached.
_FIRST = {
    JOBS: f"""WITH {GROUPS[JOBS]}
        SELECT queue, shown, task, rank, size, size = {_GROUP_SHARE} AS many FROM groups AS one
        CROSS JOIN LATERAL (SELECT 'pending' AS shown, count(*) AS size FROM (
            SELECT FROM mainspring_jobs WHERE {GROUP[JOBS]} AND {_NEW} AND run_at <= $1
            ORDER BY run_at, id LIMIT {_GROUP_SHARE}) AS job
        UNION ALL SELECT 'scheduled', count(*) FROM (
            SELECT FROM mainspring_jobs WHERE {GROUP[JOBS]} AND {_NEW} AND run_at > $1
            ORDER BY run_at, id LIMIT {_GROUP_SHARE}) AS job) AS counted
        UNION ALL SELECT queue, 'running', '', 0, count(*), false FROM mainspring_jobs
            WHERE {IN_OPEN_LEASE} AND state = 'running' GROUP BY 1
        UNION ALL SELECT queue, {_SHOWN}, '', 0, count(*), sum(count(*)) OVER () >= {MAX_COUNTED_ROWS} FROM (
            (SELECT * FROM mainspring_jobs WHERE parked OR retried LIMIT {MAX_COUNTED_ROWS})
            UNION ALL (SELECT * FROM mainspring_jobs WHERE crashes >= 2 AND NOT parked AND {_NEW}
                LIMIT {MAX_COUNTED_ROWS})
            UNION ALL (SELECT * FROM mainspring_jobs WHERE expires_at IS NOT NULL AND NOT parked AND expires_at <= $1
                AND state = 'pending' AND NOT retried LIMIT {MAX_COUNTED_ROWS})) AS job GROUP BY 1, 2""",
    FINISHED: f"""WITH {GROUPS[FINISHED]}
        SELECT queue, state, task, 0, size, size = {_GROUP_SHARE} AND $1::bigint IS NOT NULL AS many FROM groups AS one
        CROSS JOIN LATERAL (SELECT count(*) AS size FROM (
            SELECT FROM mainspring_finished WHERE {GROUP[FINISHED]}
            ORDER BY finished_at LIMIT {_GROUP_SHARE}) AS job) AS counted""",
}


async def _sample_percent(db: Session, table: Table) -> float:
    """The percentage of the table to sample; 100 for a small table."""
    pages = int(await db.value(_SIZE, db.url.sql(table)))
    return 100.0 if pages <= MAX_COUNTED_PAGES else 100.0 * SAMPLE_PAGES / pages


async def _count_table(db: Session, table: Table, now: int) -> Counter[tuple[str, str]]:
    """The numbers of jobs by queue (empty for finished jobs) and shown state."""
    share = await _sample_percent(db, table)
    if share == 100:
        return _sum_by_queue_and_state((queue, shown, size) for queue, shown, size in await db.rows(_EVERY[table], now))
    sampled = Counter[Any]()
    for *key, size in await db.rows(_SAMPLED[table], now, share):
        sampled[(*key,)] += size
        sampled[key[0], key[1], "", 0] += size
    rows = await db.rows(_FIRST[table], now)
    return _sum_by_queue_and_state(
        (queue, shown, max(size, round(100 / share * sampled[queue, shown, task, rank])) if many else size)
        for queue, shown, task, rank, size, many in rows
    )


def _sum_by_queue_and_state(rows: Iterable[tuple[str, str, int]]) -> Counter[tuple[str, str]]:
    found = Counter[tuple[str, str]]()
    for queue, shown, size in rows:
        found[queue, shown] += size
    return found


async def overview(db: Session, now: int) -> Overview:
    unfinished, finished = await _count_table(db, JOBS, now), await _count_table(db, FINISHED, now)
    states = Counter[Any]()
    for (_, shown), size in (*unfinished.items(), *finished.items()):
        states[shown] += size
    return Overview(dict(+states), await _queues(db, unfinished), await circuits(db))


async def _queues(db: Session, found: Counter[tuple[str, str]]) -> list[Queue]:
    paused = {name for (name,) in await db.rows("SELECT name FROM mainspring_queues WHERE paused")}
    return [
        Queue(
            name=name,
            paused=name in paused,
            pending=found[name, "pending"],
            scheduled=found[name, "scheduled"],
            retrying=found[name, "retrying"],
            running=found[name, "running"],
        )
        for name in sorted(paused | {name for (name, _), size in found.items() if size})
    ]


# dead groups

_KIND = "error = one.error AND task = one.task AND state = 'dead'"
_KINDS = f"""WITH {hops(FINISHED, "error, task", "error IS NOT NULL")}
    SELECT one.task, one.error, size, size = {_GROUP_SHARE} AS many, id, finished_at FROM groups AS one
    CROSS JOIN LATERAL (SELECT id, finished_at FROM mainspring_finished WHERE {_KIND}
        ORDER BY finished_at DESC, id DESC LIMIT 1) AS last
    CROSS JOIN LATERAL (SELECT count(*) AS size FROM (
        SELECT FROM mainspring_finished WHERE {_KIND} ORDER BY finished_at LIMIT {_GROUP_SHARE}) AS job) AS counted"""
# Up to MAX_DEAD_ROWS are faster to read from the index alone than by hops: a hop searches the partition of each day for
# each kind. The newest job is looked up only for the kinds that are returned.
_SOME = (
    f"SELECT count(*) FROM (SELECT FROM mainspring_finished WHERE error IS NOT NULL LIMIT {MAX_DEAD_ROWS} + 1) AS job"
)
_KINDS_READ = f"""WITH one AS MATERIALIZED (SELECT task, error, count(*) AS size, max(finished_at) AS last
        FROM mainspring_finished WHERE error IS NOT NULL AND state = 'dead'
        GROUP BY 1, 2 ORDER BY size DESC, task, error LIMIT $1)
    SELECT task, error, size, false, (SELECT id FROM mainspring_finished WHERE {_KIND} AND finished_at >= one.last
        ORDER BY finished_at DESC, id DESC LIMIT 1), last FROM one"""
_KINDS_SAMPLED = f"""SELECT task, error, count(*) FROM mainspring_finished {_PART.replace("$2", "$1")}
    WHERE error IS NOT NULL AND state = 'dead' GROUP BY 1, 2"""


async def dead_groups(db: Session, limit: int) -> list[DeadGroup]:
    few = await db.value(_SOME) <= MAX_DEAD_ROWS
    rows = await db.rows(_KINDS_READ, limit) if few else await db.rows(_KINDS)
    sampled, share = Counter[Any](), 100.0
    if any(many for *_, many, _, _ in rows):
        share = await _sample_percent(db, FINISHED)
        sampled.update({(task, error): size for task, error, size in await db.rows(_KINDS_SAMPLED, share)})
    found = [
        DeadGroup(
            task=task,
            error=error,
            newest=newest,
            last_at=instant(last),
            count=max(size, round(100 / share * sampled[task, error])) if many else size,
        )
        for task, error, size, many, newest, last in rows
    ]
    return sorted(found, key=lambda group: (-group.count, group.task, group.error))[:limit]
