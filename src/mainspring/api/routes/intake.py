"""Jobs of requests that come at the same time, handed to the store together."""

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

# As many go in one round trip.
BATCH = 200
Waiting = tuple[NewJob, "asyncio.Future[Handle[Any]]"]


class Intake:
    """While the store takes some, the next ones gather: under load a job costs a share of a round trip."""

    def __init__(self, spring: Mainspring) -> None:
        self._spring = spring
        self._waiting: list[Waiting] = []
        self._carrier: asyncio.Task[None] | None = None

    async def take(self, job: NewJob) -> Handle[Any]:
        """The job is safe when this returns."""
        if job.on_conflict == "raise":  # whoever is refused would take all others with him
            (handle,) = await self._spring.hand_over([job])
            return handle
        with self._spring.producing([job]) as (job,):
            future: asyncio.Future[Handle[Any]] = asyncio.get_running_loop().create_future()
            self._waiting.append((job, future))
            if self._carrier is None:
                # In a context of its own: what it does it does for many.
                self._carrier = asyncio.create_task(self._carry(), context=Context())
            return await future

    async def _carry(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                await self._hand_over(batch)
        finally:
            self._carrier = None

    async def _hand_over(self, batch: Sequence[Waiting]) -> None:
        """Each gets the answer to its own job; if they cannot go together, one by one."""
        try:
            handles = await self._spring.hand_over([job for job, _ in batch])
        except Exception as trouble:
            if len(batch) > 1 and not isinstance(trouble, StoreError | ShuttingDown):
                for one in batch:
                    await self._hand_over([one])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(trouble)
        else:
            for (_, future), handle in zip(batch, handles, strict=True):
                if not future.done():  # whoever waited may have gone
                    future.set_result(handle)


_intakes: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakKeyDictionary[Mainspring, Intake]] = WeakKeyDictionary()


def intake(spring: Mainspring) -> Intake:
    """The app's, in the running event loop."""
    loop = asyncio.get_running_loop()
    ours = _intakes.get(loop)
    if ours is None:
        ours = _intakes[loop] = WeakKeyDictionary()
    found = ours.get(spring)
    if found is None:
        found = ours[spring] = Intake(spring)
    return found
