"""What the ends of a batch of jobs make of their schedules, in order. Pure."""

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
    """A job of a schedule became final; without a state it was deleted before that."""

    schedule: str
    job_id: JobId
    state: State | None
    at: datetime
    result: str | None = None


class JobRevival(NamedTuple):
    """A final job of a schedule was put back to work."""

    schedule: str
    job_id: JobId


JobNews = JobEnd | JobRevival


def news_of(old: Job, new: Job) -> JobNews | None:
    """What the schedule of a job has to know about this change of it; None: nothing."""
    if old.counted_schedule is None or old.state.final == new.state.final:
        return None
    if new.state.final:
        return JobEnd(old.counted_schedule, old.id, new.state, new.finished_at or new.run_at, new.result)
    return JobRevival(old.counted_schedule, old.id)


def schedules_of(news: Iterable[JobNews]) -> set[str]:
    return {one.schedule for one in news}


def completed_of(news: Iterable[JobNews]) -> set[str]:
    """The schedules whose success others may wait for."""
    return {one.schedule for one in news if isinstance(one, JobEnd) and one.state is State.COMPLETED}


class ScheduleBatch:
    """Schedules that one transaction holds: as they are, and which of them it has changed."""

    def __init__(self, rows: Iterable[Schedule] = ()) -> None:
        """Whatever waits on a schedule with a job that completes is among the rows."""
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

    def apply(self, news: Iterable[JobNews]) -> None:
        for one in news:
            if (row := self.rows.get(one.schedule)) is None:
                continue
            if isinstance(one, JobRevival):
                self.put(after_job_revived(row, one.job_id))
            elif (new := after_job_ended(row, one.job_id, one.state, one.at, one.result)) is not row:
                self.put(new)
                if one.state is State.COMPLETED:
                    self._rouse(one.schedule, one.at)

    def _rouse(self, name: str, at: datetime) -> None:
        for waiting in sorted(self._waiting.get(name, ())):
            row = self.rows[waiting]
            if row.waits_on == name and (new := after_dependency_succeeded(row, at)) is not row:
                self.put(new)
