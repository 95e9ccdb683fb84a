"""How the PostgreSQL store finishes runs, and records their log lines and progress.

The lease is the fence: an outcome is accepted only while the job is running under the lease that it names, and an
outcome on behalf of a silent worker only if that worker is still silent. A batch of plain completions that nothing
follows is one statement (COMPLETE_ALL): the rows move from mainspring_jobs to mainspring_finished. Any other batch is a
transaction that also updates schedules and circuits and enqueues the jobs that follow. Repeated outcomes are accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg
import msgspec

from ...clock import instant, micros
from ...failpoint import failpoint
from ...ids import JobId
from ...records.circuit import Circuit
from ...records.job import Job, State
from ...records.outcome import Outcome
from ...records.run import Execution, RunReport
from ...records.tally import sums_by_minute
from ..rows import COLUMNS, failure_text, job_of, json_of, progress_or_none
from ..rules import apply_outcome, is_newer_progress, is_plain_completion, new_execution, next_circuit
from ..rules.job_ends import JobEnd, JobTransition, ScheduleBatch, transition_of
from . import schedules
from .enqueue import enqueue, has_keys
from .jobs import OVERWRITE, JobPair, counted_schedules_of, lock_keys, write_jobs
from .pool import BIGINT_ARRAY, SEPARATOR, Session
from .tally import add_counts, count_columns

_COPIED_COLUMNS = """id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress"""
# A plain completion: the row moves to the table of finished jobs, where it is also the record of its last run. The
# fence: the run with this lease is still running. The outcome of each job is looked up by id in one JSON object; with a
# join the planner might scan all outcomes for each job.
_GONE = f"""gone AS (DELETE FROM mainspring_jobs AS job WHERE id = ANY(string_to_array($1, '{SEPARATOR}'))
        AND state = 'running' AND lease = $2::jsonb -> id ->> 0 RETURNING job.*, $2::jsonb -> id AS outcome)"""
_KEEP = f"""INSERT INTO mainspring_finished ({_COPIED_COLUMNS}, state, ending, finished_at, result)
    SELECT {_COPIED_COLUMNS}, 'completed', 'completed', (outcome ->> 1)::bigint, outcome ->> 2 FROM gone"""
_COMPLETE = f"WITH {_GONE} {_KEEP} {OVERWRITE} RETURNING id"
# All of it in one statement. If an outcome is not accepted, or a circuit exists, it divides by zero: nothing is
# written, and `finish` handles the batch.
COMPLETE_ALL = f"""WITH {_GONE}, kept AS ({_KEEP}),
    counted AS (INSERT INTO mainspring_counting (at, queue, task, sums)
        SELECT * FROM unnest($3::{BIGINT_ARRAY}, $4::text[], $5::text[], $6::text[])),
    freed AS (DELETE FROM mainspring_leases WHERE worker = $7 AND lease = ANY($8))
    SELECT 1 / (count(*) = $9 AND NOT EXISTS (SELECT 1 FROM mainspring_circuits))::integer FROM gone"""

_COMPLETED = State.COMPLETED
_encode = msgspec.json.encode


def are_simple(outcomes: Sequence[Outcome]) -> bool:
    """Whether all outcomes are plain completions of different jobs, without a schedule or jobs that follow."""
    if any(outcome.then or outcome.schedule is not None or not is_plain_completion(outcome) for outcome in outcomes):
        return False
    return len({outcome.id for outcome in outcomes}) == len(outcomes)


async def finish_simple(db: Session, outcomes: Sequence[Outcome], worker: str | None, leases: list[str]) -> bool:
    """Writes simple outcomes in one statement, which also deletes leases without running jobs. Returns False, having
    written nothing, if one is not accepted."""
    failpoint("finish.mid_batch")
    try:
        await db.rows(
            COMPLETE_ALL,
            *_outcome_values(outcomes),
            *count_columns(sums_by_minute(outcomes)),
            worker,
            leases,
            len(outcomes),
        )
    except (asyncpg.DivisionByZeroError, asyncpg.UniqueViolationError):
        return False
    return True


def _outcome_values(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    ends = {outcome.id: (outcome.lease, micros(outcome.finished_at), outcome.result) for outcome in outcomes}
    return SEPARATOR.join(ends), _encode(ends).decode()


async def finish(db: Session, outcomes: Sequence[Outcome]) -> set[JobId]:
    """Writes the outcomes that the fence accepts; returns the ids whose outcome is the recorded end of its run. Runs
    inside a transaction."""
    await lock_keys(db, [new for outcome in outcomes for new in outcome.then])
    scheduled = {outcome.schedule for outcome in outcomes if outcome.schedule is not None}
    accepted: list[Outcome] = []
    if len({outcome.id for outcome in outcomes}) < len(outcomes) or _must_run_in_order(outcomes):
        await schedules.lock_schedules(db, scheduled)
        for outcome in outcomes:
            accepted += await _finish(db, [outcome])
    else:
        completing = {one.schedule for one in outcomes if one.schedule is not None and one.state is _COMPLETED}
        locked = await schedules.lock_batch(db, scheduled, completing) if scheduled else None
        accepted = await _finish(db, outcomes, locked)
    await add_counts(db, accepted)
    if len(accepted) == len(outcomes):
        return {outcome.id for outcome in outcomes}
    # Some came late or are repeated: those that are the recorded end of their run stand.
    return await _recorded_ids(db, outcomes)


async def _finish(db: Session, outcomes: Sequence[Outcome], locked: ScheduleBatch | None = None) -> list[Outcome]:
    """The accepted outcomes. `locked` has the schedules that they name, if these were read before."""
    plain = [outcome for outcome in outcomes if is_plain_completion(outcome)]
    ids = await _complete(db, plain) if plain else set()
    others: dict[JobId, JobTransition | None] = {}
    if len(plain) < len(outcomes):
        others = await _finish_others(db, [outcome for outcome in outcomes if not is_plain_completion(outcome)])
    accepted = [outcome for outcome in outcomes if outcome.id in ids or outcome.id in others]
    found = [others.get(outcome.id) or _completion(outcome) for outcome in accepted]
    await schedules.apply_job_transitions(db, [one for one in found if one is not None], locked)
    for outcome in accepted:
        if outcome.then:
            await enqueue(db, outcome.then, outcome.finished_at)
    await _update_circuits(db, accepted)
    return accepted


def _completion(outcome: Outcome) -> JobTransition | None:
    """The end of a plain completion for the job's schedule; None if it has none."""
    if outcome.schedule is None or not is_plain_completion(outcome):
        return None
    return JobEnd(outcome.schedule, outcome.id, _COMPLETED, outcome.finished_at, outcome.result)


