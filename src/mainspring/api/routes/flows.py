"""/flows: reads flows, their steps and the items of their maps, and draws them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter

from ...app import Mainspring
from ...control.computation import Computation
from ...control.job_page import leading_jobs, whole_page
from ...control.step_jobs import flow_store
from ...flow.graph import Graph
from ...ids import JobId
from ...insight.flow_drawing import FlowDrawing
from ...insight.flow_mermaid import mermaid_of
from ...insight.flow_svg import svg_of
from ...insight.why import Reason
from ...records.job import Job, Shown
from ...records.step import MAX_INDEX, position_of
from ...suggest import did_you_mean
from ..access.authenticate import App, allow
from ..problem import Problem
from ..views import build_views
from .flow_reading import (
    flow_tasks,
    found_flow,
    found_step,
    index_of,
    parent_of,
    planned_flow,
    read_flow,
)
from .flow_view import (
    FlowDetails,
    FlowPage,
    FlowReading,
    FlowShape,
    StepItemPage,
    StepWithJob,
    flow_details,
    flow_drawing,
    flow_item,
    shape_view,
    step_item,
    step_with_job,
    unplanned_flow,
)
from .job_filters import Names, States
from .jobs import MAX_ANSWER_CHARACTERS, Limit, redacted_reason

V = TypeVar("V")
# Pages of items that one request looks at, to find those of the wanted states.
MAX_SCANNED_PAGES = 10
_UNFINISHED: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "running", "waiting", "paused")
# An SVG opened by itself has its colours in a style of its own.
_SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
Full = Annotated[bool, QueryParameter(description="Include all fields of each job.")]
Index = Annotated[int, QueryParameter(ge=-1, le=MAX_INDEX - 2)]


@get("/flows", **allow("viewer"))
async def list_flows(
    app: App,
    task: Names = None,
    states: States = None,
    open: Annotated[bool, QueryParameter(description="Only flows that have not ended.")] = False,
    order: FromQuery[Literal["asc", "desc"] | None] = None,
    after: FromQuery[str | None] = None,
    limit: Limit = 50,
    full: Full = False,
) -> FlowPage:
    """The flows of this server's app and those made from plans, newest first, each with how far it is.

    With `full`, a page of large jobs may have fewer than `limit`. `next` is null on the last page only.
    """
    wanted: tuple[Shown, ...] | None = None if states is None else tuple(states)
    if open:
        wanted = tuple(state for state in _UNFINISHED if wanted is None or state in wanted)
    found = await app.flows.list(task, states=wanted, limit=limit, after=after, newest=order != "asc", brief=True)
    now = app.clock.now()
    page = await whole_page(await app.connect(), found, MAX_ANSWER_CHARACTERS, now) if full else found
    items = await build_views(app, page, lambda job: flow_item(job, found.progress.get(job.id), now, full=full))
    return FlowPage(items, page.next)


@get("/flows/shapes/{name:str}", **allow("viewer", problems=(409,)))
async def get_flow_shape(app: App, name: FromPath[str]) -> FlowShape:
    """The steps of a flow that this server has, without an input, and their picture. Parameters with a default have
    that. 409 if the steps depend on the input, or can be no plan."""
    task = app.tasks.get(name)
    if task is None or not task.is_flow:
        known = [one.name for one in app.tasks.values() if one.is_flow]
        raise Problem(404, "flow_not_found", f"there is no flow {name!r:.80} in this app; {did_you_mean(name, known)}")
    flows = flow_tasks(app)
    return await Computation(app.clock, f"the plan of flow {name!r}").run(lambda: shape_view(task, flows))


@get("/flows/{id:str}", **allow("viewer"))
async def get_flow(app: App, id: FromPath[str]) -> FlowDetails:
    """A flow with its steps and the picture of its graph. Before it is planned it has none."""
    job, found = await found_flow(app, id)
    parent, now = await parent_of(app, job), app.clock.now()
    if found is None:
        return await _computed(app, lambda: unplanned_flow(job, parent, now))
    read = await read_flow(app, job, found)
    return await _computed(app, lambda: flow_details(read, parent, now))


@get("/flows/{id:str}/why", **allow("viewer"))
async def why_flow(app: App, id: FromPath[str]) -> list[Reason]:
    """All reasons why a flow has not ended, down to the jobs that it waits for, and why steps were not run."""
    await found_flow(app, id)
    return [redacted_reason(reason) for reason in await app.flows.why(id)]


@get("/flows/{id:str}/steps/{name:str}", **allow("viewer"))
async def get_step(app: App, id: FromPath[str], name: FromPath[str]) -> StepWithJob:
    """One step of a flow, with its job."""
    job, found, n = await found_step(app, id, name)
    life = found.row.lives.get(n, 0)
    first, flows = position_of(n, 0, life), flow_store(await app.connect())
    jobs = await flows.step_jobs(job.id, first=first, last=first, limit=1)
    read = FlowReading(job, Graph(found.plan), found.row, dict(zip([first], jobs, strict=False)), flow_tasks(app))
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
    full: Full = False,
) -> StepItemPage:
    """The jobs of a map's items, in order. With `state` or `full` a page may have fewer than `limit` items and a
    `next` all the same."""
    await found_step(app, id, name)
    now = app.clock.now()
    jobs, more = await _items(app, id, name, None if states is None else set(states), after, limit)
    if full and (fitting := leading_jobs(jobs, MAX_ANSWER_CHARACTERS)) < len(jobs):
        jobs, more = jobs[:fitting], index_of(jobs[fitting - 1])
    return StepItemPage(await build_views(app, jobs, lambda job: step_item(job, now, full=full)), more)


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
            return found, index_of(found[-1])
        if len(page) < limit:
            return found, None
        after = index_of(page[-1])
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
    read, now = await read_flow(app, *await planned_flow(app, id)), app.clock.now()
    return await _computed(app, lambda: flow_drawing(read, now))


async def _computed(app: Mainspring, make: Callable[[], V]) -> V:
    """Large flows have thousands of steps to lay out and to redact."""
    return await Computation(app.clock, "the picture of this flow").run(make)


ROUTES = [
    list_flows,
    get_flow,
    why_flow,
    get_step,
    list_step_items,
    draw_flow_svg,
    draw_flow_mermaid,
    get_flow_shape,
]
