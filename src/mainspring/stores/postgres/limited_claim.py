"""How a claim takes jobs with a limit key, merged with the others in the order of claims. Runs inside a transaction.

It locks the groups of the first lines, reads their first jobs, chooses by the rules of limits, starts the jobs, and
writes the groups and lines. If the row of a line was too early, others may come before it: then it corrects the row,
and begins again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from ...ids import JobId, Lease
from ...records.job import POISON_SUSPECT_CRASHES
from ..rules.limits import after_start, has_room, opens_at, turn_of
from .limit_lines import SQL, LineKey, add_groups
from .locked_groups import LimitLine, LimitTotals, LineHead, LockedGroup, LockedGroups
from .pool import Session

# Corrected lines make a claim begin again, but not more often.
MAX_ROUNDS = 5

_LOCK_TOTALS = SQL.statement("lock_totals")
_COUNT_TOTALS = SQL.statement("count_totals")
_PICK_GROUPS = SQL.statement("pick_groups")
_LINES_OF_TASK = SQL.statement("lines_of_task")
_CRASHES_AND_KEY = SQL.statement("crashes_and_key")
_START = SQL.statement("start")


class DueJob(NamedTuple):
    """A due job in the order of claims. `size` is that of its payload and options."""

    rank: int
    turn: int
    id: JobId
    size: int


async def lock_totals(db: Session) -> LimitTotals:
    """Locks the limits that have a total, and counts their running jobs."""
    locked = dict(await db.rows(_LOCK_TOTALS))
    counts = dict(await db.rows(_COUNT_TOTALS))
    return LimitTotals(counts, [name for name in counts if name not in locked or counts[name] >= locked[name]])


class ChosenJobs:
    """Which jobs a claim starts: the first ones in the order of claims that their limits allow."""

    def __init__(self, groups: Mapping[str, LockedGroup], totals: LimitTotals, now: int) -> None:
        self.limited: list[JobId] = []
        """The jobs with a limit key, in order."""
        self.plain = 0
        """The number of jobs without one between them."""
        self._limits = {key: group.limit for key, group in groups.items()}
        self._running = {key: group.running for key, group in groups.items()}
        self._states = {key: group.state for key, group in groups.items()}
        self._totals = {limit.name: totals.of(limit.name) for limit in self._limits.values()}
        self._now = now
        self._heap: list[tuple[int, int, JobId, LimitLine | DueJob]] = []
        # How many jobs of each line are chosen.
        self._taken = Counter[LineKey]()

    def take(self, lines: Iterable[LimitLine], plain: Iterable[DueJob], limit: int, left: int) -> LimitLine | None:
        """Chooses up to `limit` jobs and `left` bytes. Returns a line if more of its jobs have to be read first."""
        for line in lines:
            self._push(line)
        rest = iter(plain)
        self._push_plain(next(rest, None))
        while self._heap and len(self.limited) + self.plain < limit and left > 0:
            _, turn, _, one = heappop(self._heap)
            if isinstance(one, DueJob):
                self.plain, left = self.plain + 1, left - one.size
                self._push_plain(next(rest, None))
                continue
            head = one.heads[self._taken[one.key]]
            # Another line of the limit may have been served since.
            if self._has_room(one) and self._turn(one, head) == turn:
                left -= head.size
                self._start(one, head)
                if self._taken[one.key] == len(one.heads) and not one.is_whole:
                    return one
            self._push(one)
        return None

    def _push_plain(self, job: DueJob | None) -> None:
        if job is not None:
            heappush(self._heap, (job.rank, job.turn, job.id, job))

    def _push(self, line: LimitLine) -> None:
        """Adds the next job of the line, if it may start now."""
        key, n = line.key[0], self._taken[line.key]
        if n == len(line.heads) or not self._has_room(line):
            return
        head = line.heads[n]
        if opens_at(self._limits[key], self._states[key], head.run_at) <= self._now:
            heappush(self._heap, (line.key[3], self._turn(line, head), head.id, line))

    def _has_room(self, line: LimitLine) -> bool:
        limit = self._limits[line.key[0]]
        return has_room(limit, self._running[line.key[0]], self._totals[limit.name])

    def _turn(self, line: LimitLine, head: LineHead) -> int:
        return turn_of(self._limits[line.key[0]], self._states[line.key[0]], head.run_at)

    def _start(self, line: LimitLine, head: LineHead) -> None:
        key = line.key[0]
        self.limited.append(head.id)
        self._taken[line.key] += 1
        self._running[key] += 1
        self._totals[self._limits[key].name] += 1
        self._states[key] = after_start(self._limits[key], self._states[key], self._now)


class LimitedClaim(LockedGroups):
    """The groups of one claim, and the jobs that it starts."""

    def __init__(self, db: Session, which: tuple[Any, ...], lease: Lease, totals: LimitTotals) -> None:
        super().__init__(db, which, totals)
        self._lease = lease
        self.was_skipped = False
        """Whether another transaction had locked a group that this claim wanted."""

    # reading

    async def read(self, limit: int) -> None:
        """Locks and reads the groups that the first `limit` jobs may be of, until their lines are exact."""
        for _ in range(MAX_ROUNDS):
            rows = await self._db.rows(_PICK_GROUPS, *self._which, limit, list(self._totals.closed))
            self.was_skipped = bool(rows) and len(rows) < rows[0]["wanted"]
            self.groups = {row[0]: LockedGroup(row) for row in rows}
            await self.read_lines(limit)
            if not rows or rows[0]["lines"] < limit or not self._has_moved_lines():
                return
            await self.write()

    async def read_group(self, key: str) -> None:
        """Locks and reads the group of a suspect."""
        await add_groups(self._db, [key])
        await self.read_some([key])

    async def read_task(self, task: str) -> None:
        """Locks and reads the groups that the probe of this task may be of."""
        worker, now, _, queues = self._which
        rows = await self._db.rows(_LINES_OF_TASK, worker, now, [task], queues)
        await self.read_some([key for (key,) in rows])

    # choosing

    def may_start(self, key: str, run_at: int) -> bool:
        """Whether a job of the group that is due at `run_at` may start now."""
        group = self.groups[key]
        if not has_room(group.limit, group.running, self._totals.of(group.limit.name)):
            return False
        return self._totals.knows(group.limit) and opens_at(group.limit, group.state, run_at) <= self._now

    def first_of_task(self, task: str, queues: Sequence[str] | None) -> DueJob | None:
        """The first job of the task that may start now; its circuit is open, so no line of it counts as served."""
        heads = [
            DueJob(line.key[3], turn_of(group.limit, group.state, head.run_at), head.id, head.size)
            for group in self.groups.values()
            for line in group.lines
            for head in line.heads[:1]
            if line.key[2] == task
            and (queues is None or line.key[1] in queues)
            and self.may_start(group.key, head.run_at)
        ]
        return min(heads, default=None)

    def note_start(self, key: str, id: JobId) -> None:
        """The job, a probe or a suspect, has been started."""
        group = self.groups[key]
        group.start(self._now)
        self._totals.add(group.limit.name)
        for line in group.lines:
            line.heads = [head for head in line.heads if head.id != id]

    async def crashes_and_key_of(self, id: JobId) -> tuple[int, str]:
        """How often the job has crashed its worker, and its limit key."""
        crashes, key = await self._db.row(_CRASHES_AND_KEY, id)
        return crashes, key

    async def choose(self, plain: Sequence[DueJob], limit: int, left: int) -> tuple[list[JobId], int]:
        """The limited jobs to start, in order, and how many plain jobs belong between them."""
        while True:
            choice = ChosenJobs(self.groups, self._totals, self._now)
            spent = choice.take(self._served_lines(), plain, limit, left)
            if spent is None:
                return choice.limited, choice.plain
            await self._read_further([spent])

    def _served_lines(self) -> list[LimitLine]:
        return [line for group in self.groups.values() for line in group.lines if line.is_served]

    # starting

    async def start(self, ids: Sequence[JobId]) -> list[Any]:
        """Starts these jobs; returns the rows of those that were still pending."""
        if not ids:
            return []
        worker, now = self._which[:2]
        found = {
            row["id"]: row
            for row in await self._db.rows(_START, worker, now, list(ids), POISON_SUSPECT_CRASHES, self._lease)
        }
        lines = {head.id: line for group in self.groups.values() for line in group.lines for head in line.heads}
        for id in filter(found.__contains__, ids):
            group = self.groups[lines[id].key[0]]
            group.start(self._now)
            self._totals.add(group.limit.name)
        for line in set(map(lines.__getitem__, found)):
            line.heads = [head for head in line.heads if head.id not in found]
        return [found[id] for id in ids if id in found]
