"""The verbs of limits in the PostgreSQL store. The statements are in limits.sql."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from ...clock import instant, micros
from ...ids import JobId
from ...records.limit import MAX_HOLDERS, LimitGroup, LimitUse, Recount, StoredLimit, limit_key_of
from ..rules.limits import GroupState, has_room, limit_of, opens_at, tolerance_of
from .handle import PostgresHandle
from .limit_lines import SQL
from .locked_groups import LimitTotals, LockedGroups, decode_limit
from .pool import Session

# Groups that one transaction brings up to date.
LOT_GROUPS = 500

_SET_LIMITS = SQL.statement("set_limits")
_NEXT_GROUPS = SQL.statement("next_groups")
_USES = SQL.statement("uses")
_GROUPS = SQL.statement("groups")
_FIRST_WAITING = SQL.statement("first_waiting")
_HOLDERS = SQL.statement("holders")
_COUNT_RUNNING = SQL.statement("count_running")
_LINES_OF_GROUPS = SQL.statement("lines_of_groups")
_REMOVE_LIMITS = "DELETE FROM mainspring_limits WHERE name = ANY($1)"
_encode = msgspec.json.encode


class PostgresLimits(PostgresHandle):
    """The verbs set_limits, limits, limit_groups and recount_limits."""

    async def set_limits(self, limits: Sequence[StoredLimit], *, removed: Collection[str] = (), now: datetime) -> None:
        self._idle = False
        await self._transact(lambda db: _set_limits(db, limits, removed))
        names, after = [*(limit.name for limit in limits), *removed], ""
        while names and (keys := await self._next_groups(names, after)):
            await self._settle(keys, now)
            after = keys[-1]
        self._announce("new")

    async def _settle(self, keys: Sequence[str], now: datetime) -> None:
        await self._transact(lambda db: _settle(db, keys, now))

    async def _next_groups(self, names: Sequence[str] | None, after: str, limit: int = LOT_GROUPS) -> list[str]:
        return [key for (key,) in await self._call(lambda db: db.rows(_NEXT_GROUPS, names, after, limit))]

    async def limits(self) -> list[LimitUse]:
        rows = await self._call(lambda db: db.rows(_USES))
        return [LimitUse(limit=decode_limit(body), running=running, groups=groups) for body, running, groups in rows]

    async def limit_groups(
        self, name: str, *, key: str | None = None, limit: int, count_up_to: int = 10_000
    ) -> list[LimitGroup]:
        limit_key = None if key is None else limit_key_of(name, key)
        return await self._read(lambda db: _groups(db, name, limit_key, limit, count_up_to))

    async def recount_limits(self, *, after: str | None = None, limit: int, now: datetime) -> Recount:
        keys = await self._next_groups(None, after or "", limit)
        wrong = await self._transact(lambda db: _recount(db, keys, now)) if keys else []
        if wrong:
            self._idle = False
            self._announce("new")
        return Recount(tuple(wrong), keys[-1] if len(keys) == limit else None)


async def _set_limits(db: Session, limits: Sequence[StoredLimit], removed: Collection[str]) -> None:
    if limits:
        await db.run(
            _SET_LIMITS,
            [limit.name for limit in limits],
            [_number(limit.running) for limit in limits],
            [_number(None if limit.rate is None else tolerance_of(limit)) for limit in limits],
            [_number(limit.total) for limit in limits],
            [_encode(limit).decode() for limit in limits],
        )
    if removed:
        await db.run(_REMOVE_LIMITS, list(removed))


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _groups_at(db: Session, now: datetime) -> LockedGroups:
    return LockedGroups(db, ("", micros(now), [], None), LimitTotals({}, ()))


async def _settle(db: Session, keys: Sequence[str], now: datetime) -> None:
    """Brings the lines of these groups up to date."""
    groups = _groups_at(db, now)
    await groups.read_some(keys)
    await groups.write()


async def _recount(db: Session, keys: Sequence[str], now: datetime) -> list[str]:
    """Corrects these groups; returns the keys of those that were wrong."""
    groups = _groups_at(db, now)
    await groups.read_some(keys)
    running = dict(await db.rows(_COUNT_RUNNING, keys))
    lines = {(*row,) for row in await db.rows(_LINES_OF_GROUPS, keys)}
    wrong = await groups.correct(running, lines)
    await groups.write()
    return wrong


async def _groups(db: Session, name: str, limit_key: str | None, limit: int, count_up_to: int) -> list[LimitGroup]:
    rows = await db.rows(_GROUPS, name, limit_key, limit, count_up_to)
    keys = [row[0] for row in rows]
    due = dict(await db.rows(_FIRST_WAITING, keys)) if keys else {}
    holders: dict[str, list[JobId]] = {key: [] for key in keys}
    for key, id in await db.rows(_HOLDERS, keys, MAX_HOLDERS) if keys else ():
        holders[key].append(id)
    found = list[LimitGroup]()
    for key, running, tat, served_at, waiting, body, total in rows:
        stored = limit_of(key, None if body is None else decode_limit(body))
        room = due[key] is not None and has_room(stored, running, total)
        next_at = instant(opens_at(stored, GroupState(tat, served_at), due[key])) if room else None
        found.append(
            LimitGroup(limit_key=key, running=running, waiting=waiting, next_at=next_at, holders=tuple(holders[key]))
        )
    return found
