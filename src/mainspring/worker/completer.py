"""Outcomes on their way to the store, in batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ..clock import Alarm, Clock
from ..errors import StoreUnavailable
from ..events import Bus, JobEnded, JobLost, ended_event, enqueued_event
from ..failpoint import failpoint
from ..ids import JobId
from ..records.job import Job
from ..records.outcome import Done, Outcome, RunEnd, failure_of
from ..records.run import Ending
from ..store import Store
from ..store_retry import StoreRetry
from ..survived_errors import SurvivedErrors
from .batch_size import bytes_of
from .reports import ReportSender
from .slots import Run, RunKey

_logger = logging.getLogger("mainspring")
_unfinished = SurvivedErrors("finish", "what the last runs of this worker did may be done again by another worker")
# How often a stop tries to store the last outcomes, and the seconds between. After that the leases end, and
# others take the jobs.
LAST_FLUSHES, LAST_PAUSE = 10, 0.1
_RELEASED = Ending.RELEASED


class Completer:
    """Outcomes gather while the last batch is written, and go together as the next one."""

    def __init__(
        self,
        clock: Clock,
        bus: Bus,
        courier: ReportSender,
        settled: Callable[[], object],
        bounded: Callable[[Store, Job, Outcome], Awaitable[Outcome]],
    ) -> None:
        """`settled` comes after each batch; `bounded` says what a release becomes if there were too many."""
        self._clock = clock
        self._bus = bus
        self._courier = courier
        self._settled = settled
        self._bounded = bounded
        self._gathered = Alarm(clock)
        self._flushing = asyncio.Lock()
        self._outcomes: list[tuple[Run, Outcome]] = []
        self._settling: set[RunKey] = set()
        self.bytes = 0
        """Of the jobs and outcomes that are not stored yet."""

    def __len__(self) -> int:
        """Outcomes that are not stored yet."""
        return len(self._outcomes) + len(self._settling)

    def keys(self) -> set[RunKey]:
        return self._settling | {run.key for run, _ in self._outcomes}

    def add(self, run: Run, outcome: Outcome) -> None:
        run.size = bytes_of(run.job) + len(outcome.result or "")
        self.bytes += run.size
        self._outcomes.append((run, outcome))
        self._gathered.ring()

    def committed(self, run: Run, outcome: Outcome, ended: RunEnd) -> None:
        """The outcome is in the store, with what the task did: whatever came after that changes nothing."""
        if not isinstance(ended, Done) or ended.result not in (None, outcome.result):
            came = "a result" if isinstance(ended, Done) else type(ended).__name__
            said = failure_of(ended, stack=False).message if isinstance(ended, BaseException) else ended
            _logger.warning("job %s (%s) was completed in its transaction; %s that came after it is ignored: %s",
                            run.job.id, run.job.task, came, said)  # fmt: skip
        self._tell([(run, outcome)], {outcome.id})

    async def run(self, store: Store, insist: StoreRetry) -> None:
        while True:
            await self._gathered.wait(None)
            await insist("finishing", lambda: self.flush(store))

    async def flush(self, store: Store) -> None:
        """Stores what has gathered; what comes meanwhile is the next batch."""
        async with self._flushing:
            while self._outcomes:
                batch, self._outcomes = self._outcomes, []
                self._settling = {run.key for run, _ in batch}
                try:
                    await self._courier.carry(store)  # first, because an outcome ends what may be said
                    batch = await self._within_bounds(store, batch)
                    stands = await store.finish([outcome for _, outcome in batch])
                except BaseException:
                    self._outcomes = batch + self._outcomes
                    raise
                finally:
                    self._settling = set()
                self.bytes -= sum(run.size for run, _ in batch)
                failpoint("finish.after_commit")
                self._tell(batch, stands)
                self._settled()

    async def _within_bounds(self, store: Store, batch: list[tuple[Run, Outcome]]) -> list[tuple[Run, Outcome]]:
        if all(outcome.ending is not _RELEASED for _, outcome in batch):
            return batch
        return [(run, await self._bounded(store, run.job, outcome)) for run, outcome in batch]

    async def flush_last(self, store: Store) -> None:
        """Stores what has gathered, or gives up on a store that stays away."""
        for _ in range(LAST_FLUSHES):
            with _unfinished.survive(StoreUnavailable):
                await self.flush(store)
                break
            await self._clock.sleep(LAST_PAUSE)

    def _tell(self, batch: list[tuple[Run, Outcome]], stands: set[JobId]) -> None:
        wanted = self._bus.wants(JobEnded)
        for run, outcome in batch:
            if outcome.id not in stands:
                self._bus.emit(JobLost(at=outcome.finished_at, job=run.job))
            elif wanted or outcome.failure is not None:
                tell(self._bus, run.job, outcome)


def tell(bus: Bus, job: Job, outcome: Outcome) -> None:
    """The store has accepted the outcome: its end, and the jobs it brought about."""
    at = outcome.finished_at
    bus.emit(ended_event(at, job, outcome))
    for new in outcome.then:
        bus.emit(enqueued_event(at, new))
