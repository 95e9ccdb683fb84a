"""How the PostgreSQL store finishes runs, and records their log lines and progress.

Plain completions that nothing follows are one statement (COMPLETE_ALL), fenced by the lease: the rows move from
mainspring_jobs to mainspring_finished. Any other batch is a transaction, in which plain completions are one statement
too; from a batch with ends of steps, the plain completions that nothing follows are split off. Reports are written
without reading whole jobs. This repeats the rules rules.finish.finish_one and report_one, and test_twin.py compares
them. What follows a completion (schedules, flows, circuits, further jobs), and every other outcome, is written by the
rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import asyncpg
import msgspec

from ...clock import micros
from ...failpoint import failpoint
from ...ids import JobId, Lease, WorkerId
from ...records.circuit import Circuit
from ...records.job import State
from ...records.outcome import Outcome
from ...records.run import RunReport
from ...records.tally import sums_by_minute
from ..rows import json_of, notes_text, progress_or_none
from ..rules import is_newer_progress, is_plain_completion, next_circuit
from ..rules.finish import finish_one, follow_completion
from ..rules.read_sets import KnownValues, Name, of_completion, of_completions, of_outcome
from .circuits import circuits, lock_circuits
from .flow_latch import PostgresFlowLatch
from .jobs import OVERWRITE, has_keys
from .notifier import is_due_soon
from .pool import BIGINT_ARRAY, SEPARATOR, Session
from .tables import LockedTables, fetch, load, load_runs, write
from .tally import count_columns

_COPIED_COLUMNS = """id, queue, task, rank, run_at, created_at, expires_at, started_at, attempt, crashes, runs, lease,
    worker, cancel_reason, unique_key, idempotency_key, schedule, tags, options, payload, progress"""
# A plain completion: the row moves to the table of finished jobs, where it is also the record of its last run. The
# fence: the run with this lease is still running. The outcome of each job is looked up by id in one JSON object; with a
# join the planner might scan all outcomes for each job.
_GONE = f"""gone AS (DELETE FROM mainspring_jobs AS job WHERE id = ANY(string_to_array($1, '{SEPARATOR}'))
        AND state = 'running' AND lease = $2::jsonb -> id ->> 0 RETURNING job.*, $2::jsonb -> id AS outcome)"""
_KEEP = f"""INSERT INTO mainspring_finished ({_COPIED_COLUMNS}, state, ending, finished_at, result)
    SELECT {_COPIED_COLUMNS}, 'completed', 'completed', (outcome ->> 1)::bigint, outcome ->> 2 FROM gone"""
# A run with notes: an execution row has them, so the job's own row is not marked as the record of its last run.
_NOTED = """noted AS (INSERT INTO mainspring_executions
        SELECT id, runs, attempt, 'completed', worker, lease, started_at, (outcome ->> 1)::bigint,
            coalesce(octet_length(outcome ->> 2), 0), NULL, outcome ->> 3
        FROM gone WHERE outcome ->> 3 IS NOT NULL ON CONFLICT DO NOTHING)"""
_KEEP_NOTED = _KEEP.replace(
    "'completed', 'completed'", "'completed', CASE WHEN outcome ->> 3 IS NULL THEN 'completed' END"
)
_COMPLETE = f"WITH {_GONE} {_KEEP} {OVERWRITE} RETURNING id"
_COMPLETE_NOTED = f"WITH {_GONE}, {_NOTED} {_KEEP_NOTED} {OVERWRITE} RETURNING id"
_COUNT_AND_FREE = f"""counted AS (INSERT INTO mainspring_counting (at, queue, task, sums)
        SELECT * FROM unnest($3::{BIGINT_ARRAY}, $4::text[], $5::text[], $6::text[])),
    freed AS (DELETE FROM mainspring_leases WHERE worker = $7 AND lease = ANY($8))"""
_NO_CIRCUIT = "NOT EXISTS (SELECT 1 FROM mainspring_circuits)"
# All of it in one statement. If an outcome is not accepted, or a circuit exists, it divides by zero: nothing is
# written, and write_outcomes handles the batch. $1 has the ids in their order, $2 the ends of the runs, $9 the leases,
# $10 the results by id (null: none). The index returns the rows in the order of their ids, so the n-th row has the n-th
# end. That, and the fence, is what the last line proves: the ids and leases of the rows are those of the outcomes.
COMPLETE_ALL = f"""WITH ended AS MATERIALIZED (SELECT string_to_array($2, '{SEPARATOR}')::bigint[] AS at),
    gone AS (DELETE FROM mainspring_jobs WHERE id = ANY(string_to_array($1, '{SEPARATOR}')) AND state = 'running'
        RETURNING {_COPIED_COLUMNS}),
    kept AS (INSERT INTO mainspring_finished ({_COPIED_COLUMNS}, state, ending, finished_at, result)
        SELECT {_COPIED_COLUMNS}, 'completed', 'completed', ((SELECT at FROM ended))[row_number() OVER ()],
            CASE WHEN $10::jsonb IS NOT NULL THEN $10::jsonb ->> id END FROM gone),
    {_COUNT_AND_FREE}
    SELECT 1 / (coalesce(string_agg(id, '{SEPARATOR}') = $1 AND string_agg(lease, '{SEPARATOR}') = $9, false)
        AND {_NO_CIRCUIT})::integer FROM gone"""
# The same if some of the runs have notes.
COMPLETE_ALL_NOTED = f"""WITH {_GONE}, {_NOTED}, kept AS ({_KEEP_NOTED}),
    {_COUNT_AND_FREE}
    SELECT 1 / (count(*) = $9 AND {_NO_CIRCUIT})::integer FROM gone"""

_encode = msgspec.json.encode


class PostgresFinish(PostgresFlowLatch):
    """The verbs `finish` and `report`."""

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        if not outcomes:
            self._open()
            return set()
        worker, leases = self._leases.finished(outcomes)
        if _are_simple(outcomes):
            stands = await self._finish_simple(outcomes, worker, leases)
        elif split := _split(outcomes):
            # The leases may have steps that still run: the next beat deletes them.
            stands = await self._finish_simple(split[0], worker, []) | await self._finish_others(split[1])
        else:
            stands = await self._finish_others(outcomes)
        self._after_finish(outcomes)
        return stands

    async def _finish_simple(self, outcomes: Sequence[Outcome], worker: str | None, leases: list[str]) -> set[JobId]:
        if await self._hot(lambda db: _finish_simple(db, outcomes, worker, leases)):
            return {outcome.id for outcome in outcomes}
        return await self._transact(lambda db: write_outcomes(db, outcomes))

    async def _finish_others(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        planned = [outcome.finished_at for outcome in outcomes if outcome.plan is not None]
        older = await self._older_workers(max(planned)) if planned else ()
        return await self._transact(lambda db: write_outcomes(db, outcomes, older))

    def _after_finish(self, outcomes: Sequence[Outcome]) -> None:
        if any(_makes_work(outcome) for outcome in outcomes):
            self._idle = False
            self._announce("new")
        self._announce("final")

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        stands = await self._transact(lambda db: save_reports(db, reports))
        self._announce("final")
        return stands


def _makes_work(outcome: Outcome) -> bool:
    """Whether the outcome makes a job claimable or a schedule due."""
    again = outcome.state is State.PENDING and is_due_soon(outcome.run_at, outcome.finished_at)
    return again or bool(outcome.then or outcome.breaker or outcome.schedule or _is_of_flow(outcome))


def _is_of_flow(outcome: Outcome) -> bool:
    """Whether the outcome may begin a flow, move or conclude one."""
    return outcome.step is not None or outcome.state is State.WAITING or outcome.concludes is not None


def _are_simple(outcomes: Sequence[Outcome]) -> bool:
    """Whether all outcomes are plain completions of different jobs, without a schedule or jobs that follow."""
    if not all(map(_is_simple, outcomes)):
        return False
    return len({outcome.id for outcome in outcomes}) == len(outcomes)


def _is_simple(outcome: Outcome) -> bool:
    if outcome.then or outcome.schedule is not None or outcome.step is not None:
        return False
    return is_plain_completion(outcome)


def _split(outcomes: Sequence[Outcome]) -> tuple[list[Outcome], list[Outcome]] | None:
    """The simple outcomes and the others, if these are of flows. None if the batch is not to be split."""
    if not any(map(_is_of_flow, outcomes)) or len({outcome.id for outcome in outcomes}) < len(outcomes):
        return None
    simple = [outcome for outcome in outcomes if _is_simple(outcome)]
    return (simple, [outcome for outcome in outcomes if not _is_simple(outcome)]) if simple else None


async def _finish_simple(db: Session, outcomes: Sequence[Outcome], worker: str | None, leases: list[str]) -> bool:
    """Writes simple outcomes in one statement, which also deletes leases without running jobs. Returns False, having
    written nothing, if one is not accepted."""
    failpoint("finish.mid_batch")
    others = (*count_columns(sums_by_minute(outcomes)), worker, leases)
    try:
        if any(outcome.account for outcome in outcomes):
            await db.rows(COMPLETE_ALL_NOTED, *_outcome_values(outcomes), *others, len(outcomes))
        else:
            ids, ends, fence, results = _outcome_columns(outcomes)
            await db.rows(COMPLETE_ALL, ids, ends, *others, fence, results)
    except (asyncpg.DivisionByZeroError, asyncpg.UniqueViolationError):
        return False
    return True


def _outcome_columns(outcomes: Sequence[Outcome]) -> tuple[str, str, str, str | None]:
    """The ids, ends and leases of COMPLETE_ALL in the order of the ids, and the results."""
    rows = sorted([(outcome.id, str(micros(outcome.finished_at)), outcome.lease) for outcome in outcomes])
    ids, ends, leases = zip(*rows, strict=True)
    results = {outcome.id: outcome.result for outcome in outcomes if outcome.result is not None}
    texts = SEPARATOR.join(ids), SEPARATOR.join(ends), SEPARATOR.join(leases)
    return *texts, _encode(results).decode() if results else None


def _outcome_values(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    ends: dict[JobId, tuple[Lease, int, str | None, str | None] | tuple[Lease, int, str | None]] = {
        outcome.id: (outcome.lease, micros(outcome.finished_at), outcome.result)
        if outcome.account is None
        else (outcome.lease, micros(outcome.finished_at), outcome.result, notes_text(outcome.account))
        for outcome in outcomes
    }
    return SEPARATOR.join(ends), _encode(ends).decode()


async def write_outcomes(
    db: Session, outcomes: Sequence[Outcome], older_workers: Sequence[WorkerId] = ()
) -> set[JobId]:
    """Writes the outcomes that the fence accepts; returns the ids whose outcome is the recorded end of its run. Runs
    inside a transaction."""
    plain = [] if _must_run_in_order(outcomes) else [outcome for outcome in outcomes if is_plain_completion(outcome)]
    by_sql = {outcome.id for outcome in plain}
    times = Counter(outcome.id for outcome in outcomes)

    def needs(outcome: Outcome, known: KnownValues) -> Iterator[Name]:
        if outcome.id in by_sql:
            return of_completion(outcome, known)
        return of_outcome(outcome, known, times[outcome.id] > 1)

    def accept(outcome: Outcome) -> bool:
        if outcome.id not in by_sql:
            return finish_one(tables, outcome)
        if outcome.id in completed:
            follow_completion(tables, outcome)
        return outcome.id in completed

    tables = LockedTables()
    tables.older_workers = older_workers
    if len(by_sql) == len(outcomes) and not any(outcome.then for outcome in outcomes):
        await fetch(db, tables, of_completions(outcomes))
    else:
        await load(db, outcomes, needs, tables, running=True)
    completed = await _complete(db, plain) if plain else set()
    await _lock_changing_circuits(db, tables, outcomes)
    # Some may have come late or are repeated: those that are the recorded end of their run stand.
    await load_runs(db, tables, by_sql - completed)
    stands = {outcome.id for outcome in outcomes if accept(outcome) or tables.is_recorded(outcome)}
    await write(db, tables, "finish.mid_batch")
    return stands


async def _lock_changing_circuits(db: Session, tables: LockedTables, outcomes: Sequence[Outcome]) -> None:
    """Locks and reads the circuits again if one of the outcomes may change one."""
    known = {circuit.task: circuit for circuit in tables.circuits()}
    if any(_changes_circuit(known, outcome) for outcome in outcomes):
        await lock_circuits(db)
        tables.add_circuits({circuit.task: circuit for circuit in await circuits(db)})


def _changes_circuit(known: dict[str, Circuit], outcome: Outcome) -> bool:
    # A worker that releases an unknown run cannot name the task; if the run was a probe, it is over all the same.
    task = outcome.task or next((task for task, circuit in known.items() if circuit.probe == outcome.id), "")
    return next_circuit(known.get(task), outcome) != known.get(task)


def _must_run_in_order(outcomes: Sequence[Outcome]) -> bool:
    """Whether every outcome has to be written by the rule: a job that follows one of them may need a key that a job of
    the batch holds until it ends; or two of them are for the same job."""
    keyed = any(has_keys(outcome.then) for outcome in outcomes)
    return keyed or len({outcome.id for outcome in outcomes}) < len(outcomes)


async def _complete(db: Session, outcomes: Sequence[Outcome]) -> set[JobId]:
    noted = any(outcome.account for outcome in outcomes)
    rows = await db.rows(_COMPLETE_NOTED if noted else _COMPLETE, *_outcome_values(outcomes))
    failpoint("finish.mid_batch")
    return {id for (id,) in rows}


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
