"""Writes and deletes jobs, and applies their ends and revivals to their schedules. Every rule writes jobs with these.

What happens to the job of a step is noted for its flow. A store that writes the row of a job itself applies the
transition of that job to its schedule with apply_transition(), and notes the end of a step with FlowChanges.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from ...ids import JobId
from ...records.job import Job, State
from ...records.outcome import StepEnding
from ...schedule.job_ended import after_dependency_succeeded, after_job_ended, after_job_revived
from .tables import JobTables, ScheduleTables


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


def write_job(tables: JobTables, old: Job | None, new: Job, step_end: StepEnding | None = None) -> None:
    """Writes a job, and applies the change to its schedule and flow. `old` is the stored job; None for a new one."""
    if old is not None:
        if (transition := transition_of(old, new)) is not None:
            apply_transition(tables, transition)
        if old.step is not None and old.state.final != new.state.final:
            if new.state.final:
                tables.flow_changes.note_end(old.step, new, step_end)
            else:
                tables.flow_changes.note_revival(old.step, old.state, new.run_at)
    tables.put_job(new)


def delete_job(tables: JobTables, job: Job, at: datetime) -> None:
    """Deletes a job with its runs and log lines, and applies that to its schedule and flow if it was not final."""
    if not job.state.final:
        if job.counted_schedule is not None:
            apply_transition(tables, JobEnd(job.counted_schedule, job.id, None, at))
        if job.step is not None:
            tables.flow_changes.note_end_of(job.step, State.CANCELLED, at)
    tables.flow_changes.of(job.id, at).deleted = True
    tables.drop_job(job)


def transition_of(old: Job, new: Job) -> JobTransition | None:
    """The transition that the job's schedule has to apply; None if the change does not concern it."""
    if old.counted_schedule is None or old.state.final == new.state.final:
        return None
    if new.state.final:
        return JobEnd(old.counted_schedule, old.id, new.state, new.finished_at or new.run_at, new.result)
    return JobRevival(old.counted_schedule, old.id)


def apply_transition(tables: ScheduleTables, change: JobTransition) -> None:
    """Applies the end or revival of a job to its schedule, and a completion to the schedules that wait on that one."""
    if (row := tables.schedule(change.schedule)) is None:
        return
    if isinstance(change, JobRevival):
        tables.put_schedule(after_job_revived(row, change.job_id))
        return
    if (new := after_job_ended(row, change.job_id, change.state, change.at, change.result)) is row:
        return
    tables.put_schedule(new)
    if change.state is State.COMPLETED:
        for waiting in tables.waiting(change.schedule):
            if (woken := after_dependency_succeeded(waiting, change.at)) is not waiting:
                tables.put_schedule(woken)


def schedules_of(transitions: Iterable[JobTransition]) -> set[str]:
    return {transition.schedule for transition in transitions}


def completed_schedules_of(transitions: Iterable[JobTransition]) -> set[str]:
    """The schedules with a job that completed: other schedules may wait on these."""
    ends = [transition for transition in transitions if isinstance(transition, JobEnd)]
    return {end.schedule for end in ends if end.state is State.COMPLETED}
