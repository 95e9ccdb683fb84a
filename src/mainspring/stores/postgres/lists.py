"""Lists of jobs of the PostgreSQL store: one page, however many jobs there are.

A page is searched in each table in this order (see _page); job_query.py has the SQL:
1. Without other conditions, the sort order itself leads to the page.
2. An index on a condition leads to at most MAX_INDEXED_ROWS jobs: these are sorted.
3. The page is among the next NEAR_ROWS jobs in the sort order, or the next FAR_ROWS if these hold a part of it.
4. An index leads to at most MAX_SORTED_ROWS jobs: these are sorted. Otherwise a walk goes on until the page is full.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from ...clock import micros
from ...records.job import Job
from ...records.query import Cursor, Filter, Sort
from ..rows import job_of
from .handle import PostgresHandle
from .job_groups import FINISHED, JOBS
from .job_query import PostgresJobQuery
from .pool import Session

NEAR_ROWS = 5_000
FAR_ROWS = 20_000


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
        us = micros(now)
        rows = await self._read(lambda db: job_page(db, which, us, limit, after, newest, sort, brief))
        return [job_of(row) for row in rows]


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
    tables = {"created": (JOBS, FINISHED), "due": (JOBS,), "finished": (FINISHED,)}[sort]
    found: dict[str, Any] = {}
    for table in tables:
        rows = await _page(db, PostgresJobQuery(table, which, now, limit, after, newest, sort, brief), limit)
        found.update({row[0]: row for row in rows})
    if len(tables) == 1:
        return list(found.values())
    return [found[id] for id in sorted(found, reverse=newest)][:limit]


async def _page(db: Session, query: PostgresJobQuery, limit: int) -> list[Any]:
    if query.empty:
        return []
    if query.ordered:
        await _set_plan(db, query, "generic")
        return await _rows(db, query, query.full_walk())
    if (found := await _page_by_small_index(db, query)) is not None:
        return found
    if not query.always_few and (found := await _page_nearby(db, query, limit)) is not None:
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
    text, values = query.bound(sql)
    return await db.rows(text, *values)
