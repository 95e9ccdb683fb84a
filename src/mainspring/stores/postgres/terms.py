"""The PostgreSQL store's leader terms: which process leads for a name, and until when."""

from __future__ import annotations

from datetime import datetime

from ...clock import instant, micros
from ...schedule.record import LeaderTerm
from ..rules import next_term
from .pool import Session

_SELECT = "SELECT holder, term, until FROM mainspring_leaders WHERE name = $1 FOR NO KEY UPDATE"
_INSERT_EMPTY = "INSERT INTO mainspring_leaders VALUES ($1, '', 0, $2) ON CONFLICT (name) DO NOTHING"
_UPDATE = "UPDATE mainspring_leaders SET holder = $2, term = $3, until = $4 WHERE name = $1"


async def acquire_term(db: Session, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
    """Runs inside a transaction, which locks the row of the name."""
    row = await db.row(_SELECT, name)
    if row is None:
        # A row without a holder, to lock: of two processes that come first, one waits for the other here.
        await db.run(_INSERT_EMPTY, name, micros(now))
        row = await db.row(_SELECT, name)
    known = LeaderTerm(name, row[0] or None, row[1], instant(row[2])) if row[1] else None
    new = next_term(known, name, holder, until, now)
    if new != known:
        await db.run(_UPDATE, name, new.holder or "", new.term, micros(new.until))
    return new


_LEADERS = "SELECT name, holder, term, until FROM mainspring_leaders WHERE until > $1 AND holder <> '' ORDER BY name"


async def held_terms(db: Session, now: datetime) -> list[LeaderTerm]:
    """The terms that a process holds now, in order of name."""
    rows = await db.rows(_LEADERS, micros(now))
    return [LeaderTerm(name, holder, term, instant(until)) for name, holder, term, until in rows]
