"""app.batches: finds, lists and shows batches. A batch is a job, so app.jobs has its runs, and app.flows its steps."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from ..ids import JobId
from ..insight.batch_view import BatchView, batch_view
from ..records.flow import BATCH, FlowWithPlan
from ..records.job import Job, Shown
from ..records.query import Filter
from .step_jobs import flow_of, flow_store

if TYPE_CHECKING:
    from ..engine import Engine
    from ..task.batch import Batch

# Batches whose rows are read at once.
BATCH_ROWS = 100


class BatchPage(list[BatchView]):
    """A page of batches. `next` is the `after` of the next page; None on the last one."""

    next: str | None = None


class Batches:
    """Each method takes the id of a batch, which is that of its own job."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def new(self, name: str, options: Mapping[str, Any]) -> Batch:
        """A batch that has not begun, for app.batch()."""
        from ..task.batch import Batch
        from ..task.batch_options import new_batch_job

        new, within = new_batch_job(self._engine, name, options)
        return Batch(self._engine, new.id, new.queue, new=new, within=within)

    async def get(self, id: JobId) -> Batch:
        """The batch, also of another process: to add jobs to it, to close it, or to read its counts."""
        from ..task.batch import Batch

        job, found = await self._found(id)
        return Batch(self._engine, job.id, found.row.queue)

    async def show(self, id: JobId) -> BatchView:
        """How far the batch is: its counts, and the states of its callbacks."""
        job, found = await self._found(id)
        return batch_view(job, found, self._engine.clock.now())

    async def list(
        self,
        *,
        states: Sequence[Shown] | None = None,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
    ) -> BatchPage:
        """Batches, newest first. One row is read for each, however many jobs it has."""
        which = Filter(tasks=(BATCH,), states=None if states is None else tuple(states))
        jobs = await self._engine.jobs.list(which, limit=limit, after=after, newest=newest)
        flows, now, page = await self._flows([job.id for job in jobs]), self._engine.clock.now(), BatchPage()
        page += (batch_view(job, flows[job.id], now) for job in jobs if job.id in flows)
        page.next = jobs.next
        return page

    async def _flows(self, ids: Sequence[JobId]) -> dict[JobId, FlowWithPlan]:
        store, found = await self._engine.connect(), builtins.list[FlowWithPlan]()
        for start in range(0, len(ids), BATCH_ROWS) if store.capabilities.flows else ():
            found += await flow_store(store).flows(ids[start : start + BATCH_ROWS])
        return {flow.row.id: flow for flow in found}

    async def _found(self, id: JobId) -> tuple[Job, FlowWithPlan]:
        job, store = await self._engine.jobs.get(id), await self._engine.connect()
        store.capabilities.require_flows()
        found = await flow_of(store, job.id) if job.task == BATCH else None
        if found is None:
            raise BadInput(f"job {job.id} ({job.task}) is no batch")
        return job, found
