"""The reference ticks of a schedule, computed slowly and simply, without the engine's arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from mainspring.schedule.record import Spec
from mainspring.trigger import Cron, Every, Window

_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


def ticks(spec: Spec, anchor: datetime, after: datetime, until: datetime) -> list[datetime]:
    """The ticks later than `after` and not later than `until`, sorted."""
    until = min(until, spec.end_at or until)
    kept = {
        tick
        for tick in trigger_ticks(spec, anchor, after, until)
        if omission(spec, tick) is None and not _is_closed(spec, tick)
    }
    if spec.window is not None and spec.window.outside == "move":
        kept |= {
            opening for opening in _openings(spec.window, after, until) if _receives_moved_tick(spec, anchor, opening)
        }
    return sorted(kept)


def omitted(spec: Spec, anchor: datetime, after: datetime, until: datetime) -> list[tuple[datetime, str]]:
    """The ticks of its trigger that the schedule omits, each with the reason."""
    until = min(until, spec.end_at or until)
    found = [(tick, omission(spec, tick)) for tick in trigger_ticks(spec, anchor, after, until)]
    return [(tick, why) for tick, why in found if why is not None]


def omission(spec: Spec, tick: datetime) -> str | None:
    """Why the schedule omits a tick; None if it does not."""
    if _is_excluded(spec, tick):
        return "excluded"
    return "window" if _is_closed(spec, tick) and spec.window and spec.window.outside == "skip" else None


def _is_excluded(spec: Spec, at: datetime) -> bool:
    return at.astimezone(ZoneInfo(spec.trigger.tz)).date() in spec.exclude


def is_open(spec: Spec, at: datetime) -> bool:
    """Whether the schedule may run at this instant, tick or not."""
    return omission(spec, at) is None and not _is_closed(spec, at) and at <= (spec.end_at or at)


def trigger_ticks(spec: Spec, anchor: datetime, after: datetime, until: datetime) -> Iterator[datetime]:
    """The ticks of the trigger alone."""
    trigger = spec.trigger
    if isinstance(trigger, Every):
        yield from _grid(trigger.span, anchor, after, until)
    else:
        assert isinstance(trigger, Cron)
        yield from _by_seconds(trigger.expr, trigger.tz, after, until)


def _grid(span: timedelta, anchor: datetime, after: datetime, until: datetime) -> Iterator[datetime]:
    tick = anchor
    while tick > after:
        tick -= span
    while tick <= until:
        if tick > after:
            yield tick
        tick += span


# cron, second by second


def _by_seconds(expr: str, tz: str, after: datetime, until: datetime) -> Iterator[datetime]:
    zone, fields = ZoneInfo(tz), expr.split()
    times = fields[:3] if len(fields) == 6 else ["0", *fields[:2]]
    follows = any(field.startswith("*") for field in times)
    wanted = [_values(field, top) for field, top in zip(times, (60, 60, 24), strict=True)]
    at = after.replace(microsecond=0) + _SECOND
    before = (at - _SECOND).astimezone(zone)
    while at <= until:
        wall = at.astimezone(zone)
        if _is_tick(wall, before, wanted, follows):
            yield at
        before, at = wall, at + _SECOND


def _is_tick(wall: datetime, before: datetime, wanted: list[set[int]], follows: bool) -> bool:
    if _matches(wall, wanted):
        return follows or not wall.fold
    if follows:
        return False
    # If clocks were put forward, times in the gap run now, once.
    left_out, end = before.replace(tzinfo=None) + _SECOND, wall.replace(tzinfo=None)
    while left_out < end:
        if _matches(left_out, wanted):
            return True
        left_out += _SECOND
    return False


def _matches(wall: datetime, wanted: list[set[int]]) -> bool:
    return all(value in values for value, values in zip((wall.second, wall.minute, wall.hour), wanted, strict=True))


def _values(field: str, top: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low, high = (0, top - 1) if span == "*" else (int(first), int(last or first))
        found |= set(range(low, high + 1, int(step or 1)))
    return found


# windows; in UTC in this simulation


def _is_closed(spec: Spec, tick: datetime) -> bool:
    if spec.window is None:
        return False
    opens, closes, now = time.fromisoformat(spec.window.opens), time.fromisoformat(spec.window.closes), tick.time()
    return not (opens <= now < closes) if opens < closes else closes <= now < opens


def _openings(window: Window, after: datetime, until: datetime) -> Iterator[datetime]:
    opening = datetime.combine(after.date(), time.fromisoformat(window.opens), UTC) - _DAY
    while opening <= until:
        if opening > after:
            yield opening
        opening += _DAY


def _receives_moved_tick(spec: Spec, anchor: datetime, opening: datetime) -> bool:
    """Whether a tick is moved to this opening: from the closed time before it, or from before an excluded date."""
    if _is_excluded(spec, opening):
        return False
    while not _has_waiting_tick(spec, anchor, opening):
        opening -= _DAY
        if not _is_excluded(spec, opening):
            return False
    return True


def _has_waiting_tick(spec: Spec, anchor: datetime, opening: datetime) -> bool:
    """Whether a tick falls into the closed time before this opening."""
    assert spec.window is not None
    closed = datetime.combine(opening.date(), time.fromisoformat(spec.window.closes), UTC)
    closed -= _DAY if closed >= opening else timedelta(0)
    before = trigger_ticks(spec, anchor, closed - _MICROSECOND, opening - _MICROSECOND)
    return any(not _is_excluded(spec, tick) for tick in before)
