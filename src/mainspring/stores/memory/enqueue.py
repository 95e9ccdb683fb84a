"""How the memory store enqueues jobs: all jobs of a call, or none if one with on_conflict="raise" meets a held key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from ...records.job import Enqueued, NewJob, State
from ..rules import resolve_conflict, to_job
from .jobs import JobTable


def enqueue(jobs: JobTable, new_jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    # Undo is needed only if a job may be refused.
    jobs.track_undo(any(new.on_conflict == "raise" for new in new_jobs))
    answers: list[Enqueued] = []
    for n, new in enumerate(new_jobs):
        answers.append(enqueue_one(jobs, new, now))
        if answers[n].status == "refused":
            jobs.roll_back()
            return [answers[n] if i == n else Enqueued(other.id, "refused") for i, other in enumerate(new_jobs)]
    jobs.track_undo(False)
    return answers


def enqueue_one(jobs: JobTable, new: NewJob, now: datetime) -> Enqueued:
    if new.id in jobs:
        return Enqueued(new.id)
    if new.unique_key is not None or new.idempotency_key is not None:
        key, holder = jobs.holder(new)
        while holder is not None and holder.shown(now) == "expired":
            jobs.put(replace(holder, state=State.EXPIRED, finished_at=now))
            key, holder = jobs.holder(new)
        if holder is not None and new.on_conflict == "raise":
            return Enqueued(holder.id, "refused", key)
        if holder is not None:
            changed, status = resolve_conflict(holder, new, now)
            jobs.put(changed)
            return Enqueued(holder.id, status, key)
    jobs.put(to_job(new, now))
    return Enqueued(new.id)
