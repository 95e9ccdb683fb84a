"""A part of the data in the shape of the memory store, whose functions are told to wait for what was not read yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ...job import Circuit, Execution, Job, JobId, NewJob
from ...outcome import Outcome
from ...schedule import Schedule
from ..memory.jobs import Jobs
from ..memory.ledger import Ledger
from ..memory.series import Series
from ..memory.workers import Workers
from .known import Known, workers_of
from .records import circuits_of, unpacked


class Wanted(Exception):
    """Something that was not read yet: read it, and begin anew."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(kind, name)
        self.kind, self.name = kind, name


class PartOfJobs(Jobs):
    def __init__(self, known: Known) -> None:
        super().__init__()
        self.known, self.series = known, PartOfSeries(known)
        for _, job in known.jobs.values():
            if job is not None:
                self.put(job)

    def _sure(self, id: object) -> None:
        if isinstance(id, str) and id not in self.known.jobs and not dict.__contains__(self, id):
            raise Wanted("job", id)

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
        self.known.jobs.setdefault(job.id, ((None, None, None), None))
        super().put(job)

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        for key in _keys(job):
            if key not in self.known.keys:
                raise Wanted("key", key)
            if (held := self.known.keys[key]) is not None:
                self._sure(unpacked(held))
                if (found := super().get(unpacked(held))) is not None and found.unreadable:
                    return key[1:], found  # its record does not say so
        return super().holder(job)


def _keys(job: NewJob | Job) -> Iterator[str]:
    if job.unique_key is not None:
        yield f"u{job.unique_key}"
    if job.idempotency_key is not None:
        yield f"i{job.idempotency_key}"


class _Rows(dict[str, Schedule]):
    def __init__(self, known: Known) -> None:
        super().__init__({name: row for name, (_, row) in known.schedules.items() if row is not None})
        self._known = known

    def _sure(self, name: object) -> None:
        if isinstance(name, str) and name not in self._known.schedules:
            raise Wanted("schedule", name)

    def __contains__(self, name: object) -> bool:
        self._sure(name)
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Schedule:
        self._sure(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._sure(name)
        return super().get(name, default)


class PartOfSeries(Series):
    def __init__(self, known: Known) -> None:
        super().__init__()
        self._known, self.rows = known, _Rows(known)

    def waiting(self, name: str) -> list[Schedule]:
        if name not in self._known.waiting:
            raise Wanted("waiting", name)
        rows = [self.rows.get(one) for one in self._known.waiting[name]]
        return [row for row in rows if row is not None and row.waits_on == name]


class _Circuits(dict[str, Circuit]):
    """All of them or none: they are few, and a claim looks at each."""

    def __init__(self, known: Known) -> None:
        super().__init__(circuits_of(known.circuits or {}))
        self._known = known

    def _sure(self) -> None:
        if self._known.circuits is None:
            raise Wanted("circuits", "")

    def __getitem__(self, task: str) -> Circuit:
        self._sure()
        return super().__getitem__(task)

    def get(self, task: str, default: Any = None) -> Any:
        self._sure()
        return super().get(task, default)

    def values(self) -> Any:
        self._sure()
        return super().values()


class PartOfLedger(Ledger):
    def __init__(self, known: Known) -> None:
        super().__init__()
        self._known, self.circuits = known, _Circuits(known)
        self.counted: list[Outcome] = []
        self.dropped: set[JobId] = set()

    def runs(self, id: JobId) -> Iterator[Execution]:
        yield from self.executions.get(id, ())
        if id not in self._known.runs:
            raise Wanted("runs", id)
        yield from self._known.runs[id]

    def count(self, outcomes: Sequence[Outcome]) -> None:
        self.counted += outcomes

    def drop(self, id: JobId) -> None:
        super().drop(id)
        self.dropped.add(id)


class PartOfWorkers(Workers):
    def __init__(self, known: Known) -> None:
        super().__init__(workers_of(known.workers))
        self._known = known

    def alive(self, worker: str, now: datetime) -> bool:
        if worker not in self._known.workers:
            raise Wanted("worker", worker)
        return super().alive(worker, now)


class Part:
    """What a verb is played on."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.jobs, self.ledger, self.workers = PartOfJobs(known), PartOfLedger(known), PartOfWorkers(known)
        self.paused: set[str] = set()
