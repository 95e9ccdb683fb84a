"""Schedules as rows of the PostgreSQL store, and what the end of a job means for the one that made it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from ...clock import instant, micros, nearest_instant
from ...records.job import UnreadableRecord
from ...records.unreadable import decoded, readable
from ...schedule.record import TICKS_KEPT, Due, LeaderTerm, Schedule, Tick
from ..job_ends import JobTransition, ScheduleBatch, completed_schedules_of, schedules_of
from ..rules import next_term
from .pool import BIGINT_ARRAY, Session

_encode = msgspec.json.Encoder().encode
_schedule = msgspec.json.Decoder(Schedule).decode
_tick = msgspec.json.Decoder(Tick).decode

_LOCK = "SELECT name, revision FROM mainspring_schedules WHERE name = ANY($1) ORDER BY name FOR NO KEY UPDATE"


async def lock_schedules(db: Session, names: Iterable[str]) -> dict[str, int]:
    """The revisions of these schedules, as they stay until the commit."""
    chosen = sorted(set(names))
    return dict(await db.rows(_LOCK, chosen)) if chosen else {}


WRITE = f"""INSERT INTO mainspring_schedules (name, revision, due_at, computed, waits_on, body)
    SELECT * FROM unnest($1::text[], $2::{BIGINT_ARRAY}, $3::{BIGINT_ARRAY}, $4::text[]::boolean[],
        $5::text[], $6::text[])
    ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, due_at = excluded.due_at,
        computed = excluded.computed, waits_on = excluded.waits_on, body = excluded.body"""


async def write_schedules(db: Session, schedules: Collection[Schedule]) -> None:
    """These schedules, each of them once, in one statement."""
    if schedules:
        await db.run(WRITE, *schedule_values(schedules))


def schedule_values(schedules: Collection[Schedule]) -> Iterable[Sequence[str | None]]:
    """The values of WRITE."""
    return zip(*map(_row, schedules), strict=True) if schedules else [[]] * 6


def _row(schedule: Schedule) -> tuple[str | None, ...]:
    due_at = None if schedule.due_at is None else str(micros(schedule.due_at))
    computed = "true" if schedule.spec.computed else "false"
    body = _encode(schedule).decode()
    return schedule.name, str(schedule.revision), due_at, computed, schedule.waits_on, body


RECORD = f"INSERT INTO mainspring_ticks SELECT * FROM unnest($1::text[], $2::{BIGINT_ARRAY}, $3::text[])"
# One walk along the index for each schedule, whatever the planner knows of the table: it may be large.
_TRIM = f"""DELETE FROM mainspring_ticks WHERE ctid = ANY (ARRAY(
    SELECT old.ctid FROM unnest($1::text[], $2::{BIGINT_ARRAY}) AS kept (schedule, n) CROSS JOIN LATERAL (
        SELECT tick.ctid FROM mainspring_ticks AS tick WHERE tick.schedule = kept.schedule AND tick.n <= kept.n
        OFFSET 0) AS old))"""


async def record_ticks(db: Session, ticks: Sequence[tuple[str, Tick]]) -> None:
    """Each tick with the name of its schedule, after which the oldest ones beyond TICKS_KEPT go."""
    if ticks:
        await db.run(RECORD, *tick_values(ticks))
        await trim_ticks(db, ticks)


def tick_values(ticks: Sequence[tuple[str, Tick]]) -> Iterable[Sequence[str]]:
    """The values of RECORD."""
    rows = [(name, str(tick.n), _encode(tick).decode()) for name, tick in ticks]
    return zip(*rows, strict=True) if rows else [[]] * 3


async def trim_ticks(db: Session, ticks: Sequence[tuple[str, Tick]]) -> None:
    newest = {name: tick.n - TICKS_KEPT for name, tick in ticks}
    old = {name: str(n) for name, n in newest.items() if n > 0}
    if old:
        await db.run(_TRIM, list(old), list(old.values()))


# what a job tells the schedule that made it

# One walk along the index for each name, whatever the planner knows of the table: it may be large.
_WAITING = """ARRAY(SELECT waiting.name FROM unnest({}::text[]) AS waited (name) CROSS JOIN LATERAL (
        SELECT name FROM mainspring_schedules WHERE waits_on IS NOT NULL AND waits_on = waited.name
        OFFSET 0) AS waiting)"""
_LOCK_WITH_WAITING = f"""SELECT name, body FROM mainspring_schedules WHERE name = ANY ($1 || {_WAITING.format("$2")})
    ORDER BY name FOR NO KEY UPDATE"""
_LATECOMERS = f"""SELECT name, body FROM mainspring_schedules
    WHERE name = ANY ({_WAITING.format("$1")}) AND name <> ALL($2) ORDER BY name FOR NO KEY UPDATE"""


async def lock_batch(db: Session, names: Collection[str], completing: Collection[str] = ()) -> ScheduleBatch:
    """These schedules and those that wait on the `completing` ones, locked in order of their names."""
    batch = ScheduleBatch()
    if names:
        batch.add(_decoded(await db.rows(_LOCK_WITH_WAITING, list(names), list(completing))))
    if completing:
        # What has begun to wait between the look of that statement and its locks.
        batch.add(_decoded(await db.rows(_LATECOMERS, list(completing), list(batch.rows))))
    return batch


def _decoded(rows: Iterable[Any]) -> list[Schedule]:
    return readable("schedule", [(*row,) for row in rows], _schedule)


async def apply_job_transitions(db: Session, news: Sequence[JobTransition], held: ScheduleBatch | None = None) -> None:
    """Applies the ends and revivals of jobs to their schedules, which may be `held` already."""
    if news:
        batch = held or await lock_batch(db, schedules_of(news), completed_schedules_of(news))
        batch.apply(news)
        await write_schedules(db, batch.changed.values())


# reading

_MAY_BE_DUE = "due_at IS NOT NULL AND (NOT computed OR name = ANY($1))"
# The last row, without a body, says when the next one will be due.
_DUE = f"""(SELECT name, body, due_at FROM mainspring_schedules WHERE {_MAY_BE_DUE} AND due_at <= $2
        ORDER BY due_at, name LIMIT $3)
    UNION ALL (SELECT NULL, NULL, due_at FROM mainspring_schedules WHERE {_MAY_BE_DUE} AND due_at > $2
        ORDER BY due_at LIMIT 1)"""


async def due(db: Session, now: datetime, limit: int, computed: Collection[str]) -> Due:
    rows = await db.rows(_DUE, list(computed), micros(now), limit)
    found, broken = decoded("schedule", [(name, body) for name, body, _ in rows if name is not None], _schedule)
    if len(found) + len(broken) == limit:
        return Due(found, now, broken)
    return Due(found, next((nearest_instant(at) for name, _, at in rows if name is None), None), broken)


async def set_aside(db: Session, names: Collection[str]) -> None:
    """These are due no more, and a new one may take the place of each; until then their records stay as they are."""
    sql = "UPDATE mainspring_schedules SET due_at = NULL, revision = 0 WHERE name = ANY($1)"
    await db.run(sql, sorted(names))


async def unreadable_names(db: Session) -> list[str]:
    """Schedules that were set aside."""
    rows = await db.rows("SELECT name, body FROM mainspring_schedules WHERE due_at IS NULL ORDER BY name")
    return [one.name for one in decoded("schedule", [(*row,) for row in rows], _schedule)[1]]


_SOME = """SELECT name, body FROM mainspring_schedules WHERE name > $1 AND ($2::text[] IS NULL OR name = ANY($2))
    ORDER BY name LIMIT $3"""


async def schedules(
    db: Session, names: Collection[str] | None, limit: int, after: str | None
) -> tuple[list[Schedule], list[UnreadableRecord]]:
    found, broken, last = list[Schedule](), list[UnreadableRecord](), after or ""
    while rows := await db.rows(_SOME, last, None if names is None else list(names), limit):
        some, others = decoded("schedule", [(*row,) for row in rows], _schedule)
        found, broken = found + some, broken + others
        if len(found) >= limit or len(rows) < limit:
            break
        last = rows[-1][0]  # where some cannot be decoded the page is filled from beyond them
    return found[:limit], broken


_TICKS = """SELECT n, body FROM mainspring_ticks WHERE schedule = $1 AND ($2::bigint IS NULL OR n < $2)
    ORDER BY n DESC LIMIT $3"""


async def ticks(db: Session, name: str, limit: int, before: int | None) -> list[Tick]:
    return readable(f"tick of schedule {name}", await db.rows(_TICKS, name, before, limit), _tick)


async def drop_schedules(db: Session, names: Collection[str]) -> list[str]:
    await lock_schedules(db, names)
    await db.run("DELETE FROM mainspring_ticks WHERE schedule = ANY($1)", list(names))
    rows = await db.rows("DELETE FROM mainspring_schedules WHERE name = ANY($1) RETURNING name", list(names))
    return sorted(name for (name,) in rows)


# leaders

_LEADER = "SELECT holder, term, until FROM mainspring_leaders WHERE name = $1 FOR NO KEY UPDATE"
_NOBODY = "INSERT INTO mainspring_leaders VALUES ($1, '', 0, $2) ON CONFLICT (name) DO NOTHING"
_PUT_LEADER = "UPDATE mainspring_leaders SET holder = $2, term = $3, until = $4 WHERE name = $1"


async def lead(db: Session, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
    row = await db.row(_LEADER, name)
    if row is None:
        # A row that nobody leads by: of two who come first, one waits for the other here.
        await db.run(_NOBODY, name, micros(now))
        row = await db.row(_LEADER, name)
    known = LeaderTerm(name, row[0] or None, row[1], instant(row[2])) if row[1] else None
    new = next_term(known, name, holder, until, now)
    if new != known:
        await db.run(_PUT_LEADER, name, new.holder or "", new.term, micros(new.until))
    return new


_LEADERS = "SELECT name, holder, term, until FROM mainspring_leaders WHERE until > $1 AND holder <> '' ORDER BY name"


async def leaders(db: Session, now: datetime) -> list[LeaderTerm]:
    rows = await db.rows(_LEADERS, micros(now))
    return [LeaderTerm(name, who, term, instant(until)) for name, who, term, until in rows]
