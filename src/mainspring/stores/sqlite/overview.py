"""The SQLite store's overview: jobs by state, queues and circuits; and dead jobs by task and failure.

Ready jobs are counted along their index, up to a number of rows in all groups together. A group that has more is
estimated from a sample of the table, so that the cost does not grow with the number of jobs.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime

from ...clock import instant, micros
from ...records.job import Shown
from ...records.queue import DeadGroup, Overview, Queue
from ..rows import HELD_INDEX_SQL
from .circuits import circuits
from .handle import SqliteHandle
from .index_groups import READY, RETRIED
from .queues import PAUSED_QUEUES

# Ready jobs that are counted one by one, in all groups together, and in each group at least.
MAX_COUNTED_ROWS, MIN_GROUP_ROWS = 100_000, 10
# Rows that are looked at if a group has more.
SAMPLE_ROWS = 4_000
# Due and later jobs of each group, counted along the index, which is fastest; and the limit up to which they are.
_READY = f"""WITH RECURSIVE {READY.hops}, share (of_all) AS MATERIALIZED (
        SELECT max(:most / (2 * max(count(*), 1)), :least) FROM ready_hops)
    SELECT of_queue, of_task, of_rank, of_all, (SELECT count(*) FROM (
            SELECT 1 FROM {READY.table} WHERE {READY.one} AND run_at <= :now LIMIT (SELECT of_all FROM share))),
        (SELECT count(*) FROM (
            SELECT 1 FROM {READY.table} WHERE {READY.one} AND run_at > :now LIMIT (SELECT of_all FROM share)))
    FROM ready_hops CROSS JOIN share"""
# One row of each of :rows equal parts of the table, if it is there. Its place within the part looks random, since jobs
# often repeat after a round number, and is the same each time: a number does not change while nothing happens.
_SAMPLE = f"""WITH RECURSIVE ends (first, step) AS MATERIALIZED (
        SELECT first, 1.0 * (last + 1 - first) / :rows
        FROM (SELECT min(n) AS first FROM mainspring_jobs) CROSS JOIN (SELECT max(n) AS last FROM mainspring_jobs)),
    part (k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM part WHERE k < :rows - 1)
    SELECT queue, task, rank, run_at <= :now, count(*) * step FROM part CROSS JOIN ends CROSS JOIN mainspring_jobs
    WHERE n = first + CAST((k + (k * 7919 % 1009) / 1009.0) * step AS INTEGER) AND {READY.when} GROUP BY 1, 2, 3, 4"""
# Jobs that wait for a retry: part of the counts above, but shown as retrying.
_RETRIED = f"""SELECT queue, sum(run_at <= :now), sum(run_at > :now) FROM {RETRIED} GROUP BY 1"""
_SUSPECT = """SELECT queue, 1, 0, count(*) FROM mainspring_jobs INDEXED BY mainspring_jobs_suspects
    WHERE state = 'pending' AND crashes >= 2 GROUP BY 1"""
_EXPIRED = """SELECT queue, attempt > 0, run_at > :now, -count(*) FROM mainspring_jobs
    INDEXED BY mainspring_jobs_expiring
    WHERE state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now GROUP BY 1, 2, 3"""
_HELD = f"""SELECT queue, state, count(*) FROM mainspring_jobs INDEXED BY mainspring_jobs_held
    WHERE {HELD_INDEX_SQL} GROUP BY 1, 2"""

UnfinishedCounts = Mapping[str, Counter[Shown]]
"""Numbers of unfinished jobs by queue and shown state."""


class SqliteOverview(SqliteHandle):
    """The verbs overview and dead_groups."""

    async def overview(self, *, now: datetime, finished: bool = True) -> Overview:
        return await self._read(lambda db: _overview(db, micros(now)))

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        return await self._read(lambda db: _dead_groups(db, limit))


def _overview(db: sqlite3.Connection, now: int) -> Overview:
    waiting = _count_unfinished(db, now)
    return Overview(_states(db, waiting), _queues(db, waiting), circuits(db))


def _count_unfinished(db: sqlite3.Connection, now: int) -> UnfinishedCounts:
    found: dict[str, Counter[Shown]] = defaultdict(Counter)
    for queue, due, later in _count_ready(db, now):
        found[queue].update(pending=due, scheduled=later)
    for queue, due, later in db.execute(_RETRIED, {"now": now}):
        found[queue].update(pending=-due, scheduled=-later, retrying=due + later)
    for sql in (_SUSPECT, _EXPIRED):
        for queue, tried, later, count in db.execute(sql, {"now": now}):
            found[queue]["retrying" if tried else "scheduled" if later else "pending"] += count
            if count < 0:
                found[queue]["expired"] -= count
    for queue, state, count in db.execute(_HELD):
        found[queue][state] += count
    return {queue: +by_state for queue, by_state in found.items() if any(by_state.values())}


def _count_ready(db: sqlite3.Connection, now: int) -> Iterator[tuple[str, int, int]]:
    """The numbers of due and of later jobs of each group, by its queue."""
    rows = db.execute(_READY, {"now": now, "most": MAX_COUNTED_ROWS, "least": MIN_GROUP_ROWS}).fetchall()
    sampled: dict[tuple[str, str, int, int], float] = {}
    if any(share in (due, later) for *_, share, due, later in rows):
        parts = db.execute(_SAMPLE, {"now": now, "rows": SAMPLE_ROWS})
        sampled = {(queue, task, rank, due): size for queue, task, rank, due, size in parts}
    for queue, task, rank, share, due, later in rows:
        if due == share:
            due = max(due, round(sampled.get((queue, task, rank, 1), 0)))
        if later == share:
            later = max(later, round(sampled.get((queue, task, rank, 0), 0)))
        yield queue, due, later


def _states(db: sqlite3.Connection, waiting: UnfinishedCounts) -> dict[Shown, int]:
    total: Counter[Shown] = Counter()
    for by_state in waiting.values():
        total.update(by_state)
    for state, count in db.execute("SELECT state, count FROM mainspring_counts"):
        total[state] += count
    return {state: count for state, count in total.items() if count}


def _queues(db: sqlite3.Connection, waiting: UnfinishedCounts) -> list[Queue]:
    paused = {name for (name,) in db.execute(PAUSED_QUEUES)}
    found = {name: waiting.get(name, Counter[Shown]()) for name in sorted(waiting.keys() | paused)}
    return [
        Queue(
            name=name,
            paused=name in paused,
            pending=of["pending"],
            scheduled=of["scheduled"],
            retrying=of["retrying"],
            running=of["running"],
        )
        for name, of in found.items()
    ]


_DEAD = """SELECT task, error, count(*) AS size, max(finished_at) AS last FROM mainspring_dead
    GROUP BY task, error ORDER BY size DESC, task, error LIMIT ?"""
_NEWEST = "SELECT max(job_id) FROM mainspring_dead WHERE task = ? AND error = ? AND finished_at = ?"


def _dead_groups(db: sqlite3.Connection, limit: int) -> list[DeadGroup]:
    found = []
    for task, error, count, last in db.execute(_DEAD, (limit,)).fetchall():
        newest = db.execute(_NEWEST, (task, error, last)).fetchone()[0]
        found.append(DeadGroup(task=task, error=error, count=count, newest=newest, last_at=instant(last)))
    return found
