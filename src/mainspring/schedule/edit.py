"""Edits of a schedule: create, redefine, pause, resume, reschedule, trigger now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ..codec import blake2b
from ..ids import JobId
from ..trigger.zone import zone_of
from .record import Firing, Owner, Schedule, Spec, Tick
from .status import (
    MAX_COUNTED_TICKS,
    count_ticks,
    new_tick,
    reached_max_runs,
    recorded_until,
    with_active,
    with_due_at,
    with_first_tick,
)

_MICROSECOND = timedelta(microseconds=1)


def fingerprint(spec: Spec) -> str:
    """Digest of a spec, without the task's fingerprint: the payload already reflects that."""
    return blake2b(msgspec.json.encode(replace(spec, fingerprint=None), order="sorted"), digest_size=16).hexdigest()


def create(name: str, spec: Spec, *, owner: Owner, now: datetime, anchor_at: datetime | None = None) -> Schedule:
    """Returns a new schedule. Its first tick is the trigger's next, or now with run_on_start."""
    new = Schedule(
        name=name,
        spec=spec,
        owner=owner,
        created_at=now,
        updated_at=now,
        declared=fingerprint(spec) if owner == "code" else "",
        anchor_at=anchor_at or spec.start_at or now,
    )
    first = now if spec.run_on_start and _may_run(spec, now) else new.timetable.next(now)
    return with_due_at(replace(new, next_run_at=first), now)


def _may_run(spec: Spec, now: datetime) -> bool:
    """Whether start, end, window and excluded dates allow a run now."""
    if not (spec.start_at or now) <= now <= (spec.end_at or now):
        return False
    today = now.astimezone(zone_of(spec.trigger.tz)).date()
    return today not in spec.exclude and (spec.window is None or spec.window.zoned(spec.trigger.tz).inside(now))


# Fields that determine the ticks: a change to one of them restarts the ticks.
_TICK_FIELDS = ("trigger", "window", "exclude", "start_at", "end_at", "after")


def redefine(
    schedule: Schedule, spec: Spec, *, now: datetime, declared: str | None = None, anchor_at: datetime | None = None
) -> Firing:
    """Returns the schedule with another spec. Its next tick stays unless a field that determines ticks changed.

    A new interval is anchored at `anchor_at`, else at the spec's start, else at now.
    """
    new = replace(schedule, spec=spec, revision=schedule.revision + 1, updated_at=now)
    new = _without_stretch(schedule, new, now)
    if declared is not None:
        new = replace(new, declared=declared)
    if spec.depends_on != schedule.spec.depends_on:
        new = replace(new, waits_on=None)
    if spec.trigger != schedule.spec.trigger or (spec.start_at != schedule.spec.start_at and not spec.spread):
        new = replace(new, anchor_at=anchor_at or spec.start_at or now)
    new_ticks = any(getattr(spec, name) != getattr(schedule.spec, name) for name in _TICK_FIELDS)
    if new_ticks or reached_max_runs(schedule) != reached_max_runs(new):
        return _restart_ticks(schedule, new, "changed", now)
    return Firing(schedule=with_due_at(new, now))


# Fields that determine what runs return, or how their results change the interval.
_RESULT_FIELDS = ("trigger", "task", "payload", "computed", "adapt")


def _without_stretch(old: Schedule, new: Schedule, now: datetime) -> Schedule:
    """Resets a grown interval if earlier results no longer predict the coming ones."""
    if all(getattr(new.spec, name) == getattr(old.spec, name) for name in _RESULT_FIELDS):
        return new
    new = replace(new, stretch=1, digest="")
    if old.stretch == 1 or new.next_run_at is None or new.next_run_at <= now:
        return new
    return replace(new, next_run_at=new.timetable.next(now))


def pause(schedule: Schedule, note: str, *, now: datetime) -> Schedule:
    """Returns the schedule paused: it keeps its next tick and makes no jobs."""
    return replace(
        schedule,
        revision=schedule.revision + 1,
        paused_at=schedule.paused_at or now,
        note=note,
        due_at=None,
        updated_at=now,
    )


