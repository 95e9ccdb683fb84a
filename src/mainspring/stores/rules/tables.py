"""The tables that a rule reads and writes: explicit methods, which every store provides in its own way.

A rule is written once, over these methods. The memory store has them on its own tables; the other stores load the read
set of a batch (read_sets.py), run the rule on it (loaded.py), and write what it changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from ...ids import JobId, WorkerId
from ...records.circuit import Circuit
from ...records.flow import Flow
from ...records.job import Job, NewJob
from ...records.outcome import Outcome
from ...records.plan import Plan
from ...records.run import Checkpoint, Execution, LogLine, OutputChunk
from ...schedule.record import Schedule, Tick
from .flow_changes import FlowChanges
from .read_sets import Name

if TYPE_CHECKING:
    from ...flow.graph import Graph


class ScheduleTables(Protocol):
    """Schedules, as the ends of their jobs change them."""

    def schedule(self, name: str) -> Schedule | None: ...

    def put_schedule(self, schedule: Schedule) -> None: ...

    def waiting(self, name: str) -> Sequence[Schedule]:
        """The schedules that wait on this one, in order of name."""
        ...


class JobTables(ScheduleTables, Protocol):
    """Jobs and schedules. Rules write jobs with job_ends.write_job() and delete_job(), which change schedules too."""

    flow_changes: FlowChanges
    """What the rules have done to the jobs of flows, for settle_flows()."""

    def job(self, id: JobId) -> Job | None: ...

    def put_job(self, job: Job) -> None:
        """Writes the job's row, and nothing else."""

    def drop_job(self, job: Job) -> None:
        """Deletes the job's row, its runs, its log lines and its checkpoints."""


class Tables(JobTables, Protocol):
    """Everything that enqueue, finish, report, fire and change read and write."""

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        """The key of this job that is held, and the job that holds it; (None, None) if its keys are free."""
        ...

    def revision(self, name: str) -> int:
        """The schedule's revision; 0 if there is no such schedule."""
        ...

    def record_ticks(self, name: str, ticks: Sequence[Tick]) -> None:
        """Adds ticks of a schedule. The newest MAX_KEPT_TICKS are kept."""

    def circuit(self, task: str) -> Circuit | None: ...

    def put_circuit(self, task: str, circuit: Circuit | None) -> None:
        """Writes a task's circuit; None deletes it."""

    def is_silent(self, worker: WorkerId, at: datetime) -> bool:
        """Whether the worker's lease has lapsed at that instant, or its row is gone."""
        ...

    def is_recorded(self, outcome: Outcome) -> bool:
        """Whether this outcome is recorded as the end of its run: it was accepted, now or earlier."""
        ...

    def add_execution(self, run: Execution) -> None: ...

    def add_lines(self, id: JobId, lines: Iterable[LogLine]) -> None:
        """Adds log lines of a job. Of a line that is there already the first version is kept."""

    def add_chunks(self, id: JobId, chunks: Iterable[OutputChunk]) -> None:
        """Adds chunks of a job's output. Of a chunk that is there already the first version is kept."""

    def add_checkpoints(self, id: JobId, checkpoints: Iterable[Checkpoint]) -> None:
        """Adds checkpoints of a job. Of one that is there already the first version is kept."""

    def drop_checkpoints(self, id: JobId) -> None:
        """Deletes the checkpoints of a job."""

    def count(self, outcomes: Sequence[Outcome]) -> None:
        """Adds accepted outcomes to the tallies."""

    # flows

    older_workers: Sequence[WorkerId]
    """Live workers of releases without flows. A store reads them if an outcome has a plan."""

    def is_read(self, name: Name) -> bool:
        """Whether the value of this name can be read now. A store that has all values at hand says so of each."""
        ...

    def flow(self, id: JobId) -> Flow | None: ...

    def graph(self, id: JobId) -> Graph:
        """The graph of a flow that is stored."""
        ...

    def add_plan(self, id: JobId, plan: Plan) -> None:
        """Stores the plan of a flow that is new, or whose plan has grown."""

    def put_flow(self, flow: Flow) -> None: ...

    def wake_unread(self, id: JobId, at: datetime) -> bool:
        """Makes the job due if it waits, without having read it. False if it was read, or the store cannot."""
        ...

    def drop_flow(self, id: JobId) -> None:
        """Deletes the flow and its plan."""

    def step_jobs(self, which: Name) -> Sequence[Job]:
        """The jobs of a flow's steps that `unfinished_steps`, `failed_steps` or `all_steps` names."""
        ...

    def savepoint(self) -> None:
        """Begins to record what roll_back() needs. There is one savepoint at a time."""

    def release(self) -> None:
        """Ends the savepoint; the changes stay."""

    def roll_back(self) -> None:
        """Undoes the changes of jobs and schedules since the savepoint, and ends it."""
