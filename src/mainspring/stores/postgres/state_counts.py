"""Counts of a filter's jobs by state, for the tabs of a list: each up to a limit, from a limited number of rows.

Each table is counted in up to three statements; one that leaves no state undecided is the last (see _count_table):
1. the first rows along an index of a condition, or the newest and the oldest jobs;
2. the rows of the index of tags, if the first rows show that few jobs have them;
3. the first rows of each state that is not decided yet, along the indexes of states and groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from ...clock import micros
from ...records.job import FINAL, SHOWN, Shown
from ...records.query import Filter
from .handle import PostgresHandle
from .job_groups import FINISHED, IN_OPEN_LEASE, JOBS, Table, shown_sql
from .job_query import PostgresJobQuery
from .pool import Session

# Rows that are read along the index of a condition, or of tags.
INDEX_ROWS = 5_000
# Rows that are read at each end of the order.
NEAR_ROWS = 2_000
# Rows that are read of each state.
STATE_ROWS = 2_000
# The index of tags is read if the rows before have one match in this number of rows, or fewer.
RARE_SHARE = 100
# SQL of the jobs of JOBS that may be in a state; ready jobs are read group by group.
_SPECIAL: dict[Shown, str] = {"running": IN_OPEN_LEASE, "paused": "parked", "waiting": "parked", "retrying": "retried"}
_ENDED = tuple(state.value for state in FINAL)


class PostgresStateCounts(PostgresHandle):
    """The verb count_by_state."""

    async def count_by_state(self, which: Filter, *, now: datetime, up_to: int) -> dict[Shown, int]:
        return await self._read(lambda db: state_counts(db, which, micros(now), up_to))


async def state_counts(db: Session, which: Filter, now: int, up_to: int) -> dict[Shown, int]:
    """The number of matching jobs in each requested state, at most `up_to`; without states that need more rows."""
    states: Sequence[Shown] = SHOWN if which.states is None else which.states
    tables = [await _count_table(db, CountQuery(table, which, now), states, up_to) for table in (JOBS, FINISHED)]
    found: dict[Shown, int] = {state: sum(table.counts[state] for table in tables) for state in states}
    return {
        state: min(count, up_to)
        for state, count in found.items()
        if count >= up_to or all(state in table.exact for table in tables)
    }


class Arm(NamedTuple):
    """A SELECT of the columns shown, matches and cut (whether there may be more), which reads all jobs of `states`."""

    sql: str
    states: Collection[Shown]


class TableCounts:
    """What is known of the matching jobs of one table. A count that is not exact is a lower bound."""

    def __init__(self) -> None:
        self.counts, self.exact = Counter[Shown](), set[Shown]()
        self.read = self.matching = 0

    async def add(self, db: Session, query: CountQuery, arms: Iterable[Arm]) -> None:
        """Adds what one statement finds. Arms may read the same jobs, so that the largest count of a state counts."""
        if not (known := list(arms)):
            return
        text, values = query.bound(query.statement(known))
        rows = [tuple(row) for row in await db.rows(text, *values)]
        for n, arm in enumerate(known):
            of_arm = Counter[Shown]({shown: matching for at, shown, _, matching, _ in rows if at == n})
            self.counts |= of_arm
            if not any(cut for at, *_, cut in rows if at == n):
                self.exact |= set(arm.states)
        self.read += sum(read for _, _, read, _, _ in rows)
        self.matching += sum(matching for *_, matching, _ in rows)


async def _count_table(db: Session, query: CountQuery, states: Collection[Shown], up_to: int) -> TableCounts:
    found = TableCounts()
    if query.empty:
        found.exact.update(states)
        return found

    def undecided() -> list[Shown]:
        return [state for state in query.possible(states) if state not in found.exact and found.counts[state] < up_to]

    found.exact.update(set(states) - set(query.possible(states)))
    # Row by row: a bitmap scan would read all entries of an index before the first row. One plan serves all values of
    # finished jobs: with a partition for each day, planning takes longer than execution.
    await db.run("SET LOCAL enable_bitmapscan = off")
    await db.run(f"SET LOCAL plan_cache_mode = force_{'generic' if query.table is FINISHED else 'custom'}_plan")
    await found.add(db, query, query.first_arms(undecided()))
    if undecided() and query.which.tags and found.matching * RARE_SHARE <= found.read:
        await db.run("SET LOCAL enable_bitmapscan = on")
        await found.add(db, query, [query.tag_arm()])
        await db.run("SET LOCAL enable_bitmapscan = off")
    if rest := undecided():
        await found.add(db, query, query.state_arms(rest))
    return found


class CountQuery(PostgresJobQuery):
    """The SQL that counts a filter's jobs of one table by state."""

    def __init__(self, table: Table, which: Filter, now: int) -> None:
        super().__init__(table, replace(which, states=None), now, 1, None, True, "created")
        self._shown = "state" if table is FINISHED else shown_sql(self._now)
        self._matches = " AND ".join(self._conditions) or "true"

    def possible(self, states: Iterable[Shown]) -> list[Shown]:
        """Those of the states in which a job of this table may be."""
        if self.which.workers is not None:
            return [state for state in states if state == "running" and self.table is JOBS]
        ended = set(_ENDED) if self.table is FINISHED else set(SHOWN) - set(_ENDED) | {"expired"}
        return [state for state in states if state in ended]

    def statement(self, arms: Sequence[Arm]) -> str:
        """For each arm and shown state: the rows that were read, those that match, and whether there may be more."""
        counts = " UNION ALL ".join(
            f"""SELECT {n} AS arm, shown, count(*), count(*) FILTER (WHERE matches), bool_or(cut)
            FROM {arm.sql} AS found GROUP BY shown"""
            for n, arm in enumerate(arms)
        )
        return f"WITH {self._hops()} {counts}" if any(" groups " in arm.sql for arm in arms) else counts

    def first_arms(self, states: Collection[Shown]) -> Iterator[Arm]:
        """All matching jobs along the first index of a condition; else the newest jobs and the oldest ones."""
        possible = self.possible(SHOWN)
        ways = [[self._equal["id"]]] if "id" in self._equal else list(self._small_index_sources())
        if ways:
            yield Arm(self._first_rows([str(part) for part in ways[0]], INDEX_ROWS), possible)
        elif self.table is FINISHED or not set(states) <= {"expired", *_SPECIAL}:
            for way in ("DESC", "ASC"):
                yield Arm(self._first_rows(self._in_time("true", f"id {way}"), NEAR_ROWS), possible)

    def tag_arm(self) -> Arm:
        tags = f"tags @> {self.bind(list(self.which.tags or ()), 'text[]')}"
        return Arm(self._first_rows([tags], INDEX_ROWS), self.possible(SHOWN))

    def state_arms(self, states: Collection[Shown]) -> Iterator[Arm]:
        """The jobs of each of these states."""
        for state in states:
            if self.table is FINISHED:
                yield Arm(self._ended_rows(state), [state])
            elif state in _SPECIAL:
                yield Arm(self._first_rows([_SPECIAL[state]], STATE_ROWS), [state])
            elif state == "expired":
                late = f"expires_at IS NOT NULL AND NOT parked AND expires_at <= {self._now}"
                yield Arm(self._first_rows([late], STATE_ROWS), [state])
            else:
                yield Arm(self._ready_rows(f"run_at {'>' if state == 'scheduled' else '<='} {self._now}"), [state])

    def _ended_rows(self, state: Shown) -> str:
        if not self._names:
            return self._first_rows(self._in_time(f"state = '{state}'", "finished_at DESC"), STATE_ROWS)
        return self._group_rows([self._group], f"{self._requested_groups()} AND one.state = '{state}'")

    def _ready_rows(self, due: str) -> str:
        ready = self._group_rows([f"{self._group} AND {due}"], self._requested_groups())
        suspects = self._first_rows(["crashes >= 2 AND NOT parked"], STATE_ROWS)
        return f"(SELECT * FROM {ready} AS ready UNION ALL SELECT * FROM {suspects} AS suspects)"

    def _group_rows(self, sources: Iterable[str], groups: str) -> str:
        """The first rows of each of the groups, which share the rows of a state evenly."""
        share = f"({STATE_ROWS} / greatest((SELECT count(*) FROM groups AS one WHERE {groups}), 1) + 1)"
        return f"""(SELECT job.* FROM groups AS one CROSS JOIN LATERAL {self._first_rows(sources, share)} AS job
            WHERE {groups})"""

    def _in_time(self, condition: str, order: str) -> list[str]:
        """The jobs with the condition, in that order, of the times of creation; and those that the id bounds miss."""
        ahead = " AND ".join([condition, *self._id_bounds])
        odd = [" AND ".join(self._out_of_order_conditions())] if self._id_bounds else []
        return [f"{ahead} ORDER BY {order}", *odd]

    def _first_rows(self, sources: Iterable[str], rows: int | str) -> str:
        """The first `rows` jobs of each source: conditions along an index, with an order or without one. A job that two
        sources lead to is there once."""
        columns = f"id, {self._shown} AS shown, coalesce({self._matches}, false) AS matches"
        found = " UNION ".join(
            f"(SELECT {columns} FROM {self.table} WHERE {source} LIMIT {rows})" for source in sources
        )
        return f"(SELECT shown, matches, row_number() OVER () >= {rows} AS cut FROM ({found}) AS first)"
