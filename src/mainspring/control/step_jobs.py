"""The jobs of a flow's steps, read in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import cast

from ..errors import BadInput
from ..flow.graph import Graph
from ..ids import JobId
from ..records.flow import Flow, FlowWithPlan, StepStatus
from ..records.job import Job
from ..records.step import position_of
from ..store import FlowStore, Store

# Jobs of steps that are read at once.
PAGE_JOBS = 1000


def flow_store(store: Store) -> FlowStore:
    """The store as one that has flows. Raises BadInput if it has none."""
    store.capabilities.require_flows()
    return cast(FlowStore, store)


async def flow_of(store: Store, id: JobId) -> FlowWithPlan | None:
    """The flow of this job; None if it has none."""
    found = await row_of(store, id)
    return found if found is not None and found.row.planned else None


async def row_of(store: Store, id: JobId) -> FlowWithPlan | None:
    """The flow of this job, or the row of its signals if it is none."""
    if not store.capabilities.flows:
        return None
    return next(iter(await flow_store(store).flows([id])), None)


async def single_jobs(store: Store, graph: Graph, row: Flow) -> dict[int, Job]:
    """The jobs of the steps that are no maps, by position."""
    found: dict[int, Job] = {}
    for first, last in _ranges(graph, row):
        async for jobs in step_pages(store, row.id, first, last):
            found.update({position(job): job for job in jobs})
    return found


async def step_pages(store: Store, flow: JobId, first: int, last: int) -> AsyncIterator[list[Job]]:
    """The jobs of these positions in pages, by position."""
    while jobs := await flow_store(store).step_jobs(flow, first=first, last=last, limit=PAGE_JOBS):
        yield jobs
        if len(jobs) < PAGE_JOBS:
            return
        first = position(jobs[-1]) + 1


def position(job: Job) -> int:
    assert job.step is not None
    return job.step.position


def _ranges(graph: Graph, row: Flow) -> Iterator[tuple[int, int]]:
    """The first and the last position of the steps that are no maps, as far as their positions follow each other."""
    begin: int | None = None
    for n in range(len(graph.steps) + 1):
        ends = n == len(graph.steps) or graph.steps[n].over is not None
        if begin is not None and (ends or row.lives.get(n, 0) != row.lives.get(begin, 0)):
            life = row.lives.get(begin, 0)
            yield position_of(begin, 0, life), position_of(n - 1, 0, life)
            begin = None
        if not ends and begin is None and row.statuses[n] != StepStatus.WAITING:
            begin = n


def number_of(graph: Graph, name: str) -> int:
    """The number of the step of this name. Raises BadInput if there is none."""
    for n, step in enumerate(graph.steps):
        if step.name == name:
            return n
    known = ", ".join(repr(step.name) for step in graph.steps[:20])
    raise BadInput(f"the flow has no step {name!r:.80} (it has {known})")
