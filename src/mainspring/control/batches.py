"""app.batches: finds batches. A batch is a job, so app.jobs has its runs, and app.flows its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import BadInput
from ..ids import JobId
from ..records.flow import BATCH
from .step_jobs import flow_of

if TYPE_CHECKING:
    from ..engine import Engine
    from ..task.batch import Batch


class Batches:
    """Each method takes the id of a batch, which is that of its own job."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, id: JobId) -> Batch:
        """The batch, also of another process: to add jobs to it, to close it, or to read its counts."""
        from ..task.batch import Batch

        job, store = await self._engine.jobs.get(id), await self._engine.connect()
        store.capabilities.require_flows()
        found = await flow_of(store, job.id) if job.task == BATCH else None
        if found is None:
            raise BadInput(f"job {job.id} ({job.task}) is no batch")
        return Batch(self._engine, job.id, found.row.queue)
