"""Tables over values that a store has loaded: a rule runs on them in memory, and its changes are written afterwards.

The store loads the read set of a batch (read_sets.py), runs the rule, and writes the changed jobs, schedules, circuits
and runs in a few steps. A value outside of the read set is a bug in the read set, and raises NotRead.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...ids import JobId, WorkerId
from ...records.circuit import Circuit
from ...records.flow import Flow
from ...records.job import Job, NewJob
from ...records.outcome import Outcome
from ...records.plan import Plan
from ...records.run import Checkpoint, Execution, LogLine, OutputChunk
from ...records.step import MAX_INDEX, MAX_POSITION
from ...schedule.record import Schedule, Tick
from .flow_changes import FlowChanges
from .keys import keys_held_by, keys_of
from .read_sets import Kind, Name

if TYPE_CHECKING:
    from ...flow.graph import Graph

Key = TypeVar("Key")
Value = TypeVar("Value")


class NotRead(RuntimeError):
    """A rule read a value that its read set does not name: a bug in read_sets.py."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"the read set lacks the {kind} {name!r}; please report this as a bug in mainspring")


class ChangedJob(NamedTuple):
    """A job as it was loaded and as the rule left it. `old` is None for a new job, `new` for a deleted one."""

    id: JobId
    old: Job | None
    new: Job | None


