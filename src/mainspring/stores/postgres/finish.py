"""Outcomes into the PostgreSQL store, fenced; and what follows from them in the same step."""

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
from ..job_ends import JobEnd, JobNews, ScheduleBatch, news_of
from ..rows import COLUMNS, failure_text, job_of, progress_or_none, text_of
from ..rules import execution, newer, next_circuit, plain, settle
from . import schedules as series
from .enqueue import enqueue, keyed
from .jobs import OVER, Pair, lock_keys, series_of, write
from .pool import NUMBERS, SEPARATOR, Session
from .tally import columns, tally

_KEPT = """id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease, worker,
    cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress"""
# The end of nearly all jobs: the row leaves the table of what is unfinished, and its history row is also that of its
# last run. The fence: this very run, still running. What is said of each job is looked up by its id in one JSON object:
# a join would leave it to the planner to go through all of it for each of them.
_GONE = f"""gone AS (DELETE FROM mainspring_jobs AS job WHERE id = ANY(string_to_array($1, '{SEPARATOR}'))
        AND state = 'running' AND lease = $2::jsonb -> id ->> 0 RETURNING job.*, $2::jsonb -> id AS said)"""
_KEEP = f"""INSERT INTO mainspring_finished ({_KEPT}, state, ending, finished_at, result)
    SELECT {_KEPT}, 'completed', 'completed', (said ->> 1)::bigint, said ->> 2 FROM gone"""
_COMPLETE = f"WITH {_GONE} {_KEEP} {OVER} RETURNING id"
# Where nothing else follows it is one statement. If one of them does not stand, or a circuit has to hear of it, that
# divides by zero: nothing is written, and they are settled step by step.
COMPLETE_ALL = f"""WITH {_GONE}, kept AS ({_KEEP}),
    counted AS (INSERT INTO mainspring_counting (at, queue, task, sums)
        SELECT * FROM unnest($3::{NUMBERS}, $4::text[], $5::text[], $6::text[])),
    freed AS (DELETE FROM mainspring_leases WHERE worker = $7 AND lease = ANY($8))
    SELECT 1 / (count(*) = $9 AND NOT EXISTS (SELECT 1 FROM mainspring_circuits))::integer FROM gone"""

_COMPLETED = State.COMPLETED
_encode = msgspec.json.encode


def simple(outcomes: Sequence[Outcome]) -> bool:
    """Whether these are plain ends that nothing follows."""
    if any(outcome.then or outcome.schedule is not None or not plain(outcome) for outcome in outcomes):
        return False
    return len({outcome.id for outcome in outcomes}) == len(outcomes)


async def finish_simple(db: Session, outcomes: Sequence[Outcome], worker: str | None, leases: list[str]) -> bool:
    """Whether all of them stood, in one statement, which also clears away leases that have no more jobs; if not,
    nothing has happened."""
    failpoint("finish.mid_batch")
    try:
        await db.rows(
            COMPLETE_ALL, *_ended(outcomes), *columns(sums_by_minute(outcomes)), worker, leases, len(outcomes)
        )
    except (asyncpg.DivisionByZeroError, asyncpg.UniqueViolationError):
        return False
    return True


