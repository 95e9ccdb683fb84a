"""A job after an operator's action, and why an action is refused. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime

from msgspec import UNSET
from msgspec.structs import asdict, replace

from ...ids import JobId
from ...records.job import ALLOWED, Action, Job, State
from ...records.query import Refusal, Update, Updates
from ...records.run import Failure


def refusal_of(action: Action, job: Job) -> Refusal | None:
    """Why the job's state, or a record that cannot be decoded, does not allow the action; None if it is allowed."""
    if job.failure is not None and job.unreadable and (action is not Action.DELETE or not job.queue):
        remedy = "repair the record, or delete the job" if job.queue else "its queue is unknown; delete the job"
        return Refusal(job.state, error=f"{job.failure.message}: {remedy}")
    return None if job.state in ALLOWED[action] else Refusal(job.state)


def expire_if_due(job: Job, now: datetime) -> Job:
    """The job, expired if it is pending past its expires_at."""
    if job.state is State.PENDING and job.shown(now) == "expired":
        return replace(job, state=State.EXPIRED, finished_at=now)
    return job


def update_of(updates: Updates | None, id: JobId) -> Update | None:
    """The new values for one job: its own entry of a mapping, or the update for all."""
    return updates.get(id) if isinstance(updates, Mapping) else updates


def moves_queue(updates: Updates | None, job: Job) -> bool:
    """Whether the update gives the job another queue."""
    update = update_of(updates, job.id)
    return update is not None and update.queue is not UNSET and update.queue != job.queue


def apply_action(action: Action, job: Job, now: datetime, reason: str, updates: Updates | None = None) -> Job:
    """The job after an action that its state allows (not for delete)."""
    update = update_of(updates, job.id)
    if action is Action.UPDATE:
        return without_collect_key(apply_update(job, update or Update()))
    if action is Action.RETRY:
        job = replace(
            job,
            state=State.PENDING,
            run_at=now,
            attempt=0,
            crashes=0,
            finished_at=None,
            expires_at=None,
            cancel_reason=None,
            result=None,
            failure=without_since(job.failure),
        )
        return job if update is None else apply_update(job, update)
    match action, job.state:
        case Action.CANCEL, State.CANCELLED:
            return job
        case Action.CANCEL, State.RUNNING:
            return job if job.cancel_reason is not None else replace(job, cancel_reason=reason)
        case Action.CANCEL, _:
            return replace(job, state=State.CANCELLED, cancel_reason=reason, finished_at=now)
        case Action.PAUSE, _:
            return replace(job, state=State.PAUSED)
        case _:
            return replace(job, state=State.PENDING)


def apply_update(job: Job, update: Update) -> Job:
    given = {name: value for name, value in asdict(update).items() if value is not UNSET}
    if "payload" in given:
        given = {"fingerprint": None, "failure": without_since(job.failure), **given}
    return replace(job, **deepcopy(given))


def without_collect_key(job: Job) -> Job:
    """The job, which collects no more: without the key by which it has done so."""
    return job if job.collect is None or job.unique_key is None else replace(job, unique_key=None)


def without_since(failure: Failure | None) -> Failure | None:
    """The failure without `since`: a retried job may again wait for the full time."""
    return failure if failure is None or failure.since is None else replace(failure, since=None)
