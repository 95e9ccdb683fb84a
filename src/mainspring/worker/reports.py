"""Report sender: stores log lines, output, progress and checkpoints before the outcomes of their runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from ..clock import Alarm, Clock
from ..events import Bus, JobReported
from ..ids import JobId
from ..records.job import Job
from ..records.run import RunReport
from ..store import Store
from ..store.retry import StoreRetry
from .report_buffer import ReportBuffer, RunReports, Urgency

# Log lines and progress are collected this long before they are sent, unless a checkpoint goes with them.
GATHER_SECONDS = 0.5
# From the first chunk of output on, for which readers wait.
OUTPUT_GATHER_SECONDS = 0.05
# Less than this is a difference in rounding.
MIN_WAIT_SECONDS = 0.001


class ReportSender:
    """Sends the buffered reports to the store, in order; those of a failed call go first."""

    def __init__(self, buffer: ReportBuffer, clock: Clock, bus: Bus) -> None:
        self._buffer = buffer
        self._clock = clock
        self._bus = bus
        self._alarm = Alarm(clock)
        self._unsent: list[tuple[RunReports, RunReport]] = []
        self._flushing = asyncio.Lock()

    async def run(self, store: Store, retry: StoreRetry) -> None:
        self._buffer.watch(self._ringer())
        while True:
            if not self._buffer:
                await self._alarm.wait(None)
            await self._gather()
            await retry("reporting", lambda: self.flush(store))

    def _ringer(self) -> Callable[[], object]:
        """Rings from any thread; from the event loop's own, where steps end, without a round of the loop."""
        loop, own, ring = asyncio.get_running_loop(), threading.get_ident(), self._alarm.ring

        def ring_in_loop() -> None:
            if threading.get_ident() == own:
                ring()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(ring)

        return ring_in_loop

    async def _gather(self) -> None:
        """Waits while reports gather; not as long if there is output, and no longer if its writer waits."""
        now, buffer = self._clock.monotonic, self._buffer
        end, has_output = now() + GATHER_SECONDS, False
        while buffer.urgency < Urgency.WAITING:
            if buffer.urgency == Urgency.OUTPUT and not has_output:
                end, has_output = min(end, now() + OUTPUT_GATHER_SECONDS), True
            if (left := end - now()) < MIN_WAIT_SECONDS:
                break
            await self._alarm.wait(left)

    async def flush(self, store: Store) -> None:
        """Stores everything reported until now."""
        if not self._unsent and not self._buffer:
            return
        async with self._flushing:
            while self._unsent or self._buffer:
                if not self._unsent:
                    for output in self._buffer.unnumbered():
                        await output.number(store)
                    self._unsent = self._buffer.drain()
                    if not self._unsent:  # a thread has just written the first chunk of its run
                        continue
                batch = _of_different_jobs(self._unsent)
                stands = await store.report([report for _, report in batch])
                self._unsent = self._unsent[len(batch) :]
                for reports, report in batch:
                    reports.sent(report, report.id in stands)
                self.emit_stored([(reports.job, report) for reports, report in batch if report.id in stands])

    def emit_stored(self, reports: Sequence[tuple[Job, RunReport]]) -> None:
        """Emits events for reports that the store has accepted."""
        if self._bus.wants(JobReported):
            for job, report in reports:
                self._bus.emit(JobReported(at=self._clock.now(), job=job, report=report))


def _of_different_jobs(reports: list[tuple[RunReports, RunReport]]) -> list[tuple[RunReports, RunReport]]:
    """The first reports, up to a second one of the same job: a store answers with ids, and not with leases."""
    seen = set[JobId]()
    for n, (_, report) in enumerate(reports):
        if report.id in seen:
            return reports[:n]
        seen.add(report.id)
    return reports
