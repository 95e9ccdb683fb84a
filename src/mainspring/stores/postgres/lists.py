"""Lists of jobs of the PostgreSQL store: one page, however many jobs there are.

A page is searched in each table in this order (see _page); job_query.py has the SQL:
1. Without other conditions, the sort order itself leads to the page.
2. An index on a condition leads to at most MAX_INDEXED_ROWS jobs: these are sorted.
3. The page is among the next NEAR_ROWS jobs in the sort order, or the next FAR_ROWS if these hold a part of it.
4. An index leads to at most MAX_SORTED_ROWS jobs: these are sorted. Otherwise a walk goes on until the page is full.

In order of creation, finished jobs are searched in this way window by window: a day, then more days, then all others.
An id begins with its time, so a window is a range of ids, for which the server plans and reads few partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from ...clock import micros
from ...ids import JobId
from ...records.job import Job
from ...records.query import Cursor, Filter, Sort
from ..rows import job_of
from .handle import PostgresHandle
from .id_windows import id_after, micros_of_id, windows_of
from .job_groups import FINISHED, JOBS, Table
from .job_query import EVERYTHING, PostgresJobQuery, Window
from .jobs import rows_of_jobs
from .pool import Session

NEAR_ROWS = 5_000
FAR_ROWS = 20_000
# Makes the query of a page: for a table, and for a window of it.
MakeQuery = Callable[..., PostgresJobQuery]
_FIRST_ID = "SELECT id FROM mainspring_finished ORDER BY id LIMIT 1"


class PostgresLists(PostgresHandle):
    """The verb `jobs`."""

    async def jobs(
        self,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        after: Cursor | None = None,
        newest: bool = False,
        sort: Sort = "created",
        brief: bool = False,
    ) -> list[Job]:
        if (ids := _ids_alone(which)) is not None and len(ids) <= limit and not (after or brief) and sort == "created":
            found = await self._call(lambda db: rows_of_jobs(db, ids))
            return sorted([job_of(row) for row in found], key=lambda job: job.id, reverse=newest)
        us = micros(now)
        rows = await self._read(lambda db: job_page(db, which, us, limit, after, newest, sort, brief))
        return [job_of(row) for row in rows]


def _ids_alone(which: Filter) -> Sequence[JobId] | None:
    """The ids of a filter that has no other condition."""
    return which.ids if which == Filter(ids=which.ids) else None


async def job_page(
    db: Session,
    which: Filter,
    now: int,
    limit: int,
    after: Cursor | None = None,
    newest: bool = False,
    sort: Sort = "created",
    brief: bool = False,
) -> list[Any]:
    """A page of matching jobs, as rows of COLUMNS."""

    def query(table: Table, window: Window = EVERYTHING) -> PostgresJobQuery:
        return PostgresJobQuery(table, which, now, limit, after, newest, sort, brief, window)

    if sort != "created":
        return await _page(db, query(JOBS if sort == "due" else FINISHED), limit)
    if newest:
        unfinished = await _page(db, query(JOBS), limit)
        ended = await _ended(db, query, limit, await _windows(db, query(FINISHED), newest, after, now, unfinished))
    else:
        ended = await _ended(db, query, limit, await _windows(db, query(FINISHED), newest, after, now, []))
        unfinished = await _unfinished_up_to(db, query, limit, ended)
    found = {row[0]: row for row in (*unfinished, *ended)}
    return [found[id] for id in sorted(found, reverse=newest)][:limit]


async def _ended(db: Session, query: MakeQuery, limit: int, windows: Iterable[Window]) -> list[Any]:
    found: list[Any] = []
    for n, window in enumerate(windows):
        # If the windows before had few of them, they are far between: a walk past the next jobs would be for nothing.
        found += await _page(db, query(FINISHED, window), limit, sparse=n > 0 and len(found) < limit // 4)
        if len(found) >= limit:
            break
    return found


async def _unfinished_up_to(db: Session, query: MakeQuery, limit: int, ended: Sequence[Any]) -> list[Any]:
    """The first unfinished jobs; only up to the last one of a full page of finished jobs, if these are few."""
    if len(ended) >= limit:
        earlier = query(JOBS, (None, id_after(ended[limit - 1][0])))
        if earlier.empty:
            return []
        if await db.value(*_bound(earlier, earlier.size_of_walk(NEAR_ROWS))) <= NEAR_ROWS:
            return await _rows(db, earlier, earlier.full_walk())
    return await _page(db, query(JOBS), limit)


async def _windows(
    db: Session, query: PostgresJobQuery, newest: bool, after: Cursor | None, now: int, unfinished: Sequence[Any]
) -> Iterable[Window]:
    """The windows in which finished jobs are searched; none beyond the last one of a full page of unfinished jobs."""
    which = query.which
    if query.empty:
        return ()
    if which.ids is not None or query.ordered:
        return (EVERYTHING,)
    bound = which.created_before if newest else which.created_after
    anchor = now if bound is None else micros(bound)
    if after is not None:
        anchor = micros_of_id(after.id, anchor)
    elif not newest and bound is None and (first := await db.value(_FIRST_ID)) is not None:
        anchor = micros_of_id(first, now)
    return windows_of(newest, anchor, unfinished[-1][0] if query.fills(unfinished) else None)


async def _page(db: Session, query: PostgresJobQuery, limit: int, *, sparse: bool = False) -> list[Any]:
    if query.empty:
        return []
    if query.ordered:
        await _set_plan(db, query, "generic")
        return await _rows(db, query, query.full_walk())
    if (found := await _page_by_small_index(db, query)) is not None:
        return found
    if not (sparse or query.always_few) and (found := await _page_nearby(db, query, limit)) is not None:
        return found
    if (found := await _page_by_index(db, query, query.indexed_pages(small_only=False))) is not None:
        return found
    return await _rows(db, query, query.full_walk())


async def _set_plan(db: Session, query: PostgresJobQuery, kind: Literal["generic", "custom"]) -> None:
    """Keeps one plan for walks along an order, since it serves all values. With a partition for each day of a month,
    planning takes longer than execution."""
    if query.table is FINISHED:
        await db.run(f"SET LOCAL plan_cache_mode = force_{kind}_plan")


async def _page_by_small_index(db: Session, query: PostgresJobQuery) -> list[Any] | None:
    if not (pages := list(query.indexed_pages(small_only=True))):
        return None
    # Row by row: a bitmap scan would read all entries of the index before the first row.
    await db.run("SET LOCAL enable_bitmapscan = off")
    found = await _page_by_index(db, query, pages)
    await db.run("SET LOCAL enable_bitmapscan = on")
    return found


async def _page_nearby(db: Session, query: PostgresJobQuery, limit: int) -> list[Any] | None:
    await _set_plan(db, query, "generic")
    rows = await _rows(db, query, query.nearby_page(NEAR_ROWS))
    if limit // 4 <= len(rows) < limit:
        rows = await _rows(db, query, query.nearby_page(FAR_ROWS))
    await _set_plan(db, query, "custom")
    return rows if len(rows) == limit else None


async def _page_by_index(db: Session, query: PostgresJobQuery, pages: Iterable[tuple[str, int]]) -> list[Any] | None:
    for sql, max_rows in pages:
        rows = await _rows(db, query, sql)
        if rows[0][-1] <= max_rows:
            return [tuple(row)[:-1] for row in rows if row[0] is not None]
    return None


async def _rows(db: Session, query: PostgresJobQuery, sql: str) -> list[Any]:
    return await db.rows(*_bound(query, sql))


def _bound(query: PostgresJobQuery, sql: str) -> tuple[Any, ...]:
    text, values = query.bound(sql)
    return text, *values
