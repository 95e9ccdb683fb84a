"""The memory store's table of schedules; a job's end changes the schedule that created it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from datetime import datetime
from heapq import heappop, heappush

from ...records.job import Job, State
from ...schedule.job_ended import after_dependency_succeeded, after_job_ended, after_job_revived
from ...schedule.record import MAX_KEPT_TICKS, Due, Schedule, Tick


class MemoryScheduleTable:
    """Every schedule by its name, with its ticks; read and written under the store's lock."""

    def __init__(self) -> None:
        self.rows: dict[str, Schedule] = {}
        # A heap of (due_at, name); outdated entries are dropped when they are reached.
        self._due: list[tuple[datetime, str]] = []
        self._ticks: dict[str, deque[Tick]] = {}
        self._undo: dict[str, Schedule] | None = None
        # Names of waiting schedules by the schedule they wait on; outdated names are dropped when they are read.
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        # All names in order; outdated if there are more or fewer rows.
        self._names: list[str] = []

    def revision(self, name: str) -> int:
        """The schedule's revision; 0 if there is no such schedule."""
        return self.rows[name].revision if name in self.rows else 0

    def write(self, schedule: Schedule) -> None:
        if self._undo is not None and schedule.name in self.rows:
            self._undo.setdefault(schedule.name, self.rows[schedule.name])
        self.rows[schedule.name] = schedule
        if schedule.due_at is not None:
            heappush(self._due, (schedule.due_at, schedule.name))
        if schedule.waits_on is not None:
            self._waiting[schedule.waits_on].add(schedule.name)

    def track_undo(self, undo: bool) -> None:
        """Begins to record what `roll_back` needs, or stops recording."""
        self._undo = {} if undo else None

    def roll_back(self) -> None:
        """Restores the schedules that were changed since `track_undo(True)`."""
        undo, self._undo = self._undo or {}, None
        for old in undo.values():
            self.write(old)

    def record(self, name: str, ticks: Sequence[Tick]) -> None:
        self._ticks.setdefault(name, deque(maxlen=MAX_KEPT_TICKS)).extend(ticks)

    def drop(self, names: Collection[str]) -> list[str]:
        found = sorted(name for name in set(names) if self.rows.pop(name, None) is not None)
        for name in found:
            self._ticks.pop(name, None)
        self._names = []
        return found

    # effects of jobs on their schedules

    def job_changed(self, old: Job | None, new: Job | None, at: datetime) -> None:
        """Applies the change of a job to its schedule. `old` is None for a new job, `new` is None for a deleted one."""
        job = new or old
        if job is None or old is None or job.counted_schedule is None:
            return
        final = new is None or new.state.final
        if old.state.final == final or (row := self.rows.get(job.counted_schedule)) is None:
            return  # the change does not concern the schedule
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
        """The schedules that wait on that one."""
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
        newest = reversed(self._ticks.get(name, ()))
        return [tick for tick in newest if before is None or tick.n < before][:limit]
