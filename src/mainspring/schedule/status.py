"""Status of a schedule, derived from its record: when it is due, what blocks it, how many ticks passed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from ..ids import JobId
from .record import Schedule, Spec, Tick

# Ticks counted exactly; more are recorded as this number, since counting holds up the worker.
MAX_COUNTED_TICKS = 1000
# Unfinished jobs that a schedule lists if its runs may overlap; more are only counted.
MAX_LISTED_JOBS = 100


def count_ticks(schedule: Schedule, first: datetime, until: datetime) -> tuple[datetime, int]:
    """The last tick from `first` to `until`, and the number of ticks (capped at MAX_COUNTED_TICKS)."""
    last = last_tick(schedule, first, until)
    return last, 1 + schedule.timetable.count(first, last, limit=MAX_COUNTED_TICKS - 1)


def last_tick(schedule: Schedule, first: datetime, until: datetime) -> datetime:
    """The last tick from `first` to `until`."""
    return schedule.timetable.latest(first, until) or first


def recorded_until(schedule: Schedule) -> datetime:
    """Ticks that the timetable omits are recorded up to this instant."""
    reached = schedule.reached_at or schedule.created_at
    # With after='finish' the grid begins at the end of a run: there are no ticks before it.
    return max(reached, schedule.anchor_at) if schedule.spec.after == "finish" else reached


def next_due(schedule: Schedule) -> datetime | None:
    """When a worker has to look at the schedule; None if no time is set."""
    return due_at(schedule, schedule.next_run_at)


def due_at(schedule: Schedule, next_run_at: datetime | None) -> datetime | None:
    """next_due() if its next tick were `next_run_at`."""
    if schedule.paused_at is not None or next_run_at is None:
        return None
    # Building a timetable is the expensive part here, and few schedules have jitter.
    return next_run_at + schedule.timetable.offset if schedule.spec.jitter else next_run_at


def is_blocked(spec: Spec, active: Sequence[JobId]) -> bool:
    """Whether these unfinished jobs prevent the next run from starting."""
    return bool(active) and spec.exclusive


def with_active(schedule: Schedule, active: Sequence[JobId]) -> Schedule:
    """The schedule with these unfinished jobs."""
    listed, unlisted = listed_jobs(schedule, active)
    return replace(schedule, active=listed, unlisted=unlisted)


def listed_jobs(schedule: Schedule, active: Sequence[JobId]) -> tuple[tuple[JobId, ...], int]:
    """The unfinished jobs that the schedule's record lists, and the number of those it only counts.

    There can be very many if runs may overlap.
    """
    listed = tuple(active) if schedule.spec.exclusive else tuple(active[-MAX_LISTED_JOBS:])
    return listed, schedule.unlisted + len(active) - len(listed)


def with_due_at(schedule: Schedule, now: datetime) -> Schedule:
    """Due now if a held tick is free to run, else at the next tick."""
    held = schedule.held_at is not None and schedule.waits_on is None and schedule.paused_at is None
    free = held and not is_blocked(schedule.spec, schedule.active)
    return replace(schedule, due_at=now if free else next_due(schedule))


def reached_max_runs(schedule: Schedule) -> bool:
    """Whether it has fired as often as max_runs allows."""
    return schedule.spec.max_runs is not None and schedule.fired >= schedule.spec.max_runs


def with_first_tick(schedule: Schedule, at: datetime) -> Schedule:
    """The schedule with the first tick after `at` as its next; none if runs under way or max_runs forbid one."""
    if schedule.spec.after == "finish":
        waits = bool(schedule.active) or schedule.held_at is not None
        first = None if waits else schedule.timetable.next(at)
    else:
        first = schedule.timetable.next(at)
    return replace(schedule, next_run_at=None if reached_max_runs(schedule) else first)


def new_tick(
    n: int, what: str, reason: str, first: datetime, last: datetime, count: int, now: datetime, job_id: JobId | None
) -> Tick:
    """The record of one tick, or of `count` ticks from `first` to `last`."""
    return Tick(
        n=n,
        at=first,
        seen_at=now,
        what=what,  # type: ignore[arg-type]
        reason=reason,
        job_id=job_id,
        count=count,
        last_at=None if last == first else last,
    )
