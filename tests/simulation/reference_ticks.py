"""The ticks that a schedule ought to have, found slowly and plainly, without the engine's own arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from mainspring.schedule.record import Spec
from mainspring.trigger import Cron, Every, Window

_MICROSECOND, _SECOND, _DAY = timedelta(microseconds=1), timedelta(seconds=1), timedelta(days=1)


def ticks(spec: Spec, anchor: datetime, after: datetime, until: datetime) -> list[datetime]:
    """All of them later than `after` and not later than `until`."""
    until = min(until, spec.end_at or until)
    kept = {tick for tick in raw(spec, anchor, after, until) if omission(spec, tick) is None and not _shut(spec, tick)}
    if spec.window is not None and spec.window.outside == "move":
        kept |= {opening for opening in _openings(spec.window, after, until) if _moved(spec, anchor, opening)}
    return sorted(kept)


def omitted(spec: Spec, anchor: datetime, after: datetime, until: datetime) -> list[tuple[datetime, str]]:
    """The ticks of its trigger that it does not have, and why."""
    until = min(until, spec.end_at or until)
    found = [(tick, omission(spec, tick)) for tick in raw(spec, anchor, after, until)]
    return [(tick, why) for tick, why in found if why is not None]


def omission(spec: Spec, tick: datetime) -> str | None:
    if _excluded(spec, tick):
        return "excluded"
    return "window" if _shut(spec, tick) and spec.window and spec.window.outside == "skip" else None


def _excluded(spec: Spec, at: datetime) -> bool:
    return at.astimezone(ZoneInfo(spec.trigger.tz)).date() in spec.exclude


def open(spec: Spec, at: datetime) -> bool:
    """Whether it may run at this instant, tick or not."""
    return omission(spec, at) is None and not _shut(spec, at) and at <= (spec.end_at or at)


def raw(spec: Spec, anchor: datetime, after: datetime, until: datetime) -> Iterator[datetime]:
    """What the trigger alone says."""
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
    # If the clocks were put forward, what they left out runs now, once.
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


# windows, which are in UTC here


def _shut(spec: Spec, tick: datetime) -> bool:
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


def _moved(spec: Spec, anchor: datetime, opening: datetime) -> bool:
    """Whether a tick is moved to this opening: one before it, or before those on dates that are left out."""
    if _excluded(spec, opening):
        return False
    while not _waits(spec, anchor, opening):
        opening -= _DAY
        if not _excluded(spec, opening):
            return False
    return True


def _waits(spec: Spec, anchor: datetime, opening: datetime) -> bool:
    """Whether a tick falls into the time before this opening in which the window is shut."""
    assert spec.window is not None
    closed = datetime.combine(opening.date(), time.fromisoformat(spec.window.closes), UTC)
    closed -= _DAY if closed >= opening else timedelta(0)
    before = raw(spec, anchor, closed - _MICROSECOND, opening - _MICROSECOND)
    return any(not _excluded(spec, tick) for tick in before)
