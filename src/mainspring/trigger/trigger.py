"""Trigger: the base class of all triggers, and functions that follow from its next()."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from zlib import crc32
from zoneinfo import ZoneInfo

import msgspec

_MICROSECOND = timedelta(microseconds=1)


class Preview(NamedTuple):
    """One coming tick, for display."""

    at: datetime
    local: datetime
    """The same instant in the rule's own zone."""
    note: str = ""
    """The effect of a clock change on it; empty if there is none."""


class Trigger(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A rule that defines ticks. A pure value: its answers do not depend on the machine or the current time."""

    tz: str = "UTC"

    def next(self, after: datetime) -> datetime | None:
        """The first tick after `after`, in UTC; None if there is none."""
        raise NotImplementedError

    def explain(self) -> str:
        """Describes the rule in words."""
        raise NotImplementedError

    def warnings(self) -> list[str]:
        """What its author may not have meant."""
        return []

    def note(self, tick: datetime) -> str:
        """The effect of a clock change on this tick; empty if there is none."""
        return ""

    def named(self, name: str) -> Trigger:
        """The rule for the schedule of that name: hashed parts, such as `H` of cron, get their value."""
        return self

    def anchored(self, at: datetime) -> Trigger:
        """The rule anchored at `at`, if it has a grid and no anchor yet."""
        return self

    def preview(self, n: int = 10, *, after: datetime) -> list[Preview]:
        """The next `n` ticks; fewer if the rule ends earlier."""
        return list(self.coming(n, after=after))

    def coming(self, n: int, *, after: datetime) -> Iterator[Preview]:
        """Like preview(), one at a time."""
        zone = ZoneInfo(self.tz)
        tick = self.next(after)
        for _ in range(n):
            if tick is None:
                return
            yield Preview(tick, tick.astimezone(zone), self.note(tick))
            tick = self.next(tick)

    def count(self, after: datetime, until: datetime, *, limit: int) -> int:
        """The number of ticks after `after`, up to and including `until`; at most `limit`."""
        return count(self.next, after, until, limit)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last tick after `after`, up to and including `until`; None if there is none."""
        return latest(self.next, after, until)


NextTick = Callable[[datetime], datetime | None]


def count(next: NextTick, after: datetime, until: datetime, limit: int) -> int:
    """Trigger.count() by walking from tick to tick."""
    found, tick = 0, next(after)
    while tick is not None and tick <= until and found < limit:
        found, tick = found + 1, next(tick)
    return found


def latest(next: NextTick, after: datetime, until: datetime) -> datetime | None:
    """Trigger.latest() by binary search, which works because next() is monotonic."""
    tick = next(after)
    if tick is None or tick > until:
        return None
    low, high = tick - _MICROSECOND, until
    while high - low > _MICROSECOND:
        middle = low + (high - low) // 2
        found = next(middle)
        if found is not None and found <= until:
            tick, low = found, found - _MICROSECOND
        else:
            high = middle
    return tick


def hash_below(name: str, size: int) -> int:
    """A hash of the name below `size`: the same on every machine, evenly distributed over names."""
    return crc32(name.encode()) * size >> 32
