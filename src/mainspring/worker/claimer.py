"""Claimer: claims jobs for the free slots of a worker, takes on the next steps of flows, and starts them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from ..clock import Clock
from ..events import Bus, JobsExpired, JobStarted
from ..ids import JobId, WorkerId
from ..records.job import Job
from ..records.outcome import Outcome, Poisoned, Released
from ..records.worker import CarryOn
from ..store import Store
from ..store.poll_interval import poll_interval
from .claims import ClaimLimits, ClaimTrigger
from .completer import emit_ended
from .judge import Judge
from .run import Run
from .slots import Slots
from .state import WorkerState

# A worker takes on jobs of flows for this long after its last claim. Then it claims first, so that others have their
# turn.
CARRY_ON_SECONDS = 0.25


class Claimer:
    """One claim at a time: slots -> store.claim -> runner.run. In between it takes on the next steps of flows."""

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
        self._claimed_at = datetime.min.replace(tzinfo=UTC)
        self._claiming = False
        self._epoch = 0
        """That in which jobs were last asked for with outcomes."""
        self.started = 0
        """Number of runs started so far."""
        self.ended = 0
        """Number of jobs that claims have ended so far, because they were expired or had crashed too often."""
        self.claimable_at: datetime | None = None
        """When the next job for this worker becomes claimable, as of its last claim; None if none is known."""

    @property
    def under_way(self) -> bool:
        """Whether jobs were asked for that are not in the slots yet."""
        return self._claiming or self._slots.reserved > 0

    async def claim(self, store: Store) -> float | None:
        """Fills free slots; returns the seconds until the next claim can help, None: when a slot becomes free."""
        wait = poll_interval(store, self._poll)
        self.claimable_at = None
        others_wait = self._limits.has_limits or not self._limits.shares_children or not self._free_slots()
        for queues, tasks, room in self._limits.requests(self._slots, self._free_slots):
            now, epoch = self._clock.now(), self._state.epoch
            self._claiming, self._claimed_at = True, now
            try:
                claim = await store.claim(queues, worker=self._worker, tasks=tasks, limit=room, now=now)
                jobs = await self._finish_poisoned(store, claim.jobs)
            finally:
                self._claiming = False
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

    # jobs that are started as the outcomes of steps are stored

    def note_end(self, outcome: Outcome) -> None:
        """Keeps the slot of a step's run free until its outcome is stored: the next step may get it."""
        if _ends_step(outcome):
            self._slots.reserve(1)

    def ask(self, outcomes: Sequence[Outcome]) -> CarryOn | None:
        """What to ask for as these outcomes are stored: at most a job for each step; None for nothing."""
        ended, now = sum(map(_ends_step, outcomes)), self._clock.now()
        recent = 0 <= (now - self._claimed_at).total_seconds() <= CARRY_ON_SECONDS
        if not ended or not recent or self._state.max_runs < math.inf:
            return None
        self._epoch = self._state.epoch
        limit = min(ended, self._free_slots() + ended) if self._state.may_claim else 0
        if limit <= 0 or (served := self._limits.unlimited) is None:
            return None
        return CarryOn(worker=self._worker, queues=served[0], tasks=served[1], limit=limit, now=now)

    def take_on(self, outcomes: Sequence[Outcome], jobs: Sequence[Job]) -> list[tuple[Run, Outcome]]:
        """Starts the jobs that came as these outcomes were stored. Returns those that are given back, because the
        worker was told to stop meanwhile."""
        self._slots.reserve(-sum(map(_ends_step, outcomes)))
        if not jobs or self._epoch != self._state.epoch:
            return []  # as in claim()
        if not self._state.stopping:
            self._start_runs(jobs)
            return []
        now = self._clock.now()
        return [(Run(job), self._judge.outcome(job, Released(), now)) for job in jobs]


def _ends_step(outcome: Outcome) -> bool:
    """Whether the outcome may release another step. The ends of a map's items seldom do."""
    return outcome.step is not None and not outcome.step.index
