"""A schedule after one of its jobs ended or was revived, or a dependency succeeded. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from ..codec import blake2b
from ..ids import JobId
from ..records.job import State
from ..trigger import Every
from .record import Schedule
from .status import is_blocked, with_active, with_due_at, with_first_tick

_MICROSECOND = timedelta(microseconds=1)


def after_job_ended(
    schedule: Schedule, job_id: JobId, state: State | None, at: datetime, result: str | None = None
) -> Schedule:
    """The schedule after one of its jobs became final. `state` is None if the job was deleted before that."""
    listed = job_id in schedule.active
    if not listed and not schedule.unlisted:
        return schedule
    active = tuple(id for id in schedule.active if id != job_id)
    unlisted = schedule.unlisted if listed else schedule.unlisted - 1
    new = replace(schedule, revision=schedule.revision + 1, active=active, unlisted=unlisted)
    if state is not None:
        new = replace(new, last_outcome=state, last_finished_at=at)
    if state is State.COMPLETED:
        new = _adapt_interval(replace(new, completed=new.completed + 1, failures=0, succeeded_at=at), result, at)
    elif state in (State.DEAD, State.EXPIRED):
        new = replace(new, failed=new.failed + 1, failures=new.failures + 1)
        limit = new.spec.pause_after_failures
        if limit is not None and new.failures >= limit and new.paused_at is None:
            new = replace(new, paused_at=at, due_at=None, note=f"paused after {new.failures} failures in a row")
    if new.paused_at is not None or (new.due_at is None and is_blocked(new.spec, active)):
        return new
    if new.spec.after == "finish" and new.next_run_at is None:
        new = with_first_tick(replace(new, anchor_at=at), at)
    return with_due_at(new, at)


def after_job_revived(schedule: Schedule, job_id: JobId) -> Schedule:
    """The schedule after one of its final jobs was retried."""
    active = (*(id for id in schedule.active if id != job_id), job_id)
    return with_active(replace(schedule, revision=schedule.revision + 1), active)


def after_dependency_succeeded(schedule: Schedule, at: datetime) -> Schedule:
    """The schedule after the dependency it waits on succeeded."""
    if schedule.paused_at is not None:
        return schedule
    new = replace(schedule, revision=schedule.revision + 1, waits_on=None)
    return new if is_blocked(new.spec, new.active) else with_due_at(new, at)


def _adapt_interval(schedule: Schedule, result: str | None, at: datetime) -> Schedule:
    """Doubles the interval while runs return the same result, up to the cap; resets it when the result changes."""
    cap, trigger = schedule.spec.adapt, schedule.spec.trigger
    if cap is None or not isinstance(trigger, Every):
        return schedule
    digest = blake2b((result or "").encode(), digest_size=8).hexdigest()
    max_stretch = max(1, timedelta(seconds=cap) // trigger.span)
    stretch = min(schedule.stretch * 2, max_stretch) if digest == schedule.digest else 1
    new = replace(schedule, digest=digest, stretch=stretch)
    if stretch == schedule.stretch:
        return new
    if schedule.spec.after == "start":
        # The longer interval starts at the last run, on a tick of the original grid, so that the phase stays.
        grid = trigger.anchored(schedule.anchor_at)
        new = replace(new, anchor_at=grid.next((schedule.last_run_at or at) - trigger.span) or schedule.anchor_at)
    next_at = schedule.next_run_at
    # A tick that is due already stays, and so does one that was rescheduled by hand.
    if next_at is None or next_at <= at or schedule.timetable.next(next_at - _MICROSECOND) != next_at:
        return new
    return replace(new, next_run_at=new.timetable.next(at))
