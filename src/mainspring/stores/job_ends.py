"""Applies the ends of a batch of jobs to their schedules, in order. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from ..ids import JobId
from ..records.job import Job, State
from ..schedule.job_ended import after_dependency_succeeded, after_job_ended, after_job_revived
from ..schedule.record import Schedule


class JobEnd(NamedTuple):
    """A job of a schedule became final. `state` is None if it was deleted before that."""

    schedule: str
    job_id: JobId
    state: State | None
    at: datetime
    result: str | None = None


class JobRevival(NamedTuple):
    """A final job of a schedule became pending again."""

    schedule: str
    job_id: JobId


JobTransition = JobEnd | JobRevival


def transition_of(old: Job, new: Job) -> JobTransition | None:
    """The transition that the job's schedule has to apply; None if the change does not concern it."""
    if old.counted_schedule is None or old.state.final == new.state.final:
        return None
    if new.state.final:
        return JobEnd(old.counted_schedule, old.id, new.state, new.finished_at or new.run_at, new.result)
    return JobRevival(old.counted_schedule, old.id)


def schedules_of(transitions: Iterable[JobTransition]) -> set[str]:
    return {transition.schedule for transition in transitions}


def completed_schedules_of(transitions: Iterable[JobTransition]) -> set[str]:
    """The schedules with a job that completed: other schedules may wait on these."""
    ends = [transition for transition in transitions if isinstance(transition, JobEnd)]
    return {end.schedule for end in ends if end.state is State.COMPLETED}


class ScheduleBatch:
    """The schedules that one transaction has locked (`rows`), and those it has changed (`changed`)."""

    def __init__(self, rows: Iterable[Schedule] = ()) -> None:
        """`rows` must include the schedules that wait on a schedule whose job completes."""
        self.rows: dict[str, Schedule] = {}
        self.changed: dict[str, Schedule] = {}
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        self.add(rows)

    def add(self, rows: Iterable[Schedule]) -> None:
        for row in rows:
            self.rows[row.name] = row
            if row.waits_on is not None:
                self._waiting[row.waits_on].append(row.name)

    def put(self, schedule: Schedule) -> None:
        self.rows[schedule.name] = self.changed[schedule.name] = schedule

    def apply(self, transitions: Iterable[JobTransition]) -> None:
        for change in transitions:
            if (row := self.rows.get(change.schedule)) is None:
                continue
            if isinstance(change, JobRevival):
                self.put(after_job_revived(row, change.job_id))
            elif (new := after_job_ended(row, change.job_id, change.state, change.at, change.result)) is not row:
                self.put(new)
                if change.state is State.COMPLETED:
                    self._wake_waiting(change.schedule, change.at)

    def _wake_waiting(self, name: str, at: datetime) -> None:
        for waiting in sorted(self._waiting.get(name, ())):
            row = self.rows[waiting]
            if row.waits_on == name and (new := after_dependency_succeeded(row, at)) is not row:
                self.put(new)
