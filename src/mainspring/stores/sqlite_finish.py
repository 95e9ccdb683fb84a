"""Outcomes into the SQLite store, fenced."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ..clock import micros
from ..failpoint import failpoint
from ..job import JobId, State
from ..outcome import Outcome
from .rows import Row, failure_text
from .sqlite_batch import CHUNKS, chunks, flat, places

# The last run of a finished job needs no execution row: the job's own row has it all, and its `ending`
# says so. That is one write a job in the common case; only runs that others follow get rows of their own.
_END = {
    size: f"""UPDATE mainspring_jobs AS job
        SET state = ended.state, ending = ended.ending, finished_at = ended.finished_at, result = ended.result,
            failure = ended.failure
        FROM (SELECT column1 AS id, column2 AS lease, column3 AS state, column4 AS ending, column5 AS finished_at,
            column6 AS result, column7 AS failure FROM (VALUES {places(size, 7)})) AS ended
        WHERE job.id = ended.id AND job.lease = ended.lease AND job.state = 'running'"""
    for size in CHUNKS
}

_ENDED = "ended (id, lease, state, ending, finished_at, result, failure, run_at, refund, crash)"
# The fence: this very run, still running, and for a crash a worker that is silent still.
_FENCE = """job.id = ended.id AND job.lease = ended.lease AND job.state = 'running'
    AND NOT (ended.crash AND EXISTS (SELECT 1 FROM mainspring_workers
        WHERE mainspring_workers.id = job.worker AND until > ended.finished_at))"""
_RECORD = f"""INSERT OR IGNORE INTO mainspring_executions
    WITH {_ENDED} AS (VALUES {places(1, 10)})
    SELECT job.id, runs, attempt, ended.ending, worker, job.lease, started_at, ended.finished_at,
        coalesce(length(CAST(ended.result AS BLOB)), 0), ended.failure
    FROM ended CROSS JOIN mainspring_jobs job ON {_FENCE}"""
_SETTLE = f"""WITH {_ENDED} AS (VALUES {places(1, 10)})
    UPDATE mainspring_jobs AS job SET
        state = CASE WHEN ended.state = 'pending' AND cancel_reason IS NOT NULL THEN 'cancelled'
            ELSE ended.state END,
        finished_at = CASE WHEN ended.state = 'pending' AND cancel_reason IS NULL THEN NULL
            ELSE ended.finished_at END,
        run_at = coalesce(ended.run_at, job.run_at),
        attempt = attempt - ended.refund, crashes = crashes + ended.crash, lease = NULL, worker = NULL,
        result = ended.result,
        failure = CASE WHEN ended.failure IS NULL AND ended.state <> 'completed' THEN job.failure
            ELSE ended.failure END
    FROM ended WHERE {_FENCE}"""
_STANDS = """SELECT 1 FROM mainspring_executions WHERE job_id = :id AND lease = :lease AND ending = :ending AND
        finished_at = :at
    UNION ALL SELECT 1 FROM mainspring_jobs WHERE id = :id AND lease = :lease AND ending = :ending AND
        finished_at = :at"""


def finish(db: sqlite3.Connection, rows: Sequence[Row]) -> set[JobId]:
    if len({row[0] for row in rows}) < len(rows):
        # Two outcomes for one job: one after the other, since a statement would take either.
        return set().union(*(finish(db, [row]) for row in rows))
    accepted = 0
    for chunk in chunks([row for row in rows if len(row) == 7]):
        accepted += db.execute(_END[len(chunk)], flat(chunk)).rowcount
        failpoint("finish.mid_batch")
    for row in rows:
        if len(row) == 10:
            accepted += db.execute(_RECORD, row).rowcount
            failpoint("finish.mid_batch")
            db.execute(_SETTLE, row)
    if accepted == len(rows):
        return {row[0] for row in rows}
    # Some were late or are told a second time: those that are the recorded ending of their run stand.
    told = [{"id": row[0], "lease": row[1], "ending": row[3], "at": row[4]} for row in rows]
    return {values["id"] for values in told if db.execute(_STANDS, values).fetchone()}


def ended_row(outcome: Outcome) -> Row:
    """Seven columns for the plain end of a job, ten where the job goes on or its row says something else."""
    state = outcome.state
    row = (
        outcome.id, outcome.lease, state.value, outcome.ending.value, micros(outcome.finished_at), outcome.result,
        failure_text(outcome.failure),
    )  # fmt: skip
    told = state is State.COMPLETED or (state.final and outcome.failure is not None)
    if told and not outcome.refund and not outcome.crash and outcome.run_at is None:
        return row
    run_at = None if outcome.run_at is None else micros(outcome.run_at)
    return (*row, run_at, outcome.refund, outcome.crash)
