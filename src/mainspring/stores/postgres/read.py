"""Runs, log lines and prunable jobs of the PostgreSQL store."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...clock import instant, micros
from ...ids import JobId
from ...records.job import State
from ...records.run import Execution, LogLine
from ..rows import COLUMNS, executions_of
from .job_groups import FINISHED, GROUPS
from .pool import Session

_RUNS = """SELECT * FROM mainspring_executions WHERE job_id = ANY($1::text[]) AND number > $2
    UNION ALL SELECT id, runs, attempt, ending, worker, lease, started_at, finished_at,
        coalesce(octet_length(result), 0), NULL, NULL
    FROM mainspring_finished WHERE id = ANY($1::text[]) AND ending IS NOT NULL AND runs > $2 ORDER BY 1, 2 LIMIT $3"""


async def executions(db: Session, ids: list[JobId], after: int, limit: int | None) -> list[Execution]:
    return executions_of(await db.rows(_RUNS, ids, after, limit))


_LINES = """SELECT run, n, at, level, text FROM mainspring_logs
    WHERE job_id = $1 AND (run, n) > ($2, $3) ORDER BY run, n LIMIT $4"""


async def logs(db: Session, job_id: JobId, limit: int, after: tuple[int, int]) -> list[LogLine]:
    rows = await db.rows(_LINES, job_id, *after, limit)
    return [LogLine(run, n, instant(at), level, text) for run, n, at, level, text in rows]


# pruning

_GROUPS = f"WITH {GROUPS[FINISHED]} SELECT DISTINCT state, task FROM groups"


async def finished_groups(db: Session) -> list[tuple[State, str]]:
    return sorted((State(state), task) for state, task in await db.rows(_GROUPS))


# For each queue separately, as the index is sorted.
_OF_TASK = """(SELECT one.* FROM (SELECT DISTINCT queue FROM groups WHERE state = $1 AND task = $2) AS queues
    CROSS JOIN LATERAL (SELECT {what} FROM mainspring_finished WHERE task = $2 AND queue = queues.queue AND state = $1
        AND {when} ORDER BY finished_at {way}, id {way} LIMIT {room}) AS one)"""
_KEPT = _OF_TASK.format(what="finished_at, id", when="true", way="DESC", room="$4::bigint")
_PRUNABLE_JOBS = _OF_TASK.format(
    what=COLUMNS,
    way="ASC",
    room="$5::bigint",
    when="""finished_at < $3 AND
    ($4::bigint = 0 OR (finished_at, id) < (SELECT finished_at, id FROM last))""",
)
_SURPLUS = f"""WITH {GROUPS[FINISHED]},
    last AS MATERIALIZED (SELECT finished_at, id FROM {_KEPT} AS kept ORDER BY finished_at DESC, id DESC
        OFFSET greatest($4::bigint - 1, 0) LIMIT 1)
    SELECT {COLUMNS} FROM {_PRUNABLE_JOBS} AS rest ORDER BY finished_at, id LIMIT $5"""


async def prunable(db: Session, state: State, task: str, keep: int, before: datetime, limit: int) -> list[Any]:
    """Finished jobs of a state and task before `before`, beyond the newest `keep`; oldest first."""
    return await db.rows(_SURPLUS, state.value, task, micros(before), keep, limit)
