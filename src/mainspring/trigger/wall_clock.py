"""Wall-clock times: the instants at which a clock in a zone shows them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from ..errors import BadInput
from .bounds import MAX_TIMES, quoted
from .zone import MAX_DAYLIGHT_SHIFT, change_at

DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
ZERO = timedelta(0)
# Zones are less than a day from UTC: instants between these two can be converted to every zone.
EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
LATEST = datetime(9999, 12, 28, tzinfo=UTC)

MONTHS = (
    "", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")


def to_utc(at: datetime, what: str) -> datetime:
    """The instant in UTC. Raises BadInput if it has no time zone."""
    if not isinstance(at, datetime):
        raise BadInput(f"{what} must be a datetime, got {at!r:.80}")
    if at.utcoffset() is None:
        raise BadInput(f"{what} {at} has no zone: give one, as in datetime(..., tzinfo=UTC)")
    try:
        return at if at.tzinfo is UTC else at.astimezone(UTC)
    except OverflowError:
        raise BadInput(f"{what} {at} is beyond the years 1 to 9999 in UTC") from None


@lru_cache(maxsize=2 * MAX_TIMES)
def time_of(text: str) -> time:
    """A time of day from "9:00", "09:00" or "09:00:30"."""
    match = _TIME.fullmatch(text)
    if match and int(match[1]) < 24 and int(match[2]) < 60 and int(match[3] or 0) < 60:
        return time(int(match[1]), int(match[2]), int(match[3] or 0))
    raise BadInput(
        f"{quoted(text)} is not a time of day: write it as '09:00' or '17:30:15', from '00:00' to '23:59:59'"
    )


def time_text(at: time | datetime) -> str:
    """09:00, or 09:00:30 if it has seconds."""
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def date_text(day: date) -> str:
    """29 March 2026, independent of the locale."""
    return f"{day.day} {MONTHS[day.month]} {day.year}"


def clock_shift(wall: datetime, zone: ZoneInfo) -> timedelta:
    """The size of a clock change at this time: positive if the time is skipped, negative if it occurs twice."""
    return _offset(wall.replace(fold=1), zone) - _offset(wall, zone)


def instants(wall: datetime, zone: ZoneInfo) -> list[datetime]:
    """The instants, in UTC, at which a tick at this wall-clock time is due.

    A time in a daylight-saving gap is due at the first instant after the gap; a repeated time, at its first
    occurrence. Larger changes are not corrected: a time is due as often as it occurs.
    """
    before, after = _offset(wall, zone), _offset(wall.replace(fold=1), zone)
    if before == after:
        return [_utc(wall - before)]
    if abs(after - before) <= MAX_DAYLIGHT_SHIFT:
        return [first_instant(wall, zone)]
    return [] if after > before else [_utc(wall - before), _utc(wall - after)]


def first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first instant, in UTC, at which the clock shows this time or, if it is skipped, a later one."""
    change = change_at(wall, zone)
    return change.at if change is not None and change.is_gap else _utc(wall - _offset(wall, zone))


def _offset(wall: datetime, zone: ZoneInfo) -> timedelta:
    return zone.utcoffset(wall) or ZERO


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC)
