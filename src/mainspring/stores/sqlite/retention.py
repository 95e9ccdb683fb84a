"""Deletes what retention does not keep in the SQLite store, and finds the jobs that it does not keep."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from ...clock import instant, micros
from ...ids import JobId
from ...records.job import Job, State
from ...records.pruning import Pruning
from ...records.query import Cursor, Filter
from ...task.retention import Rules
from ..rows import COLUMNS, Row, job_of, step_of
from .audit import drop_old_entries
from .documents import drop_expired_documents
from .flow_rows import read_flow_ids
from .handle import SqliteHandle
from .index_groups import ENDED, ENDED_GROUPS
from .lists import FINISHED_AT, job_page

OPTIONS = COLUMNS.split(", ").index("options")
_NEWEST_OF_GROUP = f"""SELECT finished_at, id FROM mainspring_jobs WHERE {ENDED.when}
    AND state = :of_state AND queue = :of_queue AND task = :of_task ORDER BY finished_at DESC, id DESC LIMIT :keep"""


class SqliteRetention(SqliteHandle):
    """The verbs finished_groups, prunable and prune."""

    async def finished_groups(self) -> list[tuple[State, str]]:
        return await self._read(_finished_groups)

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        rows = await self._read(lambda db: _prunable(db, state, task, keep, before, limit))
        return [job_of(row) for row in rows]

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        since, us = micros(audited_since), micros(now)
        return Pruning(0, await self._write(lambda db: drop_expired_documents(db, us) + drop_old_entries(db, since)))


def _finished_groups(db: sqlite3.Connection) -> list[tuple[State, str]]:
    return sorted({(State(state), task) for state, _, task in db.execute(ENDED_GROUPS)})


def _prunable(db: sqlite3.Connection, state: State, task: str, keep: int, before: datetime, limit: int) -> list[Row]:
    """Finished jobs of a state and task before `before`, beyond the newest `keep`; oldest first."""
    end = (micros(before), "")
    if keep:
        newest: list[tuple[int, JobId]] = []
        for of_state, queue, of_task in db.execute(ENDED_GROUPS).fetchall():
            if (of_state, of_task) == (state.value, task):
                values = {"of_state": of_state, "of_queue": queue, "of_task": task, "keep": keep}
                newest += db.execute(_NEWEST_OF_GROUP, values).fetchall()
        newest.sort(reverse=True)
        if len(newest) < keep:
            return []
        end = min(end, newest[keep - 1])
    return list(islice(_not_of_flows(db, _before(db, state, task, end, limit)), limit))


def _before(db: sqlite3.Connection, state: State, task: str, end: tuple[int, JobId], limit: int) -> Iterator[list[Row]]:
    """Pages of finished jobs of a state and task before that end, oldest first."""
    which, after = Filter(states=(state.value,), tasks=(task,)), None
    while page := job_page(db, which, end[0], limit, after, sort="finished"):
        yield [row for row in page if (row[FINISHED_AT], row[0]) < end]
        if len(page) < limit or (page[-1][FINISHED_AT], page[-1][0]) >= end:
            return
        after = Cursor(page[-1][0], instant(page[-1][FINISHED_AT]))


def _not_of_flows(db: sqlite3.Connection, pages: Iterable[list[Row]]) -> Iterator[Row]:
    """The rows whose jobs are no steps of a flow that is stored."""
    for page in pages:
        # A row that cannot be decoded has no options.
        options = ((row[0], (row[OPTIONS] or "").encode()) for row in page)
        steps = {id: step.flow for id, text in options if (step := step_of(id, text)) is not None}
        stored = read_flow_ids(db, set(steps.values())) if steps else set()
        yield from (row for row in page if steps.get(row[0]) not in stored)
