"""Report sender: stores log lines and progress before the outcomes of their runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..clock import Alarm, Clock
from ..events import Bus, JobReported
from ..records.job import Job
from ..records.run import RunReport
from ..store import Store
from ..store.retry import StoreRetry
from .report_buffer import ReportBuffer

# Log lines and progress are collected this long before they are sent.
GATHER_SECONDS = 0.5


class ReportSender:
    """Sends the buffered reports to the store, in order; those of a failed call go first."""

    def __init__(self, buffer: ReportBuffer, clock: Clock, bus: Bus) -> None:
        self._buffer = buffer
        self._clock = clock
        self._bus = bus
        self._alarm = Alarm(clock)
        self._unsent: list[tuple[Job, RunReport]] = []
        self._flushing = asyncio.Lock()

    async def run(self, store: Store, retry: StoreRetry) -> None:
        loop = asyncio.get_running_loop()
        self._buffer.watch(lambda: loop.is_closed() or loop.call_soon_threadsafe(self._alarm.ring))
        while True:
            if not self._buffer:
                await self._alarm.wait(None)
            await self._clock.sleep(GATHER_SECONDS)
            await retry("reporting", lambda: self.flush(store))

    async def flush(self, store: Store) -> None:
        """Stores everything reported until now."""
        if not self._unsent and not self._buffer:
            return
        async with self._flushing:
            while reports := self._unsent or self._buffer.drain():
                self._unsent = reports
                stands = await store.report([report for _, report in reports])
                self._unsent = []
                self.emit_stored([(job, report) for job, report in reports if job.id in stands])

    def emit_stored(self, reports: Sequence[tuple[Job, RunReport]]) -> None:
        """Emits events for reports that the store has accepted."""
        if self._bus.wants(JobReported):
            for job, report in reports:
                self._bus.emit(JobReported(at=self._clock.now(), job=job, report=report))
