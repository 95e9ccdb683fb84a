"""Forgets finished jobs as retention says, and old entries of the audit trail, in small steps beside the work."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from ..clock import EPOCH, Clock
from ..config import Settings
from ..events import Bus, JobsPruned, Pruned
from ..ids import JobId
from ..records.document import MIN_PRUNED_ROWS
from ..records.job import FINAL, Action, Job, State
from ..records.query import End, Filter
from ..records.run import Execution, LogLine
from ..store import Store
from ..store_retry import StoreRetry
from ..survived_errors import count_error
from ..task.retention import Retention, Rules, retention_of
from .batch_size import BatchSize
from .user_call import UserCalls

_logger = logging.getLogger("mainspring")
# Seconds between two looks after retention: a tenth of the shortest age that is kept, within these.
SOONEST, LATEST = 60.0, 600.0
# Jobs a step. The pause after it, which leaves the store to others, is as long as it took, and this long at least.
STEP, PAUSE = 500, 0.01
LINES = 10_000
# Seconds that one call of the archive hook may take.
ARCHIVE_SECONDS = 600.0


class Archived(Struct, frozen=True):
    """A job on its way out, with everything that goes with it."""

    job: Job
    executions: list[Execution]
    lines: list[LogLine]


Archive = Callable[[Sequence[Archived]], Awaitable[object] | object]


class Pruner:
    """`archive` gets each job before it goes; if it raises, the jobs stay and are offered again next time."""

    def __init__(
        self,
        settings: Settings,
        own: Mapping[str, Mapping[State, Retention]],
        clock: Clock,
        bus: Bus,
        archive: Archive | None = None,
        *,
        tasks: Collection[str] | None = None,
        before: Callable[[Store, datetime], Awaitable[object]] | None = None,
    ) -> None:
        """`tasks`: whose jobs may go; None: those of every task, also of tasks that no code here knows. `before` is
        called once before jobs go."""
        self._settings = settings
        self._own = own
        self._clock = clock
        self._bus = bus
        self._archive = archive
        self._calls = UserCalls(clock, ARCHIVE_SECONDS)
        self._tasks = tasks
        self._before = before

    async def run(self, store: Store, insist: StoreRetry, phase: float) -> None:
        """Looks after retention as long as the worker lives; `phase` (0 to 1) keeps workers from doing so together."""
        while True:
            await self._clock.sleep(self._every() * (0.5 + phase))
            await insist("pruning", lambda: self.prune(store))

    def _every(self) -> float:
        rules = [retention_of(state, own, self._settings) for own in ({}, *self._own.values()) for state in FINAL]
        shortest = min((rule.age.total_seconds() for rule in rules if rule.age is not None), default=LATEST)
        return min(max(SOONEST, shortest / 10), LATEST)

    async def prune(self, store: Store) -> int:
        """Everything that retention does not keep; returns how many jobs went."""
        rules = await self._rules(store)
        if self._before is not None and rules:
            await self._before(store, self._clock.now())
        # Without rules it still clears away what is empty.
        gone = await store.forget(rules if self._unwatched() else {}, now=self._clock.now())
        for (state, task), (keep, before) in rules.items():
            gone += await self._group(store, state, task, keep, before)
        await self._tidy(store)
        if gone:
            self._bus.emit(Pruned(at=self._clock.now(), count=gone))
        return gone

    async def _tidy(self, store: Store) -> None:
        """Documents that have expired, and the audit trail from before what is kept of it."""
        now, began = self._clock.now(), self._clock.monotonic()
        since = now - min(timedelta(days=self._settings.audit_days), now - EPOCH)
        while await store.tidy(audited_since=since, now=now) >= MIN_PRUNED_ROWS:
            await self._clock.sleep(max(PAUSE, self._clock.monotonic() - began))
            began = self._clock.monotonic()

    async def _rules(self, store: Store) -> Rules:
        now = self._clock.now()
        rules = {}
        for state, task in await store.groups():
            if self._tasks is not None and task not in self._tasks:
                continue
            rule = retention_of(state, self._own.get(task, {}), self._settings)
            if rule.age is not None:
                rules[state, task] = (rule.keep, now - min(rule.age, now - EPOCH))
        return rules

    def _unwatched(self) -> bool:
        """Whether nobody wants to know which jobs go."""
        return self._archive is None and not self._bus.wants(JobsPruned)

    async def _group(self, store: Store, state: State, task: str, keep: int, before: datetime) -> int:
        gone, size = 0, BatchSize(STEP)
        while old := await store.surplus(state, task, keep=keep, before=before, limit=size.jobs):
            if not await self._archived(store, old):
                break
            began = self._clock.monotonic()
            # Only those that are still what they were: one may have been retried meanwhile, and have ended again.
            ends = {job.id: End(job.finished_at, job.runs) for job in old}
            which = Filter(ids=tuple(ends), states=(state.value,), ends=ends)
            done = (await store.change(Action.DELETE, which, now=self._clock.now(), limit=STEP)).done
            gone += len(done)
            if done:
                self._bus.emit(JobsPruned(at=self._clock.now(), state=state, task=task, ids=tuple(done)))
            if len(old) < size.jobs or not done:
                break
            size.learn(old)
            if size.jobs <= len(old):  # a step that may grow still is a short one
                await self._clock.sleep(max(PAUSE, self._clock.monotonic() - began))
        return gone

    async def _archived(self, store: Store, old: Sequence[Job]) -> bool:
        if self._archive is None:
            return True
        runs = defaultdict[JobId, list[Execution]](list)
        for run in await store.executions([job.id for job in old]):
            runs[run.job_id].append(run)
        leaving = [Archived(job, runs[job.id], await store.logs(job.id, limit=LINES)) for job in old]
        try:
            await self._calls("archive", self._archive, leaving)
        except Exception as error:
            _logger.exception("the archive hook raised; %d finished jobs stay until it does not", len(old))
            count_error("archive", error)
            return False
        return True
