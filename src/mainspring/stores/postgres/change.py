"""Operators' actions on jobs of the PostgreSQL store: cancel, retry, pause, resume, update, delete; by the rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ...clock import micros
from ...ids import JobId
from ...records.job import Action
from ...records.query import Changed, Cursor, Filter, Updates
from ..rows import Row, job_of
from ..rules import change as rules
from ..rules import matches_filter
from ..rules.read_sets import KnownValues, Name, of_change
from .flow_rows import lock_families
from .handle import PostgresHandle
from .lists import job_page
from .pool import Session
from .tables import LockedTables, load, write


class PostgresChange(PostgresHandle):
    """The verb `change`."""

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
        cursor = None if after is None else Cursor(after)
        # In one snapshot: a job that ends between the statements of a page would be in neither of the two tables.
        rows = await self._read(lambda db: job_page(db, which, micros(now), limit, cursor))
        changed = await self._transact(lambda db: _change(db, action, which, rows, now, limit, reason, update))
        self._announce("new", "final")
        return changed


async def _change(
    db: Session,
    action: Action,
    which: Filter,
    rows: Sequence[Row],
    now: datetime,
    limit: int,
    reason: str,
    update: Updates | None,
) -> Changed:
    """Applies the action to the jobs of these rows, a page of at most `limit`. Runs inside a transaction."""
    tables, ids = LockedTables(), [row[0] for row in rows]
    for row in rows:
        tables.add_job(row[0], job_of(row))
    if ids:
        await lock_families(db, ids)

    def needs(id: JobId, known: KnownValues) -> Iterator[Name]:
        return of_change(action, id, known)

    await load(db, ids, needs, tables)
    # A job that changed between the list and its lock is taken as it is now, or left out if it no longer matches.
    found = [job for id in ids if (job := tables.job(id)) is not None and matches_filter(job, which, now)]
    done, refused = rules.change(tables, action, found, now, reason, update)
    await write(db, tables)
    return Changed(done, refused, ids[-1] if ids and len(ids) == limit else None)
