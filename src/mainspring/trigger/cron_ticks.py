"""Ticks of a cron expression: finds the next one in a zone, across clock changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from ..clock import EPOCH
from .cron_plan import CronPlan
from .zone import change_at, offsets, wall_offset

# Wall-clock times are naive. Adding to these costs a fifth of replace() and astimezone().
_WALL_EPOCH = EPOCH.replace(tzinfo=None)
_ZERO = timedelta(0)
# The first midnight that can be converted to every zone.
_FIRST_MIDNIGHT = datetime.min + timedelta(days=1)


def next_utc(plan: CronPlan, after: datetime) -> datetime | None:
    """The first tick after `after` in UTC; None if there is none."""
    wall = _next_second(after, _ZERO)
    found = None if wall is None else plan.first(wall)
    return None if found is None else EPOCH + (found - _WALL_EPOCH)


def next_in(plan: CronPlan, after: datetime, zone: ZoneInfo) -> datetime | None:
    """The first tick after `after`; None if there is none.

    The wall-clock time alone is not enough in a gap and in the second pass of a repeated hour.
    """
    try:
        local = after.astimezone(zone)
    except OverflowError:
        return _first_tick(plan, _FIRST_MIDNIGHT, zone) if after.year == 1 else None
    wall = _next_second(after, wall_offset(local, zone))
    if wall is None:
        return None
    first, last = offsets(local, zone)
    return _first_tick(plan, wall, zone) if first <= last else _next_repeated(plan, after, wall, zone)


def _next_repeated(plan: CronPlan, after: datetime, wall: datetime, zone: ZoneInfo) -> datetime | None:
    """next_in() for a wall-clock time that occurs twice."""
    change = change_at(wall - timedelta(seconds=1), zone)
    assert change is not None, "offsets() differ"
    again = plan.fields.follows or not change.is_daylight
    first_pass = after < change.at
    if again and first_pass:
        found = plan.first(wall)
        if found is not None and found < change.high:
            return _instant(found, change.before)
        wall = change.low
    if again:
        found = plan.first(wall)
        if found is not None and found < change.high:
            return _instant(found, change.after)
    return _first_tick(plan, max(wall, change.high) if again or not first_pass else wall, zone)


def _first_tick(plan: CronPlan, wall: datetime, zone: ZoneInfo) -> datetime | None:
    """The instant of the first match at or after `wall`: the first of two passes, the end of a gap."""
    while (found := plan.first(wall)) is not None:
        before, after_change = offsets(found, zone)
        if before >= after_change:
            return _instant(found, before)
        change = change_at(found, zone)
        assert change is not None, "offsets() differ"
        if change.is_daylight and not plan.fields.follows:
            return change.at
        wall = change.high
    return None


def _next_second(after: datetime, offset: timedelta) -> datetime | None:
    """The first whole second after `after` at this offset; None if it is beyond the last year."""
    span = after - EPOCH
    try:
        return _WALL_EPOCH + timedelta(span.days, span.seconds + 1) + offset
    except OverflowError:
        return _FIRST_MIDNIGHT if after.year == 1 else None


def _instant(wall: datetime, offset: timedelta) -> datetime | None:
    """The instant of a wall-clock time; None if it is beyond the last year."""
    try:
        return EPOCH + (wall - _WALL_EPOCH - offset)
    except OverflowError:
        return None
