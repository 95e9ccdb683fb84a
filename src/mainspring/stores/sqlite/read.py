"""Counts out of the SQLite store, logs, and what may be forgotten."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from datetime import datetime

from ...clock import instant, micros
from ...job import DeadGroup, Filter, JobId, LogLine, Queue, Shown, State
from ..rows import HELD, Row
from .claim import PAUSED
from .lists import ENDED, ENDED_GROUPS, FINISHED_AT, jobs

# counts

# By queue alone, since the index has them in that order: grouping by what is shown would sort them all.
_READY = """SELECT queue, count(*), sum(run_at > :now), sum(attempt > 0), sum(attempt > 0 AND run_at > :now)
    FROM mainspring_jobs INDEXED BY mainspring_jobs_ready WHERE state = 'pending' AND crashes < 2 GROUP BY queue"""
_SUSPECT = """SELECT queue, 1, 0, count(*) FROM mainspring_jobs INDEXED BY mainspring_jobs_suspects
    WHERE state = 'pending' AND crashes >= 2 GROUP BY 1"""
_EXPIRED = """SELECT queue, attempt > 0, run_at > :now, -count(*) FROM mainspring_jobs
    INDEXED BY mainspring_jobs_expiring
    WHERE state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now GROUP BY 1, 2, 3"""
_HELD = f"""SELECT queue, state, count(*) FROM mainspring_jobs INDEXED BY mainspring_jobs_held
    WHERE {HELD} GROUP BY 1, 2"""


def unfinished(db: sqlite3.Connection, now: int) -> dict[str, Counter[Shown]]:
    """Unfinished jobs by queue and shown state."""
    found: dict[str, Counter[Shown]] = defaultdict(Counter)
    for queue, count, later, tried, tried_later in db.execute(_READY, {"now": now}):
        scheduled = later - tried_later
        found[queue].update(pending=count - tried - scheduled, scheduled=scheduled, retrying=tried)
    for sql in (_SUSPECT, _EXPIRED):
        for queue, tried, later, count in db.execute(sql, {"now": now}):
            found[queue]["retrying" if tried else "scheduled" if later else "pending"] += count
            if count < 0:
                found[queue]["expired"] -= count
    for queue, state, count in db.execute(_HELD):
        found[queue][state] += count
    return found


def counts(db: sqlite3.Connection, now: int) -> dict[Shown, int]:
    total: Counter[Shown] = Counter()
    for by_state in unfinished(db, now).values():
        total.update(by_state)
    for state, count in db.execute("SELECT state, count FROM mainspring_counts"):
        total[state] += count
    return {state: count for state, count in total.items() if count}


def queues(db: sqlite3.Connection, now: int) -> list[Queue]:
    paused = {name for (name,) in db.execute(PAUSED)}
    found = unfinished(db, now)
    return [
        Queue(
            name=name, paused=name in paused, pending=found[name]["pending"], scheduled=found[name]["scheduled"],
            retrying=found[name]["retrying"], running=found[name]["running"],
        )
        for name in sorted(found.keys() | paused)
    ]  # fmt: skip


_DEAD = """SELECT task, error, count(*) AS size, max(finished_at) AS last FROM mainspring_dead
    GROUP BY task, error ORDER BY size DESC, task, error LIMIT ?"""
_NEWEST = "SELECT max(job_id) FROM mainspring_dead WHERE task = ? AND error = ? AND finished_at = ?"


def dead(db: sqlite3.Connection, limit: int) -> list[DeadGroup]:
    found = []
    for task, error, count, last in db.execute(_DEAD, (limit,)).fetchall():
        newest = db.execute(_NEWEST, (task, error, last)).fetchone()[0]
        found.append(DeadGroup(task=task, error=error, count=count, newest=newest, last_at=instant(last)))
    return found


_LINES = """SELECT run, n, at, level, text FROM mainspring_logs
    WHERE job_id = ? AND (run, n) > (?, ?) ORDER BY run, n LIMIT ?"""


def logs(db: sqlite3.Connection, job_id: JobId, limit: int, after: tuple[int, int]) -> list[LogLine]:
    rows = db.execute(_LINES, (job_id, *after, limit)).fetchall()
    return [LogLine(run, n, instant(at), level, text) for run, n, at, level, text in rows]


# forgetting


def groups(db: sqlite3.Connection) -> list[tuple[State, str]]:
    return sorted({(State(state), task) for state, _, task in db.execute(ENDED_GROUPS)})


_KEPT = f"""SELECT finished_at, id FROM mainspring_jobs WHERE {ENDED.when} AND state = :of_state AND queue = :of_queue
    AND task = :of_task ORDER BY finished_at DESC, id DESC LIMIT :keep"""


def surplus(db: sqlite3.Connection, state: State, task: str, keep: int, before: datetime, limit: int) -> list[Row]:
    end = (micros(before), "")
    if keep:
        newest: list[tuple[int, JobId]] = []
        for of_state, queue, of_task in db.execute(ENDED_GROUPS).fetchall():
            if (of_state, of_task) == (state.value, task):
                values = {"of_state": of_state, "of_queue": queue, "of_task": task, "keep": keep}
                newest += db.execute(_KEPT, values).fetchall()
        newest.sort(reverse=True)
        if len(newest) < keep:
            return []
        end = min(end, newest[keep - 1])
    oldest = jobs(db, Filter(states=(state.value,), tasks=(task,)), end[0], limit, sort="finished")
    return [row for row in oldest if (row[FINISHED_AT], row[0]) < end]
