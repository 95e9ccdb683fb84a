"""The SQLite store's verbs of limits."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from ...clock import instant, micros
from ...records.limit import MAX_HOLDERS, LimitGroup, LimitUse, Recount, StoredLimit, limit_key_of
from ..ranks import MAX_PLAIN_RANK
from ..rows import COLUMNS, HELD_INDEX_SQL, Row, job_of
from ..rules.limits import NEW_GROUP, has_room, limit_of, opens_at
from .file import LIMITS_VERSION
from .handle import SqliteHandle
from .limited_jobs import (
    as_json,
    drop_entries,
    follow_jobs,
    forget_idle_groups,
    read_limits,
    read_states,
    running_of_limit,
    settle_groups,
)

# Groups whose lines one transaction writes after a change of their limit.
LOT_GROUPS = 1000
# Groups of one limit that are counted.
MAX_COUNTED_GROUPS = 10_000

_encode = msgspec.json.encode
_OF_LIMIT = "limit_key >= :name || char(10) AND limit_key < :name || char(11)"
_PUT = "INSERT OR REPLACE INTO mainspring_limits VALUES (?, ?)"
_LOT = f"""SELECT limit_key FROM mainspring_limit_groups WHERE {_OF_LIMIT} AND limit_key > :after
    ORDER BY limit_key LIMIT :limit"""
_COUNT_GROUPS = f"""SELECT count(*) FROM (
    SELECT 1 FROM mainspring_limit_groups WHERE {_OF_LIMIT} LIMIT {MAX_COUNTED_GROUPS})"""
_ONE_GROUP = "SELECT limit_key FROM mainspring_limit_groups WHERE ripe_at IS NULL AND limit_key = :limit_key"
_GROUPS = f"SELECT limit_key FROM mainspring_limit_groups WHERE ripe_at IS NULL AND {_OF_LIMIT}"
_FULLEST = """SELECT limit_key,
        (SELECT count(*) FROM mainspring_limited AS job INDEXED BY mainspring_limited_running
            WHERE standing = 1 AND job.limit_key = one.limit_key) AS running,
        (SELECT count(*) FROM (SELECT 1 FROM mainspring_limited AS job
            WHERE job.limit_key = one.limit_key AND standing IN (0, 2) LIMIT :count_up_to)) AS waiting
    FROM ({}) AS one ORDER BY running DESC, waiting DESC, limit_key LIMIT :limit"""
_FIRST_RUN_AT = "SELECT min(run_at) FROM mainspring_limited WHERE limit_key = ? AND standing IN (0, 2)"
_HOLDERS = "SELECT job_id FROM mainspring_limited WHERE limit_key = ? AND standing = 1 ORDER BY job_id LIMIT ?"


class SqliteLimits(SqliteHandle):
    """The verbs set_limits, limits, limit_groups and recount_limits."""

    async def set_limits(self, limits: Sequence[StoredLimit], *, removed: Collection[str] = (), now: datetime) -> None:
        rows = [(limit.name, _encode(limit).decode()) for limit in limits]
        await self._write(lambda db: _set_limits(db, rows, removed))
        for name in (*(limit.name for limit in limits), *removed):
            after: str | None = ""
            while after is not None:
                after = await self._write(partial(_settle_lot, name=name, after=after))
        self._idle = False
        self._waiters.wake_all()

    async def limits(self) -> list[LimitUse]:
        return await self._read(_uses)

    async def limit_groups(
        self, name: str, *, key: str | None = None, limit: int, count_up_to: int = 10_000
    ) -> list[LimitGroup]:
        values: dict[str, Any] = {"name": name, "limit": limit, "count_up_to": count_up_to}
        if key is not None:
            values["limit_key"] = limit_key_of(name, key)
        return await self._read(lambda db: _groups(db, name, _GROUPS if key is None else _ONE_GROUP, values))

    async def recount_limits(self, *, after: str | None = None, limit: int, now: datetime) -> Recount:
        if not await self._read(_has_had_limits):
            return Recount((), None)
        counted = await self._write(lambda db: _recount(db, after or "", limit, micros(now)))
        if counted.wrong:
            self._idle = False
            self._waiters.wake_all()
        return counted


def _set_limits(db: sqlite3.Connection, rows: Sequence[Row], removed: Collection[str]) -> None:
    db.executemany(_PUT, rows)
    db.execute("DELETE FROM mainspring_limits WHERE name IN (SELECT value FROM json_each(?))", (as_json(removed),))


def _settle_lot(db: sqlite3.Connection, name: str, after: str) -> str | None:
    """Writes the lines of the next groups. Returns the last group if there may be more."""
    values = {"name": name, "after": after, "limit": LOT_GROUPS}
    keys = [key for (key,) in db.execute(_LOT, values).fetchall()]
    settle_groups(db, keys)
    return keys[-1] if len(keys) == LOT_GROUPS else None


def _uses(db: sqlite3.Connection) -> list[LimitUse]:
    return [
        LimitUse(
            limit=limit,
            running=running_of_limit(db, name),
            groups=db.execute(_COUNT_GROUPS, {"name": name}).fetchone()[0],
        )
        for name, limit in read_limits(db).items()
    ]


def _groups(db: sqlite3.Connection, name: str, which: str, values: dict[str, Any]) -> list[LimitGroup]:
    rows = db.execute(_FULLEST.format(which), values).fetchall()
    limit, total = limit_of(limit_key_of(name), read_limits(db, [name]).get(name)), running_of_limit(db, name)
    states = read_states(db, [row[0] for row in rows])
    found = []
    for key, running, waiting in rows:
        (first,) = db.execute(_FIRST_RUN_AT, (key,)).fetchone()
        opens = None
        if first is not None and has_room(limit, running, total):
            opens = instant(opens_at(limit, states.get(key, NEW_GROUP), first))
        holders = tuple(id for (id,) in db.execute(_HOLDERS, (key, MAX_HOLDERS)).fetchall())
        found.append(LimitGroup(limit_key=key, running=running, waiting=waiting, next_at=opens, holders=holders))
    return found


# Entries of these groups that claim to run, or stand first in a line, and whose job does not.
_STALE = """SELECT entry.job_id, entry.limit_key FROM mainspring_limited AS entry
    LEFT JOIN mainspring_jobs AS job ON job.id = entry.job_id
    WHERE entry.limit_key IN (SELECT value FROM json_each(:keys)) AND (
        entry.standing = 1 AND job.state IS NOT 'running' OR entry.standing = 0 AND job.state IS NOT 'pending'
            AND entry.job_id IN (SELECT job_id FROM mainspring_limit_lines AS line
                WHERE line.limit_key = entry.limit_key))"""
_WITHOUT_ENTRY = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE {HELD_INDEX_SQL} AND state = 'running'
    AND rank > {MAX_PLAIN_RANK} AND id NOT IN (SELECT job_id FROM mainspring_limited WHERE standing = 1)"""
