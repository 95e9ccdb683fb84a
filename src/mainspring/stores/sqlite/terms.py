"""The SQLite store's leader terms: which process leads for a name, and until when."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from ...clock import instant, micros
from ...schedule.record import LeaderTerm
from ..rules import next_term
from .handle import SqliteHandle

_SELECT = "SELECT holder, term, until FROM mainspring_leaders WHERE name = ?"
_PUT = "INSERT OR REPLACE INTO mainspring_leaders VALUES (?, ?, ?, ?)"


class SqliteTerms(SqliteHandle):
    """The verbs acquire_term and terms."""

    async def acquire_term(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        answer = await self._write(lambda db: _acquire(db, name, holder, until, now))
        if answer.holder is None:
            self._waiters.wake_all()
        return answer

    async def terms(self, *, now: datetime) -> list[LeaderTerm]:
        return await self._read(lambda db: _held_terms(db, now))


def _acquire(db: sqlite3.Connection, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
    row = db.execute(_SELECT, (name,)).fetchone()
    known = None if row is None else LeaderTerm(name, row[0] or None, row[1], instant(row[2]))
    new = next_term(known, name, holder, until, now)
    if new != known:
        db.execute(_PUT, (name, new.holder or "", new.term, micros(new.until)))
    return new


def _held_terms(db: sqlite3.Connection, now: datetime) -> list[LeaderTerm]:
    """The terms that a process holds now, in order of name."""
    sql = "SELECT name, holder, term, until FROM mainspring_leaders WHERE until > ? AND holder <> '' ORDER BY name"
    rows = db.execute(sql, (micros(now),)).fetchall()
    return [LeaderTerm(name, holder, term, instant(until)) for name, holder, term, until in rows]
