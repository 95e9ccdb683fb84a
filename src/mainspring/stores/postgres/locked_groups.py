"""Groups of jobs with a limit key and their lines, locked and read, and written as they should be.

The statements are in limits.sql. Runs inside a transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ...ids import JobId
from ...records.limit import StoredLimit
from ..rules.limits import GroupState, after_start, has_room, is_forgotten, limit_of, opens_at, turn_of
from .limit_lines import SQL, LineKey, columns
from .pool import Session

_LOCK_SOME_GROUPS = SQL.statement("lock_some_groups")
_READ_LINES = SQL.statement("read_lines")
_READ_FURTHER = SQL.statement("read_further")
_WRITE_GROUPS = SQL.statement("write_groups")
_WRITE_LINES = SQL.statement("write_lines")
_DROP_LINES = SQL.statement("drop_lines")
_DROP_GROUPS = SQL.statement("drop_groups")
# A group that has only a suspect is looked at again after this time.
MIN_LOOK_MICROS = 60_000_000
decode_limit = msgspec.json.Decoder(StoredLimit).decode


class LineHead(NamedTuple):
    """A pending job of a line."""

    run_at: int
    id: JobId
    size: int


class LineRow(NamedTuple):
    """What the row of a line says beside its key."""

    run_at: int
    head: JobId
    turn: int
    opens_at: int
    has_room: bool


class LimitGroupRow(NamedTuple):
    """What the row of a group says beside its key."""

    running: int
    tat: int
    served_at: int
    is_full: bool
    pending: bool
    look_at: int | None


NO_ROW = LineRow(0, "", 0, 0, False)


class LimitLine:
    """A line with its first jobs. `is_whole` says that it has no further ones."""

    def __init__(self, key: LineKey, stored: LineRow, is_served: bool) -> None:
        self.key, self.stored, self.is_served = key, stored, is_served
        self.heads: list[LineHead] = []
        self.is_whole = True


class LockedGroup:
    """A locked group, as it was stored and as the claim leaves it."""

    def __init__(self, row: Any) -> None:
        self.key, self.running, tat, served_at, is_full, pending, look_at, body = row[:8]
        self.state = GroupState(tat, served_at)
        self.limit = limit_of(self.key, None if body is None else decode_limit(body))
        self.lines: list[LimitLine] = []
        self.stored = LimitGroupRow(self.running, tat, served_at, is_full, pending, look_at)

    @property
    def has_room(self) -> bool:
        """Whether one more job may run, but for the limit's total."""
        return has_room(self.limit, self.running, 0)

    def start(self, now: int) -> None:
        self.running += 1
        self.state = after_start(self.limit, self.state, now)

    def row(self, now: int) -> LimitGroupRow:
        """What the row of the group has to say, once its lines are read."""
        state, pending = self.state, bool(self.lines)
        rests_at = max(state.tat, state.served_at)
        look_at = None if pending or self.running else rests_at if rests_at > now else now + MIN_LOOK_MICROS
        return LimitGroupRow(self.running, state.tat, state.served_at, pending and not self.has_room, pending, look_at)

    def is_over(self, now: int) -> bool:
        return not self.lines and not self.running and is_forgotten(self.state, now)


class LimitTotals:
    """The running jobs of limits with a total. A limit that another claim takes from has none for this one."""

    def __init__(self, counts: dict[str, int], closed: Sequence[str]) -> None:
        self._counts, self.closed = counts, closed

    def knows(self, limit: StoredLimit) -> bool:
        """Whether a claim may take from it. A total that was set after they were counted is not known."""
        return limit.name not in self.closed and (limit.total is None or limit.name in self._counts)

    def of(self, name: str) -> int:
        return self._counts.get(name, 0)

    def add(self, name: str) -> None:
        if name in self._counts:
            self._counts[name] += 1


