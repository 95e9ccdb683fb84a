"""Carries log lines and progress to the store, before the outcomes of their runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..clock import Alarm, Clock
from ..events import Bus, JobReported
from ..records.job import Job
from ..records.run import RunReport
from ..store import Store
from ..store_retry import StoreRetry
from .report_buffer import ReportBuffer

# Log lines and progress wait this long for more of them.
REPORT = 0.5


class ReportSender:
    """What lies on the desk reaches the store in order; what a failed call left unsent goes first."""

    def __init__(self, desk: ReportBuffer, clock: Clock, bus: Bus) -> None:
        self._desk = desk
        self._clock = clock
        self._bus = bus
        self._laid = Alarm(clock)
        self._unsent: list[tuple[Job, RunReport]] = []
        self._carrying = asyncio.Lock()

    async def run(self, store: Store, insist: StoreRetry) -> None:
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
            while reports := self._unsent or self._desk.drain():
                self._unsent = reports
                stands = await store.report([report for _, report in reports])
                self._unsent = []
                self.tell([(job, report) for job, report in reports if job.id in stands])

    def tell(self, reports: Sequence[tuple[Job, RunReport]]) -> None:
        """The store has accepted them."""
        if self._bus.wants(JobReported):
            for job, report in reports:
                self._bus.emit(JobReported(at=self._clock.now(), job=job, report=report))