class LoadedTables:
    """The values that were read (add_*), and the changes that a rule made on them."""

    def __init__(self, flows: bool = False, wakes: bool = False) -> None:
        """`flows`: whether the store has flows; if not, none is ever read. `wakes`: whether it writes `woken` before it
        reads a job."""
        self._has_flows, self._wakes = flows, wakes
        self.woken: dict[JobId, datetime] = {}
        """Waiting jobs that are due from then on. They were not read."""
        self._flows: dict[JobId, Flow | None] = {}
        self._graphs: dict[JobId, Graph] = {}
        self._step_jobs: dict[Name, Sequence[JobId]] = {}
        self._jobs: dict[JobId, Job | None] = {}
        self._holders: dict[str, JobId | None] = {}
        self._schedules: dict[str, Schedule | None] = {}
        self._revisions: dict[str, int] = {}
        self._waiting: dict[str, Sequence[str]] = {}
        self._circuits: dict[str, Circuit] | None = None
        self._workers: dict[WorkerId, datetime | None] = {}
        self._runs: dict[JobId, Sequence[Execution]] = {}
        self._values_of: Mapping[Kind, Container[str]] = {
            "job": self._jobs,
            "seen_job": self._jobs,
            "key": self._holders,
            "schedule": self._schedules,
            "waiting": self._waiting,
            "worker": self._workers,
            "runs": self._runs,
        }
        self._new_jobs: dict[JobId, Job | None] = {}
        self._new_schedules: dict[str, Schedule] = {}
        self._new_circuits: dict[str, Circuit | None] = {}
        self._new_holders: dict[str, JobId | None] = {}
        self._new_flows: dict[JobId, Flow | None] = {}
        self.flow_changes = FlowChanges()
        self.older_workers: Sequence[WorkerId] = ()
        self._undo: list[tuple[dict[Any, Any], Any, Any]] | None = None
        # What the rule read, for a store that checks at the commit that it is unchanged.
        self.keys_read: set[str] = set()
        self.schedules_read: set[str] = set()
        self.waiting_read: set[str] = set()
        self.workers_read: set[WorkerId] = set()
        self.flows_read: set[JobId] = set()
        # What the rule added.
        self.ticks: list[tuple[str, Tick]] = []
        self.executions: list[Execution] = []
        self.lines: list[tuple[JobId, LogLine]] = []
        self.chunks: list[tuple[JobId, OutputChunk]] = []
        self.checkpoints: list[tuple[JobId, Checkpoint]] = []
        self.without_checkpoints: dict[JobId, bool] = {}
        """The jobs whose checkpoints a rule has deleted."""
        self.counted: list[Outcome] = []
        self.plans: list[tuple[JobId, Plan]] = []

    # loading

    def add_job(self, id: JobId, job: Job | None) -> None:
        self._jobs[id] = job

    def add_holder(self, key: str, id: JobId | None) -> None:
        self._holders[key] = id

    def add_schedule(self, name: str, schedule: Schedule | None) -> None:
        """Adds a whole schedule; None if there is none, or it cannot be decoded."""
        self._schedules[name] = schedule

    def add_revision(self, name: str, revision: int) -> None:
        """Adds only the revision of a schedule; 0 if there is none."""
        self._revisions[name] = revision

    def add_waiting(self, name: str, names: Sequence[str]) -> None:
        """Adds the names of the schedules that wait on this one."""
        self._waiting[name] = names

    def add_waiting_rows(self, names: Iterable[str], rows: Iterable[Schedule]) -> None:
        """Adds whole schedules, and for each of `names` which of them wait on it."""
        waiting: dict[str, list[str]] = {name: [] for name in names}
        for row in rows:
            self.add_schedule(row.name, row)
            if row.waits_on in waiting:
                waiting[row.waits_on].append(row.name)
        self._waiting.update(waiting)

    def add_circuits(self, circuits: Mapping[str, Circuit]) -> None:
        self._circuits = dict(circuits)

    def add_worker(self, id: WorkerId, until: datetime | None) -> None:
        self._workers[id] = until

    def add_runs(self, id: JobId, runs: Sequence[Execution]) -> None:
        self._runs[id] = runs

    def add_flow(self, id: JobId, flow: Flow | None, graph: Graph | None = None) -> None:
        self._flows[id] = flow
        if graph is not None:
            self._graphs[id] = graph

    def add_step_jobs(self, name: Name, jobs: Sequence[Job]) -> None:
        """Adds the jobs of a flow's steps."""
        for job in jobs:
            self._jobs.setdefault(job.id, job)
        self._step_jobs[name] = [job.id for job in jobs]

    def is_read(self, name: Name) -> bool:
        kind, value = name
        if kind == "flow":
            return not self._has_flows or value in self._flows
        if kind in ("unfinished_steps", "failed_steps", "all_steps"):
            return name in self._step_jobs
        if (values := self._values_of.get(kind)) is not None:
            return value in values
        if kind in ("fired_schedule", "seen_schedule"):
            return value in self._schedules or value in self._revisions
        return kind != "circuits" or self._circuits is not None

    def known_job(self, id: JobId) -> Job | None:
        return self._jobs.get(id)

    def known_holder(self, key: str) -> JobId | None:
        return self._holders.get(key)

    def known_waiting(self, name: str) -> Sequence[str]:
        return self._waiting.get(name, ())

    def known_circuits(self) -> Collection[str]:
        return self._circuits or ()

    # jobs

    def job(self, id: JobId) -> Job | None:
        if id in self._new_jobs:
            return self._new_jobs[id]
        if id not in self._jobs:
            raise NotRead("job", id)
        return self._jobs[id]

    def put_job(self, job: Job) -> None:
        self._set(self._new_jobs, job.id, job)
        if job.unique_key is not None or job.idempotency_key is not None:
            self._set_keys(job, set(keys_held_by(job)))

    def drop_job(self, job: Job) -> None:
        self._set(self._new_jobs, job.id, None)
        self._set_keys(job, set())

    def _set_keys(self, job: Job, held: set[str]) -> None:
        """Records which of its keys the job holds now."""
        for key in keys_of(job):
            if key in held:
                self._set(self._new_holders, key, job.id)
            elif self._new_holders.get(key, self._holders.get(key)) == job.id:
                self._set(self._new_holders, key, None)

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        for key in keys_of(job):
            if key not in self._holders:
                raise NotRead("key", key)
            self.keys_read.add(key)
            id = self._new_holders.get(key, self._holders[key])
            found = None if id is None else self.job(id)
            # A job that was read after its key may have let go of it; the keys of an unreadable one are not known.
            if found is not None and (found.unreadable or key in keys_held_by(found)):
                return key[1:], found
        return None, None

    # schedules

    def schedule(self, name: str) -> Schedule | None:
        self.schedules_read.add(name)
        if name in self._new_schedules:
            return self._new_schedules[name]
        if name not in self._schedules:
            raise NotRead("schedule", name)
        return self._schedules[name]

    def put_schedule(self, schedule: Schedule) -> None:
        self._set(self._new_schedules, schedule.name, schedule)

    def revision(self, name: str) -> int:
        if name not in self._new_schedules and name in self._revisions:
            self.schedules_read.add(name)
            return self._revisions[name]
        row = self.schedule(name)
        return 0 if row is None else row.revision

    def waiting(self, name: str) -> list[Schedule]:
        if name not in self._waiting:
            raise NotRead("schedules that wait on", name)
        self.waiting_read.add(name)
        rows = [self.schedule(one) for one in sorted(self._waiting[name])]
        return [row for row in rows if row is not None and row.waits_on == name]

    def record_ticks(self, name: str, ticks: Sequence[Tick]) -> None:
        self.ticks += [(name, tick) for tick in ticks]

    # runs

    def circuits(self) -> list[Circuit]:
        if self._circuits is None:
            raise NotRead("circuits", "")
        new = [circuit for circuit in self._new_circuits.values() if circuit is not None]
        return [*new, *(circuit for task, circuit in self._circuits.items() if task not in self._new_circuits)]

    def circuit(self, task: str) -> Circuit | None:
        if self._circuits is None:
            raise NotRead("circuits", "")
        return self._new_circuits[task] if task in self._new_circuits else self._circuits.get(task)

    def put_circuit(self, task: str, circuit: Circuit | None) -> None:
        self._new_circuits[task] = circuit

    def is_silent(self, worker: WorkerId, at: datetime) -> bool:
        if worker not in self._workers:
            raise NotRead("worker", worker)
        self.workers_read.add(worker)
        until = self._workers[worker]
        return until is None or until <= at

    def is_recorded(self, outcome: Outcome) -> bool:
        return any(
            (run.lease, run.ending, run.finished_at) == (outcome.lease, outcome.ending, outcome.finished_at)
            for run in self._runs_of(outcome.id)
        )

    def _runs_of(self, id: JobId) -> Iterator[Execution]:
        yield from (run for run in self.executions if run.job_id == id)
        if id not in self._runs:
            raise NotRead("runs of", id)
        yield from self._runs[id]

    def add_execution(self, run: Execution) -> None:
        self.executions.append(run)

    def add_lines(self, id: JobId, lines: Iterable[LogLine]) -> None:
        self.lines += [(id, line) for line in lines]

    def add_chunks(self, id: JobId, chunks: Iterable[OutputChunk]) -> None:
        self.chunks += [(id, chunk) for chunk in chunks]

    def add_checkpoints(self, id: JobId, checkpoints: Iterable[Checkpoint]) -> None:
        self.checkpoints += [(id, checkpoint) for checkpoint in checkpoints]

    def drop_checkpoints(self, id: JobId) -> None:
        self._set(self.without_checkpoints, id, True)

    def count(self, outcomes: Sequence[Outcome]) -> None:
        self.counted += outcomes

    # flows

    def flow(self, id: JobId) -> Flow | None:
        self.flows_read.add(id)
        if id in self._new_flows:
            return self._new_flows[id]
        if not self._has_flows:
            return None
        if id not in self._flows:
            raise NotRead("flow", id)
        return self._flows[id]

    def graph(self, id: JobId) -> Graph:
        return self._graphs[id]

    def add_plan(self, id: JobId, plan: Plan) -> None:
        from ...flow.graph import Graph

        self._graphs[id] = Graph(plan)
        self.plans.append((id, plan))

    def wake_unread(self, id: JobId, at: datetime) -> bool:
        if not self._wakes or id in self._jobs or id in self._new_jobs:
            return False
        self.woken[id] = at
        return True

    def new_flows(self) -> set[JobId]:
        """The flows that had no row before."""
        return {id for id, flow in self._new_flows.items() if flow is not None and self._flows.get(id) is None}

    def put_flow(self, flow: Flow) -> None:
        self._set(self._new_flows, flow.id, flow)

    def drop_flow(self, id: JobId) -> None:
        self._set(self._new_flows, id, None)

    def step_jobs(self, which: Name) -> list[Job]:
        found = (self.job(id) for id in self._step_jobs[which])
        jobs = [*(job for job in found if job is not None), *self._new_step_jobs(which)]
        return [job for job in jobs if not job.state.final] if which.kind == "unfinished_steps" else jobs

    def _new_step_jobs(self, which: Name) -> list[Job]:
        """The jobs of these steps that a rule has made."""
        flow, _, first = which.name.partition(" ")
        low, high = (int(first), int(first) | MAX_INDEX) if first else (0, MAX_POSITION)
        new = [job for id, job in self._new_jobs.items() if job is not None and self._jobs.get(id) is None]
        return [job for job in new if job.step and job.step.flow == flow and low <= job.step.position <= high]

    # all or nothing

    def _set(self, where: dict[Key, Value], key: Key, value: Value) -> None:
        if self._undo is not None:
            self._undo.append((where, key, where.get(key, _ABSENT)))
        where[key] = value

    def savepoint(self) -> None:
        self._undo = []

    def release(self) -> None:
        self._undo = None

    def roll_back(self) -> None:
        undo, self._undo = self._undo or [], None
        for where, key, old in reversed(undo):
            if old is _ABSENT:
                del where[key]
            else:
                where[key] = old

    # changes

    def changed_jobs(self) -> list[ChangedJob]:
        """The jobs that differ from those that were loaded."""
        pairs = [ChangedJob(id, self._jobs.get(id), new) for id, new in self._new_jobs.items()]
        return [pair for pair in pairs if pair.old is not pair.new]

    def changed_schedules(self) -> list[Schedule]:
        return list(self._new_schedules.values())

    def changed_flows(self) -> dict[JobId, Flow | None]:
        """The flows that were changed; None for one that was deleted."""
        return {id: new for id, new in self._new_flows.items() if new is not self._flows.get(id)}

    def changed_circuits(self) -> dict[str, Circuit | None]:
        """The circuits by task that differ from those that were loaded; None for one that was deleted."""
        known = self._circuits or {}
        return {task: new for task, new in self._new_circuits.items() if new != known.get(task)}


_ABSENT = object()
