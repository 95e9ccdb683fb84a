"""RemoteWorkers: app.workers over an API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..control.checks import MAX_PAGE_ROWS
from ..control.workers import Workers
from ..ids import WorkerId
from ..records.job import Job
from ..records.query import Filter
from ..records.worker import WorkerCommand
from .client import connection_of


class RemoteWorkers(Workers):
    async def running(self, id: WorkerId, *, limit: int = MAX_PAGE_ROWS, brief: bool = False) -> Sequence[Job]:
        return await self._engine.jobs.list(Filter(workers=((await self.get(id)).info.id,)), limit=limit, newest=False)

    async def resize(self, id: WorkerId | None, concurrency: int | None) -> Sequence[WorkerId]:
        return await self._each(id, "resize", {"concurrency": concurrency})

    async def drain(self, id: WorkerId | None) -> Sequence[WorkerId]:
        return await self._each(id, "drain")

    async def resume(self, id: WorkerId | None) -> Sequence[WorkerId]:
        return await self._each(id, "resume")

    async def stop(self, id: WorkerId | None) -> Sequence[WorkerId]:
        return await self._each(id, "stop")

    async def _each(self, id: WorkerId | None, order: WorkerCommand, body: Any = None) -> Sequence[WorkerId]:
        connection = await connection_of(self._engine)
        ids = [worker.info.id for worker in (await self._addressed(order, id) if id is None else [await self.get(id)])]
        for one in ids:
            await connection.send("POST", "workers", one, order, body=body)
        return ids
