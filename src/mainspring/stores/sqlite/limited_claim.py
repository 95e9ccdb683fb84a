"""How a claim of the SQLite store takes jobs with a limit, together with those that have none.

The lines that are open are read in order, and merged with the plain jobs of the same rank; a line that has given a job
stands at another place then. It repeats the rule rules.claim.claim, and test_twin.py compares them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Any

from ...clock import instant
from ...ids import JobId
from ...records.limit import StoredLimit
from ..ranks import plain_rank
from ..rows import Row
from ..rules.limit_gates import LimitGates
from ..rules.limits import MAX_AHEAD_MICROS, NEW_GROUP, GroupState
from .limited_jobs import as_json, read_limits, read_running, read_states, running_of_limit, start_entries

# Jobs of one line that are read at once: the first time, and at most.
FIRST_PAGE_JOBS, MAX_PAGE_JOBS = 8, 512

_OF_GROUP = "queue = :queue AND task = :task AND rank = :rank"
_NOT_FULL = """AND NOT EXISTS (SELECT 1 FROM json_each(:full) AS one
    WHERE limit_key >= one.value || char(10) AND limit_key < one.value || char(11))"""
_OPEN = f"""SELECT turn, job_id, limit_key, run_at, queue, task, rank FROM mainspring_limit_lines
    WHERE {_OF_GROUP} AND turn <= :now + {MAX_AHEAD_MICROS} AND opens_at <= :now {{}}
    ORDER BY turn, job_id LIMIT :limit"""
# No line opens before the first turn, and the one that opens first has its turn at most MAX_AHEAD_MICROS later.
_NEXT = f"""SELECT min(opens_at) FROM mainspring_limit_lines WHERE {_OF_GROUP} {{0}} AND turn <= {MAX_AHEAD_MICROS} + (
    SELECT turn FROM mainspring_limit_lines WHERE {_OF_GROUP} {{0}} ORDER BY turn LIMIT 1)"""
_PAGE = """SELECT run_at, job_id FROM mainspring_limited WHERE limit_key = :limit_key AND standing = 0
        AND queue = :queue AND task = :task AND rank = :rank AND (run_at, job_id) > (:run_at, :job_id)
    ORDER BY run_at, job_id LIMIT :limit"""


class FileLimits:
    """What a claim reads of limits, and what it changes."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._limits: dict[str, StoredLimit] = {}
        self._states: dict[str, GroupState] = {}
        self._running: dict[str, int] = {}
        self.changed: dict[str, GroupState] = {}
        self.started: list[tuple[JobId, str]] = []

    def load(self, keys: Collection[str]) -> None:
        """Reads the states and counts of these groups."""
        if new := [key for key in dict.fromkeys(keys) if key not in self._running]:
            states, running = read_states(self._db, new), read_running(self._db, new)
            for key in new:
                self._states[key], self._running[key] = states.get(key, NEW_GROUP), running.get(key, 0)

    def limit(self, name: str) -> StoredLimit | None:
        if not self._limits:
            self._limits = read_limits(self._db) or {"": StoredLimit(name="")}
        return self._limits.get(name)

    def full(self) -> list[str]:
        """The limits that have no place for a further job of any group."""
        self.limit("")
        totals = [(limit.name, limit.total) for limit in self._limits.values() if limit.total is not None]
        return [name for name, total in totals if running_of_limit(self._db, name) >= total]

    def group(self, limit_key: str) -> GroupState:
        self.load([limit_key])
        return self.changed.get(limit_key, self._states[limit_key])

    def put_group(self, limit_key: str, state: GroupState) -> None:
        self.changed[limit_key] = state

    def running_count(self, key: str) -> int:
        self.load([key])
        return self._running[key]

    def running_of_limit(self, name: str) -> int:
        return running_of_limit(self._db, name)


class _Line:
    """The jobs of one line, from its first one on."""

    __slots__ = ("_db", "_page", "_size", "id", "limit_key", "of", "run_at")

    def __init__(self, db: sqlite3.Connection, row: Row) -> None:
        _, self.id, self.limit_key, self.run_at, queue, task, rank = row
        self._db, self._size = db, FIRST_PAGE_JOBS
        self._page: list[Row] = []
        self.of: dict[str, Any] = {"limit_key": self.limit_key, "queue": queue, "task": task, "rank": rank}

    def advance(self) -> bool:
        """Goes on to the next job; False if there is none."""
        if not self._page:
            place = {"run_at": self.run_at, "job_id": self.id, "limit": self._size}
            self._page = self._db.execute(_PAGE, self.of | place).fetchall()[::-1]
            self._size = min(8 * self._size, MAX_PAGE_JOBS)
        if not self._page:
            return False
        self.run_at, self.id = self._page.pop()
        return True


