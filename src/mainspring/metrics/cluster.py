"""Metrics of the whole cluster: every process that can reach the store reports the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ..clock import Clock
from ..sync import run
from .families import gauge
from .snapshot import ClusterSnapshot, read_snapshot
from .tables import families

if TYPE_CHECKING:
    from ..app import Mainspring

# A snapshot is used for this long,
MAX_AGE_SECONDS = 2.0
# or for this multiple of the time it took to read: at most a tenth of the time is spent on reading.
MAX_AGE_FACTOR = 10.0
# How long a scrape waits for a new snapshot.
SCRAPE_DEADLINE_SECONDS = 5.0
# Meanwhile older figures are reported up to this age; a reading that takes as long is given up.
STALE_SECONDS = 60.0


class ClusterMetrics:
    """Reads the store on request, one reading at a time; a scrape never waits longer than its deadline."""

    def __init__(
        self, app: Mainspring, *, max_age: float = MAX_AGE_SECONDS, deadline: float = SCRAPE_DEADLINE_SECONDS
    ) -> None:
        self._app = app
        self._clock: Clock = app.clock
        self._max_age = max_age
        self._deadline = deadline
        self._reading: asyncio.Task[None] | None = None
        self._snapshot: ClusterSnapshot | None = None
        self._read_at = self._took = 0.0

    async def families(self) -> list[Metric]:
        """The figures and their age. If the store does not answer, only that is reported: old ones would look new."""
        if self._snapshot is None or self._age >= max(self._max_age, MAX_AGE_FACTOR * self._took):
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
                self._reading.add_done_callback(self._finish_reading)
            await asyncio.wait([self._reading], timeout=self._deadline)
        if self._snapshot is None or self._age > STALE_SECONDS:
            return [gauge(*_UP, (), {(): 0.0})]
        return [
            gauge(*_UP, (), {(): 1.0}),
            gauge(*_TOOK, (), {(): self._took}),
            gauge(*_AGE, (), {(): self._age}),
            *families(self._snapshot),
        ]

    @property
    def _age(self) -> float:
        return self._clock.monotonic() - self._read_at

    async def _read(self) -> None:
        began = self._clock.monotonic()
        async with asyncio.timeout(STALE_SECONDS):
            self._snapshot = await read_snapshot(await self._app.connect(), self._clock.now())
        self._read_at = self._clock.monotonic()
        self._took = self._read_at - began

    def _finish_reading(self, reading: asyncio.Task[None]) -> None:
        self._reading = None
        if reading.cancelled() or reading.exception() is not None:
            self._snapshot = None


_UP = ("mainspring_store_up", "Whether the store answers.")
_TOOK = ("mainspring_scrape_seconds", "How long it took to read these figures from the store.")
_AGE = ("mainspring_scrape_age_seconds", "How long ago that was.")


class ClusterCollector(Collector):
    """For your own registry: REGISTRY.register(ClusterCollector(app)). Must not be collected in an event loop."""

    def __init__(self, app: Mainspring) -> None:
        self._app = app

    def describe(self) -> Iterable[Metric]:
        return []  # the store need not be reachable at the registration

    def collect(self) -> Iterable[Metric]:
        return run(ClusterMetrics(self._app).families())
