"""The job that a request becomes, and the holder of a key after another request for it. Pure."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec.structs import replace

from ...records.job import Job, NewJob, State, is_internal
from .actions import without_since

# A job with a key can be replaced or debounced only in these states.
REPLACEABLE_STATES = (State.PENDING, State.PAUSED)


def to_job(new: NewJob, now: datetime) -> Job:
    """The job that a request becomes when it is enqueued."""
    return Job(
        id=new.id,
        task=new.task,
        payload=new.payload,
        queue=new.queue,
        priority=new.priority,
        state=State.PENDING if new.plan is None else State.WAITING,
        run_at=now if new.run_at is None else new.run_at,
        created_at=now,
        expires_at=new.expires_at,
        timeout=new.timeout,
        max_retries=new.max_retries,
        backoff=new.backoff,
        tags=new.tags,
        metadata=deepcopy(new.metadata) if new.metadata else {},
        unique_key=new.unique_key,
        idempotency_key=new.idempotency_key,
        schedule=new.schedule,
        scheduled_at=new.scheduled_at,
        detached=new.detached,
        fingerprint=new.fingerprint,
        enqueued_by=new.enqueued_by,
        step=new.step,
        refs=new.refs,
        collect=new.collect,
        limit_key=new.limit_key,
    )


def size_of(job: Job) -> int:
    """The bytes of payload and metadata, which count towards CLAIM_BYTES."""
    payload = job.payload
    size = len(payload) if payload.isascii() else len(payload.encode())
    return size + len(msgspec.json.encode(job.metadata)) if job.metadata else size


def resolve_conflict(
    holder: Job, new: NewJob, now: datetime
) -> tuple[Job, Literal["duplicate", "replaced", "debounced"]]:
    """The holder of a key after another job asks for the same key, and the status to report."""
    changes = new.on_conflict in ("replace", "debounce") and not is_internal(holder.task)
    if not changes or holder.state not in REPLACEABLE_STATES or holder.unreadable:
        return holder, "duplicate"
    changed = replace(
        holder,
        payload=new.payload,
        priority=new.priority,
        expires_at=new.expires_at,
        timeout=new.timeout,
        max_retries=new.max_retries,
        backoff=new.backoff,
        tags=new.tags,
        metadata=deepcopy(new.metadata) if new.metadata else {},
        fingerprint=new.fingerprint,
        enqueued_by=new.enqueued_by,
        limit_key=new.limit_key,
        failure=without_since(holder.failure),
    )
    if new.on_conflict == "replace":
        return changed, "replaced"
    run_at = now if new.run_at is None else new.run_at
    if new.debounce_limit is not None:
        run_at = min(run_at, holder.created_at + timedelta(seconds=new.debounce_limit))
    return replace(changed, run_at=run_at), "debounced"