def resume(schedule: Schedule, *, from_now: bool, now: datetime) -> Firing:
    """Resumes from now, skipping the ticks of the pause, or from the next tick, by its catch-up policy."""
    new = replace(schedule, revision=schedule.revision + 1, paused_at=None, note="", failures=0, updated_at=now)
    if from_now and new.next_run_at is not None and new.next_run_at <= now:
        return _restart_ticks(schedule, new, "paused", now)
    if new.spec.after == "finish" and new.next_run_at is None:
        new = with_first_tick(replace(new, anchor_at=now), now)
    return Firing(schedule=with_due_at(new, now))


def reschedule(schedule: Schedule, at: datetime, *, now: datetime) -> Firing:
    """Moves the next tick to `at`, or to now if that is past; later ticks follow the trigger again."""
    at = max(at, now)
    until = min(now, at - _MICROSECOND)
    reached = max(until, schedule.reached_at or until)
    new = replace(schedule, revision=schedule.revision + 1, next_run_at=at, reached_at=reached, updated_at=now)
    return _record_skipped(with_due_at(new, now), _skipped_until(schedule, "changed", until), now)


def trigger_now(
    schedule: Schedule,
    ticks: Sequence[datetime],
    reason: str,
    *,
    now: datetime,
    new_job_id: Callable[[], JobId],
    joins: bool,
) -> Firing:
    """Fires these instants at once, outside the timetable: the next tick, run count and policies do not change.

    With `joins`, the jobs count as runs of the schedule: the overlap policy sees them, and their failures count.
    """
    records = [
        Tick(n=schedule.ticks + n, at=tick, seen_at=now, what="fired", reason=reason, job_id=new_job_id())
        for n, tick in enumerate(ticks, 1)
    ]
    ids = [tick.job_id for tick in records if tick.job_id is not None]
    new = replace(
        schedule,
        revision=schedule.revision + 1,
        ticks=schedule.ticks + len(records),
        last_job_id=ids[-1] if ids else schedule.last_job_id,
    )
    return Firing(schedule=with_active(new, (*new.active, *ids)) if joins else new, ticks=tuple(records))


class _SkippedTicks(NamedTuple):
    """Consecutive ticks that were skipped for one reason."""

    reason: str
    first_at: datetime
    last_at: datetime
    number: int = 1


def _restart_ticks(old: Schedule, new: Schedule, reason: str, now: datetime) -> Firing:
    """Restarts the ticks from now, and records the due ticks that will not fire as skipped."""
    skipped = _skipped_until(old, reason, now)
    if reached_max_runs(new) and new.held_at is not None:
        skipped.append(_SkippedTicks(reason, new.held_at, new.held_at))
        new = replace(new, held_at=None, waits_on=None)
    return _record_skipped(with_due_at(with_first_tick(replace(new, reached_at=now), now), now), skipped, now)


def _skipped_until(schedule: Schedule, reason: str, until: datetime) -> list[_SkippedTicks]:
    """Its ticks that are skipped up to `until`: omitted by the timetable, or left unfired for `reason`."""
    first = schedule.next_run_at
    if first is None:
        return []
    omitted = schedule.timetable.omitted(recorded_until(schedule), until, limit=MAX_COUNTED_TICKS)
    skipped = [_SkippedTicks(one.reason, one.first_at, one.last_at, one.count) for one in omitted]
    if first <= until:
        single = schedule.spec.after == "finish"
        skipped.append(_SkippedTicks(reason, first, *((first, 1) if single else count_ticks(schedule, first, until))))
    return skipped


def _record_skipped(schedule: Schedule, skips: Sequence[_SkippedTicks], now: datetime) -> Firing:
    """The firing that records these skipped ticks."""
    ticks = tuple(
        new_tick(schedule.ticks + n, "skipped", skip.reason, skip.first_at, skip.last_at, skip.number, now, None)
        for n, skip in enumerate(skips, 1)
    )
    skipped = schedule.skipped + sum(skip.number for skip in skips)
    return Firing(schedule=replace(schedule, ticks=schedule.ticks + len(ticks), skipped=skipped), ticks=ticks)
