"""Why a flow waits: the reasons of the jobs that it waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ..flow.graph import Graph
from ..insight.flow_why import roots, waits_for, waits_for_signals
from ..insight.why import Reason
from ..records.flow import Flow, FlowWithPlan
from ..records.job import Job
from ..records.step import MAX_INDEX, position_of
from ..store import Store
from .step_jobs import flow_store, step_pages

# Pages of a map's items in which an unfinished one is looked for.
MAX_SEARCHED_PAGES = 10
Why = Callable[[Job], Awaitable[Sequence[Reason]]]


async def waiting_reasons(store: Store, job: Job, found: FlowWithPlan, why: Why) -> list[Reason]:
    """What the flow waits for. `why` returns the reasons of a step's job, which may be a flow itself."""
    graph, row, reasons = Graph(found.plan), found.row, list[Reason]()
    if job.cancel_reason is not None:
        reason = f" ({job.cancel_reason})" if job.cancel_reason else ""
        text = f"it was asked to cancel{reason}, and ends when its steps have ended"
        reasons.append(Reason(code="cancelling", text=text))
    if row.timed_out:
        text = f"it took longer than its timeout of {graph.plan.timeout or 0:,g} s, and ends when its steps have ended"
        reasons.append(Reason(code="cancelling", text=text))
    for root in roots(graph, row):
        step = await _open_job(store, graph, row, root.number)
        reasons.append(waits_for(root, step, [] if step is None else await why(step), row.counts.get(root.number)))
    return reasons + waits_for_signals(graph, row)


async def _open_job(store: Store, graph: Graph, row: Flow, n: int) -> Job | None:
    """The job of a step that was released, or the first one of a map that has not ended; None if none was found."""
    life = row.lives.get(n, 0)
    first, flows = position_of(n, 0, life), flow_store(store)
    if graph.steps[n].over is None:
        return next(iter(await flows.step_jobs(row.id, first=first, last=first, limit=1)), None)
    last, pages = position_of(n, MAX_INDEX, life), 0
    async for jobs in step_pages(store, row.id, first, last):
        pages += 1
        if (open := next((job for job in jobs if not job.state.final), None)) is not None:
            return open
        if pages >= MAX_SEARCHED_PAGES:
            break
    return None