def _must_run_in_order(outcomes: Sequence[Outcome]) -> bool:
    """Whether the outcomes must be written one after the other: a job that follows one of them may need a key that
    another job of the batch holds until it ends."""
    return len(outcomes) > 1 and any(has_keys(outcome.then) for outcome in outcomes)


async def _complete(db: Session, outcomes: Sequence[Outcome]) -> set[JobId]:
    rows = await db.rows(_COMPLETE, *_outcome_values(outcomes))
    failpoint("finish.mid_batch")
    return {id for (id,) in rows}


# outcomes that are no plain completion

_RUNNING = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE id = ANY($1) AND state = 'running'
    ORDER BY id FOR NO KEY UPDATE"""
_RECORD = "INSERT INTO mainspring_executions VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"


async def _finish_others(db: Session, outcomes: Sequence[Outcome]) -> dict[JobId, JobTransition | None]:
    """Writes the outcomes that the fence accepts; each id with the transition for its schedule, or None."""
    jobs = {row[0]: job_of(row) for row in await db.rows(_RUNNING, [outcome.id for outcome in outcomes])}
    await schedules.lock_schedules(db, counted_schedules_of(jobs.values()))
    alive = await _alive(db, [jobs[outcome.id] for outcome in outcomes if outcome.silent and outcome.id in jobs])
    pairs: list[JobPair] = []
    runs: list[tuple[object, ...]] = []
    for outcome in outcomes:
        job = jobs.get(outcome.id)
        if job is None or job.lease != outcome.lease:
            continue
        if outcome.silent and alive.get(job.worker or "", outcome.finished_at) > outcome.finished_at:
            continue
        pairs.append((job, apply_outcome(job, outcome)))
        runs.append(_run_row(new_execution(job, outcome), outcome))
    await db.many(_RECORD, runs)
    failpoint("finish.mid_batch")
    await write_jobs(db, pairs)
    return {old.id: transition_of(old, new) for old, new in pairs}


async def _alive(db: Session, jobs: Sequence[Job]) -> dict[str, datetime]:
    if not jobs:
        return {}
    sql = "SELECT id, until FROM mainspring_workers WHERE id = ANY($1)"
    return {id: instant(until) for id, until in await db.rows(sql, [job.worker for job in jobs])}


def _run_row(run: Execution, outcome: Outcome) -> tuple[object, ...]:
    return (
        run.job_id,
        run.number,
        run.attempt,
        run.ending.value,
        run.worker,
        run.lease,
        micros(run.started_at),
        micros(run.finished_at),
        run.result_size,
        failure_text(run.failure),
        json_of(outcome.account),
    )


_RECORDED_RUNS = """SELECT job_id, lease, ending, finished_at FROM mainspring_executions WHERE job_id = ANY($1)
    UNION ALL SELECT id, lease, ending, finished_at FROM mainspring_finished
    WHERE id = ANY($1) AND ending IS NOT NULL"""


async def _recorded_ids(db: Session, outcomes: Sequence[Outcome]) -> set[JobId]:
    recorded = {(*row,) for row in await db.rows(_RECORDED_RUNS, [outcome.id for outcome in outcomes])}
    return {
        outcome.id
        for outcome in outcomes
        if (outcome.id, outcome.lease, outcome.ending.value, micros(outcome.finished_at)) in recorded
    }


# circuits

_PUT_CIRCUIT = """INSERT INTO mainspring_circuits VALUES ($1, $2, $3, $4) ON CONFLICT (task) DO UPDATE SET
    failures = excluded.failures, open_until = excluded.open_until, probe = excluded.probe"""


async def circuits(db: Session) -> list[Circuit]:
    rows = await db.rows("SELECT task, failures, open_until, probe FROM mainspring_circuits ORDER BY task")
    return [Circuit(task, failures, None if at is None else instant(at), probe) for task, failures, at, probe in rows]


async def _update_circuits(db: Session, accepted: Sequence[Outcome]) -> None:
    known = {circuit.task: circuit for circuit in await circuits(db)}
    if not any(_circuit_change(known, outcome)[1] for outcome in accepted):
        return
    # An advisory lock, because a task's first failure has no row to lock.
    await db.run("SELECT pg_advisory_xact_lock($1, -2)", db.url.lock)
    before = {circuit.task: circuit for circuit in await circuits(db)}
    after = dict(before)
    for outcome in accepted:
        task, _ = _circuit_change(after, outcome)
        circuit = next_circuit(after.pop(task, None), outcome)
        if circuit is not None:
            after[task] = circuit
    gone = [task for task in before if task not in after]
    if gone:
        await db.run("DELETE FROM mainspring_circuits WHERE task = ANY($1)", gone)
    for task, circuit in after.items():
        if circuit != before.get(task):
            until = None if circuit.open_until is None else micros(circuit.open_until)
            await db.run(_PUT_CIRCUIT, task, circuit.failures, until, circuit.probe)


def _circuit_change(known: dict[str, Circuit], outcome: Outcome) -> tuple[str, bool]:
    """The outcome's task, and whether the outcome changes its circuit."""
    # A worker that releases an unknown run cannot name the task; if the run was a probe, it is over all the same.
    task = outcome.task or next((task for task, circuit in known.items() if circuit.probe == outcome.id), "")
    return task, next_circuit(known.get(task), outcome) != known.get(task)


# reports

_PROGRESS = """SELECT id, lease, progress FROM mainspring_jobs WHERE id = ANY($1) AND state = 'running'
    ORDER BY id FOR NO KEY UPDATE"""
_LINE = "INSERT INTO mainspring_logs VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"


async def save_reports(db: Session, reports: Sequence[RunReport]) -> set[JobId]:
    """Records log lines and progress of running jobs; returns the ids of the runs that still go on. Runs inside a
    transaction."""
    if not reports:
        return set()
    rows = await db.rows(_PROGRESS, [report.id for report in reports])
    running = {id: (lease, progress_or_none(id, text)) for id, lease, text in rows}
    accepted = [report for report in reports if report.id in running and running[report.id][0] == report.lease]
    lines = [
        (report.id, line.run, line.n, micros(line.at), line.level, line.text)
        for report in accepted
        for line in report.lines
    ]
    if lines:
        await db.many(_LINE, lines)
    for report in accepted:
        lease, stored = running[report.id]
        if is_newer_progress(report.progress, stored):
            running[report.id] = (lease, report.progress)
            sql = "UPDATE mainspring_jobs SET progress = $2 WHERE id = $1"
            await db.run(sql, report.id, json_of(report.progress))
    return {report.id for report in accepted}
