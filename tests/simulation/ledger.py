"""The store that all hosts share, and that tells the auditor of every write."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from mainspring.records.job import Job
from mainspring.records.outcome import Outcome
from mainspring.records.worker import BeatReply, WorkerInfo
from mainspring.schedule.record import Schedule, Tick
from mainspring.stores.memory.jobs import JobTable
from mainspring.stores.memory.schedules import Series
from mainspring.stores.memory.store import MemoryStore

from .auditor import Auditor
from .loop import TrueClock


class Ledger(MemoryStore):
    """The memory store itself; only watched."""

    def __init__(self, clock: TrueClock, auditor: Auditor) -> None:
        super().__init__(clock)
        self._auditor = auditor
        self._jobs = _WatchedJobs(self)
        self._jobs.series = _WatchedSeries(self)
        self.almanac = auditor.almanac
        self.by: tuple[str, str] = ("nobody", "nothing")
        """Who asked for the verb that runs now, and which. Verbs do not wait between their writes."""

    def moved(self, old: Job | None, job: Job) -> None:
        self._auditor.moved(old, job, *self.by)

    def crashes(self, host: str, how: str) -> None:
        self._auditor.note(host, host, how)

    def deleted(self, job: Job, at: datetime) -> None:
        self._auditor.deleted(job, at, self.by[0])

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        self._auditor.beat(worker.id, until, now)
        return await super().beat(worker, until=until, now=now)

    def _settle(self, outcome: Outcome) -> bool:
        before = self._jobs.get(outcome.id)
        stands = super()._settle(outcome)
        if stands:
            self._auditor.settled(outcome, before)
        return stands

    def peek(self) -> list[Job]:
        """Every job, in order of id."""
        return [self._jobs[id] for id in sorted(self._jobs)]


class _WatchedJobs(JobTable):
    """The table of jobs; tells the ledger of every job that is put, and of every one that is deleted."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def put(self, job: Job) -> None:
        old = self.get(job.id)
        super().put(job)
        self._ledger.moved(old, job)

    def drop(self, job: Job, now: datetime | None = None) -> None:
        super().drop(job, now)
        if now is not None:
            self._ledger.deleted(job, now)


class _WatchedSeries(Series):
    """The table of schedules; tells the almanac of every row, every tick on record, and every deletion."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def write(self, schedule: Schedule) -> None:
        super().write(schedule)
        self._ledger.almanac.wrote(schedule, self._ledger.by[0])

    def record(self, name: str, ticks: Sequence[Tick]) -> None:
        super().record(name, ticks)
        self._ledger.almanac.recorded(name, list(ticks), self._ledger.by[0])

    def drop(self, names: Collection[str]) -> list[str]:
        found = super().drop(names)
        for name in found:
            self._ledger.almanac.dropped(name, self._ledger.by[0])
        return found