def _ended(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    said = {outcome.id: (outcome.lease, micros(outcome.finished_at), outcome.result) for outcome in outcomes}
    return SEPARATOR.join(said), _encode(said).decode()


async def finish(db: Session, outcomes: Sequence[Outcome]) -> set[JobId]:
    """Inside a transaction."""
    await lock_keys(db, [new for outcome in outcomes for new in outcome.then])
    scheduled = {outcome.schedule for outcome in outcomes if outcome.schedule is not None}
    accepted: list[Outcome] = []
    if len({outcome.id for outcome in outcomes}) < len(outcomes) or _entangled(outcomes):
        await series.lock(db, scheduled)
        for outcome in outcomes:
            accepted += await _finish(db, [outcome])
    else:
        completing = {one.schedule for one in outcomes if one.schedule is not None and one.state is _COMPLETED}
        held = await series.hold(db, scheduled, completing) if scheduled else None
        accepted = await _finish(db, outcomes, held)
    await tally(db, accepted)
    if len(accepted) == len(outcomes):
        return {outcome.id for outcome in outcomes}
    # Some were late or are told a second time: those that are the recorded ending of their run stand.
    return await _stands(db, outcomes)


async def _finish(
    db: Session, outcomes: Sequence[Outcome], held: ScheduleBatch | None = None
) -> list[Outcome]:  # fmt: skip
    """Those that were accepted. `held` has the schedules that they name, if they were read before."""
    done = [outcome for outcome in outcomes if plain(outcome)]
    ids = await _complete(db, done) if done else set()
    news: dict[JobId, JobNews | None] = {}
    if len(done) < len(outcomes):
        news = await _settle(db, [outcome for outcome in outcomes if not plain(outcome)])
    accepted = [outcome for outcome in outcomes if outcome.id in ids or outcome.id in news]
    told = [one for outcome in accepted if (one := news.get(outcome.id) or _completion(outcome)) is not None]
    await series.tell(db, told, held)
    for outcome in accepted:
        if outcome.then:
            await enqueue(db, outcome.then, outcome.finished_at)
    await _move(db, accepted)
    return accepted


def _completion(outcome: Outcome) -> JobNews | None:
    """What the plain end of a job is to its schedule."""
    if outcome.schedule is None or not plain(outcome):
        return None
    return JobEnd(outcome.schedule, outcome.id, _COMPLETED, outcome.finished_at, outcome.result)


def _entangled(outcomes: Sequence[Outcome]) -> bool:
    """Whether they must be settled one after the other: what one of them enqueues may meet a key that the job of
    another holds until it ends."""
    return len(outcomes) > 1 and any(keyed(outcome.then) for outcome in outcomes)


async def _complete(db: Session, outcomes: Sequence[Outcome]) -> set[JobId]:
    rows = await db.rows(_COMPLETE, *_ended(outcomes))
    failpoint("finish.mid_batch")
    return {id for (id,) in rows}


# runs that others follow, or that have more to tell

_RUNNING = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE id = ANY($1) AND state = 'running'
    ORDER BY id FOR NO KEY UPDATE"""
_RECORD = "INSERT INTO mainspring_executions VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"


async def _settle(db: Session, outcomes: Sequence[Outcome]) -> dict[JobId, JobNews | None]:
    """Those that were accepted, each with what its schedule has to know."""
    jobs = {row[0]: job_of(row) for row in await db.rows(_RUNNING, [outcome.id for outcome in outcomes])}
    await series.lock(db, series_of(jobs.values()))
    alive = await _alive(db, [jobs[outcome.id] for outcome in outcomes if outcome.silent and outcome.id in jobs])
    pairs: list[Pair] = []
    runs: list[tuple[object, ...]] = []
    for outcome in outcomes:
        job = jobs.get(outcome.id)
        if job is None or job.lease != outcome.lease:
            continue
        if outcome.silent and alive.get(job.worker or "", outcome.finished_at) > outcome.finished_at:
            continue
        pairs.append((job, settle(job, outcome)))
        runs.append(_run_row(execution(job, outcome), outcome))
    await db.many(_RECORD, runs)
    failpoint("finish.mid_batch")
    await write(db, pairs)
    return {old.id: news_of(old, new) for old, new in pairs}


async def _alive(db: Session, jobs: Sequence[Job]) -> dict[str, datetime]:
    if not jobs:
        return {}
    sql = "SELECT id, until FROM mainspring_workers WHERE id = ANY($1)"
    return {id: instant(until) for id, until in await db.rows(sql, [job.worker for job in jobs])}


def _run_row(run: Execution, outcome: Outcome) -> tuple[object, ...]:
    return (
        run.job_id, run.number, run.attempt, run.ending.value, run.worker, run.lease, micros(run.started_at),
        micros(run.finished_at), run.result_size, failure_text(run.failure), text_of(outcome.account),
    )  # fmt: skip


_TOLD = """SELECT job_id, lease, ending, finished_at FROM mainspring_executions WHERE job_id = ANY($1)
    UNION ALL SELECT id, lease, ending, finished_at FROM mainspring_finished
    WHERE id = ANY($1) AND ending IS NOT NULL"""


async def _stands(db: Session, outcomes: Sequence[Outcome]) -> set[JobId]:
    told = {(*row,) for row in await db.rows(_TOLD, [outcome.id for outcome in outcomes])}
    return {
        outcome.id
        for outcome in outcomes
        if (outcome.id, outcome.lease, outcome.ending.value, micros(outcome.finished_at)) in told
    }


# circuits

_PUT_CIRCUIT = """INSERT INTO mainspring_circuits VALUES ($1, $2, $3, $4) ON CONFLICT (task) DO UPDATE SET
    failures = excluded.failures, open_until = excluded.open_until, probe = excluded.probe"""


async def circuits(db: Session) -> list[Circuit]:
    rows = await db.rows("SELECT task, failures, open_until, probe FROM mainspring_circuits ORDER BY task")
    return [Circuit(task, failures, None if at is None else instant(at), probe) for task, failures, at, probe in rows]


async def _move(db: Session, accepted: Sequence[Outcome]) -> None:
    known = {circuit.task: circuit for circuit in await circuits(db)}
    if not any(_task(known, outcome)[1] for outcome in accepted):
        return
    # A first failure has no row to lock.
    await db.run("SELECT pg_advisory_xact_lock($1, -2)", db.place.lock)
    before = {circuit.task: circuit for circuit in await circuits(db)}
    after = dict(before)
    for outcome in accepted:
        task, _ = _task(after, outcome)
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


def _task(known: dict[str, Circuit], outcome: Outcome) -> tuple[str, bool]:
    """The outcome's task, and whether it moves that one's circuit."""
    # Whoever releases a run it has never heard of cannot name the task; its turn as a probe is over all the same.
    task = outcome.task or next((task for task, circuit in known.items() if circuit.probe == outcome.id), "")
    return task, next_circuit(known.get(task), outcome) != known.get(task)


# reports

_PROGRESS = """SELECT id, lease, progress FROM mainspring_jobs WHERE id = ANY($1) AND state = 'running'
    ORDER BY id FOR NO KEY UPDATE"""
_LINE = "INSERT INTO mainspring_logs VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"


async def report(db: Session, reports: Sequence[RunReport]) -> set[JobId]:
    """Inside a transaction."""
    if not reports:
        return set()
    rows = await db.rows(_PROGRESS, [report.id for report in reports])
    running = {id: (lease, progress_or_none(id, text)) for id, lease, text in rows}
    stand = [report for report in reports if report.id in running and running[report.id][0] == report.lease]
    lines = [
        (report.id, line.run, line.n, micros(line.at), line.level, line.text)
        for report in stand
        for line in report.lines
    ]
    if lines:
        await db.many(_LINE, lines)
    for report in stand:
        lease, kept = running[report.id]
        if newer(report.progress, kept):
            running[report.id] = (lease, report.progress)
            sql = "UPDATE mainspring_jobs SET progress = $2 WHERE id = $1"
            await db.run(sql, report.id, text_of(report.progress))
    return {report.id for report in stand}
