"""Jobs of concurrent requests, inserted into the store in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from ...app import Mainspring
from ...errors import ShuttingDown, StoreError
from ...records.job import NewJob
from ...task.handle import Handle

# Inserted in one round trip.
MAX_BATCH_JOBS = 200
Waiting = tuple[NewJob, "asyncio.Future[Handle[Any]]"]


class EnqueueBatcher:
    """Inserts jobs in batches: while the store inserts one batch, the next one collects. Under load several jobs share
    a round trip."""

    def __init__(self, app: Mainspring) -> None:
        self._app = app
        self._waiting: list[Waiting] = []
        self._inserter: asyncio.Task[None] | None = None

    async def enqueue(self, job: NewJob) -> Handle[Any]:
        """Enqueues the job. It is stored when this returns."""
        if job.on_conflict == "raise":  # a conflict would fail the whole batch
            (handle,) = await self._app.insert([job])
            return handle
        with self._app.producing([job]) as (job,):
            future: asyncio.Future[Handle[Any]] = asyncio.get_running_loop().create_future()
            self._waiting.append((job, future))
            if self._inserter is None:
                # In an empty context, since it runs for many requests.
                self._inserter = asyncio.create_task(self._insert_all(), context=Context())
            return await future

    async def _insert_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_BATCH_JOBS], self._waiting[MAX_BATCH_JOBS:]
                await self._insert(batch)
        finally:
            self._inserter = None

    async def _insert(self, batch: Sequence[Waiting]) -> None:
        """Inserts a batch and resolves its futures. If the batch is refused, inserts its jobs one by one."""
        try:
            handles = await self._app.insert([job for job, _ in batch])
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, StoreError | ShuttingDown):
                for one in batch:
                    await self._insert([one])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, future), handle in zip(batch, handles, strict=True):
                if not future.done():  # the request may have been cancelled
                    future.set_result(handle)


_batchers: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakKeyDictionary[Mainspring, EnqueueBatcher]] = (
    WeakKeyDictionary()
)


def batcher_of(app: Mainspring) -> EnqueueBatcher:
    """The app's batcher in the running event loop."""
    loop = asyncio.get_running_loop()
    ours = _batchers.get(loop)
    if ours is None:
        ours = _batchers[loop] = WeakKeyDictionary()
    found = ours.get(app)
    if found is None:
        found = ours[app] = EnqueueBatcher(app)
    return found
