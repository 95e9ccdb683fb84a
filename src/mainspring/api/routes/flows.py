"""/flows: reads flows, their steps and the items of their maps, and draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter

from ...app import Mainspring
from ...control.computation import Computation
from ...control.step_jobs import flow_of, flow_store, number_of, single_jobs
from ...errors import BadInput
from ...flow.graph import Graph
from ...ids import JobId
from ...insight.flow_drawing import FlowDrawing
from ...insight.flow_mermaid import mermaid_of
from ...insight.flow_svg import svg_of
from ...insight.why import Reason
from ...records.flow import Flow, FlowWithPlan
from ...records.job import Job, Shown
from ...records.step import MAX_INDEX, position_of
from ..access.authenticate import App, allow
from ..problem import Problem
from ..views import build_views
from .flow_view import (
    FlowDetails,
    FlowPage,
    FlowParent,
    FlowReading,
    StepItemPage,
    StepWithJob,
    flow_details,
    flow_drawing,
    flow_item,
    step_item,
    step_with_job,
    unplanned_flow,
)
from .job_filters import Names, States
from .jobs import Limit, redacted_reason

V = TypeVar("V")
# Flows whose rows and plans are read at once.
BATCH_ROWS = 20
# Pages of items that one request looks at, to find those of the wanted states.
MAX_SCANNED_PAGES = 10
_UNFINISHED: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "running", "waiting", "paused")
# An SVG opened by itself has its colours in a style of its own.
_SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
Index = Annotated[int, QueryParameter(ge=-1, le=MAX_INDEX - 2)]


@get("/flows", **allow("viewer"))
async def list_flows(
    app: App,
    task: Names = None,
    states: States = None,
    open: Annotated[bool, QueryParameter(description="Only flows that have not ended.")] = False,
    after: FromQuery[str | None] = None,
    limit: Limit = 50,
) -> FlowPage:
    """The flows of this server's app and those made from plans, newest first, each with how far it is."""
    wanted = None if states is None else tuple(states)
    if open:
        wanted = tuple(state for state in _UNFINISHED if wanted is None or state in wanted)
    page = await app.flows.list(task, states=wanted, limit=limit, after=after, brief=True)
    rows = await _rows(app, [job.id for job in page])
    now = app.clock.now()
    return FlowPage(await build_views(app, page, lambda job: flow_item(job, rows.get(job.id), now)), page.next)


async def _rows(app: Mainspring, ids: Sequence[JobId]) -> dict[JobId, Flow]:
    """The rows of these flows, read with few plans at a time: plans may be large."""
    store, found = flow_store(await app.connect()), dict[JobId, Flow]()
    for start in range(0, len(ids), BATCH_ROWS):
        found.update({one.row.id: one.row for one in await store.flows(ids[start : start + BATCH_ROWS])})
    return found


@get("/flows/{id:str}", **allow("viewer"))
async def get_flow(app: App, id: FromPath[str]) -> FlowDetails:
    """A flow with its steps and the picture of its graph. Before it is planned it has none."""
    job, found = await _found(app, id)
    parent, now = await _parent(app, job), app.clock.now()
    if found is None:
        return await _computed(app, lambda: unplanned_flow(job, parent, now))
    read = await _read(app, job, found)
    return await _computed(app, lambda: flow_details(read, parent, now))


@get("/flows/{id:str}/why", **allow("viewer"))
async def why_flow(app: App, id: FromPath[str]) -> list[Reason]:
    """All reasons why a flow has not ended, down to the jobs that it waits for, and why steps were not run."""
    await _found(app, id)
    return [redacted_reason(reason) for reason in await app.flows.why(id)]


@get("/flows/{id:str}/steps/{name:str}", **allow("viewer"))
async def get_step(app: App, id: FromPath[str], name: FromPath[str]) -> StepWithJob:
    """One step of a flow, with its job."""
    job, found, n = await _step(app, id, name)
    life = found.row.lives.get(n, 0)
    first, flows = position_of(n, 0, life), flow_store(await app.connect())
    jobs = await flows.step_jobs(job.id, first=first, last=first, limit=1)
    read = FlowReading(job, Graph(found.plan), found.row, dict(zip([first], jobs, strict=False)), _flow_tasks(app))
    now = app.clock.now()
    return await _computed(app, lambda: step_with_job(read, n, now))


