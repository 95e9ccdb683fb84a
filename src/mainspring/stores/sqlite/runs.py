"""The SQLite store's runs of jobs, their log lines, their output and their checkpoints.

The run that completed a job is in the job's own row, marked by `ending`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence

import msgspec

from ...clock import instant, micros
from ...ids import JobId
from ...records.run import Checkpoint, Execution, LogLine, OutputChunk
from ..rows import OUTPUT_RUN_FLAG, Row, execution_row, executions_of, output_of
from ..rules import unique_ids
from .handle import SqliteHandle

_LAST_RUN = """SELECT id, runs, attempt, ending, worker, lease, started_at, finished_at,
        coalesce(length(CAST(result AS BLOB)), 0), failure, NULL
    FROM mainspring_jobs WHERE id {} AND ending IS NOT NULL"""
_KEEP_LAST_RUN = f"INSERT INTO mainspring_executions {_LAST_RUN.format('= ?')}"
_CHOSEN = "IN (SELECT value FROM json_each(:ids))"
_RUNS = f"""SELECT * FROM mainspring_executions WHERE job_id {_CHOSEN} AND number > :after
    UNION ALL {_LAST_RUN.format(_CHOSEN)} AND runs > :after ORDER BY 1, 2 LIMIT :limit"""
_ADD_RUN = "INSERT OR IGNORE INTO mainspring_executions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LINES = """SELECT run, n, at, level, text FROM mainspring_logs
    WHERE job_id = ? AND (run, n) > (?, ?) ORDER BY run, n LIMIT ?"""

_CHECKPOINTS = """SELECT n, name, at, value FROM mainspring_checkpoints
    WHERE job_id = ? AND n > ? ORDER BY n LIMIT ?"""
_ADD_CHECKPOINT = "INSERT OR IGNORE INTO mainspring_checkpoints VALUES (?, ?, ?, ?, ?)"


_CHUNKS = f"""SELECT n, level, at, text FROM mainspring_logs
    WHERE job_id = ? AND run = {OUTPUT_RUN_FLAG} AND n > ? ORDER BY n {{}} LIMIT ?"""


class SqliteRuns(SqliteHandle):
    """The verbs executions, logs and output."""

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        return executions_of(await self._read(lambda db: read_runs(db, unique_ids(job_id), after, limit)))

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        return await self._read(lambda db: _log_lines(db, job_id, limit, after))

    async def output(self, job_id: JobId, *, limit: int, after: int = 0, newest: bool = False) -> list[OutputChunk]:
        sql = _CHUNKS.format("DESC" if newest else "ASC")
        rows = await self._read(lambda db: db.execute(sql, (job_id, after, limit)).fetchall())
        return output_of(rows)


def read_runs(db: sqlite3.Connection, ids: Sequence[JobId], after: int, limit: int | None) -> list[Row]:
    """The runs of these jobs; the run that ended a job is read from the job's own row."""
    values = {"ids": msgspec.json.encode(ids).decode(), "after": after, "limit": -1 if limit is None else limit}
    return db.execute(_RUNS, values).fetchall()


def _log_lines(db: sqlite3.Connection, job_id: JobId, limit: int, after: tuple[int, int]) -> list[LogLine]:
    rows = db.execute(_LINES, (job_id, *max(after, (0, 0)), limit)).fetchall()
    return [LogLine(run, n, instant(at), level, text) for run, n, at, level, text in rows]


def read_checkpoints(db: sqlite3.Connection, job_id: JobId, after: int, limit: int | None) -> list[Checkpoint]:
    rows = db.execute(_CHECKPOINTS, (job_id, after, -1 if limit is None else limit)).fetchall()
    return [Checkpoint(n, name, instant(at), value) for n, name, at, value in rows]


def drop_checkpoints(db: sqlite3.Connection, ids: Iterable[JobId]) -> None:
    db.executemany("DELETE FROM mainspring_checkpoints WHERE job_id = ?", [(id,) for id in ids])


def add_checkpoints(db: sqlite3.Connection, job_id: JobId, checkpoints: Iterable[Checkpoint]) -> None:
    db.executemany(_ADD_CHECKPOINT, [(job_id, one.name, one.n, micros(one.at), one.value) for one in checkpoints])


def add_executions(db: sqlite3.Connection, runs: Iterable[Execution]) -> None:
    db.executemany(_ADD_RUN, [execution_row(run) for run in runs])


def keep_last_runs(db: sqlite3.Connection, ids: Iterable[JobId]) -> None:
    """Writes the runs that completed these jobs into the table of runs: the jobs' own rows will no longer tell them."""
    db.executemany(_KEEP_LAST_RUN, [(id,) for id in ids])
