"""The rule of change: operators' actions on jobs. Cancel, retry, pause, resume, update, delete."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ...ids import JobId
from ...records.flow import DEADLINE_TASKS
from ...records.job import Action, Job, State
from ...records.query import Refusal, Updates
from .actions import apply_action, expire_if_due, moves_queue, refusal_of, without_collect_key
from .job_ends import delete_job, write_job
from .tables import Tables

_KEPT_FROM = frozenset({Action.CANCEL, Action.PAUSE, Action.DELETE})
_IS_DEADLINE = "a flow, a signal or a batch has it as its deadline: cancel or delete the job that waits instead"

ChangedJobs = tuple[list[JobId], dict[JobId, Refusal]]
"""The ids of the jobs that were changed, and of those that were not with the reasons."""


def change(
    tables: Tables, action: Action, jobs: Iterable[Job], now: datetime, reason: str = "", update: Updates | None = None
) -> ChangedJobs:
    """Applies the action to these stored jobs, in order."""
    from .flows import note_end_of_wait, retried_job, stop_flow, waits_for_steps

    done: list[JobId] = []
    refused: dict[JobId, Refusal] = {}
    for job in jobs:
        current = expire_if_due(job, now)
        if action is Action.RETRY:  # another job may collect under its key by now
            current = without_collect_key(current)
        refusal = _refusal(tables, action, current, update)
        if refusal is not None:
            refused[job.id] = refusal
            continue
        if action is Action.DELETE:
            delete_job(tables, job, now)
        elif action is Action.RETRY:
            write_job(tables, job, retried_job(tables, current, now, update))
        elif action is Action.CANCEL and waits_for_steps(tables, job):
            write_job(tables, job, stop_flow(tables, job, now, reason))
        elif (changed := apply_action(action, current, now, reason, update)) is not job:
            if action is Action.CANCEL:
                note_end_of_wait(tables, job, now)
            write_job(tables, job, changed)
        done.append(job.id)
    return done, refused


def _reopened_flow(tables: Tables, id: JobId) -> Job | None:
    """The flow's own job if a retried step reopens it: then it takes its keys again."""
    job = None if tables.flow(id) is None else tables.job(id)
    return job if job is not None and job.state.final and job.state is not State.COMPLETED else None


def retry_refusal(tables: Tables, job: Job) -> Refusal | None:
    """Why a job is not put back to work although its state allows it."""
    from .flows import is_replaced, is_worn_out

    if is_replaced(tables, job):
        return Refusal(job.state, error="another job has taken its place in its flow")
    if is_worn_out(tables, job):
        error = "the steps of its flow were put back to work too often: enqueue another flow"
        return Refusal(job.state, error=error)
    flow = None if job.step is None else _reopened_flow(tables, job.step.flow)
    for one in (job, flow):
        key, holder = (None, None) if one is None else tables.holder(one)
        if one is not None and holder is not None and holder.id != one.id:
            return Refusal(job.state, key, holder.id)
    return None


def _refusal(tables: Tables, action: Action, job: Job, update: Updates | None) -> Refusal | None:
    if (refusal := refusal_of(action, job)) is not None:
        return refusal
    if action in _KEPT_FROM and job.task in DEADLINE_TASKS and not job.state.final:
        return Refusal(job.state, error=_IS_DEADLINE)
    if action is Action.RETRY:
        return retry_refusal(tables, job)
    if action is Action.UPDATE and job.state is State.WAITING and moves_queue(update, job):
        return Refusal(job.state, error="the queue of a job that waits for its steps stays as it is")
    return None