class LockedGroups:
    """The groups that one transaction has locked."""

    def __init__(self, db: Session, which: tuple[Any, ...], totals: LimitTotals) -> None:
        """`which`: the worker, the instant, its tasks and its queues (None: all)."""
        self._db, self._which, self._totals = db, which, totals
        self._now: int = which[1]
        self.groups: dict[str, LockedGroup] = {}

    # reading

    async def read_some(self, keys: Iterable[str]) -> None:
        """Locks and reads these groups."""
        rows = await self._db.rows(_LOCK_SOME_GROUPS, list(keys))
        self.groups = {row[0]: LockedGroup(row) for row in rows}
        await self.read_lines(1)

    async def read_lines(self, limit: int) -> None:
        count = min(limit, 2 * limit // max(len(self.groups), 1) + 1) + 1
        lines = dict[LineKey, LimitLine]()
        which = self._which[2:]
        for row in await self._db.rows(_READ_LINES, list(self.groups), count, *which) if self.groups else ():
            key: LineKey = (*row[:4],)
            if key not in lines:
                group = self.groups[key[0]]
                lines[key] = LimitLine(key, LineRow(*row[4:9]), row[12] and self._totals.knows(group.limit))
                group.lines.append(lines[key])
            if row[10] is not None:
                lines[key].heads.append(LineHead(*row[9:12]))
                lines[key].is_whole = len(lines[key].heads) < count

    async def _read_further(self, lines: Sequence[LimitLine]) -> None:
        """Reads more jobs of these lines, as many as were read before."""
        count = 2 * max(len(line.heads) for line in lines)
        rows = [(*line.key[:3], str(line.key[3]), str(line.heads[-1].run_at), line.heads[-1].id) for line in lines]
        found: list[list[LineHead]] = [[] for _ in lines]
        for n, *head in await self._db.rows(_READ_FURTHER, *columns(rows), count):
            found[n - 1].append(LineHead(*head))
        for line, heads in zip(lines, found, strict=True):
            line.heads += heads
            line.is_whole = len(heads) < count

    def _has_moved_lines(self) -> bool:
        """Whether the row of a line was too early."""
        return any(self._place(line) != line.stored for group in self.groups.values() for line in group.lines)

    # correcting

    async def correct(self, running: Mapping[str, int], lines: Collection[LineKey]) -> list[str]:
        """Corrects the groups by the counts of their running jobs and the lines of their pending ones. Returns the keys
        of those that were wrong."""
        wrong = set[str]()
        missing = set(lines).difference(line.key for group in self.groups.values() for line in group.lines)
        for key in missing:
            wrong.add(key[0])
            self.groups[key[0]].lines.append(LimitLine(key, NO_ROW, False))
        if missing:
            await self._read_missing([line for group in self.groups.values() for line in group.lines if not line.heads])
        for group in self.groups.values():
            if group.running != running.get(group.key, 0):
                wrong.add(group.key)
                group.running = running.get(group.key, 0)
            if any(self._is_late(group, line) for line in group.lines):
                wrong.add(group.key)
        return sorted(wrong)

    async def _read_missing(self, lines: Sequence[LimitLine]) -> None:
        rows = [(*line.key[:3], str(line.key[3]), str(-(2**62)), "") for line in lines]
        for n, *head in await self._db.rows(_READ_FURTHER, *columns(rows), 1):
            lines[n - 1].heads.append(LineHead(*head))

    def _is_late(self, group: LockedGroup, line: LimitLine) -> bool:
        """Whether the row of the line says less than it may."""
        if (place := self._place(line)) is None or group.stored.look_at is not None:
            return False
        return (
            place.turn < line.stored.turn
            or place.opens_at < line.stored.opens_at
            or (place.has_room and not line.stored.has_room)
        )

    # writing

    def _place(self, line: LimitLine) -> LineRow | None:
        """What the row of the line has to say; None if the line is empty."""
        if not line.heads:
            return None
        group, head = self.groups[line.key[0]], line.heads[0]
        at = head.run_at
        turn, opens = turn_of(group.limit, group.state, at), opens_at(group.limit, group.state, at)
        return LineRow(at, head.id, turn, opens, group.has_room)

    async def write(self) -> None:
        """Writes the groups and lines that have changed, and deletes those that are over."""
        lines, gone = list[Any](), list[Any]()
        for group in self.groups.values():
            places = [(line, self._place(line)) for line in group.lines]
            for line, place in places:
                key = (*line.key[:3], str(line.key[3]))
                if place is None:
                    gone.append(key)
                elif place != line.stored:
                    lines.append((*key, str(place.run_at), place.head, *map(_text, place[2:])))
                    line.stored = place
            group.lines = [line for line, place in places if place is not None]
        if lines:
            await self._db.run(_WRITE_LINES, *columns(lines))
        if gone:
            await self._db.run(_DROP_LINES, *columns(gone))
        await self._write_groups()

    async def _write_groups(self) -> None:
        if over := [group.key for group in self.groups.values() if group.is_over(self._now)]:
            for (key,) in await self._db.rows(_DROP_GROUPS, over):
                del self.groups[key]
        rows = {group.key: group.row(self._now) for group in self.groups.values()}
        changed = [(key, *map(_text, row)) for key, row in rows.items() if row != self.groups[key].stored]
        if changed:
            await self._db.run(_WRITE_GROUPS, *columns(changed))
        for key, row in rows.items():
            self.groups[key].stored = row


def _text(value: int | bool | None) -> str | None:
    """The value as it is sent in an array of texts."""
    return None if value is None else str(value).lower()
