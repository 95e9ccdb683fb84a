"""Pruner: deletes finished jobs and old audit entries as retention rules say, and recounts limits, in small batches."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import cast

from msgspec import Struct

from ..clock import EPOCH, Clock
from ..config import Settings
from ..errors import StoreError
from ..events import Bus, JobsPruned, Pruned
from ..ids import JobId
from ..records.document import MIN_PRUNED_ROWS, Document
from ..records.job import FINAL, Action, Job, State
from ..records.limit import RECOUNT_KIND
from ..records.pruning import Pruning
from ..records.query import End, Filter
from ..records.run import Execution, LogLine
from ..store import LimitStore, Store
from ..store.retry import StoreRetry
from ..survived_errors import SurvivedErrors, count_error
from ..task.retention import Retention, Rules, retention_of
from .batch_size import BatchSize
from .user_call import UserCalls

_logger = logging.getLogger("mainspring")
# The interval between two prunings is a tenth of the shortest retention age, but within these bounds.
MIN_INTERVAL_SECONDS = 60.0
MAX_INTERVAL_SECONDS = 600.0
BATCH_JOBS = 500
# The pause after a batch, for other users of the store, is as long as the batch took but at least this.
MIN_PAUSE_SECONDS = 0.01
# Log lines per job that the archive hook gets.
MAX_LOG_LINES = 10_000
# Timeout of one call of the archive hook.
ARCHIVE_SECONDS = 600.0
# Seconds between two recounts of limits, and the groups that one call compares with their jobs.
RECOUNT_SECONDS = 3600.0
RECOUNTED_GROUPS = 500

_uncounted = SurvivedErrors("recount", "the groups of limits are compared with their jobs in the next hour")


class Archived(Struct, frozen=True):
    """A job that is about to be deleted, with everything deleted along with it."""

    job: Job
    executions: list[Execution]
    lines: list[LogLine]


Archive = Callable[[Sequence[Archived]], Awaitable[object] | object]


class Pruner:
    """Deletes what retention does not keep. If `archive` raises, its jobs stay and are passed to it again next time."""

    def __init__(
        self,
        settings: Settings,
        retention_by_task: Mapping[str, Mapping[State, Retention]],
        clock: Clock,
        bus: Bus,
        archive: Archive | None = None,
        *,
        tasks: Collection[str] | None = None,
        before: Callable[[Store, datetime], Awaitable[object]] | None = None,
    ) -> None:
        """`archive` is called with jobs before they are deleted, `before` once per pruning before the first deletion.
        Only jobs of `tasks` are deleted; None: of every task, also of tasks unknown to this application."""
        self._settings = settings
        self._retention_by_task = retention_by_task
        self._clock = clock
        self._bus = bus
        self._archive = archive
        self._calls = UserCalls(clock, ARCHIVE_SECONDS)
        self._tasks = tasks
        self._before = before
        self._recount = LimitRecount(clock)

    async def run(self, store: Store, retry: StoreRetry, phase: float) -> None:
        """Prunes, and recounts limits, as long as the worker lives; `phase` (0 to 1) spreads several workers."""
        while True:
            await self._clock.sleep(self._interval() * (0.5 + phase))
            await retry("pruning", lambda: self.prune(store))
            await self._recount.recount_if_due(store)

    def _interval(self) -> float:
        rules = [
            retention_of(state, own, self._settings)
            for own in ({}, *self._retention_by_task.values())
            for state in FINAL
        ]
        shortest = min(
            (rule.age.total_seconds() for rule in rules if rule.age is not None), default=MAX_INTERVAL_SECONDS
        )
        return min(max(MIN_INTERVAL_SECONDS, shortest / 10), MAX_INTERVAL_SECONDS)

    async def prune(self, store: Store) -> int:
        """Deletes everything that retention does not keep; returns the number of deleted jobs."""
        rules = await self._rules(store)
        if self._before is not None and rules:
            await self._before(store, self._clock.now())
        began = self._clock.monotonic()
        # Without rules it still drops empty partitions, expired documents and old audit entries.
        pruning = await self._prune_in_bulk(store, rules if self._unwatched() else {})
        took, deleted = self._clock.monotonic() - began, pruning.jobs
        for (state, task), (keep, before) in rules.items():
            deleted += await self._prune_group(store, state, task, keep, before)
        while pruning.rows >= MIN_PRUNED_ROWS:
            await self._clock.sleep(max(MIN_PAUSE_SECONDS, took))
            began = self._clock.monotonic()
            pruning = await self._prune_in_bulk(store, {})
            took, deleted = self._clock.monotonic() - began, deleted + pruning.jobs
        if deleted:
            self._bus.emit(Pruned(at=self._clock.now(), count=deleted))
        return deleted

    async def _prune_in_bulk(self, store: Store, rules: Rules) -> Pruning:
        now = self._clock.now()
        since = now - min(timedelta(days=self._settings.audit_days), now - EPOCH)
        return await store.prune(rules, audited_since=since, now=now)

    async def _rules(self, store: Store) -> Rules:
        now = self._clock.now()
        rules = {}
        for state, task in await store.finished_groups():
            if self._tasks is not None and task not in self._tasks:
                continue
            rule = retention_of(state, self._retention_by_task.get(task, {}), self._settings)
            if rule.age is not None:
                rules[state, task] = (rule.keep, now - min(rule.age, now - EPOCH))
        return rules

    def _unwatched(self) -> bool:
        """Whether nothing here needs the ids of deleted jobs."""
        return self._archive is None and not self._bus.wants(JobsPruned)

    async def _prune_group(self, store: Store, state: State, task: str, keep: int, before: datetime) -> int:
        deleted, size = 0, BatchSize(BATCH_JOBS)
        while old := await store.prunable(state, task, keep=keep, before=before, limit=size.jobs):
            if not await self._call_archive(store, old):
                break
            began = self._clock.monotonic()
            # Deletes only what is unchanged: a job may have been retried and have ended again meanwhile.
            ends = {job.id: End(job.finished_at, job.runs) for job in old}
            which = Filter(ids=tuple(ends), states=(state.value,), ends=ends)
            done = (await store.change(Action.DELETE, which, now=self._clock.now(), limit=BATCH_JOBS)).done
            deleted += len(done)
            if done:
                self._bus.emit(JobsPruned(at=self._clock.now(), state=state, task=task, ids=tuple(done)))
            if len(old) < size.jobs or not done:
                break
            size.learn(old)
            if size.jobs <= len(old):  # no pause after the first, small batches
                await self._clock.sleep(max(MIN_PAUSE_SECONDS, self._clock.monotonic() - began))
        return deleted

    async def _call_archive(self, store: Store, old: Sequence[Job]) -> bool:
        if self._archive is None:
            return True
        runs = defaultdict[JobId, list[Execution]](list)
        for run in await store.executions([job.id for job in old]):
            runs[run.job_id].append(run)
        leaving = [Archived(job, runs[job.id], await store.logs(job.id, limit=MAX_LOG_LINES)) for job in old]
        try:
            await self._calls("archive", self._archive, leaving)
        except Exception as error:
            _logger.exception("the archive hook raised; %d finished jobs are kept until it succeeds", len(old))
            count_error("archive", error)
            return False
        return True


class LimitRecount:
    """Compares the groups of limits with their jobs in each hour. A stop between two lots leaves the rest to later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_at = 0.0

    async def recount_if_due(self, store: Store) -> None:
        """Recounts unless it did within the hour."""
        now = self._clock.monotonic()
        if now < self._due_at or not store.capabilities.limits:
            return
        self._due_at = now + RECOUNT_SECONDS
        with _uncounted.survive(StoreError):
            await self._recount(store)

    async def _recount(self, store: Store) -> None:
        """Every worker compares the first lot, which costs a read if no job ever had a limit; one of them the rest."""
        after = await self._recount_lot(store, None)
        if after is not None and await _take_turn(store, self._clock.now()):
            while after is not None:
                after = await self._recount_lot(store, after)

    async def _recount_lot(self, store: Store, after: str | None) -> str | None:
        began, now = self._clock.monotonic(), self._clock.now()
        found = await cast(LimitStore, store).recount_limits(after=after, limit=RECOUNTED_GROUPS, now=now)
        if found.wrong:
            from ..insight.wrong_counts import note_wrong_counts

            await note_wrong_counts(store, found.wrong, now)
        if found.after is not None:
            await self._clock.sleep(max(MIN_PAUSE_SECONDS, self._clock.monotonic() - began))
        return found.after


async def _take_turn(store: Store, now: datetime) -> bool:
    """Whether no other worker recounts all groups in this hour."""
    until = now + timedelta(seconds=RECOUNT_SECONDS)
    turn = Document(kind=RECOUNT_KIND, name="turn", text=now.isoformat(), expires_at=until)
    return (await store.put_documents([turn], now=now))[0]
