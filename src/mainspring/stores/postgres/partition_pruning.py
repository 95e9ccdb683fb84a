"""Forgetting whole days of the PostgreSQL store's history: a day goes as a table, not row by row."""

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
from .partitions import Day, alone, days
from .pool import Pool, Session

_logger = logging.getLogger("mainspring")

Edges = Mapping[tuple[str, str], tuple[int, JobId]]
"""For each state and task the first job, by end and id, that is not surplus."""

# A day that keeps more than so many goes row by row.
FEW = 1000
# A day of which nobody says when it may go is looked at after so long: it may be empty, or nearly so.
OLD = timedelta(days=30)
# After a lock was refused. Whoever asks for it stands in the way of every finish behind it.
PATIENCE = timedelta(minutes=10)


async def forget(pool: Pool, rules: Rules, now: datetime) -> int | None:
    """Drops the days of which hardly a job is to be kept; how many jobs went. None: somebody is in the way."""
    latest = max((before for _, before in rules.values()), default=EPOCH)
    old = [day for day in sorted(await pool.call(days)) if day.end <= max(latest, now - OLD)]
    if not old:
        return 0
    gone, edges = 0, await pool.call(lambda db: _edges(db, rules))
    for day in old:
        count = await pool.step(partial(_drop, day, rules, edges))
        if count is None:
            return gone or None
        gone += count
    return gone


_EDGES = """SELECT rule.state, rule.task, keep, before, last.finished_at, last.id
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS rule (state, task, keep, before)
    LEFT JOIN LATERAL (SELECT finished_at, id FROM mainspring_finished AS job
        WHERE job.state = rule.state AND job.task = rule.task AND keep > 0
        ORDER BY finished_at DESC, id DESC OFFSET greatest(keep - 1, 0) LIMIT 1) AS last ON true"""


async def _edges(db: Session, rules: Rules) -> Edges:
    states, tasks = [state.value for state, _ in rules], [task for _, task in rules]
    keeps, befores = [keep for keep, _ in rules.values()], [micros(before) for _, before in rules.values()]
    edges = {}
    for state, task, keep, before, at, id in await db.rows(_EDGES, states, tasks, keeps, befores):
        last = (before, "") if keep == 0 else (-1, "") if id is None else (at, id)
        edges[state, task] = min((before, ""), last)
    return edges


# Its groups by hops along the index, and of each what lies behind the edge; all, if it has none.
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


async def _kept(day: Day, edges: Edges, db: Session) -> list[JobId]:
    """The jobs of that day that are not surplus, or one more than a few of them."""
    states, tasks = [state for state, _ in edges], [task for _, task in edges]
    ends, ids = [at for at, _ in edges.values()], [id for _, id in edges.values()]
    return [id for (id,) in await db.rows(_KEPT.format(table=day.table), states, tasks, ends, ids, FEW + 1)]


# Nobody writes into it any more; it can still be read.
_LOCK = "SET LOCAL lock_timeout = 2000; LOCK TABLE {table} IN EXCLUSIVE MODE"
_BESIDE = """DELETE FROM {} WHERE job_id >= $1 AND job_id < $2 AND job_id <> ALL ($3)
    AND NOT EXISTS (SELECT 1 FROM mainspring_jobs WHERE id = job_id)"""
# Last, as from here on to the commit every finish waits.
_DETACH = "SET LOCAL lock_timeout = 500; ALTER TABLE mainspring_finished DETACH PARTITION {table}"
_BACK = "INSERT INTO mainspring_finished SELECT * FROM {table} WHERE id = ANY($1)"


async def _drop(day: Day, rules: Rules, edges: Edges, db: Session) -> int | None:
    """Inside a transaction, which is spoilt if the server refuses."""
    try:
        if not await alone(db):
            return None
        if day not in await days(db) or len(await _kept(day, edges, db)) > FEW:
            return 0
        return await _dropped(day, rules, db)
    except asyncpg.PostgresError as error:
        _logger.debug("the history of %s stays for now: %s", day.date, error)
        count_error("partitions", error)
        return None


async def _dropped(day: Day, rules: Rules, db: Session) -> int:
    await db.run(_LOCK.format(table=day.table))
    # Once more: what was retried or deleted since the first look may have moved the edges.
    kept = await _kept(day, await _edges(db, rules), db)
    if len(kept) > FEW:
        return 0
    count = int(await db.value(f"SELECT count(*) FROM {day.table}"))
    for table in ("mainspring_executions", "mainspring_logs"):
        await db.run(_BESIDE.format(table), day.low, day.high, kept)
    await db.run(_DETACH.format(table=day.table))
    if kept:
        await db.run(_BACK.format(table=day.table), kept)
    await db.run(f"DROP TABLE {day.table}")
    return count - len(kept)
