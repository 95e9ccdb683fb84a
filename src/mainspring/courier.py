"""Carries log lines and progress to the store, before the outcomes of their runs."""

from __future__ import annotations

import asyncio

from .clock import Alarm, Clock
from .context import Desk
from .insistence import Insistence
from .job import Report
from .store import Store

# Log lines and progress wait this long for more of them.
REPORT = 0.5


class Courier:
    """What lies on the desk reaches the store in order; what a failed call left unsent goes first."""

    def __init__(self, desk: Desk, clock: Clock) -> None:
        self._desk = desk
        self._clock = clock
        self._laid = Alarm(clock)
        self._unsent: list[Report] = []
        self._carrying = asyncio.Lock()

    async def run(self, store: Store, insist: Insistence) -> None:
        loop = asyncio.get_running_loop()
        self._desk.ring = lambda: loop.is_closed() or loop.call_soon_threadsafe(self._laid.ring)
        while True:
            if not self._desk:
                await self._laid.wait(None)
            await self._clock.sleep(REPORT)
            await insist("reporting", lambda: self.carry(store))

    async def carry(self, store: Store) -> None:
        """Everything that was said until now is in the store."""
        if not self._unsent and not self._desk:
            return
        async with self._carrying:
            while reports := self._unsent or self._desk.take():
                self._unsent = reports
                await store.report(reports)
                self._unsent = []
