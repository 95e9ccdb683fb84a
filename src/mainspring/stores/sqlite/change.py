"""Operators' actions on jobs of the SQLite store: cancel, retry, pause, resume, update, delete; by the rule."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import datetime

from ...clock import micros
from ...ids import JobId
from ...records.job import Action
from ...records.query import Changed, Cursor, Filter, Updates
from ..rows import job_of
from ..rules import change as rules
from ..rules.loaded import LoadedTables
from ..rules.read_sets import KnownValues, Name, of_change
from .handle import SqliteHandle
from .lists import job_page
from .tables import load, write


class SqliteChange(SqliteHandle):
    """The verb change."""

    async def change(
        self,
        action: Action,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        reason: str = "",
        update: Updates | None = None,
        after: JobId | None = None,
    ) -> Changed:
        self._idle = False
        changed = await self._write(lambda db: _change(db, action, which, now, limit, reason, update, after))
        self._waiters.wake_all()
        return changed


def _change(
    db: sqlite3.Connection,
    action: Action,
    which: Filter,
    now: datetime,
    limit: int,
    reason: str,
    update: Updates | None,
    after: JobId | None,
) -> Changed:
    """Applies the action to the first `limit` matching jobs after the id `after`, in order of id."""
    rows = job_page(db, which, micros(now), limit, None if after is None else Cursor(after))
    tables, chosen = LoadedTables(flows=True), [job_of(row) for row in rows]
    for job in chosen:
        tables.add_job(job.id, job)

    def needs(id: JobId, known: KnownValues) -> Iterator[Name]:
        return of_change(action, id, known)

    load(db, [job.id for job in chosen], needs, tables)
    done, refused = rules.change(tables, action, chosen, now, reason, update)
    write(db, tables)
    return Changed(done, refused, chosen[-1].id if chosen and len(chosen) == limit else None)
