"""The signal log: what is given to jobs that wait for a signal, what they go on with, and whether they wait in vain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import json

from mainspring.ids import JobId
from mainspring.records.flow import FLOW_DEADLINE, Flow
from mainspring.records.job import Job, State

Fail = Callable[[str, JobId | None, str], None]
Note = Callable[[str, JobId, str], None]
# What a task that waits for SIGNAL goes on with if its time is over.
SIGNAL = "approval"
LATE = "nobody answered"


def _has_deadline(row: Flow, job: JobId) -> bool:
    return any(deadline is not None and deadline.job_id == job for deadline in row.waits.values())


class SignalLog:
    """Receives the rows of signals, the answers to who gives them, and the values that runs go on with."""

    def __init__(self, fail: Fail, note: Note) -> None:
        self._fail, self._note = fail, note
        self._rows: dict[JobId, Flow] = {}
        self._seen: dict[JobId, str] = {}
        self._changed: set[JobId] = set()

    def row_written(self, row: Flow) -> None:
        """Called for every row."""
        before, self._rows[row.id] = self._rows.get(row.id), row
        self._changed.add(row.id)
        self._note("signals", row.id, f"given {sorted(row.inbox)}, late {row.late}, waits for {sorted(row.waits)}")
        for name, given in ({} if before is None else before.inbox).items():
            if row.inbox.get(name) != given:
                self._fail("L6", row.id, f"signal {name} was {given.value}, and is {row.inbox.get(name)}")
        if both := sorted(row.inbox.keys() & set(row.late)):
            self._fail("L6", row.id, f"signal {both[0]} was given, and its time was over")

    def job_written(self, job: Job) -> None:
        if job.id in self._rows or job.state is State.WAITING:
            self._changed.add(job.id)
        if job.task == FLOW_DEADLINE and job.state.final:
            self._changed.update(id for id, row in self._rows.items() if _has_deadline(row, job.id))

    def answered(self, client: str, id: JobId, value: str, answer: str) -> None:
        """The client has got this answer."""
        self._note(client, id, f"gives {value!r}: {answer}")
        row = self._rows.get(id)
        given = None if row is None else row.inbox.get(SIGNAL)
        if answer == "given" and (given is None or json.decode(given.value) != value):
            self._fail("L6", id, f"{value!r} was acknowledged, and the signal is {given and given.value}")

    def seen(self, job: Job, value: str) -> None:
        """A run goes on with this value."""
        row = self._rows.get(job.id)
        given = None if row is None else row.inbox.get(SIGNAL)
        known = LATE if given is None else json.decode(given.value)
        self._note("signals", job.id, f"{(job.lease or '')[:6]} goes on with {value!r}")
        if value != known or self._seen.setdefault(job.id, value) != value:
            self._fail(
                "L6", job.id, f"goes on with {value!r}, is {known!r}, and a run before had {self._seen.get(job.id)!r}"
            )

    def verb_ended(self, job_of: Callable[[JobId], Job | None]) -> None:
        """Checks that each job that waits has something to wait for."""
        changed, self._changed = self._changed, set()
        for id in sorted(changed & self._rows.keys()):
            job, row = job_of(id), self._rows[id]
            if job is None or job.state is not State.WAITING:
                continue
            decided = sorted(row.waits.keys() & (row.inbox.keys() | set(row.late)))
            if decided or (not row.waits and not row.planned):
                self._fail("L4", id, f"waits for {decided or 'nothing'}, which has come")
            for name, deadline in row.waits.items():
                timer = None if deadline is None else job_of(deadline.job_id)
                if deadline is not None and (timer is None or timer.state.final):
                    self._fail("L4", id, f"waits for {name} until {deadline.at:%H:%M:%S}, which nothing will tell it")

    def check_end(self, jobs: Mapping[JobId, Job]) -> None:
        """The audit at the end: a job returns what was given to it, or that nothing was."""
        for id, row in self._rows.items():
            job = jobs.get(id)
            if job is None or job.state is not State.COMPLETED or id not in self._seen:
                continue
            result: Any = json.decode(job.result or "null")
            if result != (json.decode(row.inbox[SIGNAL].value) if SIGNAL in row.inbox else LATE):
                self._fail("L6", id, f"returned {result!r}, and has {row.inbox}")
