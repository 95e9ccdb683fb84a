"""The rule of change_flow: what is asked of a flow, beside actions on its jobs."""

from __future__ import annotations

from datetime import datetime

from ...flow import moves
from ...ids import JobId
from ...records.flow import (
    MAX_INBOX_BYTES,
    MAX_SIGNAL_NAMES,
    CloseBatch,
    Flow,
    FlowRequest,
    GivenSignal,
    GiveSignal,
    StepStatus,
    TimeOut,
)
from ...records.job import Action, Job, State
from ...records.query import Refusal
from .actions import refusal_of
from .change import retry_refusal
from .finish import older_workers_text
from .flows import is_worn_out
from .tables import Tables

# What a step with one of these statuses is told that cannot be skipped.
_WHY_NOT = {
    StepStatus.COMPLETED: "it has completed",
    StepStatus.UPSTREAM_FAILED: "it was not run, since something that it needs has failed: skip that",
}
_SKIPPED_ALREADY = "it was skipped already"


def change_flow(tables: Tables, id: JobId, request: FlowRequest, now: datetime) -> Refusal | None:
    """Does what is asked of the flow of this job, or returns why not."""
    flow, job = tables.flow(id), tables.job(id)
    match request:
        case TimeOut(job_id=deadline):
            _time_out(tables, flow, deadline, now)
            return None
        case GiveSignal():
            return _give(tables, id, request, now)
    if flow is None or job is None or not flow.planned:
        return Refusal(State.CANCELLED if job is None else job.state, error=f"job {id} has no flow any more")
    if isinstance(request, CloseBatch):
        return _close(tables, flow, job, request, now)
    if flow.statuses[request.step] == StepStatus.SKIPPED_BY_OPERATOR:
        return None  # the same request again, or a second operator
    if (refusal := _refusal(tables, flow, job, request.step)) is None:
        tables.flow_changes.of(id, now).skipped[request.step] = request.reason
    return refusal


def _time_out(tables: Tables, flow: Flow | None, deadline: JobId, now: datetime) -> None:
    if flow is None:
        return
    if flow.deadline is not None and flow.deadline.job_id == deadline:
        tables.flow_changes.of(flow.id, now).timed_out = True
    elif any(wait is not None and wait.job_id == deadline for wait in flow.waits.values()):
        tables.flow_changes.of(flow.id, now).late.append(deadline)


def _give(tables: Tables, id: JobId, request: GiveSignal, now: datetime) -> Refusal | None:
    """Gives the signal its value, or returns why not."""
    flow, job, name = tables.flow(id), tables.job(id), request.name
    if job is None:
        return Refusal(State.CANCELLED, error=f"there is no job {id}", signal="unknown")
    given = None if flow is None else flow.inbox.get(name)
    if given is not None and given.delivery == request.delivery:
        return None
    if given is not None:
        return Refusal(job.state, error=f"signal {name!r} of job {id} was given already", signal="twice")
    if flow is None and tables.older_workers:
        return Refusal(job.state, error=older_workers_text(tables.older_workers))
    if (refusal := _signal_refusal(tables, flow, job, request)) is None:
        tables.flow_changes.note_signal(id, now, job.queue, name, GivenSignal(request.value, request.delivery, now))
    return refusal


def _signal_refusal(tables: Tables, flow: Flow | None, job: Job, request: GiveSignal) -> Refusal | None:
    name = request.name
    late = f"signal {name!r} of job {job.id} is late"
    if flow is not None and flow.planned and not tables.graph(job.id).plan.grows:
        if (n := tables.graph(job.id).signals.get(name)) is None:
            return Refusal(job.state, error=f"flow {job.id} has no signal {name!r}", signal="unknown")
        if flow.statuses[n] != StepStatus.WAITING:
            why = "its time was over" if name in flow.late else "the flow does not wait for it any more"
            return Refusal(job.state, error=f"{late}: {why}", signal="late")
    if job.state.final:
        return Refusal(job.state, error=f"{late}: the job is {job.state.value}", signal="late")
    if flow is not None and name in flow.late:
        return Refusal(job.state, error=f"{late}: its time was over", signal="late")
    inbox = {} if flow is None else flow.inbox
    if len(inbox) >= MAX_SIGNAL_NAMES:
        error = f"job {job.id} has {MAX_SIGNAL_NAMES} signals already, and keeps no more"
        return Refusal(job.state, error=error, signal="full")
    size = sum(len(one.value.encode()) for one in inbox.values()) + len(request.value.encode())
    if size > MAX_INBOX_BYTES:
        error = f"the signals of job {job.id} would have {size:,} bytes, at most {MAX_INBOX_BYTES:,} are kept"
        return Refusal(job.state, error=f"{error}: pass the name of what is kept elsewhere", signal="full")
    return None


def _close(tables: Tables, flow: Flow, job: Job, request: CloseBatch, now: datetime) -> Refusal | None:
    """Closes a batch that is open. Closed again, or ended, it stays as it is."""
    steps = tables.graph(flow.id).open_steps
    if not steps:
        return Refusal(job.state, error=f"job {job.id} ({job.task}) is no batch")
    if request.abandoned_at is not None and any(flow.counts[n].made != request.abandoned_at for n in steps):
        return Refusal(job.state, error=f"jobs were added to batch {job.id} meanwhile")
    tables.flow_changes.of(flow.id, now).closed = request
    return None


def _refusal(tables: Tables, flow: Flow, job: Job, step: int) -> Refusal | None:
    """Why the step is not skipped."""
    if not moves.may_skip(flow, step):
        stopping = "its flow is being stopped: skip it when that has ended"
        why = stopping if flow.state not in ("open", "over") else _WHY_NOT.get(flow.statuses[step], _SKIPPED_ALREADY)
        name = tables.graph(flow.id).steps[step].name
        return Refusal(job.state, error=f"step {name!r} of flow {flow.id} cannot be skipped: {why}")
    if job.state.final:  # the flow goes on, as after a retry
        return refusal_of(Action.RETRY, job) or retry_refusal(tables, job)
    if is_worn_out(tables, job):
        return Refusal(job.state, error="the steps of the flow were put back to work too often: enqueue another flow")
    return None
