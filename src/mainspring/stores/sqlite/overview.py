"""The SQLite store's overview: jobs by state, queues and circuits; and dead jobs by task and failure."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime

from ...clock import instant, micros
from ...records.job import Shown
from ...records.queue import DeadGroup, Overview, Queue
from ..rows import HELD_INDEX_SQL
from .circuits import circuits
from .handle import SqliteHandle
from .index_groups import READY, RETRIED
from .queues import PAUSED_QUEUES

# Due and later jobs of each group, counted along the index, which is fastest.
_READY = f"""WITH RECURSIVE {READY.hops} SELECT of_queue,
        (SELECT count(*) FROM {READY.table} WHERE {READY.one} AND run_at <= :now),
        (SELECT count(*) FROM {READY.table} WHERE {READY.one} AND run_at > :now) FROM ready_hops"""
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
    for queue, due, later in db.execute(_READY, {"now": now}):
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
    return found


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
