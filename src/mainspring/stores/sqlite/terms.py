"""The SQLite store's leader terms: which process leads for a name, and until when."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from ...clock import instant, micros
from ...schedule.record import LeaderTerm
from ..rules import next_term

_SELECT = "SELECT holder, term, until FROM mainspring_leaders WHERE name = ?"
_PUT = "INSERT OR REPLACE INTO mainspring_leaders VALUES (?, ?, ?, ?)"


def acquire_term(db: sqlite3.Connection, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
    row = db.execute(_SELECT, (name,)).fetchone()
    known = None if row is None else LeaderTerm(name, row[0] or None, row[1], instant(row[2]))
    new = next_term(known, name, holder, until, now)
    if new != known:
        db.execute(_PUT, (name, new.holder or "", new.term, micros(new.until)))
    return new


def held_terms(db: sqlite3.Connection, now: datetime) -> list[LeaderTerm]:
    """The terms that a process holds now, in order of name."""
    sql = "SELECT name, holder, term, until FROM mainspring_leaders WHERE until > ? AND holder <> '' ORDER BY name"
    rows = db.execute(sql, (micros(now),)).fetchall()
    return [LeaderTerm(name, holder, term, instant(until)) for name, holder, term, until in rows]
