"""The memory store's table of schedules, with their ticks."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from datetime import datetime
from heapq import heappop, heappush

from ...schedule.record import MAX_KEPT_TICKS, Due, Schedule, Tick


class MemoryScheduleTable:
    """Every schedule by its name, with its ticks; read and written under the store's lock."""

    def __init__(self) -> None:
        self._rows: dict[str, Schedule] = {}
        # A heap of (due_at, name); outdated entries are dropped when they are reached.
        self._due: list[tuple[datetime, str]] = []
        self._ticks: dict[str, deque[Tick]] = {}
        # Names of waiting schedules by the schedule they wait on; outdated names are dropped when they are read.
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        # All names in order; outdated if there are more or fewer rows.
        self._names: list[str] = []

    def row(self, name: str) -> Schedule | None:
        return self._rows.get(name)

    def write(self, schedule: Schedule) -> None:
        self._rows[schedule.name] = schedule
        if schedule.due_at is not None:
            heappush(self._due, (schedule.due_at, schedule.name))
        if schedule.waits_on is not None:
            self._waiting[schedule.waits_on].add(schedule.name)

    def record(self, name: str, ticks: Sequence[Tick]) -> None:
        self._ticks.setdefault(name, deque(maxlen=MAX_KEPT_TICKS)).extend(ticks)

    def drop(self, names: Collection[str]) -> list[str]:
        found = sorted(name for name in set(names) if self._rows.pop(name, None) is not None)
        for name in found:
            self._ticks.pop(name, None)
        self._names = []
        return found

    def waiting(self, name: str) -> list[Schedule]:
        """The schedules that wait on that one, in order of name."""
        rows = [self._rows[one] for one in sorted(self._waiting.get(name, ())) if one in self._rows]
        found = [row for row in rows if row.waits_on == name]
        if len(found) < len(self._waiting.get(name, ())):
            self._waiting[name] = {row.name for row in found}
        return found

    # reading

    def due(self, now: datetime, limit: int, computed: Collection[str]) -> Due:
        found: list[Schedule] = []
        next_at: datetime | None = None
        seen: set[tuple[datetime, str]] = set()
        while self._due and next_at is None and len(found) < limit:
            at, name = entry = heappop(self._due)
            row = self._rows.get(name)
            if row is None or row.due_at != at or entry in seen:
                continue
            seen.add(entry)
            if row.spec.computed and name not in computed:
                continue
            if at <= now:
                found.append(row)
            else:
                next_at = at
        for entry in seen:
            heappush(self._due, entry)
        return Due(found, now if len(found) == limit else next_at)

    def schedules(self, names: Collection[str] | None, limit: int, after: str | None) -> list[Schedule]:
        if names is not None:
            chosen = sorted({name for name in names if name in self._rows})
        else:
            if len(self._names) != len(self._rows):
                self._names = sorted(self._rows)
            chosen = self._names
        first = 0 if after is None else bisect_right(chosen, after)
        return [self._rows[name] for name in chosen[first : first + limit]]

    def ticks(self, name: str, limit: int, before: int | None) -> list[Tick]:
        newest = reversed(self._ticks.get(name, ()))
        return [tick for tick in newest if before is None or tick.n < before][:limit]
