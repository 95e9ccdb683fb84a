"""The SQLite store's schedules and ticks; a job's end changes the schedule that created it."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Unpack

import msgspec

from ...clock import micros, nearest_instant
from ...records.job import UnreadableRecord
from ...records.unreadable import decoded, readable
from ...schedule.record import MAX_KEPT_TICKS, Due, Schedule, Tick
from ..rules.job_ends import JobTransition, apply_transition, completed_schedules_of, schedules_of
from ..rules.loaded import LoadedTables
from .handle import SqliteHandle, SqliteSettings

_encode = msgspec.json.Encoder().encode
_schedule = msgspec.json.Decoder(Schedule).decode
_tick = msgspec.json.Decoder(Tick).decode

_WRITE = """INSERT INTO mainspring_schedules VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET
    revision = excluded.revision, due_at = excluded.due_at, computed = excluded.computed,
    waits_on = excluded.waits_on, body = excluded.body"""
_SOME_NAMES = "name IN (SELECT value FROM json_each(?))"


class SqliteSchedules(SqliteHandle):
    """The verbs due, schedules, ticks and drop_schedules."""

    def __init__(self, path: str, **settings: Unpack[SqliteSettings]) -> None:
        super().__init__(path, **settings)
        # Names of schedules that cannot be decoded and that this handle has set aside.
        self._known_unreadable: set[str] = set()

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        due = await self._read(lambda db: _due(db, now, limit, computed))
        self._known_unreadable -= {one.name for one in due.unreadable}  # it is due again, so it was written since
        await self._set_unreadable_aside(due.unreadable)
        return due

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        found, broken = await self._read(lambda db: _schedules(db, names, limit, after))
        await self._set_unreadable_aside(broken)
        return found

    async def _set_unreadable_aside(self, broken: Sequence[UnreadableRecord]) -> None:
        names = {one.name for one in broken}
        if names - self._known_unreadable:
            await self._write(lambda db: _set_aside(db, names))
            self._known_unreadable |= names

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        return await self._read(lambda db: _ticks(db, name, limit, before))

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        return await self._write(lambda db: _drop(db, names))


def revisions(db: sqlite3.Connection, names: Iterable[str]) -> dict[str, int]:
    """The revisions by name; a missing schedule is left out."""
    sql = f"SELECT name, revision FROM mainspring_schedules WHERE {_SOME_NAMES}"
    return dict(db.execute(sql, (_encode(list(names)).decode(),)).fetchall())


def write_schedules(db: sqlite3.Connection, schedules: Iterable[Schedule]) -> None:
    db.executemany(_WRITE, [_row(schedule) for schedule in schedules])


def _row(schedule: Schedule) -> tuple[object, ...]:
    due_at = None if schedule.due_at is None else micros(schedule.due_at)
    body = _encode(schedule).decode()
    return schedule.name, schedule.revision, due_at, schedule.spec.computed, schedule.waits_on, body


def record_ticks(db: sqlite3.Connection, ticks: Sequence[tuple[str, Tick]]) -> None:
    """Inserts ticks, each with the name of its schedule, and deletes the oldest beyond MAX_KEPT_TICKS."""
    rows = [(name, tick.n, _encode(tick).decode()) for name, tick in ticks]
    db.executemany("INSERT INTO mainspring_ticks VALUES (?, ?, ?)", rows)
    old = {name: tick.n - MAX_KEPT_TICKS for name, tick in ticks}
    gone = [(name, n) for name, n in old.items() if n > 0]
    db.executemany("DELETE FROM mainspring_ticks WHERE schedule = ? AND n <= ?", gone)


# effects of jobs on their schedules

_BY_NAME = f"SELECT name, body FROM mainspring_schedules WHERE {_SOME_NAMES}"
_WAITING = """SELECT name, body FROM mainspring_schedules
    WHERE waits_on IS NOT NULL AND waits_on IN (SELECT value FROM json_each(?))"""


def add_schedules(db: sqlite3.Connection, tables: LoadedTables, names: Collection[str]) -> None:
    """Adds these schedules to the tables."""
    found = _decoded(db, _BY_NAME, names)
    for name in names:
        tables.add_schedule(name, found.get(name))


def add_waiting(db: sqlite3.Connection, tables: LoadedTables, names: Collection[str]) -> None:
    """Adds the schedules that wait on these ones to the tables."""
    tables.add_waiting_rows(names, _decoded(db, _WAITING, names).values())


def _decoded(db: sqlite3.Connection, sql: str, names: Collection[str]) -> dict[str, Schedule]:
    rows = db.execute(sql, (_encode(sorted(names)).decode(),)).fetchall()
    return {row.name: row for row in readable("schedule", rows, _schedule)}


def apply_job_transitions(db: sqlite3.Connection, transitions: Sequence[JobTransition]) -> None:
    """Applies the ends and revivals of jobs to their schedules, in order."""
    if not transitions:
        return
    tables = LoadedTables()
    add_schedules(db, tables, schedules_of(transitions))
    if completed := completed_schedules_of(transitions):
        add_waiting(db, tables, completed)
    for transition in transitions:
        apply_transition(tables, transition)
    write_schedules(db, tables.changed_schedules())


# reading

_MAY_BE_DUE = "due_at IS NOT NULL AND (NOT computed OR name IN (SELECT value FROM json_each(:computed)))"


def _due(db: sqlite3.Connection, now: datetime, limit: int, computed: Collection[str]) -> Due:
    values = {"now": micros(now), "limit": limit, "computed": _encode(list(computed)).decode()}
    sql = f"""SELECT name, body FROM mainspring_schedules WHERE {_MAY_BE_DUE} AND due_at <= :now
            ORDER BY due_at, name LIMIT :limit"""
    found, broken = decoded("schedule", db.execute(sql, values).fetchall(), _schedule)
    if len(found) + len(broken) == limit:
        return Due(found, now, broken)
    sql = f"SELECT due_at FROM mainspring_schedules WHERE {_MAY_BE_DUE} AND due_at > :now ORDER BY due_at LIMIT 1"
    row = db.execute(sql, values).fetchone()
    return Due(found, None if row is None else nearest_instant(row[0]), broken)


def _set_aside(db: sqlite3.Connection, names: Collection[str]) -> None:
    """Makes undecodable schedules not due, and replaceable by a first revision; their records are not changed."""
    sql = "UPDATE mainspring_schedules SET due_at = NULL, revision = 0 WHERE name IN (SELECT value FROM json_each(?))"
    db.execute(sql, (_encode(list(names)).decode(),))


def unreadable_names(db: sqlite3.Connection) -> list[str]:
    """The names of schedules that cannot be decoded."""
    rows = db.execute("SELECT name, body FROM mainspring_schedules WHERE due_at IS NULL ORDER BY name").fetchall()
    return [one.name for one in decoded("schedule", rows, _schedule)[1]]


def _schedules(
    db: sqlite3.Connection, names: Collection[str] | None, limit: int, after: str | None
) -> tuple[list[Schedule], list[UnreadableRecord]]:
    named = "" if names is None else "AND name IN (SELECT value FROM json_each(:names))"
    sql = f"SELECT name, body FROM mainspring_schedules WHERE name > :after {named} ORDER BY name LIMIT :limit"
    values = {"after": after or "", "limit": limit}
    if names is not None:
        values["names"] = _encode(list(names)).decode()
    found, broken = list[Schedule](), list[UnreadableRecord]()
    while rows := db.execute(sql, values).fetchall():
        some, others = decoded("schedule", rows, _schedule)
        found, broken = found + some, broken + others
        if len(found) >= limit or len(rows) < limit:
            break
        values["after"] = rows[-1][0]  # rows that cannot be decoded are replaced by the next ones
    return found[:limit], broken


def _ticks(db: sqlite3.Connection, name: str, limit: int, before: int | None) -> list[Tick]:
    below = "" if before is None else "AND n < :before"
    sql = f"SELECT n, body FROM mainspring_ticks WHERE schedule = :name {below} ORDER BY n DESC LIMIT :limit"
    values = {"name": name, "limit": limit, "before": before}
    return readable(f"tick of schedule {name}", db.execute(sql, values).fetchall(), _tick)


def _drop(db: sqlite3.Connection, names: Collection[str]) -> list[str]:
    some = "(SELECT value FROM json_each(?))"
    text = _encode(list(names)).decode()
    db.execute(f"DELETE FROM mainspring_ticks WHERE schedule IN {some}", (text,))
    rows = db.execute(f"DELETE FROM mainspring_schedules WHERE name IN {some} RETURNING name", (text,)).fetchall()
    return sorted(name for (name,) in rows)
