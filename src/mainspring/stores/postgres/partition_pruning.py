"""Drops whole days of the PostgreSQL store's history: a day's partition is dropped as a table, not row by row."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

import asyncpg

from ...clock import EPOCH, micros
from ...ids import JobId
from ...survived_errors import count_error
from ...task.retention import Rules
from .partitions import DayPartition, list_partitions, try_lock_partitions
from .pool import Pool, Session

_logger = logging.getLogger("mainspring")

Edges = Mapping[tuple[str, str], tuple[int, JobId]]
"""For each state and task, the end and id of the first job that the retention rules keep."""

# A partition with more jobs to keep than this is not dropped; its jobs are deleted row by row.
MAX_ROWS_MOVED = 1000
# Partitions without a retention rule are checked at this age: they may be empty, or nearly so.
RECHECK_AFTER = timedelta(days=30)
# Pause after a lock was refused: while a transaction waits for it, every finish waits behind.
LOCK_RETRY_AFTER = timedelta(minutes=10)


async def prune_partitions(pool: Pool, rules: Rules, now: datetime) -> int | None:
    """Drops the partitions with hardly a job to keep; returns the number of jobs. None if a lock was refused."""
    latest = max((before for _, before in rules.values()), default=EPOCH)
    old = [day for day in sorted(await pool.call(list_partitions)) if day.end <= max(latest, now - RECHECK_AFTER)]
    if not old:
        return 0
    dropped, edges = 0, await pool.call(lambda db: _read_edges(db, rules))
    for day in old:
        count = await pool.transact(partial(_try_drop, day, rules, edges))
        if count is None:
            return dropped or None
        dropped += count
    return dropped


_EDGES = """SELECT rule.state, rule.task, keep, before, last.finished_at, last.id
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS rule (state, task, keep, before)
    LEFT JOIN LATERAL (SELECT finished_at, id FROM mainspring_finished AS job
        WHERE job.state = rule.state AND job.task = rule.task AND keep > 0
        ORDER BY finished_at DESC, id DESC OFFSET greatest(keep - 1, 0) LIMIT 1) AS last ON true"""


async def _read_edges(db: Session, rules: Rules) -> Edges:
    states, tasks = [state.value for state, _ in rules], [task for _, task in rules]
    keeps, befores = [keep for keep, _ in rules.values()], [micros(before) for _, before in rules.values()]
    edges = {}
    for state, task, keep, before, at, id in await db.rows(_EDGES, states, tasks, keeps, befores):
        last = (before, "") if keep == 0 else (-1, "") if id is None else (at, id)
        edges[state, task] = min((before, ""), last)
    return edges


# The groups of the partition by hops along the index, and the jobs of each from its edge on (all, without an edge).
_KEPT = """WITH RECURSIVE groups AS (
        (SELECT state, task FROM {table} ORDER BY state, task LIMIT 1)
        UNION ALL
        SELECT hop.* FROM groups CROSS JOIN LATERAL (SELECT state, task FROM {table}
            WHERE (state, task) > (groups.state, groups.task) ORDER BY state, task LIMIT 1) AS hop)
    SELECT job.id FROM groups
    LEFT JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS edge (state, task, at, id)
        ON edge.state = groups.state AND edge.task = groups.task
    CROSS JOIN LATERAL (SELECT id FROM {table} AS job WHERE job.state = groups.state AND job.task = groups.task
        AND (job.finished_at, job.id) >= (coalesce(edge.at, -1), coalesce(edge.id, '')) LIMIT $5) AS job LIMIT $5"""
# Jobs that have a flow, which are deleted with it one by one, and jobs of the steps of a stored flow.
_OF_FLOWS = """SELECT id FROM mainspring_flows AS flow
    WHERE id >= $1 AND id < $2 AND EXISTS (SELECT 1 FROM {table} AS job WHERE job.id = flow.id)
    UNION SELECT job_id FROM mainspring_steps AS step
    WHERE job_id >= $1 AND job_id < $2 AND EXISTS (SELECT 1 FROM mainspring_flows AS flow WHERE flow.id = step.flow)
        AND EXISTS (SELECT 1 FROM {table} AS job WHERE job.id = step.job_id) LIMIT $3"""


async def _kept_ids(day: DayPartition, edges: Edges, db: Session) -> list[JobId]:
    """The ids of the jobs to keep; if they are more than MAX_ROWS_MOVED, some of them."""
    states, tasks = [state for state, _ in edges], [task for _, task in edges]
    ends, ids = [at for at, _ in edges.values()], [id for _, id in edges.values()]
    most = MAX_ROWS_MOVED + 1
    rows = await db.rows(_KEPT.format(table=day.table), states, tasks, ends, ids, most)
    rows += await db.rows(_OF_FLOWS.format(table=day.table), day.low, day.high, most)
    return list({id for (id,) in rows})


# Blocks writers of the partition; readers go on.
_LOCK = "SET LOCAL lock_timeout = 2000; LOCK TABLE {table} IN EXCLUSIVE MODE"
_DELETE_HISTORY = """DELETE FROM {} WHERE job_id >= $1 AND job_id < $2 AND job_id <> ALL ($3)
    AND NOT EXISTS (SELECT 1 FROM mainspring_jobs WHERE id = job_id)"""
# Last, because every finish waits from here to the commit.
_DETACH = "SET LOCAL lock_timeout = 500; ALTER TABLE mainspring_finished DETACH PARTITION {table}"
_MOVE_KEPT = "INSERT INTO mainspring_finished SELECT * FROM {table} WHERE id = ANY($1)"


async def _try_drop(day: DayPartition, rules: Rules, edges: Edges, db: Session) -> int | None:
    """The number of deleted jobs; None if a lock was refused. Runs inside a transaction, which then is aborted."""
    try:
        if not await try_lock_partitions(db):
            return None
        if day not in await list_partitions(db) or len(await _kept_ids(day, edges, db)) > MAX_ROWS_MOVED:
            return 0
        return await _drop_partition(day, rules, db)
    except asyncpg.PostgresError as error:
        _logger.debug("the partition of %s is not dropped for now: %s", day.date, error)
        count_error("partitions", error)
        return None


async def _drop_partition(day: DayPartition, rules: Rules, db: Session) -> int:
    await db.run(_LOCK.format(table=day.table))
    # Read again under the lock: retries and deletions since the first read may have moved the edges.
    kept = await _kept_ids(day, await _read_edges(db, rules), db)
    if len(kept) > MAX_ROWS_MOVED:
        return 0
    count = int(await db.value(f"SELECT count(*) FROM {day.table}"))
    for table in ("mainspring_executions", "mainspring_logs", "mainspring_checkpoints", "mainspring_steps"):
        await db.run(_DELETE_HISTORY.format(table), day.low, day.high, kept)
    await db.run(_DETACH.format(table=day.table))
    if kept:
        await db.run(_MOVE_KEPT.format(table=day.table), kept)
    await db.run(f"DROP TABLE {day.table}")
    return count - len(kept)
