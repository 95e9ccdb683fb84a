"""RemoteBatches: app.batch() and app.batches over an API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..control.batches import Batches, BatchPage
from ..control.checks import MAX_PAGE_ROWS, checked_id, checked_limit
from ..ids import JobId
from ..insight.batch_view import BatchView
from ..records.batch import BatchCounts
from ..records.job import Enqueued, NewJob, Shown
from ..task.batch import Batch
from ..task.batch_options import new_batch_job
from ..task.handle import Handle
from .client import connection_of, job_request
from .paging import PAGE_ITEMS
from .responses import PageResponse


class _Jobs(Struct):
    jobs: list[Enqueued]


# What a request for a batch has of one for a job.
_FIELDS = frozenset({"id", "queue", "priority", "timeout", "tags"})


class RemoteBatch(Batch):
    """A batch whose store is an API."""

    async def _begin(self, new: NewJob) -> None:
        connection = await connection_of(self._engine)
        await connection.send("POST", "batches", body=_request(new))

    async def insert(self, jobs: Sequence[NewJob]) -> list[Handle[Any]]:
        self._check_begun(jobs)
        connection = await connection_of(self._engine)
        body = {"jobs": [job_request(job) for job in jobs]}
        made = await connection.call(_Jobs, "POST", "batches", self.id, "jobs", body=body)
        return [self._engine.handle(one, job.task) for one, job in zip(made.jobs, jobs, strict=True)]

    async def close(self) -> None:
        await (await connection_of(self._engine)).send("POST", "batches", self.id, "close")

    async def counts(self) -> BatchCounts:
        return (await self._engine.batches.show(self.id)).counts


def _request(new: NewJob) -> dict[str, Any]:
    """The batch as the API takes it."""
    assert new.plan is not None
    jobs, *callbacks = new.plan.steps
    fields = job_request(new)
    body: dict[str, Any] = {name: value for name, value in fields.items() if name in _FIELDS}
    body |= {step.name: step.task for step in callbacks}
    if new.step is not None:
        body["parent"] = new.step.flow
    metadata = {name: value for name, value in new.metadata.items() if name != "batch"}
    return body | {"name": new.metadata["batch"], "metadata": metadata, "open_for": jobs.open_seconds}


class RemoteBatches(Batches):
    def new(self, name: str, options: Mapping[str, Any]) -> Batch:
        new, within = new_batch_job(self._engine, name, options)
        if within is not None:
            self._engine.check_within()
        return RemoteBatch(self._engine, new.id, new.queue, new=new)

    async def get(self, id: JobId) -> Batch:
        return RemoteBatch(self._engine, (await self.show(id)).id)

    async def show(self, id: JobId) -> BatchView:
        connection = await connection_of(self._engine)
        return await connection.call(BatchView, "GET", "batches", checked_id(id))

    async def list(
        self,
        *,
        states: Sequence[Shown] | None = None,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
    ) -> BatchPage:
        checked_limit(limit, MAX_PAGE_ROWS)
        connection, page = await connection_of(self._engine), BatchPage()
        chosen = {"state": states, "order": "desc" if newest else "asc"}
        while len(page) < limit:
            query = chosen | {"limit": min(limit - len(page), PAGE_ITEMS), "after": after}
            response = await connection.call(PageResponse[BatchView], "GET", "batches", query=query)
            page += response.items
            page.next = after = response.next
            if after is None:
                break
        return page
