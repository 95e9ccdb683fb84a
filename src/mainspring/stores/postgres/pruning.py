"""Deletes what retention does not keep from the PostgreSQL store, and finds what is to be deleted one by one."""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from ...clock import EPOCH, micros
from ...records.job import Job, State
from ...records.pruning import Pruning
from ...task.retention import Rules
from ..rows import COLUMNS, job_of
from .audit import drop_old_entries
from .documents import drop_expired_documents
from .handle import PostgresHandle, PostgresSettings
from .job_groups import FINISHED, GROUPS
from .partition_pruning import LOCK_RETRY_AFTER, prune_partitions
from .pool import Session
from .url import PostgresUrl

_GROUPS = f"WITH {GROUPS[FINISHED]} SELECT DISTINCT state, task FROM groups"
# For each queue separately, as the index is sorted.
_OF_TASK = """(SELECT one.* FROM (SELECT DISTINCT queue FROM groups WHERE state = $1 AND task = $2) AS queues
    CROSS JOIN LATERAL (SELECT {what} FROM mainspring_finished WHERE task = $2 AND queue = queues.queue AND state = $1
        AND {when} ORDER BY finished_at {way}, id {way} LIMIT {room}) AS one)"""
_KEPT = _OF_TASK.format(what="finished_at, id", when="true", way="DESC", room="$4::bigint")
# A subquery, so that the planner looks each job up, and joins no tables.
NOT_OF_FLOW = """(SELECT true FROM mainspring_steps AS step JOIN mainspring_flows AS flow ON flow.id = step.flow
        WHERE step.job_id = mainspring_finished.id) IS NULL"""
_PRUNABLE_JOBS = _OF_TASK.format(
    what=COLUMNS,
    way="ASC",
    room="$5::bigint",
    when=f"""{NOT_OF_FLOW} AND finished_at < $3 AND
    ($4::bigint = 0 OR (finished_at, id) < (SELECT finished_at, id FROM last))""",
)
_SURPLUS = f"""WITH {GROUPS[FINISHED]},
    last AS MATERIALIZED (SELECT finished_at, id FROM {_KEPT} AS kept ORDER BY finished_at DESC, id DESC
        OFFSET greatest($4::bigint - 1, 0) LIMIT 1)
    SELECT {COLUMNS} FROM {_PRUNABLE_JOBS} AS rest ORDER BY finished_at, id LIMIT $5"""


class PostgresPruning(PostgresHandle):
    """The verbs of retention."""

    def __init__(self, url: PostgresUrl, **settings: Unpack[PostgresSettings]) -> None:
        super().__init__(url, **settings)
        self._prune_partitions_at = EPOCH

    async def finished_groups(self) -> list[tuple[State, str]]:
        rows = await self._call(lambda db: db.rows(_GROUPS))
        return sorted((State(state), task) for state, task in rows)

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        values = (state.value, task, micros(before), keep, limit)
        return [job_of(row) for row in await self._read(lambda db: db.rows(_SURPLUS, *values))]

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        async def drop_old(db: Session) -> int:
            documents = await drop_expired_documents(db, micros(now))
            return documents + await drop_old_entries(db, micros(audited_since))

        return Pruning(await self._prune_partitions(rules, now), await self._transact(drop_old))

    async def _prune_partitions(self, rules: Rules, now: datetime) -> int:
        pool = self._open()
        if now < self._prune_partitions_at:
            return 0
        with self._clock.outside():
            pruned = await prune_partitions(pool, rules, now)
        self._prune_partitions_at = now if pruned is not None else now + LOCK_RETRY_AFTER
        return pruned or 0
