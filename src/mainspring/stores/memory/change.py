"""Operators' actions on jobs of the memory store: cancel, retry, pause, resume, update, delete."""

from __future__ import annotations

from datetime import datetime

from ...ids import JobId
from ...records.job import Action, Job
from ...records.query import Changed, Filter, Refusal, Updates
from ..rules import apply_action, expire_if_due, refusal_of
from .jobs import JobTable
from .ledger import RunLedger
from .read import matching


def change(
    jobs: JobTable,
    ledger: RunLedger,
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
    chosen = [job for job in matching(jobs, which, now) if after is None or job.id > after][:limit]
    for job in chosen:
        current = expire_if_due(job, now)
        refusal = _refusal(jobs, action, current)
        if refusal is not None:
            refused[job.id] = refusal
            continue
        if action is Action.DELETE:
            jobs.drop(job, now)
            ledger.drop(job.id)
        else:
            jobs.put(apply_action(action, current, now, reason, update))
        done.append(job.id)
    return Changed(done, refused, chosen[-1].id if chosen and len(chosen) == limit else None)


def _refusal(jobs: JobTable, action: Action, job: Job) -> Refusal | None:
    if (refusal := refusal_of(action, job)) is not None:
        return refusal
    if action is Action.RETRY:
        key, holder = jobs.holder(job)
        if holder is not None and holder.id != job.id:
            return Refusal(job.state, key, holder.id)
    return None
