"""Numbers of jobs in the PostgreSQL store: exact for small tables, estimated from a sample for large ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ...clock import instant, micros
from ...records.queue import DeadGroup, Overview, Queue
from .circuits import circuits
from .handle import PostgresHandle
from .job_groups import FINISHED, JOBS, Table, shown_sql
from .pool import Session
from .queues import paused_queues
from .statement_file import read_statements

# A table of up to this many pages of 8 KiB is counted whole.
MAX_COUNTED_PAGES = 4_000
# Pages that are sampled of a larger table.
SAMPLE_PAGES = 500
# Rows of a larger table that are counted one by one, in all groups together.
MAX_COUNTED_ROWS = 20_000
# Up to this number of jobs with an error, the dead are grouped row by row.
MAX_DEAD_ROWS = 200_000

_SQL = read_statements(
    "count.sql", shown=shown_sql("$1::bigint"), max_counted_rows=MAX_COUNTED_ROWS, max_dead_rows=MAX_DEAD_ROWS
)
_COUNT_PAGES = _SQL.statement("count_pages")
_COUNT = {JOBS: _SQL.statement("count_jobs"), FINISHED: _SQL.statement("count_finished")}
_SAMPLE = {JOBS: _SQL.statement("sample_jobs"), FINISHED: _SQL.statement("sample_finished")}
_COUNT_FIRST = {JOBS: _SQL.statement("count_first_jobs"), FINISHED: _SQL.statement("count_first_finished")}


class PostgresCount(PostgresHandle):
    """The verbs that count jobs."""

    async def overview(self, *, now: datetime, finished: bool = True) -> Overview:
        return await self._read(lambda db: _overview(db, micros(now), finished))

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        return await self._read(lambda db: _dead_groups(db, limit))


async def _sample_percent(db: Session, table: Table) -> float:
    """The percentage of the table to sample; 100 for a small table."""
    pages = int(await db.value(_COUNT_PAGES, db.url.sql(table)))
    return 100.0 if pages <= MAX_COUNTED_PAGES else 100.0 * SAMPLE_PAGES / pages


async def _count_table(db: Session, table: Table, now: int) -> Counter[tuple[str, str]]:
    """The numbers of jobs by queue (empty for finished jobs) and shown state."""
    share = await _sample_percent(db, table)
    if share == 100:
        return _sum_by_queue_and_state((queue, shown, size) for queue, shown, size in await db.rows(_COUNT[table], now))
    sampled = Counter[Any]()
    for *key, size in await db.rows(_SAMPLE[table], now, share):
        sampled[(*key,)] += size
        sampled[key[0], key[1], "", 0] += size
    rows = await db.rows(_COUNT_FIRST[table], now)
    return _sum_by_queue_and_state(
        (queue, shown, max(size, round(100 / share * sampled[queue, shown, task, rank])) if many else size)
        for queue, shown, task, rank, size, many in rows
    )


def _sum_by_queue_and_state(rows: Iterable[tuple[str, str, int]]) -> Counter[tuple[str, str]]:
    found = Counter[tuple[str, str]]()
    for queue, shown, size in rows:
        found[queue, shown] += size
    return found


async def _overview(db: Session, now: int, finished: bool) -> Overview:
    unfinished, states = await _count_table(db, JOBS, now), Counter[Any]()
    ended = await _count_table(db, FINISHED, now) if finished else Counter[tuple[str, str]]()
    for (_, shown), size in (*unfinished.items(), *ended.items()):
        states[shown] += size
    return Overview(dict(+states), await _queues(db, unfinished), await circuits(db))


async def _queues(db: Session, found: Counter[tuple[str, str]]) -> list[Queue]:
    paused = await paused_queues(db)
    return [
        Queue(
            name=name,
            paused=name in paused,
            pending=found[name, "pending"],
            scheduled=found[name, "scheduled"],
            retrying=found[name, "retrying"],
            running=found[name, "running"],
        )
        for name in sorted(paused | {name for (name, _), size in found.items() if size})
    ]


# dead groups

_COUNT_DEAD = _SQL.statement("count_dead")
_READ_DEAD_GROUPS = _SQL.statement("read_dead_groups")
_COUNT_FIRST_DEAD = _SQL.statement("count_first_dead")
_SAMPLE_DEAD = _SQL.statement("sample_dead")


async def _dead_groups(db: Session, limit: int) -> list[DeadGroup]:
    few = await db.value(_COUNT_DEAD) <= MAX_DEAD_ROWS
    rows = await db.rows(_READ_DEAD_GROUPS, limit) if few else await db.rows(_COUNT_FIRST_DEAD)
    sampled, share = Counter[Any](), 100.0
    if any(many for *_, many, _, _ in rows):
        share = await _sample_percent(db, FINISHED)
        sampled.update({(task, error): size for task, error, size in await db.rows(_SAMPLE_DEAD, share)})
    found = [
        DeadGroup(
            task=task,
            error=error,
            newest=newest,
            last_at=instant(last),
            count=max(size, round(100 / share * sampled[task, error])) if many else size,
        )
        for task, error, size, many, newest, last in rows
    ]
    return sorted(found, key=lambda group: (-group.count, group.task, group.error))[:limit]
