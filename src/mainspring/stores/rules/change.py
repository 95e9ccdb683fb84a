"""The rule of change: operators' actions on jobs. Cancel, retry, pause, resume, update, delete."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ...ids import JobId
from ...records.job import Action, Job
from ...records.query import Refusal, Updates
from .actions import apply_action, expire_if_due, refusal_of
from .job_ends import delete_job, write_job
from .tables import Tables

ChangedJobs = tuple[list[JobId], dict[JobId, Refusal]]
"""The ids of the jobs that were changed, and of those that were not with the reasons."""


def change(
    tables: Tables, action: Action, jobs: Iterable[Job], now: datetime, reason: str = "", update: Updates | None = None
) -> ChangedJobs:
    """Applies the action to these stored jobs, in order."""
    done: list[JobId] = []
    refused: dict[JobId, Refusal] = {}
    for job in jobs:
        current = expire_if_due(job, now)
        refusal = _refusal(tables, action, current)
        if refusal is not None:
            refused[job.id] = refusal
            continue
        if action is Action.DELETE:
            delete_job(tables, job, now)
        elif (changed := apply_action(action, current, now, reason, update)) is not job:
            write_job(tables, job, changed)
        done.append(job.id)
    return done, refused


def _refusal(tables: Tables, action: Action, job: Job) -> Refusal | None:
    if (refusal := refusal_of(action, job)) is not None:
        return refusal
    if action is Action.RETRY:
        key, holder = tables.holder(job)
        if holder is not None and holder.id != job.id:
            return Refusal(job.state, key, holder.id)
    return None
