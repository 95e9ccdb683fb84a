"""The memory store that all hosts share; it reports every write to the auditor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from mainspring.ids import JobId, Lease
from mainspring.records.flow import Flow
from mainspring.records.job import Action, Job
from mainspring.records.outcome import Outcome
from mainspring.records.plan import Plan
from mainspring.records.query import Changed, Filter
from mainspring.records.run import Checkpoint, RunReport
from mainspring.records.step import MAX_POSITION
from mainspring.records.worker import BeatReply, WorkerInfo
from mainspring.schedule.record import Schedule, Tick
from mainspring.stores.memory.schedule_table import MemoryScheduleTable
from mainspring.stores.memory.store import MemoryStore
from mainspring.stores.memory.tables import MemoryTables

from .auditor import Auditor
from .loop import TrueClock


class AuditedStore(MemoryStore):
    """A memory store whose behaviour is unchanged, and whose writes are reported to an auditor."""

    def __init__(self, clock: TrueClock, auditor: Auditor) -> None:
        super().__init__(clock)
        self._auditor = auditor
        self._tables = _WatchedTables(self)
        self.schedule_log, self.flow_log = auditor.schedule_log, auditor.flow_log
        self.signal_log, self.batch_log = auditor.signal_log, auditor.batch_log
        self.by: tuple[str, str] = ("nobody", "nothing")
        """The host and the verb of the call that runs now. A verb never awaits between its writes."""
        self._now: datetime | None = None
        self._outcome: Outcome | None = None
        """The outcome that is applied now."""
        self._reporting: dict[JobId, Lease] = {}
        """The runs whose reports are applied now."""

    def job_written(self, old: Job | None, job: Job) -> None:
        self._auditor.job_written(old, job, *self.by)
        outcome = self._outcome
        self.signal_log.job_written(job)
        self.batch_log.job_written(old, job)
        self.flow_log.job_written(old, job, None if outcome is None or outcome.id != job.id else outcome.step_end)

    def note_crash(self, host: str, how: str) -> None:
        self._auditor.note(host, host, how)

    def job_deleted(self, job: Job) -> None:
        self._auditor.job_deleted(job, self._now or job.created_at, self.by[0])

    def verb_ended(self) -> None:
        self.flow_log.verb_ended()
        self.signal_log.verb_ended(self._tables.job)
        self.batch_log.verb_ended()

    async def change(self, action: Action, which: Filter, *, now: datetime, **options: Any) -> Changed:
        self._now = now
        return await super().change(action, which, now=now, **options)

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        self._auditor.beat_received(worker.id, until, now)
        return await super().beat(worker, until=until, now=now)

    def _finish_one(self, outcome: Outcome) -> bool:
        before, self._outcome = self._tables.job(outcome.id), outcome
        stands = super()._finish_one(outcome)
        self._outcome = None
        if stands:
            self._auditor.outcome_accepted(outcome, before)
        return stands

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        self._reporting = {report.id: report.lease for report in reports}
        return await super().report(reports)

    def checkpoints_written(self, id: JobId, checkpoints: Iterable[Checkpoint]) -> None:
        job = self._tables.job(id)
        assert job is not None
        self._auditor.step_log.checkpoints_written(job, self._reporting[id], checkpoints)

    def step_ids(self, flow: JobId) -> list[JobId]:
        """The jobs of the flow's steps, and of those of the flows in it."""
        found = self._tables.flows.jobs(flow, 0, MAX_POSITION)
        return [*found, *(inner for id in found for inner in self.step_ids(id))]

    def peek(self) -> list[Job]:
        """Every job, in order of id."""
        return self._tables.jobs.some(sorted(self._tables.jobs.ids()))


class _WatchedTables(MemoryTables):
    """Tables that report every job, schedule and flow that is written, and every job that is deleted."""

    def __init__(self, store: AuditedStore) -> None:
        super().__init__()
        self._store = store
        self.schedules = _WatchedSeries(store)

    def put_job(self, job: Job) -> None:
        old = self.job(job.id)
        super().put_job(job)
        self._store.job_written(old, job)

    def drop_job(self, job: Job) -> None:
        super().drop_job(job)
        self._store.job_deleted(job)

    def add_checkpoints(self, id: JobId, checkpoints: Iterable[Checkpoint]) -> None:
        self._store.checkpoints_written(id, checkpoints)
        super().add_checkpoints(id, checkpoints)

    def add_plan(self, id: JobId, plan: Plan) -> None:
        super().add_plan(id, plan)
        if not self._store.batch_log.begun(id, plan):
            self._store.flow_log.begun(id, plan)

    def put_flow(self, flow: Flow) -> None:
        super().put_flow(flow)
        self._store.flow_log.row_written(flow)
        self._store.signal_log.row_written(flow)
        self._store.batch_log.row_written(flow)


class _WatchedSeries(MemoryScheduleTable):
    """A schedule table that reports every row, every recorded tick and every deletion."""

    def __init__(self, store: AuditedStore) -> None:
        super().__init__()
        self._store = store

    def write(self, schedule: Schedule) -> None:
        super().write(schedule)
        self._store.schedule_log.row_written(schedule, self._store.by[0])

    def record(self, name: str, ticks: Sequence[Tick]) -> None:
        super().record(name, ticks)
        self._store.schedule_log.ticks_recorded(name, list(ticks), self._store.by[0])

    def drop(self, names: Collection[str]) -> list[str]:
        found = super().drop(names)
        for name in found:
            self._store.schedule_log.schedule_deleted(name, self._store.by[0])
        return found
