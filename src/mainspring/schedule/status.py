"""Where a schedule stands: when it is due, what keeps it, and its ticks counted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from ..ids import JobId
from .record import Schedule, Spec, Tick

# Of ticks that share a fate so many are counted at most: the worker has other things to do.
COUNTED = 1000
# Of jobs that may overlap, a schedule remembers so many that are not final.
ACTIVE_KEPT = 100


def counted(schedule: Schedule, first: datetime, until: datetime) -> tuple[datetime, int]:
    """The last of its ticks from `first` to `until`, and how many there are, of very many at least so many."""
    last = last_of(schedule, first, until)
    return last, 1 + schedule.timetable.count(first, last, limit=COUNTED - 1)


def last_of(schedule: Schedule, first: datetime, until: datetime) -> datetime:
    """The last of its ticks from `first` to `until`."""
    return schedule.timetable.latest(first, until) or first


def recorded_until(schedule: Schedule) -> datetime:
    """The fate of what its timetable leaves out is on record up to here."""
    reached = schedule.reached_at or schedule.created_at
    # The grid of an interval that counts from a run's end begins there: what lies before has never been a tick.
    return max(reached, schedule.anchor_at) if schedule.spec.after == "finish" else reached


def due(schedule: Schedule) -> datetime | None:
    """When a worker is to look at it by itself."""
    return due_at(schedule, schedule.next_run_at)


def due_at(schedule: Schedule, next_run_at: datetime | None) -> datetime | None:
    """The same, if its next tick is this one."""
    if schedule.paused_at is not None or next_run_at is None:
        return None
    # A timetable costs more than all the rest of this, and few schedules have jitter.
    return next_run_at + schedule.timetable.offset if schedule.spec.jitter else next_run_at


def is_blocked(spec: Spec, active: Sequence[JobId]) -> bool:
    """Whether these runs keep the next one from beginning."""
    return bool(active) and spec.exclusive


def with_active(schedule: Schedule, active: Sequence[JobId]) -> Schedule:
    """The schedule with these unfinished jobs."""
    names, unlisted = listing(schedule, active)
    return replace(schedule, active=names, unlisted=unlisted)


def listing(schedule: Schedule, active: Sequence[JobId]) -> tuple[tuple[JobId, ...], int]:
    """Which of its unfinished jobs a schedule names, and how many more there are.

    Where they may overlap there may be very many, and some are only counted.
    """
    kept = tuple(active) if schedule.spec.exclusive else tuple(active[-ACTIVE_KEPT:])
    return kept, schedule.unlisted + len(active) - len(kept)


def with_due_at(schedule: Schedule, now: datetime) -> Schedule:
    """Due at once if a tick that was held is free to run, else at its next tick."""
    held = schedule.held_at is not None and schedule.waits_on is None and schedule.paused_at is None
    free = held and not is_blocked(schedule.spec, schedule.active)
    return replace(schedule, due_at=now if free else due(schedule))


def over(schedule: Schedule) -> bool:
    return schedule.spec.max_runs is not None and schedule.fired >= schedule.spec.max_runs


def with_first_tick(schedule: Schedule, at: datetime) -> Schedule:
    """The schedule with the first tick later than `at` as its next, if there is to be one."""
    if schedule.spec.after == "finish":
        waits = bool(schedule.active) or schedule.held_at is not None
        first = None if waits else schedule.timetable.next(at)
    else:
        first = schedule.timetable.next(at)
    return replace(schedule, next_run_at=None if over(schedule) else first)


def tick_of(
    n: int, what: str, reason: str, first: datetime, last: datetime, count: int, now: datetime, job_id: JobId | None
) -> Tick:
    return Tick(
        n=n, at=first, seen_at=now, what=what, reason=reason, job_id=job_id, count=count,  # type: ignore[arg-type]
        last_at=None if last == first else last,
    )  # fmt: skip
