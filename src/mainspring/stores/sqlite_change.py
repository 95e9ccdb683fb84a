"""What operators do to jobs in the SQLite store, and the runs they look back on."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from ..clock import micros
from ..job import ALLOWED, Action, Changed, Filter, Job, JobId, Refusal
from .rows import COLUMNS, job_of, where
from .rules import act
from .sqlite_enqueue import holder, save

_LAST_RUN = """SELECT id, runs, attempt, ending, worker, lease, started_at, finished_at,
        coalesce(length(CAST(result AS BLOB)), 0), failure
    FROM mainspring_jobs WHERE id = ? AND ending IS NOT NULL"""
_KEEP_LAST_RUN = f"INSERT INTO mainspring_executions {_LAST_RUN}"
EXECUTIONS = f"SELECT * FROM mainspring_executions WHERE job_id = ? UNION ALL {_LAST_RUN} ORDER BY 2"


def change(db: sqlite3.Connection, action: Action, which: Filter, now: datetime, limit: int, reason: str) -> Changed:
    condition, values = where(which, micros(now))
    sql = f"SELECT {COLUMNS} FROM mainspring_jobs WHERE {condition} ORDER BY id LIMIT :limit"
    done: list[JobId] = []
    refused: dict[JobId, Refusal] = {}
    for row in db.execute(sql, values | {"limit": limit}).fetchall():
        job = job_of(row)
        refusal = _refusal(db, action, job)
        if refusal is not None:
            refused[job.id] = refusal
            continue
        if action is Action.DELETE:
            db.execute("DELETE FROM mainspring_executions WHERE job_id = ?", (job.id,))
            db.execute("DELETE FROM mainspring_jobs WHERE id = ?", (job.id,))
        else:
            if action is Action.RETRY:
                db.execute(_KEEP_LAST_RUN, (job.id,))
            changed = act(action, job, now, reason)
            if changed is not job:
                save(db, changed)
        done.append(job.id)
    return Changed(done, refused)


def _refusal(db: sqlite3.Connection, action: Action, job: Job) -> Refusal | None:
    if job.state not in ALLOWED[action]:
        return Refusal(job.state)
    if action is Action.RETRY:
        key, held = holder(db, job)
        if held is not None:
            return Refusal(job.state, key, held.id)
    return None
