"""Schedules as rows of the PostgreSQL store, and what the end of a job means for the one that made it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import msgspec

from ...aftermath import ended, revived, roused
from ...clock import instant, micros
from ...job import JobId, State, UnreadableRecord
from ...schedule import TICKS_KEPT, Due, Leadership, Schedule, Tick
from ..rules import led
from ..unreadable import decoded, readable
from .pool import Session

_encode = msgspec.json.Encoder().encode
_schedule = msgspec.json.Decoder(Schedule).decode
_tick = msgspec.json.Decoder(Tick).decode

_LOCK = "SELECT name, revision FROM mainspring_schedules WHERE name = ANY($1) ORDER BY name FOR NO KEY UPDATE"


async def lock(db: Session, names: Iterable[str]) -> dict[str, int]:
    """The revisions of these schedules, as they stay until the commit."""
    chosen = sorted(set(names))
    return dict(await db.rows(_LOCK, chosen)) if chosen else {}


_WRITE = """INSERT INTO mainspring_schedules VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO UPDATE SET
    revision = excluded.revision, due_at = excluded.due_at, computed = excluded.computed,
    waits_on = excluded.waits_on, body = excluded.body"""


async def write(db: Session, schedule: Schedule) -> None:
    due_at = None if schedule.due_at is None else micros(schedule.due_at)
    values = (schedule.name, schedule.revision, due_at, bool(schedule.spec.computed), schedule.waits_on)
    await db.run(_WRITE, *values, _encode(schedule).decode())


async def record(db: Session, name: str, ticks: Sequence[Tick]) -> None:
    if ticks:
        rows = [(name, tick.n, _encode(tick).decode()) for tick in ticks]
        await db.many("INSERT INTO mainspring_ticks VALUES ($1, $2, $3)", rows)
        old = ticks[-1].n - TICKS_KEPT
        await db.run("DELETE FROM mainspring_ticks WHERE schedule = $1 AND n <= $2", name, old)


# what a job tells the schedule that made it

_READ = "SELECT name, body FROM mainspring_schedules WHERE name = $1 FOR NO KEY UPDATE"
_WAITING = "SELECT name, body FROM mainspring_schedules WHERE waits_on = $1 ORDER BY name FOR NO KEY UPDATE"


async def _read(db: Session, name: str) -> Schedule | None:
    """None if there is none, or it cannot be decoded."""
    return next(iter(readable("schedule", await db.rows(_READ, name), _schedule)), None)


async def end(
    db: Session, name: str, job_id: JobId, state: State | None, at: datetime, result: str | None = None
) -> None:
    """A job of that schedule is final; None: it was deleted before."""
    schedule = await _read(db, name)
    if schedule is None or (new := ended(schedule, job_id, state, at, result)) is schedule:
        return
    await write(db, new)
    if state is State.COMPLETED:
        for waiting in readable("schedule", await db.rows(_WAITING, name), _schedule):
            await write(db, roused(waiting, at))


async def revive(db: Session, name: str, job_id: JobId) -> None:
    if (schedule := await _read(db, name)) is not None:
        await write(db, revived(schedule, job_id))


# reading

_SEEN = "due_at IS NOT NULL AND (NOT computed OR name = ANY($1))"
# The last row, without a body, says when the next one will be due.
_DUE = f"""(SELECT name, body, due_at FROM mainspring_schedules WHERE {_SEEN} AND due_at <= $2
        ORDER BY due_at, name LIMIT $3)
    UNION ALL (SELECT NULL, NULL, due_at FROM mainspring_schedules WHERE {_SEEN} AND due_at > $2
        ORDER BY due_at LIMIT 1)"""


async def due(db: Session, now: datetime, limit: int, computed: Collection[str]) -> Due:
    rows = await db.rows(_DUE, list(computed), micros(now), limit)
    found, broken = decoded("schedule", [(name, body) for name, body, _ in rows if name is not None], _schedule)
    if len(found) + len(broken) == limit:
        return Due(found, now, broken)
    return Due(found, next((instant(at) for name, _, at in rows if name is None), None), broken)


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


async def drop(db: Session, names: Collection[str]) -> list[str]:
    await lock(db, names)
    await db.run("DELETE FROM mainspring_ticks WHERE schedule = ANY($1)", list(names))
    rows = await db.rows("DELETE FROM mainspring_schedules WHERE name = ANY($1) RETURNING name", list(names))
    return sorted(name for (name,) in rows)


# leaders

_LEADER = "SELECT holder, term, until FROM mainspring_leaders WHERE name = $1 FOR NO KEY UPDATE"
_NOBODY = "INSERT INTO mainspring_leaders VALUES ($1, '', 0, $2) ON CONFLICT (name) DO NOTHING"
_PUT_LEADER = "UPDATE mainspring_leaders SET holder = $2, term = $3, until = $4 WHERE name = $1"


async def lead(db: Session, name: str, holder: str, until: datetime, now: datetime) -> Leadership:
    row = await db.row(_LEADER, name)
    if row is None:
        # A row that nobody leads by: of two who come first, one waits for the other here.
        await db.run(_NOBODY, name, micros(now))
        row = await db.row(_LEADER, name)
    known = Leadership(name, row[0] or None, row[1], instant(row[2])) if row[1] else None
    new = led(known, name, holder, until, now)
    if new != known:
        await db.run(_PUT_LEADER, name, new.holder or "", new.term, micros(new.until))
    return new


_LEADERS = "SELECT name, holder, term, until FROM mainspring_leaders WHERE until > $1 AND holder <> '' ORDER BY name"


async def leaders(db: Session, now: datetime) -> list[Leadership]:
    rows = await db.rows(_LEADERS, micros(now))
    return [Leadership(name, who, term, instant(until)) for name, who, term, until in rows]
