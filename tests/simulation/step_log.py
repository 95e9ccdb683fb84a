"""The step log: the durable steps of jobs, and whether each runs once and is stored under the lease."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import json

from mainspring.ids import JobId, Lease
from mainspring.records.job import Job, State
from mainspring.records.run import Checkpoint

Fail = Callable[[str, JobId | None, str], None]
Note = Callable[[str, JobId, str], None]


class Stored(NamedTuple):
    """A checkpoint as the store has it, and when it was written, as a count of events."""

    lease: Lease
    value: Any
    n: int


class StepLog:
    """Receives the runs of durable tasks, their steps and the writes of their checkpoints, in order."""

    def __init__(self, fail: Fail, note: Note) -> None:
        self._fail, self._note = fail, note
        self._events = 0
        self._started: dict[tuple[JobId, Lease], int] = {}
        self._stored: dict[JobId, dict[str, Stored]] = {}

    def _count(self) -> int:
        self._events += 1
        return self._events

    def run_started(self, job: Job) -> None:
        self._started[job.id, job.lease or ""] = self._count()

    def checkpoints_written(self, job: Job, lease: Lease, checkpoints: Iterable[Checkpoint]) -> None:
        """Called when the store accepts checkpoints of the run with this lease; `job` is as it was before."""
        known = self._stored.setdefault(job.id, {})
        for one in checkpoints:
            self._note("store", job.id, f"keeps step {one.name} of {lease[:6]}")
            if job.state is not State.RUNNING or job.lease != lease:
                text = f"step {one.name} of {lease[:6]} was accepted, which does not hold the job"
                self._fail("L8", job.id, text)
            known.setdefault(one.name, Stored(lease, json.decode(one.value), self._count()))

    def step_began(self, job: Job, name: str) -> None:
        stored, lease = self._stored.get(job.id, {}).get(name), job.lease or ""
        self._note("step", job.id, f"{lease[:6]} begins {name}")
        if stored is None:
            return
        if stored.lease == lease or stored.n < self._started[job.id, lease]:
            self._fail("L8", job.id, f"{lease[:6]} begins step {name} again, which {stored.lease[:6]} had stored")

    def step_returned(self, job: Job, name: str, value: Any) -> None:
        """The run has this value of the step, and goes on."""
        stored = self._stored.get(job.id, {}).get(name)
        if stored is None or stored.value != value:
            has = "nothing" if stored is None else repr(stored.value)
            self._fail("L8", job.id, f"{(job.lease or '')[:6]} goes on with {value!r} of step {name}: stored is {has}")

    def check_end(self, jobs: Mapping[JobId, Job]) -> None:
        """The audit at the end: what a job returns are the values of its checkpoints."""
        for id, stored in self._stored.items():
            job = jobs.get(id)
            if job is None or job.state is not State.COMPLETED:
                continue
            for name, value in json.decode(job.result or "{}").items():
                if stored[name].value != value:
                    self._fail("L8", id, f"returned {value!r} of step {name}, and not {stored[name].value!r}")
