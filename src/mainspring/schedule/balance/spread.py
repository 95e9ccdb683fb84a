"""Spread: intervals are placed where the fewest ticks are, and moved there later if somebody asks. Pure."""

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
from .distribution import distribution
from .load import WEIGHT_PER_TICK, TickLoad, phase_of

# A tick as near as this is left alone, or as near as a quarter of its interval.
IMMINENT = timedelta(minutes=1)
# A schedule is not moved again for so long, and not within one interval: its moved tick is met first.
MIN_TIME_BETWEEN_MOVES = timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)

KeepReason = Literal["running", "imminent", "fresh"]


class MovedSchedule(Struct, frozen=True, kw_only=True):
    """A schedule's phase goes elsewhere: its next tick is at `to_at` instead of `from_at`."""

    name: str
    interval: float
    """In seconds."""
    from_at: datetime
    to_at: datetime


class KeptSchedule(Struct, frozen=True):
    """A schedule that is left where it is, wherever that is.

    Running: it has jobs that are not final, or a tick that waits for them. Imminent: its next tick is near, or due.
    Fresh: it was moved lately.
    """

    name: str
    why: KeepReason


class Rebalance(Struct, frozen=True, kw_only=True):
    """Which schedules are moved, or would be; `before` and `after` are the scores of the distributions."""

    moves: list[MovedSchedule]
    left: list[KeptSchedule]
    before: float
    after: float
    dry_run: bool = True
    changed: list[str] = []
    """Were to be moved, but others have changed them meanwhile: they are as those want them."""


def choose_anchor(name: str, spec: Spec, board: TickLoad, now: datetime) -> datetime:
    """Through which instant the grid of a new schedule goes: its first tick, at most one interval away.

    It is in the middle of the longest row of least loaded slots. One that runs on start comes in the second half of
    its interval, so that its second run does not come right after.
    """
    span, offset = _interval(spec).span // _MICROSECOND, _offset(name, spec)
    round, here = board.round(span), micros(now) + offset
    start, slots = round.slot(here), len(round.ticks)
    later = range(slots // 2 + 1, slots) if spec.run_on_start and slots > 2 else None
    phase = round.phase(round.least(start, later))
    return instant(here + ((phase - here) % span or span) - offset)


def needs_anchor(spec: Spec, row: Schedule | None) -> bool:
    """Whether the spec asks for a place that the row, if there is one, does not have."""
    return spec.spread and (row is None or row.spec.trigger != spec.trigger)


def rebalance(schedules: Iterable[Schedule], now: datetime) -> tuple[Rebalance, list[Schedule]]:
    """What is to be moved, and the next revisions of those rows.

    Only what was made with spread=True is ever moved, and only out of a slot with more than its share of ticks
    to one where at least every other run of it is spared company.
    """
    rows = {row.name: row for row in schedules if row.status == "active"}
    board, left, new = TickLoad(rows.values(), now), list[KeptSchedule](), dict[str, Schedule]()
    for row in sorted((row for row in rows.values() if row.spec.spread), key=_order):
        if why := _keep_reason(row, now):
            left.append(KeptSchedule(row.name, why))
        elif better := _move_if_better(row, board, now):
            new[row.name] = better
    before, after = distribution(rows.values(), now).score, distribution((rows | new).values(), now).score
    if after < before:
        new, after = {}, before
    moves = [_moved_schedule(rows[name], new[name]) for name in new]
    return Rebalance(moves=moves, left=left, before=before, after=after), list(new.values())


def _order(row: Schedule) -> tuple[float, str]:
    """Short intervals first: long ones find their gaps."""
    return _interval(row.spec).seconds, row.name


def _keep_reason(row: Schedule, now: datetime) -> KeepReason | None:
    if row.active or row.held_at is not None or row.next_run_at is None:
        return "running"
    if row.next_run_at <= now + _imminent_span(row):
        return "imminent"
    return "fresh" if _moved_recently(row, now) else None


def _moved_recently(row: Schedule, now: datetime) -> bool:
    """Moved a short while ago, or before a tick that is still to come."""
    if row.moved_at is None or row.next_run_at is None:
        return False
    return (
        now < row.moved_at + max(MIN_TIME_BETWEEN_MOVES, _interval(row.spec).span) or row.next_run_at == row.anchor_at
    )


def _imminent_span(row: Schedule) -> timedelta:
    return min(IMMINENT, _interval(row.spec).span / 4)


def _move_if_better(row: Schedule, board: TickLoad, now: datetime) -> Schedule | None:
    """The row in a better slot, on the board too; None: it is well where it is, or nowhere else much better."""
    beat = phase_of(row, _interval(row.spec))
    round = board.round(beat.span)
    here = round.slot(beat.phase)
    if round.ticks[here] <= round.share:
        return None
    board.add(row, -1)
    best = round.least(here)
    better = round.ticks[here] - round.ticks[best] >= WEIGHT_PER_TICK // 2
    new = with_phase(row, round.phase(best), now) if better else None
    board.add(new or row)
    return new


def with_phase(row: Schedule, phase: int, now: datetime) -> Schedule | None:
    """The row with its grid through another phase; None: it would have no tick any more.

    Its next tick is the one of the new grid that is nearest to the old one, so it comes at least half an interval
    after the last; where that is past or near, it is the one after, less than two intervals after the last.
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
