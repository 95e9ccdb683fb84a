"""The PostgreSQL store's schedules and ticks; a job's end changes the schedule that created it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Unpack

import msgspec

from ...clock import micros, nearest_instant
from ...records.job import UnreadableRecord
from ...records.unreadable import decoded, readable
from ...schedule.record import MAX_KEPT_TICKS, Due, Schedule, Tick
from ..rules.job_ends import JobTransition, apply_transition, completed_schedules_of, schedules_of
from ..rules.loaded import LoadedTables
from .handle import PostgresHandle, PostgresSettings
from .pool import BIGINT_ARRAY, Session
from .url import PostgresUrl

_encode = msgspec.json.Encoder().encode
_schedule = msgspec.json.Decoder(Schedule).decode
_tick = msgspec.json.Decoder(Tick).decode

_LOCK = "SELECT name, revision FROM mainspring_schedules WHERE name = ANY($1) ORDER BY name FOR NO KEY UPDATE"


async def lock_schedules(db: Session, names: Iterable[str]) -> dict[str, int]:
    """Locks these schedules until the commit, and returns their revisions by name."""
    chosen = sorted(set(names))
    return dict(await db.rows(_LOCK, chosen)) if chosen else {}


WRITE = f"""INSERT INTO mainspring_schedules (name, revision, due_at, computed, waits_on, body)
    SELECT * FROM unnest($1::text[], $2::{BIGINT_ARRAY}, $3::{BIGINT_ARRAY}, $4::text[]::boolean[],
        $5::text[], $6::text[])
    ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, due_at = excluded.due_at,
        computed = excluded.computed, waits_on = excluded.waits_on, body = excluded.body"""


async def write_schedules(db: Session, schedules: Collection[Schedule]) -> None:
    """Writes these schedules, each of them once, in one statement."""
    if schedules:
        await db.run(WRITE, *schedule_values(schedules))


def schedule_values(schedules: Collection[Schedule]) -> Iterable[Sequence[str | None]]:
    """The parameters of WRITE."""
    return zip(*map(_row, schedules), strict=True) if schedules else [[]] * 6


def _row(schedule: Schedule) -> tuple[str | None, ...]:
    due_at = None if schedule.due_at is None else str(micros(schedule.due_at))
    computed = "true" if schedule.spec.computed else "false"
    body = _encode(schedule).decode()
    return schedule.name, str(schedule.revision), due_at, computed, schedule.waits_on, body


RECORD = f"INSERT INTO mainspring_ticks SELECT * FROM unnest($1::text[], $2::{BIGINT_ARRAY}, $3::text[])"
# OFFSET 0 makes the planner walk along the index once for each schedule: the table may be large.
_TRIM = f"""DELETE FROM mainspring_ticks WHERE ctid = ANY (ARRAY(
    SELECT old.ctid FROM unnest($1::text[], $2::{BIGINT_ARRAY}) AS kept (schedule, n) CROSS JOIN LATERAL (
        SELECT tick.ctid FROM mainspring_ticks AS tick WHERE tick.schedule = kept.schedule AND tick.n <= kept.n
        OFFSET 0) AS old))"""


async def record_ticks(db: Session, ticks: Sequence[tuple[str, Tick]]) -> None:
    """Inserts ticks, each with the name of its schedule, and deletes the oldest beyond MAX_KEPT_TICKS."""
    if ticks:
        await db.run(RECORD, *tick_values(ticks))
        await trim_ticks(db, ticks)


def tick_values(ticks: Sequence[tuple[str, Tick]]) -> Iterable[Sequence[str]]:
    """The parameters of RECORD."""
    rows = [(name, str(tick.n), _encode(tick).decode()) for name, tick in ticks]
    return zip(*rows, strict=True) if rows else [[]] * 3


async def trim_ticks(db: Session, ticks: Sequence[tuple[str, Tick]]) -> None:
    newest = {name: tick.n - MAX_KEPT_TICKS for name, tick in ticks}
    old = {name: str(n) for name, n in newest.items() if n > 0}
    if old:
        await db.run(_TRIM, list(old), list(old.values()))


# effects of jobs on their schedules

# OFFSET 0 makes the planner walk along the index once for each name: the table may be large.
_WAITING = """ARRAY(SELECT waiting.name FROM unnest({}::text[]) AS waited (name) CROSS JOIN LATERAL (
        SELECT name FROM mainspring_schedules WHERE waits_on IS NOT NULL AND waits_on = waited.name
        OFFSET 0) AS waiting)"""
# Whole rows of $2 and of the schedules that wait on $3; of all others ($1) only the revision.
_LOCK_SOME = f"""SELECT name, revision, CASE WHEN name = ANY($2) OR waits_on = ANY($3) THEN body END AS body
    FROM mainspring_schedules WHERE name = ANY ($1::text[] || $2::text[] || {_WAITING.format("$3")})
    ORDER BY name FOR NO KEY UPDATE"""
_LATECOMERS = f"""SELECT name, revision, body FROM mainspring_schedules
    WHERE name = ANY ({_WAITING.format("$1")}) AND name <> ALL($2) ORDER BY name FOR NO KEY UPDATE"""


async def lock_rows(
    db: Session, tables: LoadedTables, names: Collection[str], waited_on: Collection[str], revisions: Collection[str]
) -> None:
    """Locks schedules in order of name, and adds them to the tables: `names` and the schedules that wait on those in
    `waited_on` as whole rows, and only the revisions of those in `revisions`."""
    rows = await db.rows(_LOCK_SOME, list(revisions), list(names), list(waited_on))
    if waited_on:
        # Schedules that began to wait between that statement's snapshot and its locks.
        rows += await db.rows(_LATECOMERS, list(waited_on), [row[0] for row in rows])
    found = {row.name: row for row in _decoded((name, body) for name, _, body in rows if body is not None)}
    stored = {name: revision for name, revision, _ in rows}
    for name in revisions:
        tables.add_revision(name, stored.get(name, 0))
    for name in names:
        tables.add_schedule(name, found.get(name))
    tables.add_waiting_rows(waited_on, found.values())


def _decoded(rows: Iterable[Any]) -> list[Schedule]:
    return readable("schedule", [(*row,) for row in rows], _schedule)


async def apply_job_transitions(db: Session, transitions: Sequence[JobTransition]) -> None:
    """Applies the ends and revivals of jobs to their schedules, in order."""
    if transitions:
        tables = LoadedTables()
        await lock_rows(db, tables, schedules_of(transitions), completed_schedules_of(transitions), ())
        for transition in transitions:
            apply_transition(tables, transition)
        await write_schedules(db, tables.changed_schedules())


# verbs

_MAY_BE_DUE = "due_at IS NOT NULL AND (NOT computed OR name = ANY($1))"
# The last row, without a name, has the time when the next schedule is due.
_DUE = f"""(SELECT name, body, due_at FROM mainspring_schedules WHERE {_MAY_BE_DUE} AND due_at <= $2
        ORDER BY due_at, name LIMIT $3)
    UNION ALL (SELECT NULL, NULL, due_at FROM mainspring_schedules WHERE {_MAY_BE_DUE} AND due_at > $2
        ORDER BY due_at LIMIT 1)"""
_SOME = """SELECT name, body FROM mainspring_schedules WHERE name > $1 AND ($2::text[] IS NULL OR name = ANY($2))
    ORDER BY name LIMIT $3"""
_TICKS = """SELECT n, body FROM mainspring_ticks WHERE schedule = $1 AND ($2::bigint IS NULL OR n < $2)
    ORDER BY n DESC LIMIT $3"""
# Makes undecodable schedules not due, and replaceable by a first revision; their records are not changed.
_SET_ASIDE = "UPDATE mainspring_schedules SET due_at = NULL, revision = 0 WHERE name = ANY($1)"


class PostgresSchedules(PostgresHandle):
    """The verbs on schedules and ticks, except `fire`."""

    def __init__(self, url: PostgresUrl, **settings: Unpack[PostgresSettings]) -> None:
        super().__init__(url, **settings)
        self._set_aside_schedules: set[str] = set()

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        rows = await self._call(lambda db: db.rows(_DUE, list(computed), micros(now), limit))
        due = _due_of(rows, now, limit)
        self._set_aside_schedules -= {one.name for one in due.unreadable}  # it is due again, so it was written since
        await self._set_schedules_aside(due.unreadable)
        return due

    async def _set_schedules_aside(self, broken: Sequence[UnreadableRecord]) -> None:
        names = {one.name for one in broken}
        if names - self._set_aside_schedules:
            await self._transact(lambda db: db.run(_SET_ASIDE, sorted(names)))
            self._set_aside_schedules |= names

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        found, broken = await self._call(lambda db: _schedules(db, names, limit, after))
        await self._set_schedules_aside(broken)
        return found

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        rows = await self._call(lambda db: db.rows(_TICKS, name, before, limit))
        return readable(f"tick of schedule {name}", rows, _tick)

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        return await self._transact(lambda db: _drop_schedules(db, names))


def _due_of(rows: Sequence[Any], now: datetime, limit: int) -> Due:
    found, broken = decoded("schedule", [(name, body) for name, body, _ in rows if name is not None], _schedule)
    if len(found) + len(broken) == limit:
        return Due(found, now, broken)
    return Due(found, next((nearest_instant(at) for name, _, at in rows if name is None), None), broken)


async def _schedules(
    db: Session, names: Collection[str] | None, limit: int, after: str | None
) -> tuple[list[Schedule], list[UnreadableRecord]]:
    found, broken, last = list[Schedule](), list[UnreadableRecord](), after or ""
    while rows := await db.rows(_SOME, last, None if names is None else list(names), limit):
        some, others = decoded("schedule", [(*row,) for row in rows], _schedule)
        found, broken = found + some, broken + others
        if len(found) >= limit or len(rows) < limit:
            break
        last = rows[-1][0]  # rows that cannot be decoded are replaced by the next ones
    return found[:limit], broken


async def _drop_schedules(db: Session, names: Collection[str]) -> list[str]:
    await lock_schedules(db, names)
    await db.run("DELETE FROM mainspring_ticks WHERE schedule = ANY($1)", list(names))
    rows = await db.rows("DELETE FROM mainspring_schedules WHERE name = ANY($1) RETURNING name", list(names))
    return sorted(name for (name,) in rows)


async def unreadable_names(db: Session) -> list[str]:
    """The names of schedules that cannot be decoded."""
    rows = await db.rows("SELECT name, body FROM mainspring_schedules WHERE due_at IS NULL ORDER BY name")
    return [one.name for one in decoded("schedule", [(*row,) for row in rows], _schedule)[1]]
