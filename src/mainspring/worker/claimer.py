"""Claimer: claims jobs for the free slots of a worker, and starts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from ..clock import Clock
from ..events import Bus, JobsExpired, JobStarted
from ..ids import JobId, WorkerId
from ..records.job import Job
from ..records.outcome import Poisoned
from ..store import Store
from ..store.poll_interval import poll_interval
from .claims import ClaimLimits, ClaimTrigger
from .completer import emit_ended
from .judge import Judge
from .slots import Slots
from .state import WorkerState


class Claimer:
    """One claim at a time: slots -> store.claim -> runner.run."""

    def __init__(
        self,
        worker: WorkerId,
        clock: Clock,
        bus: Bus,
        *,
        limits: ClaimLimits,
        slots: Slots,
        state: WorkerState,
        judge: Judge,
        trigger: ClaimTrigger,
        free_slots: Callable[[], int],
        on_expired: Callable[[JobId, datetime], object],
        poll: float,
        max_crashes: int,
    ) -> None:
        """`free_slots` returns how many jobs the worker would accept now, `on_expired` is called with each job that
        expired instead of being claimed."""
        self._worker = worker
        self._clock = clock
        self._bus = bus
        self._limits = limits
        self._slots = slots
        self._state = state
        self._judge = judge
        self._trigger = trigger
        self._free_slots = free_slots
        self._on_expired = on_expired
        self._poll = poll
        self._max_crashes = max_crashes
        self.under_way = False
        """Whether a claim was sent, and its jobs are not in the slots yet."""
        self.started = 0
        """Number of runs started so far."""
        self.ended = 0
        """Number of jobs that claims have ended so far, because they were expired or had crashed too often."""
        self.claimable_at: datetime | None = None
        """When the next job for this worker becomes claimable, as of its last claim; None if none is known."""

    async def claim(self, store: Store) -> float | None:
        """Fills free slots; returns the seconds until the next claim can help, None: when a slot becomes free."""
        wait = poll_interval(store, self._poll)
        self.claimable_at = None
        others_wait = self._limits.has_limits or not self._limits.shares_children or not self._free_slots()
        for queues, tasks, room in self._limits.requests(self._slots, self._free_slots):
            now, epoch = self._clock.now(), self._state.epoch
            self.under_way = True
            try:
                claim = await store.claim(queues, worker=self._worker, tasks=tasks, limit=room, now=now)
                jobs = await self._finish_poisoned(store, claim.jobs)
            finally:
                self.under_way = False
            # The leases lapsed meanwhile: others may have these jobs. If not, the rescue finds them as orphans.
            if epoch == self._state.epoch:
                self._start_runs(jobs)
            others_wait = others_wait or (len(claim.jobs) >= room and not self._limits.in_children(tasks))
            if claim.expired:
                self.ended += len(claim.expired)
                self._bus.emit(JobsExpired(at=now, ids=tuple(claim.expired)))
                for id in claim.expired:
                    self._on_expired(id, now)
            if claim.next_at is not None:
                self.claimable_at = min(claim.next_at, self.claimable_at or claim.next_at)
                wait = min(wait, self._trigger.seconds_until(claim.next_at))
        self._trigger.note_claim(children_only=not others_wait)
        return wait if self._free_slots() > 0 else None

    async def _finish_poisoned(self, store: Store, jobs: list[Job]) -> list[Job]:
        """Ends jobs that crashed too often while no worker knew their task; returns the others."""
        limit, now = self._max_crashes, self._clock.now()
        poison = {job.id: self._judge.outcome(job, Poisoned(limit), now) for job in jobs if job.crashes >= limit}
        if not poison:
            return jobs
        stands = await store.finish(list(poison.values()))
        self.ended += len(poison)
        for job in jobs:
            if job.id in poison and job.id in stands:
                emit_ended(self._bus, job, poison[job.id])
        return [job for job in jobs if job.id not in poison]

    def _start_runs(self, jobs: Sequence[Job]) -> None:
        wanted = self._bus.wants(JobStarted)
        self.started += len(jobs)
        for job in jobs:
            self._slots.start(job)
            if wanted:
                self._bus.emit(JobStarted(at=self._clock.now(), job=job))
