"""Trigger: what every rule about time answers, and what follows from its next()."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from zlib import crc32
from zoneinfo import ZoneInfo

import msgspec

_MICROSECOND = timedelta(microseconds=1)


class Preview(NamedTuple):
    """One coming tick, as shown to people."""

    at: datetime
    local: datetime
    """The same instant in the rule's own zone."""
    note: str = ""
    """What a change of the clocks does to it; empty: nothing."""


class Trigger(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A rule that names instants: a pure value, the same answers wherever and whenever it is asked."""

    tz: str = "UTC"

    def next(self, after: datetime) -> datetime | None:
        """The first tick strictly later than `after`, in UTC; None: there is none."""
        raise NotImplementedError

    def explain(self) -> str:
        """The rule in words."""
        raise NotImplementedError

    def warnings(self) -> list[str]:
        """What its author may not have meant."""
        return []

    def note(self, tick: datetime) -> str:
        """What a change of the clocks does to this tick; empty: nothing."""
        return ""

    def named(self, name: str) -> Trigger:
        """The rule as the schedule of that name follows it: what depends on a hash is settled."""
        return self

    def anchored(self, at: datetime) -> Trigger:
        """The rule with its grid laid through `at`, if it has a grid and nothing else was said."""
        return self

    def preview(self, n: int = 10, *, after: datetime) -> list[Preview]:
        """The next `n` ticks; fewer if the rule ends before."""
        return list(self.coming(n, after=after))

    def coming(self, n: int, *, after: datetime) -> Iterator[Preview]:
        """As preview(), one at a time."""
        zone = ZoneInfo(self.tz)
        tick = self.next(after)
        for _ in range(n):
            if tick is None:
                return
            yield Preview(tick, tick.astimezone(zone), self.note(tick))
            tick = self.next(tick)

    def count(self, after: datetime, until: datetime, *, limit: int) -> int:
        """How many ticks are later than `after` and not later than `until`; never says more than `limit`."""
        return count(self.next, after, until, limit)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last tick later than `after` and not later than `until`; None: there is none."""
        return latest(self.next, after, until)


NextTick = Callable[[datetime], datetime | None]


def count(next: NextTick, after: datetime, until: datetime, limit: int) -> int:
    """Trigger.count, by walking."""
    found, tick = 0, next(after)
    while tick is not None and tick <= until and found < limit:
        found, tick = found + 1, next(tick)
    return found


def latest(next: NextTick, after: datetime, until: datetime) -> datetime | None:
    """Trigger.latest, by halving: next() never goes back, so there is a last instant from which it stays in time."""
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
    """A number below `size` that belongs to the name: the same everywhere, evenly spread over names."""
    return crc32(name.encode()) * size >> 32
