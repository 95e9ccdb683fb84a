"""The engine of an app under test: it tells the harness of every insert."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..clock import StoreClock
from ..config import Settings
from ..engine import Engine
from ..events import Bus
from ..records.job import NewJob
from ..registry import Registry
from ..store import Store
from ..task.handle import Handle

Insert = Callable[[], Awaitable[list[Handle[Any]]]]


class HarnessEngine(Engine):
    """Calls `around` with each insert, which inserts the jobs and may run them."""

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        registry: Registry,
        settings: Settings,
        bus: Bus,
        around: Callable[[Insert], Awaitable[list[Handle[Any]]]],
    ) -> None:
        super().__init__(store, clock, registry, settings, bus)
        self._around = around
        self.load_services()

    def check_within(self) -> None:
        """Accepts `within=`, and ignores it: the memory store cannot join the caller's transaction."""

    async def insert(self, jobs: Sequence[NewJob], within: Any = None) -> list[Handle[Any]]:
        return await self._around(lambda: super(HarnessEngine, self).insert(jobs))
