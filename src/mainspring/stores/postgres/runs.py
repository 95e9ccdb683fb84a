"""Finished runs of jobs in the PostgreSQL store, their log lines and their output."""

from __future__ import annotations

from collections.abc import Collection

from ...clock import instant
from ...ids import JobId
from ...records.run import Execution, LogLine, OutputChunk
from ..rows import OUTPUT_RUN_FLAG, executions_of, output_of
from ..rules import unique_ids
from .handle import PostgresHandle
from .pool import Session

_RUNS = """SELECT * FROM mainspring_executions WHERE job_id = ANY($1::text[]) AND number > $2
    UNION ALL SELECT id, runs, attempt, ending, worker, lease, started_at, finished_at,
        coalesce(octet_length(result), 0), NULL, NULL
    FROM mainspring_finished WHERE id = ANY($1::text[]) AND ending IS NOT NULL AND runs > $2 ORDER BY 1, 2 LIMIT $3"""
_LINES = """SELECT run, n, at, level, text FROM mainspring_logs
    WHERE job_id = $1 AND (run, n) > ($2, $3) ORDER BY run, n LIMIT $4"""


_CHUNKS = f"""SELECT n, level, at, text FROM mainspring_logs
    WHERE job_id = $1 AND run = {OUTPUT_RUN_FLAG} AND n > $2 ORDER BY n {{}} LIMIT $3"""


class PostgresRuns(PostgresHandle):
    """The verbs `executions`, `logs` and `output`."""

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        return await self._call(lambda db: runs_of(db, unique_ids(job_id), after, limit))

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        rows = await self._call(lambda db: db.rows(_LINES, job_id, *max(after, (0, 0)), limit))
        return [LogLine(run, n, instant(at), level, text) for run, n, at, level, text in rows]

    async def output(self, job_id: JobId, *, limit: int, after: int = 0, newest: bool = False) -> list[OutputChunk]:
        sql = _CHUNKS.format("DESC" if newest else "ASC")
        return output_of(await self._call(lambda db: db.rows(sql, job_id, after, limit)))


async def runs_of(db: Session, ids: list[JobId], after: int = 0, limit: int | None = None) -> list[Execution]:
    """The finished runs of these jobs that are numbered above `after`, by id and number."""
    return executions_of(await db.rows(_RUNS, ids, after, limit))
