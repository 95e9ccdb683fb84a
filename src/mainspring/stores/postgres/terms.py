"""The PostgreSQL store's leader terms: which process leads for a name, and until when."""

from __future__ import annotations

from datetime import datetime

from ...clock import instant, micros
from ...schedule.record import LeaderTerm
from ..rules import next_term
from .handle import PostgresHandle
from .pool import Session

_SELECT = "SELECT holder, term, until FROM mainspring_leaders WHERE name = $1 FOR NO KEY UPDATE"
_INSERT_EMPTY = "INSERT INTO mainspring_leaders VALUES ($1, '', 0, $2) ON CONFLICT (name) DO NOTHING"
_UPDATE = "UPDATE mainspring_leaders SET holder = $2, term = $3, until = $4 WHERE name = $1"
_LEADERS = "SELECT name, holder, term, until FROM mainspring_leaders WHERE until > $1 AND holder <> '' ORDER BY name"


class PostgresTerms(PostgresHandle):
    """The verbs on leader terms."""

    async def acquire_term(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        answer = await self._transact(lambda db: _acquire_term(db, name, holder, until, now))
        if answer.holder is None:
            self._announce("new")
        return answer

    async def terms(self, *, now: datetime) -> list[LeaderTerm]:
        rows = await self._call(lambda db: db.rows(_LEADERS, micros(now)))
        return [LeaderTerm(name, holder, term, instant(until)) for name, holder, term, until in rows]


async def _acquire_term(db: Session, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
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
