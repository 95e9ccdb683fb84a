"""What becomes of a schedule when somebody makes or changes it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ..ids import JobId
from ..trigger.zone import zone_of
from .record import Firing, Owner, Schedule, Spec, Tick
from .status import COUNTED, counted, over, recorded_until, tick_of, with_active, with_due_at, with_first_tick

_MICROSECOND = timedelta(microseconds=1)


def fingerprint(spec: Spec) -> str:
    """Without that of the task, which says nothing that the payload does not say."""
    return blake2b(msgspec.json.encode(replace(spec, fingerprint=None), order="sorted"), digest_size=16).hexdigest()


def create(
    name: str, spec: Spec, *, owner: Owner, now: datetime, anchor_at: datetime | None = None
) -> Schedule:  # fmt: skip
    """A new schedule: its first tick is the next one, or at once if it is to run on start."""
    new = Schedule(
        name=name, spec=spec, owner=owner, created_at=now, updated_at=now,
        declared=fingerprint(spec) if owner == "code" else "", anchor_at=anchor_at or spec.start_at or now,
    )  # fmt: skip
    first = now if spec.run_on_start and _open(spec, now) else new.timetable.next(now)
    return with_due_at(replace(new, next_run_at=first), now)


def _open(spec: Spec, now: datetime) -> bool:
    """Whether its start, end, window and excluded dates let it run now."""
    if not (spec.start_at or now) <= now <= (spec.end_at or now):
        return False
    today = now.astimezone(zone_of(spec.trigger.tz)).date()
    return today not in spec.exclude and (spec.window is None or spec.window.zoned(spec.trigger.tz).inside(now))


# What a change of any of these means: the ticks are others.
_WHEN = ("trigger", "window", "exclude", "start_at", "end_at", "after")


def redefine(
    schedule: Schedule, spec: Spec, *, now: datetime, declared: str | None = None, anchor_at: datetime | None = None
) -> Firing:
    """The schedule with another spec. Its next tick stays unless the spec says other instants.

    A new interval is laid through `anchor_at`, or through its start or now.
    """
    new = replace(schedule, spec=spec, revision=schedule.revision + 1, updated_at=now)
    new = _unlearned(schedule, new, now)
    if declared is not None:
        new = replace(new, declared=declared)
    if spec.depends_on != schedule.spec.depends_on:
        new = replace(new, waits_on=None)
    if spec.trigger != schedule.spec.trigger or (spec.start_at != schedule.spec.start_at and not spec.spread):
        new = replace(new, anchor_at=anchor_at or spec.start_at or now)
    others = any(getattr(spec, name) != getattr(schedule.spec, name) for name in _WHEN)
    if others or over(schedule) != over(new):
        return _anew(schedule, new, "changed", now)
    return Firing(schedule=with_due_at(new, now))


# What the results of runs depend on, or what is made of them.
_LEARNED = ("trigger", "task", "payload", "computed", "adapt")


def _unlearned(old: Schedule, new: Schedule, now: datetime) -> Schedule:
    """Its interval is itself again if what its runs returned says nothing about those to come."""
    if all(getattr(new.spec, name) == getattr(old.spec, name) for name in _LEARNED):
        return new
    new = replace(new, stretch=1, digest="")
    if old.stretch == 1 or new.next_run_at is None or new.next_run_at <= now:
        return new
    return replace(new, next_run_at=new.timetable.next(now))


def pause(schedule: Schedule, note: str, *, now: datetime) -> Schedule:
    """It keeps its place and makes no jobs."""
    return replace(
        schedule, revision=schedule.revision + 1, paused_at=schedule.paused_at or now, note=note, due_at=None,
        updated_at=now,
    )  # fmt: skip


def resume(schedule: Schedule, *, from_now: bool, now: datetime) -> Firing:
    """From now, leaving out what the pause covered, or from where it left, by its catch-up rule."""
    new = replace(schedule, revision=schedule.revision + 1, paused_at=None, note="", failures=0, updated_at=now)
    if from_now and new.next_run_at is not None and new.next_run_at <= now:
        return _anew(schedule, new, "paused", now)
    if new.spec.after == "finish" and new.next_run_at is None:
        new = with_first_tick(replace(new, anchor_at=now), now)
    return Firing(schedule=with_due_at(new, now))


def reschedule(schedule: Schedule, at: datetime, *, now: datetime) -> Firing:
    """Its next tick is at `at`, or now if that is past; those after it follow the trigger again."""
    at = max(at, now)
    until = min(now, at - _MICROSECOND)
    reached = max(until, schedule.reached_at or until)
    new = replace(schedule, revision=schedule.revision + 1, next_run_at=at, reached_at=reached, updated_at=now)
    return _recorded(with_due_at(new, now), _passed(schedule, "changed", until), now)


def trigger_now(
    schedule: Schedule, ticks: Sequence[datetime], reason: str, *, now: datetime, mint: Callable[[], JobId], joins: bool
) -> Firing:
    """Jobs for these instants at once, beside the series: its next tick, count and policies are left alone.

    Only a job that `joins` is one of its runs: it keeps the next from overlapping, and its failure counts.
    """
    records = [
        Tick(n=schedule.ticks + n, at=tick, seen_at=now, what="fired", reason=reason, job_id=mint())
        for n, tick in enumerate(ticks, 1)
    ]
    ids = [tick.job_id for tick in records if tick.job_id is not None]
    new = replace(
        schedule, revision=schedule.revision + 1, ticks=schedule.ticks + len(records),
        last_job_id=ids[-1] if ids else schedule.last_job_id,
    )  # fmt: skip
    return Firing(schedule=with_active(new, (*new.active, *ids)) if joins else new, ticks=tuple(records))


class _Fate(NamedTuple):
    """Why some ticks in a row were not fired."""

    reason: str
    first_at: datetime
    last_at: datetime
    number: int = 1


def _anew(old: Schedule, new: Schedule, reason: str, now: datetime) -> Firing:
    """Its ticks begin anew now; those that were due and are not going to be fired are on record."""
    fates = _passed(old, reason, now)
    if over(new) and new.held_at is not None:
        fates.append(_Fate(reason, new.held_at, new.held_at))
        new = replace(new, held_at=None, waits_on=None)
    return _recorded(with_due_at(with_first_tick(replace(new, reached_at=now), now), now), fates, now)


def _passed(schedule: Schedule, reason: str, until: datetime) -> list[_Fate]:
    """The fates of its ticks up to an instant from which others count."""
    first = schedule.next_run_at
    if first is None:
        return []
    gone = schedule.timetable.omitted(recorded_until(schedule), until, limit=COUNTED)
    fates = [_Fate(one.reason, one.first_at, one.last_at, one.count) for one in gone]
    if first <= until:
        single = schedule.spec.after == "finish"
        fates.append(_Fate(reason, first, *((first, 1) if single else counted(schedule, first, until))))
    return fates


def _recorded(schedule: Schedule, fates: Sequence[_Fate], now: datetime) -> Firing:
    ticks = tuple(
        tick_of(schedule.ticks + n, "skipped", fate.reason, fate.first_at, fate.last_at, fate.number, now, None)
        for n, fate in enumerate(fates, 1)
    )
    skipped = schedule.skipped + sum(fate.number for fate in fates)
    return Firing(schedule=replace(schedule, ticks=schedule.ticks + len(ticks), skipped=skipped), ticks=ticks)
