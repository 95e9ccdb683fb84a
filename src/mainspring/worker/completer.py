"""Completer: stores the outcomes of runs, in batches."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from itertools import accumulate
from typing import TYPE_CHECKING

from ..clock import Alarm, Clock
from ..errors import StoreUnavailable
from ..events import Bus, FlowEnded, JobEnded, JobLost, ended_event, enqueued_event
from ..failpoint import failpoint
from ..ids import JobId
from ..records.job import Job
from ..records.outcome import Done, Outcome, RunEnd, failure_of
from ..records.run import Ending
from ..records.worker import Finished
from ..store import Store
from ..store.retry import StoreRetry
from ..survived_errors import SurvivedErrors
from .batch_size import BATCH_BYTES
from .reports import ReportSender
from .run import Run, RunKey

if TYPE_CHECKING:
    from ..task.flow_failure import FlowEnd
    from .claimer import Claimer

_logger = logging.getLogger("mainspring")
_lost_outcomes = SurvivedErrors("finish", "what the last runs of this worker did may be done again by another worker")
# Attempts of a stopping worker to store its last outcomes. After them the leases end, and other workers take the jobs.
MAX_LAST_FLUSHES = 10
LAST_FLUSH_PAUSE_SECONDS = 0.1
# Bytes of finished jobs after which garbage is collected: reference cycles keep jobs in memory until then, and the
# interpreter counts objects, not bytes.
GARBAGE_BYTES = 32 << 20
# After a batch, further outcomes gather for this long, or until there are this many, if runs go on in shared child
# processes: their ends come one by one, and so share a call of the store.
GATHER_SECONDS = 0.002
ENOUGH_OUTCOMES = 32
_RELEASED = Ending.RELEASED


class Completer:
    """Collects outcomes while the previous batch is written, and writes them together as the next one."""

    def __init__(
        self,
        clock: Clock,
        bus: Bus,
        report_sender: ReportSender,
        on_stored: Callable[[], object],
        limit_releases: Callable[[Store, Job, Outcome], Awaitable[Outcome]],
        in_children: Callable[[], int] = int,
    ) -> None:
        """`on_stored` is called after each batch; `limit_releases` replaces a release that is one too many;
        `in_children` returns how many runs go on in shared child processes."""
        self._clock = clock
        self._bus = bus
        self._report_sender = report_sender
        self._on_stored = on_stored
        self._limit_releases = limit_releases
        self._in_children = in_children
        self._gathered = Alarm(clock)
        self._enough = Alarm(clock)
        self._flushing = asyncio.Lock()
        self._outcomes: list[tuple[Run, Outcome]] = []
        self._storing: list[tuple[Run, Outcome]] = []
        self._flow_ends: dict[RunKey, FlowEnd] = {}
        """The ends of the flows that runs have concluded, until these are stored."""
        self.bytes = 0
        """Size of the jobs and outcomes that are not stored yet."""
        self._finished_bytes = 0
        self._claimer: Claimer | None = None
        self._has_steps = False
        """Whether there are ends of steps among the outcomes that are not stored yet."""

    def carry_on(self, claimer: Claimer) -> None:
        """Asks the store for the next steps of flows from now on; the claimer takes them on."""
        self._claimer = claimer

    def __len__(self) -> int:
        """Number of outcomes that are not stored yet."""
        return len(self._outcomes) + len(self._storing)

    def keys(self) -> set[RunKey]:
        return {run.key for run, _ in self._storing + self._outcomes}

    def add(self, run: Run, outcome: Outcome, flow_end: FlowEnd | None = None) -> None:
        """`flow_end`: how the flow has ended that the run has concluded."""
        if flow_end is not None:
            self._flow_ends[run.key] = flow_end
        self.bytes += run.measure(outcome)
        if outcome.step is not None and self._claimer is not None:
            self._claimer.note_end(outcome)
            self._has_steps = True
        if not self._outcomes:  # else it has rung
            self._gathered.ring()
        self._outcomes.append((run, outcome))
        if len(self._outcomes) == ENOUGH_OUTCOMES:
            self._enough.ring()

    def committed(self, run: Run, outcome: Outcome, ended: RunEnd) -> None:
        """Reports an outcome that the task's transaction has stored; the run's own end is ignored."""
        if not isinstance(ended, Done) or ended.result not in (None, outcome.result):
            kind = "a result" if isinstance(ended, Done) else type(ended).__name__
            text = failure_of(ended, stack=False).message if isinstance(ended, BaseException) else ended
            warning = "job %s (%s) was completed in its transaction; %s that came after it is ignored: %s"
            _logger.warning(warning, run.job.id, run.job.task, kind, text)
        self._emit([(run, outcome)], {outcome.id})

    async def run(self, store: Store, retry: StoreRetry) -> None:
        while True:
            await self._gathered.wait(None)
            await retry("finishing", lambda: self.flush(store, gathers=True))
            if self._may_gather():
                await self._enough.wait(GATHER_SECONDS)

    def _may_gather(self) -> bool:
        """Whether further outcomes should gather before the next batch."""
        return self._clock.real and len(self._outcomes) < ENOUGH_OUTCOMES and self._in_children() > 0

    async def flush(self, store: Store, *, gathers: bool = False) -> None:
        """Stores the collected outcomes, including those added meanwhile, unless these should gather."""
        async with self._flushing:
            while self._outcomes:
                batch = self._next_batch()
                self._storing = batch
                try:
                    await self._report_sender.flush(store)  # first: the store refuses reports of a finished run
                    batch = await self._with_releases_limited(store, batch)
                    outcomes, asks = [outcome for _, outcome in batch], self._has_steps
                    finished = await (self._finish(store, outcomes) if asks else store.finish(outcomes))
                except BaseException:
                    self._outcomes = batch + self._outcomes
                    raise
                finally:
                    self._storing = []
                size = sum(run.size for run, _ in batch)
                self.bytes -= size
                failpoint("finish.after_commit")
                self._emit(batch, finished)
                if self._claimer is not None and asks:
                    self._has_steps = bool(self._outcomes)
                    for run, outcome in self._claimer.take_on(outcomes, finished.carried_on):
                        self.add(run, outcome)
                self._on_stored()
                del batch, outcomes, finished
                self._collect_garbage(size)
                if gathers and self._may_gather():
                    break

    async def _finish(self, store: Store, outcomes: list[Outcome]) -> Finished:
        request = None if self._claimer is None else self._claimer.ask(outcomes)
        return await (store.finish(outcomes) if request is None else store.finish(outcomes, carry_on=request))

    def _collect_garbage(self, finished_bytes: int) -> None:
        self._finished_bytes += finished_bytes
        if self._finished_bytes > GARBAGE_BYTES:
            self._finished_bytes = 0
            gc.collect()

    def _next_batch(self) -> list[tuple[Run, Outcome]]:
        """Removes and returns the first outcomes: all of them, or as many as it takes to exceed BATCH_BYTES."""
        count = len(self._outcomes)
        if self.bytes > BATCH_BYTES:  # a store may have to read and write each job several times over
            sizes = accumulate(run.size for run, _ in self._outcomes)
            count = next((n for n, size in enumerate(sizes, 1) if size > BATCH_BYTES), count)
        batch, self._outcomes = self._outcomes[:count], self._outcomes[count:]
        return batch

    async def _with_releases_limited(self, store: Store, batch: list[tuple[Run, Outcome]]) -> list[tuple[Run, Outcome]]:
        if all(outcome.ending is not _RELEASED for _, outcome in batch):
            return batch
        return [(run, await self._limit_releases(store, run.job, outcome)) for run, outcome in batch]

    async def flush_last(self, store: Store) -> None:
        """Stores the collected outcomes, or gives up if the store remains unavailable."""
        for _ in range(MAX_LAST_FLUSHES):
            with _lost_outcomes.survive(StoreUnavailable):
                await self.flush(store)
                break
            await self._clock.sleep(LAST_FLUSH_PAUSE_SECONDS)

    def _emit(self, batch: list[tuple[Run, Outcome]], stands: set[JobId]) -> None:
        wanted = self._bus.wants(JobEnded)
        for run, outcome in batch:
            if outcome.id not in stands:
                self._bus.emit(JobLost(at=outcome.finished_at, job=run.job))
            elif wanted or outcome.failure is not None:
                emit_ended(self._bus, run.job, outcome)
        if self._flow_ends:
            self._emit_flow_ends(batch, stands)

    def _emit_flow_ends(self, batch: list[tuple[Run, Outcome]], stands: set[JobId]) -> None:
        for run, outcome in batch:
            end = self._flow_ends.pop(run.key, None)
            if end is not None and outcome.id in stands:
                self._bus.emit(FlowEnded(at=outcome.finished_at, job=run.job, steps=end.steps))


def emit_ended(bus: Bus, job: Job, outcome: Outcome) -> None:
    """Emits the events of an outcome that the store has accepted: the job's end, and the jobs it enqueued."""
    at = outcome.finished_at
    bus.emit(ended_event(at, job, outcome))
    for new in outcome.then:
        bus.emit(enqueued_event(at, new))
