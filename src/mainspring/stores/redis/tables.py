"""The memory store's tables over a snapshot: the rules run on them, and they record what the rules read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ...ids import JobId
from ...records.circuit import Circuit
from ...records.job import Job, NewJob
from ...records.outcome import Outcome
from ...records.run import Execution
from ...schedule.record import Schedule
from ..memory.jobs import JobTable
from ..memory.ledger import RunLedger
from ..memory.schedules import MemoryScheduleTable
from ..memory.workers import WorkerTable
from .known import workers_of
from .records import unpacked
from .snapshot import Snapshot


class NotRead(RuntimeError):
    """A rule read a value that its read set does not name: a bug in reads.py."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"the read set lacks the {kind} {name!r}; please report this as a bug in the Redis store")


class SnapshotJobs(JobTable):
    """Jobs of the snapshot."""

    schedules: ScheduleTable

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._snapshot, self.schedules = snapshot, ScheduleTable(snapshot)
        self.names_read: set[str] = set()
        """Keys whose holders were read."""
        for _, job in snapshot.jobs.values():
            if job is not None:
                self.put(job)

    def _sure(self, id: object) -> None:
        if isinstance(id, str) and id not in self._snapshot.jobs and not dict.__contains__(self, id):
            raise NotRead("job", id)

    def __contains__(self, id: object) -> bool:
        self._sure(id)
        return super().__contains__(id)

    def __getitem__(self, id: JobId) -> Job:
        self._sure(id)
        return super().__getitem__(id)

    def get(self, id: JobId, default: Any = None) -> Any:
        self._sure(id)
        return super().get(id, default)

    def put(self, job: Job) -> None:
        self._snapshot.jobs.setdefault(job.id, ((None, None, None), None))
        super().put(job)

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        for key in keys_of(job):
            if key not in self._snapshot.keys:
                raise NotRead("key", key)
            self.names_read.add(key)
            if (held := self._snapshot.keys[key]) is not None:
                self._sure(unpacked(held))
                if (found := super().get(unpacked(held))) is not None and found.unreadable:
                    return key[1:], found  # its keys cannot be decoded
        return super().holder(job)


def keys_of(job: NewJob | Job) -> Iterator[str]:
    """The unique and idempotency keys of a job, as stored."""
    if job.unique_key is not None:
        yield f"u{job.unique_key}"
    if job.idempotency_key is not None:
        yield f"i{job.idempotency_key}"


class _Rows(dict[str, Schedule]):
    """Schedules by name; `names_read` are the names that were read."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__({name: row for name, (_, row) in snapshot.schedules.items() if row is not None})
        self._snapshot = snapshot
        self.names_read: set[str] = set()

    def _sure(self, name: object) -> None:
        if isinstance(name, str):
            if name not in self._snapshot.schedules:
                raise NotRead("schedule", name)
            self.names_read.add(name)

    def __contains__(self, name: object) -> bool:
        self._sure(name)
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Schedule:
        self._sure(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._sure(name)
        return super().get(name, default)


class ScheduleTable(MemoryScheduleTable):
    """Schedules of the snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._snapshot, self.found = snapshot, _Rows(snapshot)
        self.rows = self.found
        self.names_read: set[str] = set()
        """Schedules whose waiting schedules were read."""

    def waiting(self, name: str) -> list[Schedule]:
        if name not in self._snapshot.waiting:
            raise NotRead("schedules that wait on", name)
        self.names_read.add(name)
        rows = [self.rows.get(one) for one in self._snapshot.waiting[name]]
        return [row for row in rows if row is not None and row.waits_on == name]


class _Circuits(dict[str, Circuit]):
    """All circuits, or none if they were not read: they are few, and a claim needs all."""

    def __init__(self, snapshot: Snapshot) -> None:
        known = (snapshot.circuits or {}).items()
        super().__init__({task: circuit for task, (_, circuit) in known if circuit is not None})
        self._snapshot = snapshot

    def _sure(self) -> None:
        if self._snapshot.circuits is None:
            raise NotRead("circuits", "")

    def __getitem__(self, task: str) -> Circuit:
        self._sure()
        return super().__getitem__(task)

    def get(self, task: str, default: Any = None) -> Any:
        self._sure()
        return super().get(task, default)

    def values(self) -> Any:
        self._sure()
        return super().values()


class RunTable(RunLedger):
    """Runs of the snapshot; `counted` and `dropped` record what the rules counted and deleted."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._snapshot, self.circuits = snapshot, _Circuits(snapshot)
        self.counted: list[Outcome] = []
        self.dropped: set[JobId] = set()

    def runs(self, id: JobId) -> Iterator[Execution]:
        yield from self.executions.get(id, ())
        if id not in self._snapshot.runs:
            raise NotRead("runs of", id)
        yield from self._snapshot.runs[id]

    def count(self, outcomes: Sequence[Outcome]) -> None:
        self.counted += outcomes

    def drop(self, id: JobId) -> None:
        super().drop(id)
        self.dropped.add(id)


class SnapshotWorkers(WorkerTable):
    """Workers of the snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(workers_of(snapshot.workers))
        self._snapshot = snapshot

    def alive(self, worker: str, now: datetime) -> bool:
        if worker not in self._snapshot.workers:
            raise NotRead("worker", worker)
        return super().alive(worker, now)


class Tables:
    """The tables that a rule runs on."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.jobs, self.ledger, self.workers = SnapshotJobs(snapshot), RunTable(snapshot), SnapshotWorkers(snapshot)
        self.bound: set[JobId] = set()
        """Jobs that must be unchanged at the commit, even if the rule did not change them."""
        self.taken_from: set[str] = set()
        """Queues that must not be paused at the commit."""
