"""Time zones by name, and the instants at which their clocks change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from ..errors import BadInput

_NAME = re.compile(r"[A-Za-z0-9_+\-]{1,40}(?:/[A-Za-z0-9_+\-]{1,40}){0,2}")
# In some zone directories, but no zones of the world: what they mean differs from machine to machine.
_NOT_ZONES = ("localtime", "posix", "posixrules", "right", "Factory")
_ZERO, _SECOND, _DAY = timedelta(0), timedelta(seconds=1), timedelta(days=1)
# A longer jump is no daylight saving: a zone has changed sides of the date line.
MAX_DAYLIGHT_SHIFT = timedelta(hours=3)


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """The zone of that name in the IANA database; anything else is refused."""
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
    """A change of the clocks. Wall-clock times from `low` to before `high` are left out, or come twice."""

    at: datetime
    before: timedelta
    """The offset from UTC until then."""
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


def offsets(wall: datetime, place: ZoneInfo) -> tuple[timedelta, timedelta]:
    """How far clocks there are ahead of UTC the first and the last time they show this; in a gap, before and after."""
    return wall_offset(wall.replace(fold=0) if wall.fold else wall, place), wall_offset(wall.replace(fold=1), place)


def wall_offset(wall: datetime, place: ZoneInfo) -> timedelta:
    """How far clocks there are ahead of UTC when they show this; of two passes, `fold` says which."""
    return place.utcoffset(wall) or _ZERO


def change_at(wall: datetime, place: ZoneInfo) -> Change | None:
    """The change that leaves out or repeats this wall-clock time; None: it comes once."""
    before, after = offsets(wall, place)
    if before == after:
        return None
    instant = wall.replace(tzinfo=UTC)
    return _between(instant - max(before, after), instant - min(before, after), place)


def changes(after: datetime, until: datetime, place: ZoneInfo) -> Iterator[Change]:
    """Every change of the clocks later than `after` and not later than `until`; clocks change at most once a day."""
    low = after.astimezone(UTC)
    while low < until:
        high = min(low + _DAY, until)
        if offset_at(low, place) != offset_at(high, place):
            yield _between(low, high, place)
        low = high


def offset_at(at: datetime, place: ZoneInfo) -> timedelta:
    """How far the clocks there are ahead of UTC."""
    return wall_offset(at.astimezone(place), place)


def _between(low: datetime, high: datetime, place: ZoneInfo) -> Change:
    """The one change later than `low` and not later than `high`, found by halving in a dozen steps."""
    before, after = offset_at(low, place), offset_at(high, place)
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0) if middle.replace(microsecond=0) > low else low + _SECOND
        if offset_at(middle, place) == before:
            low = middle
        else:
            high = middle
    return Change(high, before, after)
