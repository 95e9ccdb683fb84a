"""Rules of the contract that more than one store applies. Pure."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timedelta
from typing import Literal

from msgspec.structs import replace

from ..job import Action, Filter, Job, NewJob, State
from ..outcome import Outcome

ACTIVE_HOLD = (State.PENDING, State.PAUSED)


def admit(new: NewJob, now: datetime) -> Job:
    """A request as the store keeps it."""
    return Job(
        id=new.id, task=new.task, payload=new.payload, queue=new.queue, priority=new.priority, state=State.PENDING,
        run_at=now if new.run_at is None else new.run_at, created_at=now, expires_at=new.expires_at,
        timeout=new.timeout, max_retries=new.max_retries, backoff=new.backoff, tags=new.tags,
        metadata=deepcopy(new.metadata) if new.metadata else {},
        unique_key=new.unique_key, idempotency_key=new.idempotency_key,
    )  # fmt: skip


def meet(held: Job, new: NewJob, now: datetime) -> tuple[Job, Literal["duplicate", "replaced", "debounced"]]:
    """What becomes of the job that holds a key when another request for it comes."""
    if new.on_conflict not in ("replace", "debounce") or held.state not in ACTIVE_HOLD:
        return held, "duplicate"
    changed = replace(
        held, payload=new.payload, priority=new.priority, expires_at=new.expires_at, timeout=new.timeout,
        max_retries=new.max_retries, backoff=new.backoff, tags=new.tags,
        metadata=deepcopy(new.metadata) if new.metadata else {},
    )  # fmt: skip
    if new.on_conflict == "replace":
        return changed, "replaced"
    run_at = now if new.run_at is None else new.run_at
    if new.debounce_limit is not None:
        run_at = min(run_at, held.created_at + timedelta(seconds=new.debounce_limit))
    return replace(changed, run_at=run_at), "debounced"


def settle(job: Job, outcome: Outcome) -> Job:
    """The job after an accepted outcome."""
    state = outcome.state
    if state is State.PENDING and job.cancel_reason is not None:
        state = State.CANCELLED
    failure = outcome.failure
    if failure is None and state is not State.COMPLETED:
        failure = job.failure
    return replace(
        job, state=state, lease=None, worker=None, result=outcome.result, failure=failure,
        run_at=outcome.run_at or job.run_at, finished_at=outcome.finished_at if state.final else None,
        attempt=job.attempt - outcome.refund, crashes=job.crashes + outcome.crash,
    )  # fmt: skip


def act(action: Action, job: Job, now: datetime, reason: str) -> Job:
    """The job after an action its state allows (delete aside)."""
    match action, job.state:
        case Action.CANCEL, State.CANCELLED:
            return job
        case Action.CANCEL, State.RUNNING:
            return job if job.cancel_reason is not None else replace(job, cancel_reason=reason)
        case Action.CANCEL, _:
            return replace(job, state=State.CANCELLED, cancel_reason=reason, finished_at=now)
        case Action.PAUSE, _:
            return replace(job, state=State.PAUSED)
        case Action.RESUME, _:
            return replace(job, state=State.PENDING)
        case _:
            return replace(
                job, state=State.PENDING, run_at=now, attempt=0, crashes=0,
                finished_at=None, expires_at=None, cancel_reason=None, result=None,
            )  # fmt: skip


def matches(job: Job, which: Filter, now: datetime) -> bool:
    return (
        (which.ids is None or job.id in which.ids)
        and (which.states is None or job.shown(now) in which.states)
        and (which.queues is None or job.queue in which.queues)
        and (which.tasks is None or job.task in which.tasks)
        and (which.tags is None or set(which.tags) <= set(job.tags))
    )
