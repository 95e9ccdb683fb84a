"""The memory store's tables as the rules see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ...ids import JobId, WorkerId
from ...records.circuit import Circuit
from ...records.job import Job, NewJob
from ...records.outcome import Outcome
from ...records.run import Execution, LogLine
from ...schedule.record import Schedule, Tick
from ..rules.workers import WorkerTable
from .job_table import JobTable
from .ledger import RunLedger
from .schedule_table import MemoryScheduleTable


class MemoryTables:
    """Jobs, schedules, runs and workers; read and written under the store's lock."""

    def __init__(self) -> None:
        self.jobs = JobTable()
        self.index = self.jobs.index
        self.schedules = MemoryScheduleTable()
        self.ledger = RunLedger()
        self.workers = WorkerTable()
        # Jobs (None: a new one) and schedules as they were at the savepoint. None: there is no savepoint.
        self._undo: tuple[dict[JobId, Job | None], dict[str, Schedule]] | None = None

    # jobs

    def job(self, id: JobId) -> Job | None:
        return self.jobs.job(id)

    def put_job(self, job: Job) -> None:
        if self._undo is not None:
            self._undo[0].setdefault(job.id, self.jobs.job(job.id))
        self.jobs.put(job)

    def drop_job(self, job: Job) -> None:
        self.jobs.drop(job)
        self.ledger.drop(job.id)

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        return self.jobs.holder(job)

    # schedules

    def schedule(self, name: str) -> Schedule | None:
        return self.schedules.row(name)

    def put_schedule(self, schedule: Schedule) -> None:
        if self._undo is not None and (old := self.schedules.row(schedule.name)) is not None:
            self._undo[1].setdefault(schedule.name, old)
        self.schedules.write(schedule)

    def waiting(self, name: str) -> list[Schedule]:
        return self.schedules.waiting(name)

    def revision(self, name: str) -> int:
        row = self.schedules.row(name)
        return 0 if row is None else row.revision

    def record_ticks(self, name: str, ticks: Sequence[Tick]) -> None:
        self.schedules.record(name, ticks)

    # runs

    def circuits(self) -> Iterable[Circuit]:
        return self.ledger.circuits.values()

    def circuit(self, task: str) -> Circuit | None:
        return self.ledger.circuits.get(task)

    def put_circuit(self, task: str, circuit: Circuit | None) -> None:
        if circuit is None:
            self.ledger.circuits.pop(task, None)
        else:
            self.ledger.circuits[task] = circuit

    def is_silent(self, worker: WorkerId, at: datetime) -> bool:
        return not self.workers.alive(worker, at)

    def is_recorded(self, outcome: Outcome) -> bool:
        return self.ledger.is_recorded(outcome)

    def add_execution(self, run: Execution) -> None:
        self.ledger.executions[run.job_id].append(run)

    def add_lines(self, id: JobId, lines: Iterable[LogLine]) -> None:
        known = self.ledger.lines[id]
        for line in lines:
            known.setdefault((line.run, line.n), line)

    def count(self, outcomes: Sequence[Outcome]) -> None:
        self.ledger.count(outcomes)

    # all or nothing

    def savepoint(self) -> None:
        self._undo = ({}, {})

    def release(self) -> None:
        self._undo = None

    def roll_back(self) -> None:
        (jobs, schedules), self._undo = self._undo or ({}, {}), None
        for id, old in reversed(jobs.items()):
            if old is not None:
                self.jobs.put(old)
            elif (new := self.jobs.job(id)) is not None:
                self.jobs.drop(new)
        for schedule in schedules.values():
            self.schedules.write(schedule)
