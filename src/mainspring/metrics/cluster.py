"""Metrics of the whole cluster: any process that can reach the store tells the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ..clock import Clock
from ..sync import run
from .families import gauge
from .snapshot import Snapshot, read
from .tables import families

if TYPE_CHECKING:
    from ..app import Mainspring

# Seconds for which what was read is told again, and within which the store has to answer.
FRESH, DEADLINE = 2.0, 5.0


class Cluster:
    """Looks at the store when asked to, one look at a time, and never for longer than its deadline."""

    def __init__(self, app: Mainspring, *, fresh: float = FRESH, deadline: float = DEADLINE) -> None:
        self._app = app
        self._clock: Clock = app.clock
        self._fresh = fresh
        self._deadline = deadline
        self._looking = asyncio.Lock()
        self._seen: Snapshot | None = None
        self._seen_at = 0.0

    async def families(self) -> list[Metric]:
        """The figures; of a store that does not answer, only that: old ones would look like new."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._deadline):
                snapshot = await self._look()
        except Exception:
            return [*_scrape(False, self._clock.monotonic() - began)]
        return [*_scrape(True, self._clock.monotonic() - began), *families(snapshot)]

    async def _look(self) -> Snapshot:
        async with self._looking:
            if self._seen is None or self._clock.monotonic() - self._seen_at >= self._fresh:
                self._seen = await read(await self._app.opened(), self._clock.now())
                self._seen_at = self._clock.monotonic()
            return self._seen


def _scrape(up: bool, took: float) -> Iterator[Metric]:
    yield gauge("mainspring_store_up", "Whether the store answered this scrape.", (), {(): float(up)})
    yield gauge("mainspring_scrape_seconds", "How long it took to read the store.", (), {(): took})


class ClusterCollector(Collector):
    """For a registry of your own: REGISTRY.register(ClusterCollector(app)). Not to be collected in an event loop."""

    def __init__(self, app: Mainspring) -> None:
        self._app = app

    def describe(self) -> Iterable[Metric]:
        return []  # the store need not be there when it is registered

    def collect(self) -> Iterable[Metric]:
        return run(Cluster(self._app).families())