_OF_IDS = f"SELECT {COLUMNS} FROM mainspring_jobs WHERE id IN (SELECT value FROM json_each(?))"
_NEXT_LOT = "SELECT limit_key FROM mainspring_limit_groups WHERE limit_key > ? ORDER BY limit_key LIMIT ?"


def _has_had_limits(db: sqlite3.Connection) -> bool:
    """Whether a job with a limit was ever stored. So a file without limits is not written."""
    return bool(db.execute("SELECT oldest FROM mainspring_schema").fetchone()[0] >= LIMITS_VERSION)


def _recount(db: sqlite3.Connection, after: str, limit: int, now: int) -> Recount:
    wrong: set[str] = set()
    if not after:
        forget_idle_groups(db, now)
        missing = [job_of(row) for row in db.execute(_WITHOUT_ENTRY).fetchall()]
        follow_jobs(db, [(None, job) for job in missing])
        wrong |= {job.limit_key for job in missing if job.limit_key is not None}
    keys = [key for (key,) in db.execute(_NEXT_LOT, (after, limit)).fetchall()]
    stale = db.execute(_STALE, {"keys": as_json(keys)}).fetchall()
    wrong |= {key for _, key in stale}
    if stale:
        ids = [id for id, _ in stale]
        drop_entries(db, ids)
        # Those that are there, but stand elsewhere.
        follow_jobs(db, [(None, job_of(row)) for row in db.execute(_OF_IDS, (as_json(ids),)).fetchall()])
    wrong |= settle_groups(db, keys)
    return Recount(tuple(sorted(wrong)), keys[-1] if len(keys) == limit else None)
