"""A new job that repeats the call of a finished one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..actor import current_actor
from ..errors import BadInput, InvalidTransition
from ..ids import JobId, new_id
from ..records.job import Job, NewJob, is_internal
from ..task.task import Task

FINISHED = ("completed", "dead", "cancelled", "expired")
# Metadata that belongs to the trace of the original job.
TRACE = frozenset({"traceparent", "tracestate"})


def repeat_of(job: Job, tasks: Mapping[str, Task[Any, Any]], *, id: JobId | None, now: datetime) -> NewJob:
    """A job with the same task, queue, arguments, priority, retries, timeout, tags, metadata and unique key, due now.

    It belongs to no schedule and has no idempotency key, which is for one job only. If this app has the task, its
    arguments are checked.
    """
    check_finished(job, "run again", now)
    if is_internal(job.task):
        raise BadInput(f"job {job.id} is of an internal task ({job.task}): only Mainspring itself makes such jobs")
    check_own_arguments(job)
    return copy_of(job, tasks, id=id, now=now)


def check_own_arguments(job: Job) -> None:
    """Raises BadInput if arguments of the job are values of other steps: a job of its own would not have them."""
    if job.refs:
        assert job.step is not None
        raise BadInput(
            f"job {job.id} ({job.task}) has arguments that are values of flow {job.step.flow}, whose step it is: "
            "replay that one"
        )


def check_finished(job: Job, action: str, now: datetime) -> None:
    if job.shown(now) not in FINISHED:
        raise InvalidTransition(job.id, job.shown(now), action, ", ".join(FINISHED))
    if job.unreadable:
        raise BadInput(f"the record of job {job.id} cannot be read, so it cannot be {_DONE[action]}")


_DONE = {"run again": "run again", "replay": "replayed"}


def copy_of(job: Job, tasks: Mapping[str, Task[Any, Any]], *, id: JobId | None, now: datetime) -> NewJob:
    """The new job. Raises BadPayload if this app has the task, and the arguments do not fit it."""
    task, fingerprint = tasks.get(job.task), job.fingerprint
    if task is not None and not task.stub:
        task.arguments.check(job.payload)
        fingerprint = task.arguments.fingerprint
    return NewJob(
        id=id or new_id(now),
        task=job.task,
        payload=job.payload,
        queue=job.queue,
        priority=job.priority,
        timeout=job.timeout,
        max_retries=job.max_retries,
        backoff=job.backoff,
        tags=job.tags,
        metadata={name: value for name, value in job.metadata.items() if name not in TRACE},
        unique_key=None if job.collect is not None else job.unique_key,
        on_conflict="raise",
        fingerprint=fingerprint,
        enqueued_by=current_actor(),
        limit_key=job.limit_key,
    )
