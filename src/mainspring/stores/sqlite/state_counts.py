"""Counts of a filter's jobs by state, for the tabs of a list: each up to a limit, from a limited number of rows."""

from __future__ import annotations

import sqlite3
from collections import Counter
from datetime import datetime

from msgspec.structs import replace

from ...clock import micros
from ...records.job import SHOWN, Shown
from ...records.query import Filter
from .handle import SqliteHandle
from .job_query import JobQuery, Source
from .lists import smallest_source

# An index on a condition of the filter that leads to at most this many jobs: all of these are counted.
MAX_COUNTED_ROWS = 10_000
# Else this number of jobs at both ends of an order in which matching jobs are near, then STATE_ROWS of each state.
NEAR_ROWS, STATE_ROWS = 5_000, 1_000


class SqliteStateCounts(SqliteHandle):
    """The verb count_by_state."""

    async def count_by_state(self, which: Filter, *, now: datetime, up_to: int) -> dict[Shown, int]:
        return await self._read(lambda db: state_counts(db, which, micros(now), up_to))


def state_counts(db: sqlite3.Connection, which: Filter, now: int, up_to: int) -> dict[Shown, int]:
    """The number of matching jobs in each requested state, at most `up_to`; without states that need more rows."""
    states = SHOWN if which.states is None else which.states
    query = JobQuery(replace(which, states=None), now, up_to, None, True, "created")
    sources = [*query.indexed_sources(), *query.sources_by_time()]
    source, _ = smallest_source(db, query, sources, MAX_COUNTED_ROWS)
    if source is not None:
        exact = _count(db, query, source, MAX_COUNTED_ROWS)
        return {state: min(exact[state], up_to) for state in states}
    near = Counter[str]()
    if sources or which.tags or which.key_prefix is not None:
        for newest in (True, False):
            near |= _count(db, query, query.near_source(NEAR_ROWS, newest=newest), NEAR_ROWS)
    found: dict[Shown, int | None] = {
        state: up_to if near[state] >= up_to else _count_state(db, replace(which, states=(state,)), now, up_to)
        for state in states
    }
    return {state: count for state, count in found.items() if count is not None}


def _count(db: sqlite3.Connection, query: JobQuery, source: Source, rows: int) -> Counter[str]:
    """The matching jobs among the first `rows` of a source, by shown state."""
    found = db.execute(query.counts_of(source, rows), query.values)
    return Counter({state: matching or 0 for state, _, matching in found})


def _count_state(db: sqlite3.Connection, which: Filter, now: int, up_to: int) -> int | None:
    """None if the rows that may be looked at do not tell."""
    query = JobQuery(which, now, up_to, None, True, "created")
    if query.empty:
        return 0
    rows = db.execute(query.counts_of(query.grouped_source(), STATE_ROWS), query.values).fetchall()
    matching = sum(match or 0 for *_, match in rows)
    more = sum(walked for _, walked, _ in rows) == STATE_ROWS
    return None if matching < up_to and more else min(matching, up_to)
