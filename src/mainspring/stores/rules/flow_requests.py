"""The rule of change_flow: what an operator asks of a flow, beside actions on its jobs."""

from __future__ import annotations

from datetime import datetime

from ...flow import moves
from ...ids import JobId
from ...records.flow import Flow, FlowRequest, StepStatus, TimeOut
from ...records.job import Action, Job, State
from ...records.query import Refusal
from .actions import refusal_of
from .change import retry_refusal
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
    if isinstance(request, TimeOut):
        if flow is not None and flow.deadline is not None and flow.deadline.job_id == request.job_id:
            tables.flow_changes.of(id, now).timed_out = True
        return None
    if flow is None or job is None:
        return Refusal(State.CANCELLED if job is None else job.state, error=f"job {id} has no flow any more")
    if flow.statuses[request.step] == StepStatus.SKIPPED_BY_OPERATOR:
        return None  # the same request again, or a second operator
    if (refusal := _refusal(tables, flow, job, request.step)) is None:
        tables.flow_changes.of(id, now).skipped[request.step] = request.reason
    return refusal


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
