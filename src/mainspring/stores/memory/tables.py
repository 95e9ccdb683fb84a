"""The memory store's tables as the rules see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ...flow.graph import Graph
from ...ids import JobId, WorkerId
from ...records.circuit import Circuit
from ...records.flow import MAX_CANCELLED_JOBS, MAX_RETRIED_JOBS, Flow
from ...records.job import Job, NewJob
from ...records.outcome import Outcome
from ...records.plan import Plan
from ...records.run import Checkpoint, Execution, LogLine, OutputChunk
from ...records.step import MAX_INDEX, MAX_POSITION
from ...schedule.record import Schedule, Tick
from ..rules.flow_changes import RETRIED_STATES, FlowChanges
from ..rules.read_sets import Name
from ..rules.workers import WorkerTable
from .flow_table import FlowTable
from .job_table import JobTable
from .ledger import RunLedger
from .limit_table import LimitTable
from .schedule_table import MemoryScheduleTable


class MemoryTables:
    """Jobs, schedules, runs and workers; read and written under the store's lock."""

    def __init__(self) -> None:
        self.jobs = JobTable()
        self.index = self.jobs.index
        self.limits = LimitTable(self.jobs)
        self.schedules = MemoryScheduleTable()
        self.ledger = RunLedger()
        self.workers = WorkerTable()
        self.flows = FlowTable()
        self.flow_changes = FlowChanges()
        self.older_workers: Sequence[WorkerId] = ()
        # Jobs (None: a new one), schedules and checkpoints as they were at the savepoint. None: there is no savepoint.
        self._undo: tuple[dict[JobId, Job | None], dict[str, Schedule], dict[JobId, dict[str, Checkpoint]]] | None = (
            None
        )

    # jobs

    def job(self, id: JobId) -> Job | None:
        return self.jobs.job(id)

    def put_job(self, job: Job) -> None:
        if self._undo is not None:
            self._undo[0].setdefault(job.id, self.jobs.job(job.id))
        self.jobs.put(job)
        if job.step is not None:
            self.flows.add_job(job.step, job.id)

    def drop_job(self, job: Job) -> None:
        self.jobs.drop(job)
        self.ledger.drop(job.id)
        if job.step is not None:
            self.flows.drop_job(job.step)

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

    def add_chunks(self, id: JobId, chunks: Iterable[OutputChunk]) -> None:
        for chunk in chunks:
            self.ledger.chunks[id].setdefault(chunk.n, chunk)

    def add_checkpoints(self, id: JobId, checkpoints: Iterable[Checkpoint]) -> None:
        known = self.ledger.checkpoints.setdefault(id, {})
        for checkpoint in checkpoints:
            known.setdefault(checkpoint.name, checkpoint)

    def drop_checkpoints(self, id: JobId) -> None:
        known = self.ledger.checkpoints.pop(id, None)
        if self._undo is not None and known is not None:
            self._undo[2].setdefault(id, known)

    def count(self, outcomes: Sequence[Outcome]) -> None:
        self.ledger.count(outcomes)

    # flows

    def is_read(self, name: Name) -> bool:
        return True

    def flow(self, id: JobId) -> Flow | None:
        return self.flows.rows.get(id)

    def graph(self, id: JobId) -> Graph:
        return self.flows.graphs[id]

    def add_plan(self, id: JobId, plan: Plan) -> None:
        self.flows.graphs[id] = Graph(plan)

    def wake_unread(self, id: JobId, at: datetime) -> bool:
        return False

    def put_flow(self, flow: Flow) -> None:
        self.flows.put(flow)

    def drop_flow(self, id: JobId) -> None:
        self.flows.drop(id)

    def step_jobs(self, which: Name) -> list[Job]:
        flow, _, first = which.name.partition(" ")
        positions = (int(first), int(first) | MAX_INDEX) if first else (0, MAX_POSITION)
        jobs = self.jobs.some(self.flows.jobs(flow, *positions))
        match which.kind:
            case "unfinished_steps":
                return [job for job in jobs if not job.state.final][: MAX_CANCELLED_JOBS + 1]
            case "failed_steps":
                return [job for job in jobs if job.state in RETRIED_STATES][:MAX_RETRIED_JOBS]
        return jobs[: MAX_CANCELLED_JOBS + 1]

    # all or nothing

    def savepoint(self) -> None:
        self._undo = ({}, {}, {})

    def release(self) -> None:
        self._undo = None

    def roll_back(self) -> None:
        (jobs, schedules, checkpoints), self._undo = self._undo or ({}, {}, {}), None
        self.ledger.checkpoints.update(checkpoints)
        for id, old in reversed(jobs.items()):
            if old is not None:
                self.jobs.put(old)
            elif (new := self.jobs.job(id)) is not None:
                self.jobs.drop(new)
        for schedule in schedules.values():
            self.schedules.write(schedule)
