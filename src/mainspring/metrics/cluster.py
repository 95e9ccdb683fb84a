"""Metrics of the whole cluster: any process that can reach the store tells the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ..clock import Clock
from ..sync import run
from .families import gauge
from .snapshot import ClusterSnapshot, read
from .tables import families

if TYPE_CHECKING:
    from ..app import Mainspring

# Seconds for which what was read is told again; a store that has much to count is asked to only a tenth of the time.
FRESH, SHARE = 2.0, 10.0
# Seconds that a scrape waits, that older figures are told for meanwhile, and after which a look is given up.
DEADLINE, STALE = 5.0, 60.0


class ClusterMetrics:
    """Looks at the store when asked to, one look at a time; a scrape never waits for longer than its deadline."""

    def __init__(self, app: Mainspring, *, fresh: float = FRESH, deadline: float = DEADLINE) -> None:
        self._app = app
        self._clock: Clock = app.clock
        self._fresh = fresh
        self._deadline = deadline
        self._look: asyncio.Task[None] | None = None
        self._seen: ClusterSnapshot | None = None
        self._seen_at = self._took = 0.0

    async def families(self) -> list[Metric]:
        """The figures, and how old they are; of a store that does not answer, only that: old ones would look new."""
        if self._seen is None or self._age >= max(self._fresh, SHARE * self._took):
            if self._look is None:
                self._look = asyncio.create_task(self._read())
                self._look.add_done_callback(self._looked)
            await asyncio.wait([self._look], timeout=self._deadline)
        if self._seen is None or self._age > STALE:
            return [gauge(*_UP, (), {(): 0.0})]
        return [
            gauge(*_UP, (), {(): 1.0}), gauge(*_TOOK, (), {(): self._took}), gauge(*_OLD, (), {(): self._age}),
            *families(self._seen),
        ]  # fmt: skip

    @property
    def _age(self) -> float:
        return self._clock.monotonic() - self._seen_at

    async def _read(self) -> None:
        began = self._clock.monotonic()
        async with asyncio.timeout(STALE):
            self._seen = await read(await self._app.opened(), self._clock.now())
        self._seen_at = self._clock.monotonic()
        self._took = self._seen_at - began

    def _looked(self, look: asyncio.Task[None]) -> None:
        self._look = None
        if look.cancelled() or look.exception() is not None:
            self._seen = None


_UP = ("mainspring_store_up", "Whether the store answers.")
_TOOK = ("mainspring_scrape_seconds", "How long it took to read these figures from the store.")
_OLD = ("mainspring_scrape_age_seconds", "How long ago that was.")


class ClusterCollector(Collector):
    """For a registry of your own: REGISTRY.register(ClusterCollector(app)). Not to be collected in an event loop."""

    def __init__(self, app: Mainspring) -> None:
        self._app = app

    def describe(self) -> Iterable[Metric]:
        return []  # the store need not be there when it is registered

    def collect(self) -> Iterable[Metric]:
        return run(ClusterMetrics(self._app).families())
