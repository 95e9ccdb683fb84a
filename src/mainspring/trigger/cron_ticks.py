"""From one tick to the next on the clocks of a zone, whatever they do in between."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from ..clock import EPOCH
from .cron_plan import CronPlan
from .zone import change_at, offsets, wall_offset

# Walls are naive. Sums with these cost a fifth of what replace() and astimezone() do.
_WALL_EPOCH = EPOCH.replace(tzinfo=None)
_ZERO = timedelta(0)
# The first midnight that can be told in every zone.
_FIRST_MIDNIGHT = datetime.min + timedelta(days=1)


def next_utc(plan: CronPlan, after: datetime) -> datetime | None:
    wall = _next_second(after, _ZERO)
    found = None if wall is None else plan.first(wall)
    return None if found is None else EPOCH + (found - _WALL_EPOCH)


def next_in(plan: CronPlan, after: datetime, place: ZoneInfo) -> datetime | None:
    """The first tick later than `after`.

    A gap and the second pass of an overlap are the only places where the clock on the wall is not enough.
    """
    try:
        local = after.astimezone(place)
    except OverflowError:
        return _first_tick(plan, _FIRST_MIDNIGHT, place) if after.year == 1 else None
    wall = _next_second(after, wall_offset(local, place))
    if wall is None:
        return None
    first, last = offsets(local, place)
    return _first_tick(plan, wall, place) if first <= last else _next_repeated(plan, after, wall, place)


def _next_repeated(plan: CronPlan, after: datetime, wall: datetime, place: ZoneInfo) -> datetime | None:
    """As next_in, if clocks show twice what they show now."""
    change = change_at(wall - timedelta(seconds=1), place)
    assert change is not None, "offsets() told of one"
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
    return _first_tick(plan, max(wall, change.high) if again or not first_pass else wall, place)


def _first_tick(plan: CronPlan, wall: datetime, place: ZoneInfo) -> datetime | None:
    """The instant of the first match from `wall` on: of two passes the first, of a gap its end."""
    while (found := plan.first(wall)) is not None:
        before, behind = offsets(found, place)
        if before >= behind:
            return _instant(found, before)
        change = change_at(found, place)
        assert change is not None, "offsets() told of one"
        if change.is_daylight and not plan.fields.follows:
            return change.at
        wall = change.high
    return None


def _next_second(after: datetime, offset: timedelta) -> datetime | None:
    """The first whole second later than `after` on clocks with this offset; None: beyond the last year."""
    span = after - EPOCH
    try:
        return _WALL_EPOCH + timedelta(span.days, span.seconds + 1) + offset
    except OverflowError:
        return _FIRST_MIDNIGHT if after.year == 1 else None


def _instant(wall: datetime, offset: timedelta) -> datetime | None:
    """None: beyond the last year."""
    try:
        return EPOCH + (wall - _WALL_EPOCH - offset)
    except OverflowError:
        return None
