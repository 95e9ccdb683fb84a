"""Settles the runs that nobody else will: those of silent workers, and those nobody here knows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from .clock import Alarm, Clock
from .events import Bus
from .job import Ending, Job, JobId, Lease, State
from .outcome import Outcome
from .settlement import tell
from .slots import RunKey
from .store import Store

# What one sweep looks at.
SWEEP_LIMIT = 200


class Sweeper:
    """Any number may sweep at the same time: the store's fence lets one outcome of a run through."""

    def __init__(self, clock: Clock, bus: Bus, crashed: Callable[[Job, datetime], Outcome]) -> None:
        """`crashed` says what the silence of its worker means for a job."""
        self._clock = clock
        self._bus = bus
        self._crashed = crashed
        self._strays: set[RunKey] = set()
        self._orphans: set[RunKey] = set()
        self._well_at: float | None = None
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
        now = self._clock.now()
        lost = await store.expired(now=now, limit=SWEEP_LIMIT)
        outcomes = {job.id: self._crashed(job, now) for job in lost}
        orphans, self._orphans = self._orphans, set()
        released = [_released(id, lease, now) for id, lease in sorted(orphans)]
        if lost or released:
            stands = await store.finish([*outcomes.values(), *released])
            for job in lost:
                if job.id in stands:
                    tell(self._bus, job, outcomes[job.id])
        return len(lost) == SWEEP_LIMIT


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
