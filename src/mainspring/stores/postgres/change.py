"""Operators' actions on jobs of the PostgreSQL store: cancel, retry, pause, resume, update, delete."""

from __future__ import annotations

from datetime import datetime

from ...clock import micros
from ...ids import JobId
from ...records.job import Action, Job
from ...records.query import Changed, Cursor, Filter, Refusal, Updates
from ..rows import job_of
from ..rules import apply_action, expire_if_due, matches_filter, refusal_of
from . import schedules
from .jobs import (
    Holders,
    JobPair,
    apply_job_changes,
    counted_schedules_of,
    delete_jobs,
    lock_jobs,
    lock_keys,
    write_jobs,
)
from .lists import jobs
from .pool import Session


async def change(
    db: Session,
    action: Action,
    which: Filter,
    now: datetime,
    limit: int,
    reason: str,
    update: Updates | None,
    after: JobId | None,
) -> Changed:
    """Applies the action to the first `limit` matching jobs after the id `after`. Runs inside a transaction."""
    rows = await jobs(db, which, micros(now), limit, None if after is None else Cursor(after))
    seen = [job_of(row) for row in rows]
    next = seen[-1].id if seen and len(seen) == limit else None
    if action is Action.RETRY:
        await lock_keys(db, seen)
    await schedules.lock_schedules(db, counted_schedules_of(seen))
    # A job that changed between the list and its lock is taken as it is now, or left out if it no longer matches.
    chosen = [
        job for job in await lock_jobs(db, [job.id for job in seen], finished=True) if matches_filter(job, which, now)
    ]
    holders = await Holders.of(db, chosen) if action is Action.RETRY else Holders()
    refused: dict[JobId, Refusal] = {}
    deleted: list[Job] = []
    pairs: list[JobPair] = []
    for job in chosen:
        current = expire_if_due(job, now)
        refusal = _refusal(holders, action, current)
        if refusal is not None:
            refused[job.id] = refusal
        elif action is Action.DELETE:
            deleted.append(job)
        else:
            pairs.append((job, apply_action(action, current, now, reason, update)))
            holders.put(pairs[-1][1])
    await write_jobs(db, [pair for pair in pairs if pair[0] is not pair[1]])
    await apply_job_changes(db, pairs)
    if deleted:
        await delete_jobs(db, deleted, now)
    return Changed([job.id for job in chosen if job.id not in refused], refused, next)


def _refusal(holders: Holders, action: Action, job: Job) -> Refusal | None:
    if (refusal := refusal_of(action, job)) is not None:
        return refusal
    if action is Action.RETRY:
        key, other = holders.holder(job)
        if other is not None and other.id != job.id:
            return Refusal(job.state, key, other.id)
    return None
