"""Time zones: lookup by name, offsets from UTC, and clock changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from ..errors import BadInput

_NAME = re.compile(r"[A-Za-z0-9_+\-]{1,40}(?:/[A-Za-z0-9_+\-]{1,40}){0,2}")
# In some zone directories, but not zones of the IANA database: their meaning depends on the machine.
_NOT_ZONES = ("localtime", "posix", "posixrules", "right", "Factory")
_ZERO = timedelta(0)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
# A larger change is not daylight saving: a zone moved across the date line.
MAX_DAYLIGHT_SHIFT = timedelta(hours=3)


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """The zone of that name in the IANA database. Raises BadInput if there is none."""
    if not isinstance(name, str):
        raise BadInput(f"a time zone is given by its name, such as 'Europe/London'; got {name!r}")
    if _NAME.fullmatch(name) and name.partition("/")[0] not in _NOT_ZONES:
        try:
            return ZoneInfo(name)
        except (ValueError, OSError, LookupError):
            pass
    shown = repr(name) if len(name) <= 40 else f"{name[:40]!r}…"
    raise BadInput(f"there is no time zone {shown}; {_suggestion(name)}")


def _suggestion(name: str) -> str:
    near = _similar(name) if 2 <= len(name) <= 40 else []
    return f"did you mean {' or '.join(near)}?" if near else "write one such as Europe/London"


def _similar(name: str) -> list[str]:
    from difflib import get_close_matches

    whole = {known.casefold(): known for known in available_timezones()}
    cities = {known.rpartition("/")[2].casefold(): known for known in sorted(whole.values())}
    wanted = name.casefold().replace(" ", "_")
    near = [whole[found] for found in get_close_matches(wanted, whole, 2, 0.75)]
    near += [cities[found] for found in get_close_matches(wanted, cities, 1, 0.75)]
    return list(dict.fromkeys(near))


class Change(NamedTuple):
    """A clock change. Wall-clock times in [low, high) are skipped, or occur twice."""

    at: datetime
    before: timedelta
    """The offset from UTC before the change."""
    after: timedelta

    @property
    def is_gap(self) -> bool:
        return self.after > self.before

    @property
    def is_daylight(self) -> bool:
        return abs(self.after - self.before) <= MAX_DAYLIGHT_SHIFT

    @property
    def low(self) -> datetime:
        return self.at.replace(tzinfo=None) + min(self.before, self.after)

    @property
    def high(self) -> datetime:
        return self.at.replace(tzinfo=None) + max(self.before, self.after)


def offsets(wall: datetime, zone: ZoneInfo) -> tuple[timedelta, timedelta]:
    """The offsets from UTC at the first and the last occurrence of a wall-clock time; in a gap, before and after."""
    return wall_offset(wall.replace(fold=0) if wall.fold else wall, zone), wall_offset(wall.replace(fold=1), zone)


def wall_offset(wall: datetime, zone: ZoneInfo) -> timedelta:
    """The offset from UTC at a wall-clock time; `fold` selects one of two occurrences."""
    return zone.utcoffset(wall) or _ZERO


def change_at(wall: datetime, zone: ZoneInfo) -> Change | None:
    """The change that skips or repeats this wall-clock time; None if it occurs once."""
    before, after = offsets(wall, zone)
    if before == after:
        return None
    instant = wall.replace(tzinfo=UTC)
    return _between(instant - max(before, after), instant - min(before, after), zone)


def changes(after: datetime, until: datetime, zone: ZoneInfo) -> Iterator[Change]:
    """Every clock change after `after`, up to and including `until`; clocks change at most once a day."""
    low = after.astimezone(UTC)
    while low < until:
        high = min(low + _DAY, until)
        if offset_at(low, zone) != offset_at(high, zone):
            yield _between(low, high, zone)
        low = high


def offset_at(at: datetime, zone: ZoneInfo) -> timedelta:
    """The zone's offset from UTC at an instant."""
    return wall_offset(at.astimezone(zone), zone)


def _between(low: datetime, high: datetime, zone: ZoneInfo) -> Change:
    """The only change after `low`, up to and including `high`, by binary search."""
    before, after = offset_at(low, zone), offset_at(high, zone)
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0) if middle.replace(microsecond=0) > low else low + _SECOND
        if offset_at(middle, zone) == before:
            low = middle
        else:
            high = middle
    return Change(high, before, after)
