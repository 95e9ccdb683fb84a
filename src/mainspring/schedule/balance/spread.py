"""Spread: chooses anchors of intervals where the fewest ticks are, and rebalances existing ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...clock import instant, micros
from ...trigger import Every, Timetable
from ..record import Schedule, Spec
from ..status import next_due
from .load import WEIGHT_PER_TICK, TickLoad, phase_of

# A schedule is not moved if its next tick is within this time, or within a quarter of its interval.
IMMINENT = timedelta(minutes=1)
# A schedule is not moved again within this time or one interval, nor before its moved tick has passed.
MIN_TIME_BETWEEN_MOVES = timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)

KeepReason = Literal["running", "imminent", "fresh"]


class MovedSchedule(Struct, frozen=True, kw_only=True):
    """A schedule with a new phase: its next tick is at `to_at` instead of `from_at`."""

    name: str
    interval: float
    """Seconds."""
    from_at: datetime
    to_at: datetime


class KeptSchedule(Struct, frozen=True):
    """A schedule that is not moved, and why.

    running: it has unfinished jobs, or a tick that waits for them. imminent: its next tick is near or due.
    fresh: it was moved recently.
    """

    name: str
    why: KeepReason


class Rebalance(Struct, frozen=True, kw_only=True):
    """The schedules that are moved, or would be; `before` and `after` are the scores of the distributions."""

    moves: list[MovedSchedule]
    left: list[KeptSchedule]
    before: float
    after: float
    dry_run: bool = True
    changed: list[str] = []
    """Schedules that were not moved because they were changed meanwhile."""


def choose_anchor(name: str, spec: Spec, load: TickLoad, now: datetime) -> datetime:
    """The anchor of a new schedule: its first tick, at most one interval away.

    It is in the middle of the longest run of least loaded slots; with run_on_start, in the second half of the
    interval, so that the second run does not follow the first at once.
    """
    span, offset = _interval(spec).span // _MICROSECOND, _offset(name, spec)
    wheel, here = load.wheel(span), micros(now) + offset
    start, slots = wheel.slot_of(here), len(wheel.ticks)
    later = range(slots // 2 + 1, slots) if spec.run_on_start and slots > 2 else None
    phase = wheel.phase_in(wheel.least_loaded_slot(start, later))
    return instant(here + ((phase - here) % span or span) - offset)


def needs_anchor(spec: Spec, row: Schedule | None) -> bool:
    """Whether the spec has spread=True and the stored row, if any, has no anchor for its trigger yet."""
    return spec.spread and (row is None or row.spec.trigger != spec.trigger)


def rebalance(schedules: Iterable[Schedule], now: datetime) -> tuple[Rebalance, list[Schedule]]:
    """Plans the moves, and returns the next revisions of the moved rows.

    Only schedules with spread=True are moved, and only from a slot with more than its fair share of ticks to one
    that is lighter by at least half a tick.
    """
    rows = {row.name: row for row in schedules if row.status == "active"}
    load, left, new = TickLoad(rows.values(), now), list[KeptSchedule](), dict[str, Schedule]()
    for row in sorted((row for row in rows.values() if row.spec.spread), key=_order):
        if why := _keep_reason(row, now):
            left.append(KeptSchedule(row.name, why))
        elif better := _move_if_better(row, load, now):
            new[row.name] = better
    from .distribution import distribution

    before, after = distribution(rows.values(), now).score, distribution((rows | new).values(), now).score
    if after < before:
        new, after = {}, before
    moves = [_moved_schedule(rows[name], new[name]) for name in new]
    return Rebalance(moves=moves, left=left, before=before, after=after), list(new.values())


def _order(row: Schedule) -> tuple[float, str]:
    """Sort key: short intervals first, since long ones fit into the gaps."""
    return _interval(row.spec).seconds, row.name


def _keep_reason(row: Schedule, now: datetime) -> KeepReason | None:
    if row.active or row.held_at is not None or row.next_run_at is None:
        return "running"
    if row.next_run_at <= now + _imminent_span(row):
        return "imminent"
    return "fresh" if _moved_recently(row, now) else None


def _moved_recently(row: Schedule, now: datetime) -> bool:
    """Whether it was moved recently, or its moved tick is still to come."""
    if row.moved_at is None or row.next_run_at is None:
        return False
    return (
        now < row.moved_at + max(MIN_TIME_BETWEEN_MOVES, _interval(row.spec).span) or row.next_run_at == row.anchor_at
    )


def _imminent_span(row: Schedule) -> timedelta:
    return min(IMMINENT, _interval(row.spec).span / 4)


def _move_if_better(row: Schedule, load: TickLoad, now: datetime) -> Schedule | None:
    """The row in a better slot, updated in `load` too; None if no slot is much better."""
    phase = phase_of(row, _interval(row.spec))
    wheel = load.wheel(phase.span)
    here = wheel.slot_of(phase.phase)
    if wheel.ticks[here] <= wheel.fair_share:
        return None
    load.add(row, -1)
    best = wheel.least_loaded_slot(here)
    better = wheel.ticks[here] - wheel.ticks[best] >= WEIGHT_PER_TICK // 2
    new = with_phase(row, wheel.phase_in(best), now) if better else None
    load.add(new or row)
    return new


def with_phase(row: Schedule, phase: int, now: datetime) -> Schedule | None:
    """The row with its grid at another phase; None if it would have no further tick.

    Its next tick is the tick of the new grid nearest to the old one, so at least half an interval after the last
    run. If that is past or imminent, it is the one after, less than two intervals after the last run.
    """
    every, next_at = _interval(row.spec), row.next_run_at
    assert next_at is not None
    grid = every.starting(instant(phase - _offset(row.name, row.spec)))
    tick = grid.next(max(next_at - every.span / 2, now + _imminent_span(row)))
    if tick is None:
        return None
    new = replace(row, anchor_at=tick, moved_at=now, updated_at=now, revision=row.revision + 1)
    new = replace(new, next_run_at=new.timetable.next(tick - _MICROSECOND))
    return None if new.next_run_at is None else replace(new, due_at=next_due(new))


def _moved_schedule(old: Schedule, new: Schedule) -> MovedSchedule:
    assert old.next_run_at is not None
    assert new.next_run_at is not None
    interval = _interval(old.spec).seconds
    return MovedSchedule(name=old.name, interval=interval, from_at=old.next_run_at, to_at=new.next_run_at)


def _interval(spec: Spec) -> Every:
    assert isinstance(spec.trigger, Every)
    return spec.trigger


def _offset(name: str, spec: Spec) -> int:
    return Timetable(trigger=spec.trigger, name=name, jitter=spec.jitter).offset // _MICROSECOND
