"""Schedules as rows of the SQLite store, and what the end of a job means for the one that made it."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import msgspec

from ...clock import instant, micros, nearest_instant
from ...records.job import Job, UnreadableRecord
from ...records.unreadable import decoded, readable
from ...schedule.record import TICKS_KEPT, Due, LeaderTerm, Schedule, Tick
from ..job_ends import JobEnd, JobNews, ScheduleBatch, completed_of, news_of, schedules_of
from ..rules import next_term

_encode = msgspec.json.Encoder().encode
_schedule = msgspec.json.Decoder(Schedule).decode
_tick = msgspec.json.Decoder(Tick).decode

_WRITE = """INSERT INTO mainspring_schedules VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET
    revision = excluded.revision, due_at = excluded.due_at, computed = excluded.computed,
    waits_on = excluded.waits_on, body = excluded.body"""


_SOME_NAMES = "name IN (SELECT value FROM json_each(?))"


def revisions(db: sqlite3.Connection, names: Iterable[str]) -> dict[str, int]:
    """Those that are not there are left out."""
    sql = f"SELECT name, revision FROM mainspring_schedules WHERE {_SOME_NAMES}"
    return dict(db.execute(sql, (_encode(list(names)).decode(),)).fetchall())


def write(db: sqlite3.Connection, schedules: Iterable[Schedule]) -> None:
    db.executemany(_WRITE, [_row(schedule) for schedule in schedules])


def _row(schedule: Schedule) -> tuple[object, ...]:
    due_at = None if schedule.due_at is None else micros(schedule.due_at)
    body = _encode(schedule).decode()
    return schedule.name, schedule.revision, due_at, schedule.spec.computed, schedule.waits_on, body


def record(db: sqlite3.Connection, ticks: Sequence[tuple[str, Tick]]) -> None:
    """Each tick with the name of its schedule; the oldest ones beyond TICKS_KEPT go."""
    rows = [(name, tick.n, _encode(tick).decode()) for name, tick in ticks]
    db.executemany("INSERT INTO mainspring_ticks VALUES (?, ?, ?)", rows)
    old = {name: tick.n - TICKS_KEPT for name, tick in ticks}
    gone = [(name, n) for name, n in old.items() if n > 0]
    db.executemany("DELETE FROM mainspring_ticks WHERE schedule = ? AND n <= ?", gone)


# what a job tells the schedule that made it

_HELD = f"SELECT name, body FROM mainspring_schedules WHERE {_SOME_NAMES}"
_WAITING = """SELECT name, body FROM mainspring_schedules
    WHERE waits_on IS NOT NULL AND waits_on IN (SELECT value FROM json_each(?))"""


def tell(db: sqlite3.Connection, news: Sequence[JobNews]) -> None:
    """Applies the ends and revivals of jobs to their schedules, in order."""
    if not news:
        return
    batch = ScheduleBatch()
    for sql, names in ((_HELD, schedules_of(news)), (_WAITING, completed_of(news))):
        if names:
            found = db.execute(sql, (_encode(sorted(names)).decode(),)).fetchall()
            batch.add(readable("schedule", found, _schedule))
    batch.apply(news)
    write(db, batch.changed.values())


def follow(db: sqlite3.Connection, old: Job, new: Job | None, at: datetime) -> None:
    """A job has changed its state by other ways than a run's end; None: it was deleted."""
    if new is not None:
        news = news_of(old, new)
        tell(db, [] if news is None else [news])
    elif old.counted_schedule is not None and not old.state.final:
        tell(db, [JobEnd(old.counted_schedule, old.id, None, at)])


# reading

_SEEN = "due_at IS NOT NULL AND (NOT computed OR name IN (SELECT value FROM json_each(:computed)))"


def due(db: sqlite3.Connection, now: datetime, limit: int, computed: Collection[str]) -> Due:
    values = {"now": micros(now), "limit": limit, "computed": _encode(list(computed)).decode()}
    sql = f"""SELECT name, body FROM mainspring_schedules WHERE {_SEEN} AND due_at <= :now
            ORDER BY due_at, name LIMIT :limit"""
    found, broken = decoded("schedule", db.execute(sql, values).fetchall(), _schedule)
    if len(found) + len(broken) == limit:
        return Due(found, now, broken)
    sql = f"SELECT due_at FROM mainspring_schedules WHERE {_SEEN} AND due_at > :now ORDER BY due_at LIMIT 1"
    row = db.execute(sql, values).fetchone()
    return Due(found, None if row is None else nearest_instant(row[0]), broken)


def set_aside(db: sqlite3.Connection, names: Collection[str]) -> None:
    """These are due no more, and a new one may take the place of each; until then their records stay as they are."""
    sql = "UPDATE mainspring_schedules SET due_at = NULL, revision = 0 WHERE name IN (SELECT value FROM json_each(?))"
    db.execute(sql, (_encode(list(names)).decode(),))


def unreadable_names(db: sqlite3.Connection) -> list[str]:
    """Schedules that were set aside."""
    rows = db.execute("SELECT name, body FROM mainspring_schedules WHERE due_at IS NULL ORDER BY name").fetchall()
    return [one.name for one in decoded("schedule", rows, _schedule)[1]]


def schedules(
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
        values["after"] = rows[-1][0]  # where some cannot be decoded the page is filled from beyond them
    return found[:limit], broken


def ticks(db: sqlite3.Connection, name: str, limit: int, before: int | None) -> list[Tick]:
    below = "" if before is None else "AND n < :before"
    sql = f"SELECT n, body FROM mainspring_ticks WHERE schedule = :name {below} ORDER BY n DESC LIMIT :limit"
    values = {"name": name, "limit": limit, "before": before}
    return readable(f"tick of schedule {name}", db.execute(sql, values).fetchall(), _tick)


def drop(db: sqlite3.Connection, names: Collection[str]) -> list[str]:
    some = "(SELECT value FROM json_each(?))"
    text = _encode(list(names)).decode()
    db.execute(f"DELETE FROM mainspring_ticks WHERE schedule IN {some}", (text,))
    rows = db.execute(f"DELETE FROM mainspring_schedules WHERE name IN {some} RETURNING name", (text,)).fetchall()
    return sorted(name for (name,) in rows)


# leaders

_LEADER = "SELECT holder, term, until FROM mainspring_leaders WHERE name = ?"
_PUT_LEADER = "INSERT OR REPLACE INTO mainspring_leaders VALUES (?, ?, ?, ?)"


def lead(db: sqlite3.Connection, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
    row = db.execute(_LEADER, (name,)).fetchone()
    known = None if row is None else LeaderTerm(name, row[0] or None, row[1], instant(row[2]))
    new = next_term(known, name, holder, until, now)
    if new != known:
        db.execute(_PUT_LEADER, (name, new.holder or "", new.term, micros(new.until)))
    return new


def leaders(db: sqlite3.Connection, now: datetime) -> list[LeaderTerm]:
    sql = "SELECT name, holder, term, until FROM mainspring_leaders WHERE until > ? AND holder <> '' ORDER BY name"
    rows = db.execute(sql, (micros(now),)).fetchall()
    return [LeaderTerm(name, who, term, instant(until)) for name, who, term, until in rows]