@get("/flows/{id:str}/steps/{name:str}/items", **allow("viewer"))
async def list_step_items(
    app: App,
    id: FromPath[str],
    name: FromPath[str],
    states: States = None,
    after: Index = -1,
    limit: Limit = 50,
) -> StepItemPage:
    """The jobs of a map's items, in order. With `state` a page may have fewer than `limit` items and a `next` all the
    same."""
    await _step(app, id, name)
    now = app.clock.now()
    jobs, more = await _items(app, id, name, None if states is None else set(states), after, limit)
    return StepItemPage(await build_views(app, jobs, lambda job: step_item(job, now)), more)


async def _items(
    app: Mainspring, id: JobId, step: str, states: set[Shown] | None, after: int, limit: int
) -> tuple[list[Job], int | None]:
    """The items of these states behind `after`, and behind which one to go on; None at the end."""
    now, found = app.clock.now(), list[Job]()
    for _ in range(MAX_SCANNED_PAGES):
        page = await app.flows.items(id, step, after=after, limit=limit)
        wanted = [job for job in page if states is None or job.shown(now) in states]
        room = limit - len(found)
        found += wanted[:room]
        if len(wanted) > room:
            return found, _index(found[-1])
        if len(page) < limit:
            return found, None
        after = _index(page[-1])
        if len(found) == limit:
            break
    return found, after


@get("/flows/{id:str}/graph.svg", media_type="image/svg+xml", **allow("viewer"))
async def draw_flow_svg(app: App, id: FromPath[str]) -> Response[str]:
    """The picture of a flow, light or dark as the reader prefers. It has no script."""
    drawing = await _drawing(app, id)
    text = await _computed(app, lambda: svg_of(drawing))
    return Response(text, media_type="image/svg+xml", headers={"Content-Security-Policy": _SVG_POLICY})


@get("/flows/{id:str}/graph.mmd", media_type="text/plain", **allow("viewer"))
async def draw_flow_mermaid(app: App, id: FromPath[str]) -> Response[str]:
    """The picture of a flow as Mermaid text."""
    drawing = await _drawing(app, id)
    return Response(await _computed(app, lambda: mermaid_of(drawing)), media_type="text/plain")


async def _drawing(app: Mainspring, id: JobId) -> FlowDrawing:
    read, now = await _read(app, *await _planned(app, id)), app.clock.now()
    return await _computed(app, lambda: flow_drawing(read, now))


async def _computed(app: Mainspring, make: Callable[[], V]) -> V:
    """Large flows have thousands of steps to lay out and to redact."""
    return await Computation(app.clock, "the picture of this flow").run(make)


# reading


async def _found(app: Mainspring, id: JobId) -> tuple[Job, FlowWithPlan | None]:
    """The flow's job, and the flow if it is planned. Raises Problem(404) if the job is no flow."""
    job = await app.jobs.get(id)
    found = await flow_of(await app.connect(), job.id)
    if found is None and not app.flows.may_be_flow(job):
        raise Problem(404, "flow_not_found", f"job {job.id} ({job.task}) is no flow", job_id=job.id)
    return job, found


async def _planned(app: Mainspring, id: JobId) -> tuple[Job, FlowWithPlan]:
    job, found = await _found(app, id)
    if found is None:
        raise Problem(404, "flow_not_found", f"job {job.id} ({job.task}) has no steps yet", job_id=job.id)
    return job, found


async def _step(app: Mainspring, id: JobId, name: str) -> tuple[Job, FlowWithPlan, int]:
    """The flow, and the number of its step of this name."""
    job, found = await _planned(app, id)
    try:
        return job, found, number_of(Graph(found.plan), name)
    except BadInput as unknown:
        raise Problem(404, "flow_not_found", str(unknown), job_id=job.id) from None


async def _read(app: Mainspring, job: Job, found: FlowWithPlan) -> FlowReading:
    graph = Graph(found.plan)
    jobs = await single_jobs(await app.connect(), graph, found.row)
    return FlowReading(job, graph, found.row, jobs, _flow_tasks(app))


async def _parent(app: Mainspring, job: Job) -> FlowParent | None:
    if job.step is None:
        return None
    found = await flow_of(await app.connect(), job.step.flow)
    return FlowParent(job.step.flow, None if found is None else found.plan.steps[job.step.number].name)


def _flow_tasks(app: Mainspring) -> frozenset[str]:
    return frozenset(name for name, task in app.tasks.items() if task.is_flow)


def _index(job: Job) -> int:
    assert job.step is not None
    return job.step.index - 1


ROUTES = [
    list_flows,
    get_flow,
    why_flow,
    get_step,
    list_step_items,
    draw_flow_svg,
    draw_flow_mermaid,
]
