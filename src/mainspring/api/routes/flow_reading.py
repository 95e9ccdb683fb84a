"""Reads of flows for requests, with a 404 for what is none."""

from __future__ import annotations

from ...app import Mainspring
from ...control.step_jobs import flow_of, number_of, single_jobs
from ...errors import BadInput
from ...flow.graph import Graph
from ...ids import JobId
from ...records.flow import FlowWithPlan
from ...records.job import Job
from ..problem import Problem
from .flow_view import FlowParent, FlowReading


async def found_flow(app: Mainspring, id: JobId) -> tuple[Job, FlowWithPlan | None]:
    """The flow's job, and the flow if it is planned. Raises Problem(404) if the job is no flow."""
    job = await app.jobs.get(id)
    found = await flow_of(await app.connect(), job.id)
    if found is None and not app.flows.may_be_flow(job):
        raise Problem(404, "flow_not_found", f"job {job.id} ({job.task}) has no steps: it is no flow", job_id=job.id)
    return job, found


async def planned_flow(app: Mainspring, id: JobId) -> tuple[Job, FlowWithPlan]:
    job, found = await found_flow(app, id)
    if found is None:
        raise Problem(
            404, "flow_not_found", f"job {job.id} ({job.task}) has no steps: it was not planned yet", job_id=job.id
        )
    return job, found


async def found_step(app: Mainspring, id: JobId, name: str) -> tuple[Job, FlowWithPlan, int]:
    """The flow, and the number of its step of this name."""
    job, found = await planned_flow(app, id)
    try:
        return job, found, number_of(Graph(found.plan), name)
    except BadInput as unknown:
        raise Problem(404, "flow_not_found", str(unknown), job_id=job.id) from None


async def read_flow(app: Mainspring, job: Job, found: FlowWithPlan) -> FlowReading:
    graph = Graph(found.plan)
    jobs = await single_jobs(await app.connect(), graph, found.row)
    return FlowReading(job, graph, found.row, jobs, flow_tasks(app))


async def parent_of(app: Mainspring, job: Job) -> FlowParent | None:
    if job.step is None:
        return None
    found = await flow_of(await app.connect(), job.step.flow)
    return FlowParent(job.step.flow, None if found is None else found.plan.steps[job.step.number].name)


def flow_tasks(app: Mainspring) -> frozenset[str]:
    return frozenset(name for name, task in app.tasks.items() if task.is_flow)


def index_of(job: Job) -> int:
    assert job.step is not None
    return job.step.index - 1
