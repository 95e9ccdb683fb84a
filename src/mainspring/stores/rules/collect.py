"""The rule of jobs that collect items: a later request adds its items to the job that has its key."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from ...records.job import Collecting, Enqueued, Job, NewJob
from .conflict import REPLACEABLE_STATES
from .job_ends import write_job
from .tables import Tables

_END = "]}"


def add_items(tables: Tables, holder: Job, new: NewJob, now: datetime) -> Enqueued | NewJob:
    """The answer, if the items are added to the job that holds the key; else the job that the request becomes.

    That takes the key over from a job that collects no more. It goes without the key of any other job.
    """
    if holder.collect is None or holder.unreadable:
        return replace(new, unique_key=None)
    payload = _joined(holder, new, new.collect) if new.collect is not None else None
    if new.collect is not None and payload is not None:
        count = holder.collect.count + new.collect.count
        changed = replace(
            holder, payload=payload, collect=replace(new.collect, count=count), run_at=_due(holder, new.collect, now)
        )
        write_job(tables, holder, closed(changed, now) if count >= new.collect.size else changed)
        return Enqueued(holder.id, "collected", new.unique_key)
    write_job(tables, holder, closed(holder, now))
    return new


def may_collect(job: Job) -> bool:
    """Whether items may be added to the job, which holds its key: it was never claimed."""
    return job.collect is not None and job.state in REPLACEABLE_STATES and not job.runs and not job.unreadable


def closed(job: Job, now: datetime) -> Job:
    """The job once it collects no more, without its key. One that was never claimed is due."""
    return replace(job, unique_key=None, run_at=min(job.run_at, now) if may_collect(job) else job.run_at)


def _due(job: Job, collect: Collecting, now: datetime) -> datetime:
    first = job.created_at + timedelta(seconds=collect.delay)
    return first if collect.grace is None else min(first, now + timedelta(seconds=collect.grace))


def _joined(holder: Job, new: NewJob, collect: Collecting) -> str | None:
    """The holder's payload with the new items; None if they do not go into it.

    Items of another version of the task do not, nor more than its bounds allow.
    """
    if not may_collect(holder) or holder.collect is None or holder.fingerprint != new.fingerprint:
        return None
    if holder.task != new.task or holder.queue != new.queue or holder.collect.count + collect.count > collect.size:
        return None
    head, begin, added = new.payload.partition("[")
    if not (begin and holder.payload.startswith(head + begin) and holder.payload.endswith(_END)):
        return None
    payload = f"{holder.payload[: -len(_END)]},{added}"
    return payload if len(payload) <= collect.max_bytes and _size(payload) <= collect.max_bytes else None


def _size(payload: str) -> int:
    return len(payload) if payload.isascii() else len(payload.encode())
