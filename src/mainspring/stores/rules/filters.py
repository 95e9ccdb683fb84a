"""Filters of jobs and audit entries, and brief jobs. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from msgspec import UNSET
from msgspec.structs import replace

from ...ids import JobId
from ...records.audit import AuditEntry, AuditFilter
from ...records.job import BRIEF_CHARACTERS, LEFT_OUT, Job
from ...records.query import End, Filter
from ..rows import options_of


def unique_ids(job_id: JobId | Collection[JobId]) -> list[JobId]:
    """The ids as a list without duplicates; a single id is allowed."""
    return [job_id] if isinstance(job_id, str) else list(dict.fromkeys(job_id))


def brief_job(job: Job) -> Job:
    """The job without payload, result and options that are longer than BRIEF_CHARACTERS."""
    options = job.metadata is LEFT_OUT or len(options_of(job)) > BRIEF_CHARACTERS
    result = job.result is not None and len(job.result) > BRIEF_CHARACTERS
    if not options and not result and len(job.payload) <= BRIEF_CHARACTERS:
        return job
    short = replace(
        job, payload=job.payload if len(job.payload) <= BRIEF_CHARACTERS else "", result="" if result else job.result
    )
    if not options:
        return short
    return replace(
        short,
        metadata=LEFT_OUT,
        timeout=UNSET,
        max_retries=None,
        backoff=None,
        detached=False,
        fingerprint=None,
        enqueued_by=None,
        limit_key=None,
    )


def matches_filter(job: Job, which: Filter, now: datetime) -> bool:
    return (
        (which.ids is None or job.id in which.ids)
        and (which.states is None or job.shown(now) in which.states)
        and (which.queues is None or job.queue in which.queues)
        and (which.tasks is None or job.task in which.tasks)
        and (which.tags is None or set(which.tags) <= set(job.tags))
        and (which.workers is None or job.worker in which.workers)
        and (which.errors is None or (job.failure is not None and job.failure.kind in which.errors))
        and (which.schedules is None or job.schedule in which.schedules)
        and (which.key_prefix is None or _has_key_prefix(job, which.key_prefix))
        and (which.created_after is None or job.created_at >= which.created_after)
        and (which.created_before is None or job.created_at <= which.created_before)
        and (which.ends is None or which.ends.get(job.id) == End(job.finished_at, job.runs))
    )


def _has_key_prefix(job: Job, prefix: str) -> bool:
    return any(key is not None and key.startswith(prefix) for key in (job.unique_key, job.idempotency_key))


def matches_audit_filter(entry: AuditEntry, which: AuditFilter) -> bool:
    named = which.action is None or entry.action == which.action or entry.action.startswith(f"{which.action}.")
    return (
        named
        and which.who in (None, entry.who)
        and which.target in (None, entry.target)
        and (which.since is None or entry.at >= which.since)
        and (which.until is None or entry.at < which.until)
    )
