"""Schedules in the memory store, and what the end of a job means for the one that made it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from datetime import datetime
from heapq import heappop, heappush

from ...records.job import Job, State
from ...schedule.job_ended import after_dependency_succeeded, after_job_ended, after_job_revived
from ...schedule.record import TICKS_KEPT, Due, LeaderTerm, Schedule, Tick
from ..rules import next_term


class Series:
    """Kept in step by the store, under its lock."""

    def __init__(self) -> None:
        self.rows: dict[str, Schedule] = {}
        # (due_at, name); entries that no longer fit are dropped when met.
        self._due: list[tuple[datetime, str]] = []
        self._ticks: dict[str, deque[Tick]] = {}
        self._leaders: dict[str, LeaderTerm] = {}
        self._undo: dict[str, Schedule] | None = None
        # By the name of the one that they wait on; those that no longer do are dropped when met.
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        # In order; outdated when there are more or fewer rows.
        self._names: list[str] = []

    def revision(self, name: str) -> int:
        """0: there is none of that name."""
        return self.rows[name].revision if name in self.rows else 0

    def write(self, schedule: Schedule) -> None:
        if self._undo is not None and schedule.name in self.rows:
            self._undo.setdefault(schedule.name, self.rows[schedule.name])
        self.rows[schedule.name] = schedule
        if schedule.due_at is not None:
            heappush(self._due, (schedule.due_at, schedule.name))
        if schedule.waits_on is not None:
            self._waiting[schedule.waits_on].add(schedule.name)

    def remember(self, undo: bool) -> None:
        """From now on keeps what `roll_back` needs, or keeps nothing."""
        self._undo = {} if undo else None

    def roll_back(self) -> None:
        """Everything as it was when `remember` was called."""
        undo, self._undo = self._undo or {}, None
        for old in undo.values():
            self.write(old)

    def record(self, name: str, ticks: Sequence[Tick]) -> None:
        self._ticks.setdefault(name, deque(maxlen=TICKS_KEPT)).extend(ticks)

    def drop(self, names: Collection[str]) -> list[str]:
        found = sorted(name for name in set(names) if self.rows.pop(name, None) is not None)
        for name in found:
            self._ticks.pop(name, None)
        self._names = []
        return found

    # what a job tells the schedule that made it

    def follow(self, old: Job | None, new: Job | None, at: datetime) -> None:
        """A job was written over another one, or over none; new None: it was deleted."""
        job = new or old
        if job is None or old is None or job.counted_schedule is None:
            return
        final = new is None or new.state.final
        if old.state.final == final or (row := self.rows.get(job.counted_schedule)) is None:
            return  # a schedule that has nothing to learn is not looked at
        if final:
            self._end(row, job, None if new is None else new.state, at)
        else:
            self.write(after_job_revived(row, job.id))

    def _end(self, row: Schedule, job: Job, state: State | None, at: datetime) -> None:
        if (after := after_job_ended(row, job.id, state, at, job.result)) is row:
            return
        self.write(after)
        if state is State.COMPLETED:
            for waiting in self.waiting(row.name):
                self.write(after_dependency_succeeded(waiting, at))

    def waiting(self, name: str) -> list[Schedule]:
        """Those that wait on that one."""
        rows = [self.rows[one] for one in self._waiting.get(name, ()) if one in self.rows]
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
            row = self.rows.get(name)
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
            chosen = sorted({name for name in names if name in self.rows})
        else:
            if len(self._names) != len(self.rows):
                self._names = sorted(self.rows)
            chosen = self._names
        first = 0 if after is None else bisect_right(chosen, after)
        return [self.rows[name] for name in chosen[first : first + limit]]

    def ticks(self, name: str, limit: int, before: int | None) -> list[Tick]:
        kept = reversed(self._ticks.get(name, ()))
        return [tick for tick in kept if before is None or tick.n < before][:limit]

    # leaders

    def lead(self, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
        self._leaders[name] = next_term(self._leaders.get(name), name, holder, until, now)
        return self._leaders[name]

    def leaders(self, now: datetime) -> list[LeaderTerm]:
        return [one for _, one in sorted(self._leaders.items()) if one.holder is not None and one.until > now]
