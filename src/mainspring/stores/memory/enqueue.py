"""Jobs into the memory store: all of a call or none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from ...records.job import Enqueued, NewJob, State
from ..rules import resolve_conflict, to_job
from .jobs import JobTable


def enqueue(jobs: JobTable, news: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    # Only a job that may be refused makes the others worth remembering.
    jobs.track_undo(any(new.on_conflict == "raise" for new in news))
    answers: list[Enqueued] = []
    for n, new in enumerate(news):
        answers.append(enqueue_one(jobs, new, now))
        if answers[n].status == "refused":
            jobs.roll_back()
            return [answers[n] if i == n else Enqueued(other.id, "refused") for i, other in enumerate(news)]
    jobs.track_undo(False)
    return answers


def enqueue_one(jobs: JobTable, new: NewJob, now: datetime) -> Enqueued:
    if new.id in jobs:
        return Enqueued(new.id)
    if new.unique_key is not None or new.idempotency_key is not None:
        key, held = jobs.holder(new)
        while held is not None and held.shown(now) == "expired":
            jobs.put(replace(held, state=State.EXPIRED, finished_at=now))
            key, held = jobs.holder(new)
        if held is not None and new.on_conflict == "raise":
            return Enqueued(held.id, "refused", key)
        if held is not None:
            changed, status = resolve_conflict(held, new, now)
            jobs.put(changed)
            return Enqueued(held.id, status, key)
    jobs.put(to_job(new, now))
    return Enqueued(new.id)
