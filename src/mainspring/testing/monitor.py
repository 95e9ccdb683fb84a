"""A monitor that samples the queue depths of an app."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ..records.query import Filter
from ..records.queue import Queue

if TYPE_CHECKING:
    from ..app import Mainspring

Depth = Literal["pending", "scheduled", "retrying", "running"]
_ALL_ROWS = 1 << 30


class QueueSample(Struct, frozen=True):
    """The state of all queues at one instant."""

    at: datetime
    queues: dict[str, Queue]
    ages: dict[str, float]
    """Age of the oldest due job of each queue: seconds since it became due."""


class QueueMonitor:
    """Takes a sample `every` seconds of the app's clock between start() and stop(); sample() takes one at any time."""

    def __init__(self, app: Mainspring, *, every: float = 1.0) -> None:
        self._app = app
        self._every = every
        self._task: asyncio.Task[None] | None = None
        self.samples: list[QueueSample] = []

    async def __aenter__(self) -> QueueMonitor:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch(), name="mainspring-monitor")

    async def stop(self) -> None:
        """Stops sampling. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    async def _watch(self) -> None:
        while True:
            await self.sample()
            await self._app.clock.sleep(self._every)

    async def sample(self) -> QueueSample:
        store, now = await self._app.connect(), self._app.clock.now()
        due = await store.jobs(Filter(states=("pending", "retrying")), now=now, limit=_ALL_ROWS)
        ages: dict[str, float] = {}
        for job in due:
            if job.run_at <= now:
                ages[job.queue] = max(ages.get(job.queue, 0.0), (now - job.run_at).total_seconds())
        sample = QueueSample(
            now, {queue.name: queue for queue in (await store.overview(now=now, finished=False)).queues}, ages
        )
        self.samples.append(sample)
        return sample

    def series(self, queue: str = "default", state: Depth = "pending") -> list[tuple[datetime, int]]:
        """Number of jobs of the queue in that state, per sample."""
        return [(sample.at, _depth(sample, queue, state)) for sample in self.samples]

    def peak(self, queue: str = "default", state: Depth = "pending") -> int:
        return int(self._over(max, queue, state))

    def mean(self, queue: str = "default", state: Depth = "pending") -> float:
        return self._over(lambda depths: sum(depths) / len(depths), queue, state)

    def oldest(self, queue: str = "default") -> float:
        """The greatest age of a due job in any sample, in seconds."""
        return max((sample.ages.get(queue, 0.0) for sample in self.samples), default=0.0)

    def _over(self, act: Callable[[list[int]], float], queue: str, state: Depth) -> float:
        return act([depth for _, depth in self.series(queue, state)] or [0])


def _depth(sample: QueueSample, queue: str, state: Depth) -> int:
    found = sample.queues.get(queue)
    return 0 if found is None else int(getattr(found, state))
