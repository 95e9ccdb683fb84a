"""The store that all hosts share, and that tells the auditor of every write."""

from __future__ import annotations

from datetime import datetime

from ...job import Beat, Job, WorkerInfo
from ...outcome import Outcome
from ...stores.memory import MemoryStore
from ...stores.memory_jobs import Jobs
from .auditor import Auditor
from .loop import TrueClock


class Ledger(MemoryStore):
    """The memory store itself; only watched."""

    def __init__(self, clock: TrueClock, auditor: Auditor) -> None:
        super().__init__(clock)
        self._auditor = auditor
        self._jobs = _Watched(self)
        self.by: tuple[str, str] = ("nobody", "nothing")
        """Who asked for the verb that runs now, and which. Verbs do not wait between their writes."""

    def moved(self, old: Job | None, job: Job) -> None:
        self._auditor.moved(old, job, *self.by)

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> Beat:
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


class _Watched(Jobs):
    """The table of jobs; tells the ledger of every job that is put."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def put(self, job: Job) -> None:
        old = self.get(job.id)
        super().put(job)
        self._ledger.moved(old, job)
