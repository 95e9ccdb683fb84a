"""From one tick to the next on the clocks of a zone, whatever they do in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from .cron_plan import Plan
from .zone import change_at

_SECOND = timedelta(seconds=1)
# The first midnight that can be told in every zone.
_BEGINNING = datetime.min + timedelta(days=1)


def next_utc(plan: Plan, after: datetime) -> datetime | None:
    wall = _later(after, UTC)
    found = None if wall is None else plan.first(wall)
    return None if found is None else found.replace(tzinfo=UTC)


def next_in(plan: Plan, after: datetime, place: ZoneInfo) -> datetime | None:
    """The first tick later than `after`.

    A gap and the second pass of an overlap are the only places where the clock on the wall is not enough.
    """
    wall = _later(after, place)
    if wall is None:
        return None
    change = change_at(wall - _SECOND, place)
    if change is not None and not change.is_gap:
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
        if again or not first_pass:
            wall = max(wall, change.high)
    return _resolved(plan, wall, place)


def _resolved(plan: Plan, wall: datetime, place: ZoneInfo) -> datetime | None:
    """The instant of the first match from `wall` on: of two passes the first, of a gap its end."""
    while (found := plan.first(wall)) is not None:
        change = change_at(found, place)
        if change is None:
            return _instant(found, found.replace(tzinfo=place).utcoffset())
        if not change.is_gap:
            return _instant(found, change.before)
        if change.is_daylight and not plan.fields.follows:
            return change.at
        wall = change.high
    return None


def _later(after: datetime, place: tzinfo) -> datetime | None:
    """The first whole second later than `after` on the clocks there; None: beyond the last year."""
    try:
        return after.astimezone(place).replace(tzinfo=None, microsecond=0, fold=0) + _SECOND
    except OverflowError:
        return _BEGINNING if after.year == 1 else None


def _instant(wall: datetime, offset: timedelta | None) -> datetime | None:
    """None: beyond the last year."""
    try:
        return (wall - (offset or timedelta(0))).replace(tzinfo=UTC)
    except OverflowError:
        return None
