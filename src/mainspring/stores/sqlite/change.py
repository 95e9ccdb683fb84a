"""Operators' actions on jobs of the SQLite store, and the list of a job's runs."""

from __future__ import annotations

import sqlite3
from datetime import datetime

import msgspec

from ...clock import micros
from ...ids import JobId
from ...records.job import Action, Job
from ...records.query import Changed, Cursor, Filter, Refusal, Updates
from ..rows import Row, job_of
from ..rules import apply_action, expire_if_due, refusal_of
from .enqueue import delete_job, holder, save_job
from .lists import jobs

_LAST_RUN = """SELECT id, runs, attempt, ending, worker, lease, started_at, finished_at,
        coalesce(length(CAST(result AS BLOB)), 0), failure, NULL
    FROM mainspring_jobs WHERE id {} AND ending IS NOT NULL"""
_KEEP_LAST_RUN = f"INSERT INTO mainspring_executions {_LAST_RUN.format('= ?')}"
_CHOSEN = "IN (SELECT value FROM json_each(:ids))"
_RUNS = f"""SELECT * FROM mainspring_executions WHERE job_id {_CHOSEN} AND number > :after
    UNION ALL {_LAST_RUN.format(_CHOSEN)} AND runs > :after ORDER BY 1, 2 LIMIT :limit"""


def executions(db: sqlite3.Connection, ids: list[JobId], after: int, limit: int | None) -> list[Row]:
    """The runs of these jobs; the run that ended a job is read from the job's own row."""
    values = {"ids": msgspec.json.encode(ids).decode(), "after": after, "limit": -1 if limit is None else limit}
    return db.execute(_RUNS, values).fetchall()


def change(
    db: sqlite3.Connection,
    action: Action,
    which: Filter,
    now: datetime,
    limit: int,
    reason: str,
    update: Updates | None,
    after: JobId | None,
) -> Changed:
    """Applies the action to the first `limit` matching jobs after the id `after`, in order of id."""
    done: list[JobId] = []
    refused: dict[JobId, Refusal] = {}
    chosen = [job_of(row) for row in jobs(db, which, micros(now), limit, None if after is None else Cursor(after))]
    for job in chosen:
        current = expire_if_due(job, now)
        refusal = _refusal(db, action, current)
        if refusal is not None:
            refused[job.id] = refusal
            continue
        if action is Action.DELETE:
            delete_job(db, job, now)
        else:
            if action is Action.RETRY:
                db.execute(_KEEP_LAST_RUN, (job.id,))
            changed = apply_action(action, current, now, reason, update)
            if changed is not job:
                save_job(db, job, changed)
        done.append(job.id)
    return Changed(done, refused, chosen[-1].id if chosen and len(chosen) == limit else None)


def _refusal(db: sqlite3.Connection, action: Action, job: Job) -> Refusal | None:
    if (refusal := refusal_of(action, job)) is not None:
        return refusal
    if action is Action.RETRY:
        key, other = holder(db, job)
        if other is not None and other.id != job.id:
            return Refusal(job.state, key, other.id)
    return None
