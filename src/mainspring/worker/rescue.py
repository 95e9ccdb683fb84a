"""Settles the runs that nobody else will: those of silent workers, and those nobody here knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from ..clock import Alarm, Clock
from ..events import Bus
from ..ids import JobId, Lease
from ..records.job import Job, State
from ..records.outcome import Outcome
from ..records.query import Filter
from ..records.run import Ending
from ..store import Store
from .batch_size import BatchSize
from .completer import tell
from .slots import RunKey

# What one sweep looks at.
SWEEP_LIMIT = 200


class OrphanRescue:
    """Any number may sweep at the same time: the store's fence lets one outcome of a run through."""

    def __init__(
        self,
        clock: Clock,
        bus: Bus,
        crashed: Callable[[Job, datetime], Outcome],
        bounded: Callable[[Store, Job, Outcome], Awaitable[Outcome]],
    ) -> None:
        """`crashed` says what the silence of its worker means for a job, `bounded` what a release does."""
        self._clock = clock
        self._bus = bus
        self._crashed = crashed
        self._bounded = bounded
        self._strays: set[RunKey] = set()
        self._orphans: set[RunKey] = set()
        self._well_at: float | None = None
        self._size = BatchSize(SWEEP_LIMIT)
        self._alarm = Alarm(clock)
        self.wait = self._alarm.wait
        """For so many seconds, or until a beat says that there is something to settle."""

    def hear(self, strays: set[RunKey]) -> None:
        """Runs that are ours in the store and unknown here: the answer to a claim got lost.

        They count once seen twice in a row, so that an outcome on its way is not taken for one.
        """
        self._orphans = strays & self._strays
        self._strays = strays

    def heed(self, lost: bool) -> None:
        """Whether there may be runs of silent workers."""
        if lost and self._well_at is not None:
            self._alarm.ring()
        self._well_at = None if lost else self._clock.monotonic()

    def idle(self, fresh: float) -> bool:
        """Whether a beat has said within so many seconds that there is nothing to settle."""
        well = self._well_at is not None and self._clock.monotonic() - self._well_at < fresh
        return well and not self._orphans

    async def sweep(self, store: Store) -> bool:
        """Settles what there is, up to a limit; whether it was reached, so that there may be more."""
        now, limit = self._clock.now(), self._size.jobs
        lost = await store.expired(now=now, limit=limit)
        if lost:
            self._size.learn(lost)
        outcomes = {job.id: self._crashed(job, now) for job in lost}
        orphans, self._orphans = sorted(self._orphans), set()
        released = await self._release(store, orphans[:SWEEP_LIMIT], now)
        if lost or released:
            stands = await store.finish([*outcomes.values(), *(outcome for _, outcome in released)])
            for job in lost:
                if job.id in stands:
                    tell(self._bus, job, outcomes[job.id])
            for job, outcome in released:
                if outcome.failure is not None and job.id in stands:
                    tell(self._bus, job, outcome)
        return len(lost) == limit

    async def _release(self, store: Store, orphans: list[RunKey], now: datetime) -> list[tuple[Job, Outcome]]:
        """What becomes of orphans that are still running: given back, as long as that was not done too often."""
        if not orphans:
            return []
        jobs = await store.jobs(Filter(ids=tuple(id for id, _ in orphans)), now=now, limit=len(orphans))
        running = {(job.id, job.lease): job for job in jobs}
        found = [(job, _released(*key, now)) for key in orphans if (job := running.get(key)) is not None]
        return [(job, await self._bounded(store, job, outcome)) for job, outcome in found]


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
