"""Rescue of orphaned jobs: settles runs of silent workers, and runs whose claim's reply was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Never

from ..clock import Alarm, Clock
from ..events import Bus
from ..ids import JobId, Lease
from ..records.job import Job, State
from ..records.outcome import Outcome
from ..records.query import Filter
from ..records.run import Ending
from ..store import Store
from ..store.retry import StoreRetry
from .batch_size import BatchSize
from .completer import emit_ended
from .run import RunKey
from .watchdog import Watchdog

# Jobs per sweep.
MAX_SWEPT_JOBS = 200


class OrphanRescue:
    """Any number of workers may sweep at once: the store's fence accepts one outcome per run."""

    def __init__(
        self,
        clock: Clock,
        bus: Bus,
        crashed: Callable[[Job, datetime], Outcome],
        limit_releases: Callable[[Store, Job, Outcome], Awaitable[Outcome]],
    ) -> None:
        """`crashed` makes the outcome of a silent worker's job; `limit_releases` replaces one release too many."""
        self._clock = clock
        self._bus = bus
        self._crashed = crashed
        self._limit_releases = limit_releases
        self._unknown: set[RunKey] = set()
        self._orphans: set[RunKey] = set()
        self.settled = 0
        """Number of runs settled so far."""
        self._clear_at: float | None = None
        self._size = BatchSize(MAX_SWEPT_JOBS)
        self._alarm = Alarm(clock)
        self._sweeping = asyncio.Lock()

    def note_unknown_runs(self, unknown: set[RunKey]) -> None:
        """Records runs that the store holds for this worker and that it does not know: a claim's reply got lost.

        Two reports in a row make a run an orphan: at the first one its outcome may be on the way to the store.
        """
        self._orphans = unknown & self._unknown
        self._unknown = unknown

    def note_lost_runs(self, lost: bool) -> None:
        """Records whether the store has runs of silent workers."""
        if lost and self._clear_at is not None:
            self._alarm.ring()
        self._clear_at = None if lost else self._clock.monotonic()

    def is_idle(self, fresh: float) -> bool:
        """Whether a beat has reported in the last `fresh` seconds that there is nothing to settle."""
        clear = self._clear_at is not None and self._clock.monotonic() - self._clear_at < fresh
        return clear and not self._orphans

    async def run(self, store: Store, retry: StoreRetry, interval: float, phase: float, watchdog: Watchdog) -> Never:
        """Sweeps every `interval` seconds; `phase` (0 to 1) spreads the sweeps of workers that started together."""

        async def sweep() -> bool:
            watchdog.mark("sweep")  # before the calls: a failing store does not make the loop overdue
            return not self.is_idle(1.5 * interval) and await self.sweep(store)

        while True:
            more = await retry("sweeping", sweep)
            await self._alarm.wait(0.0 if more else interval * (0.75 + 0.25 * phase))

    async def sweep(self, store: Store) -> bool:
        """Settles orphaned runs up to a limit; returns whether the limit was reached, so that there may be more.

        One sweep at a time: when it returns, the one before has ended, and its runs are counted.
        """
        async with self._sweeping:
            return await self._sweep(store)

    async def _sweep(self, store: Store) -> bool:
        now, limit = self._clock.now(), self._size.jobs
        lost = await store.orphaned(now=now, limit=limit)
        if lost:
            self._size.learn(lost)
        outcomes = {job.id: self._crashed(job, now) for job in lost}
        orphans, self._orphans = sorted(self._orphans), set()
        released = await self._release(store, orphans[:MAX_SWEPT_JOBS], now)
        if lost or released:
            stands = await store.finish([*outcomes.values(), *(outcome for _, outcome in released)])
            self.settled += len(lost) + len(released)
            for job in lost:
                if job.id in stands:
                    emit_ended(self._bus, job, outcomes[job.id])
            for job, outcome in released:
                if outcome.failure is not None and job.id in stands:
                    emit_ended(self._bus, job, outcome)
        return len(lost) == limit

    async def _release(self, store: Store, orphans: list[RunKey], now: datetime) -> list[tuple[Job, Outcome]]:
        """Outcomes for orphans that still run: released, unless that happened too often."""
        if not orphans:
            return []
        jobs = await store.jobs(Filter(ids=tuple(id for id, _ in orphans)), now=now, limit=len(orphans))
        running = {(job.id, job.lease): job for job in jobs}
        found = [(job, _released(*key, now)) for key in orphans if (job := running.get(key)) is not None]
        return [(job, await self._limit_releases(store, job, outcome)) for job, outcome in found]


def _released(id: JobId, lease: Lease, now: datetime) -> Outcome:
    return Outcome(
        id=id,
        lease=lease,
        state=State.PENDING,
        ending=Ending.RELEASED,
        finished_at=now,
        run_at=now,
        refund=True,
    )