class LimitedGroups:
    """The groups of ready jobs with a limit that a worker serves, and the gates of their claim."""

    def __init__(self, db: sqlite3.Connection, groups: Sequence[Row], now: int) -> None:
        self._db, self._now = db, now
        self._groups = [{"queue": row[0], "task": row[1], "rank": plain_rank(row[2])} for row in groups]
        self.limits = FileLimits(db)
        self.gates = LimitGates(self.limits, self.limits, instant(now))
        # The groups of jobs that a claim takes first.
        self._keys: dict[JobId, str] = {}

    def ranks(self, closed: Collection[str] = ()) -> set[int]:
        return {group["rank"] for group in self._groups if group["task"] not in closed}

    def open_lines(
        self, limit: int, *, rank: int | None = None, task: str | None = None, closed: Collection[str] = ()
    ) -> list[Row]:
        """The first lines that may give a job now, of each group of this rank or task, but none of `closed` tasks: the
        turn, id, limit_key, run_at, queue, task and rank of their first jobs."""
        found: list[Row] = []
        full = self.limits.full()
        sql, more = _OPEN.format(_NOT_FULL if full else ""), {"now": self._now, "limit": limit, "full": as_json(full)}
        for group in self._groups:
            if rank in (None, group["rank"]) and task in (None, group["task"]) and group["task"] not in closed:
                found += self._db.execute(sql, group | more).fetchall()
        self.limits.load([row[2] for row in found])
        return found

    # suspects, and the first jobs of tasks with a circuit: queue, task, rank, run_at, n, id, crashes

    def with_their_ranks(self, suspects: Sequence[Row]) -> list[Row]:
        """The suspects in the order of their own ranks."""
        ids = as_json([row[5] for row in suspects])
        sql = "SELECT job_id, limit_key FROM mainspring_limited WHERE job_id IN (SELECT value FROM json_each(?))"
        self._keys.update(self._db.execute(sql, (ids,)).fetchall())
        rows = [(*row[:2], plain_rank(row[2]), *row[3:]) for row in suspects]
        return sorted(rows, key=itemgetter(2, 3, 5))

    def open_suspects(self, suspects: Sequence[Row]) -> list[Row]:
        """Those that may start now."""
        keys = [(row, self._keys.get(row[5])) for row in suspects]
        return [row for row, key in keys if key is None or self.gates.is_open_us(key, row[3])]

    def with_turns(self, due: Sequence[Row], task: str) -> list[Row]:
        """Those of these jobs of the task that may start now, and the first ones of its lines, each with its turn in
        place of its run_at."""
        found = [self._with_turn(row) for row in self.open_suspects(due)]
        for turn, id, key, _, queue, _, rank in self.open_lines(1, task=task):
            (n,) = self._db.execute("SELECT n FROM mainspring_jobs WHERE id = ?", (id,)).fetchone()
            self._keys[id] = key
            found.append((queue, task, rank, turn, n, id, 0))
        return found

    def _with_turn(self, row: Row) -> Row:
        key = self._keys.get(row[5])
        return row if key is None else (*row[:3], self.gates.turn_us(key, row[3]), *row[4:])

    def note_taken(self, row: Row) -> None:
        """This job was taken before the others."""
        if (key := self._keys.get(row[5])) is not None:
            self.note_start(row[5], key)

    def next_instants(self, suspects: Sequence[Row]) -> list[tuple[str, int]]:
        """Tasks, with when the first job of a line and each suspect may start, if a place is free."""
        found: list[tuple[str, int]] = []
        full = self.limits.full()
        sql = _NEXT.format(_NOT_FULL if full else "")
        for group in self._groups:
            (at,) = self._db.execute(sql, group | {"full": as_json(full)}).fetchone()
            if at is not None:
                found.append((group["task"], at))
        for row in suspects:
            key = self._keys.get(row[5])
            if key is None or self.gates.has_room(key):
                found.append((row[1], row[3] if key is None else self.gates.opens_us(key, row[3])))
        return found

    def note_start(self, id: JobId, key: str) -> None:
        self.gates.note_start_of(key)
        self.limits.started.append((id, key))

    def choose(self, plain: Sequence[Row], rank: int, closed: Collection[str], limit: int, most: int) -> list[JobId]:
        """The first `limit` jobs of this rank, in order: of the plain ones (run_at, id), which are in order, and of the
        open lines. No claim takes more than `most`."""
        chosen: list[JobId] = []
        # A line that is closed by jobs that this claim starts stands for one of them: so `most` lines are enough.
        lines = [_Line(self._db, row) for row in self.open_lines(most, rank=rank, closed=closed)]
        gates, heap = self.gates, [(at, id, -1, False) for at, id in plain]
        heap += [(gates.turn_us(line.limit_key, line.run_at), line.id, n, False) for n, line in enumerate(lines)]
        heapify(heap)
        while heap and len(chosen) < limit:
            at, id, n, taken = heappop(heap)
            if n < 0:
                chosen.append(id)
                continue
            line = lines[n]
            if taken and not line.advance():
                continue
            key = line.limit_key
            if not gates.is_open_us(key, line.run_at):
                continue
            place = gates.turn_us(key, line.run_at), line.id
            if taken or place != (at, id):
                heappush(heap, (*place, n, False))
                continue
            chosen.append(id)
            self.note_start(id, key)
            # The next job of the line stands at this place or behind it; it is read when that is reached.
            heappush(heap, (gates.turn_us(key, 0), "", n, True))
        return chosen

    def keep(self, started: Collection[JobId]) -> None:
        """Forgets the starts of all other jobs: the claim has no bytes left for them."""
        kept = [pair for pair in self.limits.started if pair[0] in started]
        if len(kept) < len(self.limits.started):
            self.limits = FileLimits(self._db)
            self.gates = LimitGates(self.limits, self.limits, self.gates.now)
            for id, key in kept:
                self.note_start(id, key)

    def write(self) -> None:
        """Writes what the starts have changed."""
        if self.limits.started:
            start_entries(self._db, [id for id, _ in self.limits.started], self.limits.changed)
            self.limits = FileLimits(self._db)
            self.gates = LimitGates(self.limits, self.limits, self.gates.now)
