"""Lists of jobs of the SQLite store: one page, most often by one statement, however many jobs there are.

A page is searched in this order (see _page):
1. Without other conditions, the sort order itself leads to the page.
2. An index on a condition leads to at most MAX_INDEXED_ROWS jobs: these are sorted.
3. The page is among the next NEAR_ROWS jobs in the sort order (FIRST_MERGED_ROWS if the order is merged from groups).
4. If these hold part of the page, they tell how long a walk along the order would be. The walk is made unless an index
   leads to fewer jobs: sorting one job costs as much as SORT_COST_ROWS rows of a walk by id, or one row of a merge.
5. An index leads to at most MAX_SORTED_ROWS jobs: these are sorted. Otherwise a walk goes on until the page is full.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime

import msgspec

from ...clock import micros
from ...records.job import Job
from ...records.query import Cursor, Filter, Sort
from ..rows import COLUMNS, Row, job_of
from .handle import SqliteHandle
from .job_query import AS_JSON, JobQuery, Source
from .lenient import Values, fetch_rows_leniently, is_not_utf8_error, is_too_big_error

MAX_INDEXED_ROWS = 500
FIRST_MERGED_ROWS = 500
NEAR_ROWS = 5000
MAX_SORTED_ROWS = 200_000
SORT_COST_ROWS = 5

_COLUMN_NUMBER = {name: n for n, name in enumerate(COLUMNS.split(", "))}
FINISHED_AT = _COLUMN_NUMBER["finished_at"]

_rows = msgspec.json.Decoder(list[Row]).decode


class SqliteLists(SqliteHandle):
    """The verb jobs."""

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


def job_page(
    db: sqlite3.Connection,
    which: Filter,
    now: int,
    limit: int,
    after: Cursor | None = None,
    newest: bool = False,
    sort: Sort = "created",
    brief: bool = False,
) -> list[Row]:
    """A page of matching jobs, as rows of COLUMNS."""
    query = JobQuery(which, now, limit, after, newest, sort, brief)
    if query.empty:
        return []
    rows, column = _page(db, query), _COLUMN_NUMBER[query.column]
    if query.out_of_order is not None:
        rows = list({row[0]: row for row in (*rows, *_read(db, query, query.sorted_page(query.out_of_order)))}.values())
    return sorted(rows, key=lambda row: (row[column], row[0]), reverse=newest)[:limit]


def _page(db: sqlite3.Connection, query: JobQuery) -> list[Row]:
    if query.ordered:
        return _read(db, query, query.full_walk())
    if query.which.ids is not None:
        return _read(db, query, query.sorted_page(next(query.indexed_sources())))
    source, _ = smallest_source(db, query, query.indexed_sources(), MAX_INDEXED_ROWS)
    if source is not None:
        return _read(db, query, query.sorted_page(source))
    limit = query.limit
    rows = max(NEAR_ROWS if query.by_id else FIRST_MERGED_ROWS, limit)
    found = _read(db, query, query.nearby_page(rows))
    if len(found) == limit:
        return found
    if (known := query.source_of_ids) is not None:
        found = _read(db, query, query.page_by_ids(known, rows))
        if len(found) == limit:
            return found
    source, size = smallest_source(db, query, query.sources(), MAX_SORTED_ROWS)
    reach = 2 * rows * limit // len(found) if found else 0
    sort_cost = SORT_COST_ROWS if query.by_id else min(SORT_COST_ROWS, 1)
    if rows < reach < sort_cost * size:
        found = _read(db, query, query.nearby_page(reach))
        if len(found) == limit:
            return found
    if source is None:
        return _read(db, query, query.full_walk())
    return _read(db, query, query.sorted_page(source))


def smallest_source(
    db: sqlite3.Connection, query: JobQuery, sources: Iterable[Source], limit: int
) -> tuple[Source | None, int]:
    """The source that leads to the fewest jobs, and their number; None if each leads to more than `limit`."""
    best, size = None, limit + 1
    for source in sources:
        count = db.execute(query.size(source, size - 1), query.values).fetchone()[0]
        if count < size:
            best, size = source, count
    return best, size


def _read(db: sqlite3.Connection, query: JobQuery, sql: str) -> list[Row]:
    try:
        return _rows(db.execute(sql, query.values).fetchone()[0])
    except (sqlite3.OperationalError, sqlite3.DataError) as error:
        if not is_not_utf8_error(error) and not is_too_big_error(error):
            raise
        return mark_undecodable(fetch_rows_leniently(db, sql.replace(AS_JSON, COLUMNS), query.values))


def fetch_whole_rows(db: sqlite3.Connection, sql: str, values: Values) -> list[Row]:
    """The rows (of COLUMNS) of a query, as one JSON text: see AS_JSON."""
    try:
        return _rows(db.execute(f"SELECT {AS_JSON} FROM ({sql})", values).fetchone()[0])
    except (sqlite3.OperationalError, sqlite3.DataError) as error:
        if not is_not_utf8_error(error) and not is_too_big_error(error):
            raise
        return mark_undecodable(fetch_rows_leniently(db, sql, values))


def mark_undecodable(rows: list[Row]) -> list[Row]:
    """The rows (of COLUMNS), without the options of a row in which a text is not UTF-8, so that job_of fails on it."""
    options = _COLUMN_NUMBER["options"]
    broken = [any(isinstance(value, bytes) for value in row) for row in rows]
    return [[*row[:options], None, *row[options + 1 :]] if bad else row for row, bad in zip(rows, broken, strict=True)]
