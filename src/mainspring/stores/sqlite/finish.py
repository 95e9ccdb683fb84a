"""How the SQLite store finishes runs, and records their log lines and progress.

The lease is the fence: an outcome is accepted only while the job is running under the lease that it names, and an
outcome on behalf of a silent worker only if that worker is still silent. Plain completions are updated in chunks; every
other outcome has two statements, one for its execution row and one for the job. The same transaction updates counts,
schedules, circuits and tallies, and enqueues the jobs that follow. An outcome that is repeated is accepted again.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence

from ...clock import instant, micros
from ...failpoint import failpoint
from ...ids import JobId
from ...records.circuit import Circuit
from ...records.job import State
from ...records.outcome import Outcome
from ...records.run import RunReport
from ..rows import Row, counted_schedule_of, failure_text, json_of, progress_or_none
from ..rules import is_newer_progress, is_plain_completion, next_circuit
from ..rules.job_ends import JobEnd
from .batch import CHUNK_ROWS, chunks, flatten, value_lists
from .enqueue import add_to_counts, enqueue
from .schedules import apply_job_transitions
from .tally import count_runs

# The run that completes a job needs no execution row: the job's own row has all of it, marked by `ending`. So the
# common case is one write per job; only other runs, or runs with notes, get an execution row.
_COMPLETE = {
    size: f"""UPDATE mainspring_jobs AS job
        SET state = 'completed', ending = 'completed', finished_at = ended.finished_at, result = ended.result,
            failure = NULL, error = NULL
        FROM (SELECT column1 AS id, column2 AS lease, column3 AS finished_at, column4 AS result
            FROM (VALUES {value_lists(size, 4)})) AS ended
        WHERE job.id = ended.id AND job.lease = ended.lease AND job.state = 'running'"""
    for size in CHUNK_ROWS
}

_OUTCOME_CTE = """ended
    (id, lease, state, ending, finished_at, result, failure, run_at, refund, crash, silent, error, account)
    AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))"""
# The fence: the run with this lease is still running, and for a `silent` outcome its worker is still silent.
_FENCE = """job.id = ended.id AND job.lease = ended.lease AND job.state = 'running'
    AND NOT (ended.silent AND EXISTS (SELECT 1 FROM mainspring_workers
        WHERE mainspring_workers.id = job.worker AND until > ended.finished_at))"""
_RECORD = f"""INSERT OR IGNORE INTO mainspring_executions
    WITH {_OUTCOME_CTE}
    SELECT job.id, runs, attempt, ended.ending, worker, job.lease, started_at, ended.finished_at,
        coalesce(length(CAST(ended.result AS BLOB)), 0), ended.failure, ended.account
    FROM ended CROSS JOIN mainspring_jobs job ON {_FENCE}"""
_APPLY_OUTCOME = f"""WITH {_OUTCOME_CTE}
    UPDATE mainspring_jobs AS job SET
        state = CASE WHEN ended.state = 'pending' AND cancel_reason IS NOT NULL THEN 'cancelled'
            ELSE ended.state END,
        finished_at = CASE WHEN ended.state = 'pending' AND cancel_reason IS NULL THEN NULL
            ELSE ended.finished_at END,
        run_at = coalesce(ended.run_at, job.run_at),
        attempt = attempt - ended.refund, crashes = crashes + ended.crash, lease = NULL, worker = NULL,
        result = ended.result,
        failure = CASE WHEN ended.failure IS NULL AND ended.state <> 'completed' THEN job.failure
            ELSE ended.failure END,
        error = CASE WHEN ended.failure IS NULL AND ended.state <> 'completed' THEN job.error
            ELSE ended.error END
    FROM ended WHERE {_FENCE} RETURNING task, state, error, CAST(options AS BLOB), idempotency_key"""
_RECORDED = """SELECT 1 FROM mainspring_executions WHERE job_id = :id AND lease = :lease AND ending = :ending AND
        finished_at = :at
    UNION ALL SELECT 1 FROM mainspring_jobs WHERE id = :id AND lease = :lease AND ending = :ending AND
        finished_at = :at"""

OutcomeRow = tuple[Outcome, Row]
_COMPLETED = State.COMPLETED


def finish(db: sqlite3.Connection, ended: Sequence[OutcomeRow]) -> set[JobId]:
    """Writes the outcomes that the fence accepts. Returns the ids whose outcome is the recorded end of its run."""
    outcomes = [outcome for outcome, _ in ended]
    ids = {outcome.id for outcome in outcomes}
    if len(ids) < len(outcomes) or _must_run_in_order(ended):
        return set().union(*(finish(db, [one]) for one in ended))
    states: Counter[State] = Counter()
    job_ends: dict[JobId, JobEnd] = {}
    plain = [row for _, row in ended if len(row) == 4]
    accepted = _complete(db, plain) if plain else []
    states[State.COMPLETED] = len(accepted)
    if len(plain) < len(ended):
        accepted += [id for one, row in ended if len(row) != 4 for id in _finish_one(db, one, row, states, job_ends)]
    if len(accepted) == len(ended):
        _apply_consequences(db, outcomes, states, job_ends)
        return ids
    written = set(accepted)
    _apply_consequences(db, [outcome for outcome in outcomes if outcome.id in written], states, job_ends)
    # Some came late or are repeated: those that are the recorded end of their run stand.
    return {outcome.id for outcome in outcomes if _is_recorded(db, outcome)}


def _must_run_in_order(ended: Sequence[OutcomeRow]) -> bool:
    """Whether the outcomes must be written one after the other: a job that follows one of them may need a key that
    another job of the batch holds until it ends."""
    sequels = [new for outcome, _ in ended if outcome.then for new in outcome.then]
    return len(ended) > 1 and any(new.unique_key is not None or new.idempotency_key is not None for new in sequels)


def _finish_one(
    db: sqlite3.Connection, outcome: Outcome, row: Row, states: Counter[State], job_ends: dict[JobId, JobEnd]
) -> list[JobId]:
    """Writes an outcome that is no plain completion. Returns the job's id if the fence accepts it, else nothing."""
    if not db.execute(_RECORD, row).rowcount:
        return []
    failpoint("finish.mid_batch")
    task, state, error, options, key = db.execute(_APPLY_OUTCOME, row).fetchone()
    states[State(state)] += 1
    if State(state).final and (schedule := counted_schedule_of(outcome.id, options, key)) is not None:
        job_ends[outcome.id] = JobEnd(schedule, outcome.id, State(state), outcome.finished_at, outcome.result)
    if error is not None:
        db.execute("INSERT OR REPLACE INTO mainspring_errors VALUES (?, ?)", (row[0], error))
        if state == "dead":
            db.execute("INSERT INTO mainspring_dead VALUES (?, ?, ?, ?)", (task, error, row[4], row[0]))
    return [outcome.id]


def _complete(db: sqlite3.Connection, rows: list[Row]) -> list[JobId]:
    """Writes plain completions and returns the accepted ids. If not all are, writes one by one to learn which."""
    db.execute("SAVEPOINT mainspring_finish")
    accepted = 0
    for chunk in chunks(rows):
        accepted += db.execute(_COMPLETE[len(chunk)], flatten(chunk)).rowcount
        failpoint("finish.mid_batch")
    if accepted < len(rows):
        db.execute("ROLLBACK TO mainspring_finish")
        rows = [row for row in rows if db.execute(_COMPLETE[1], row).rowcount]
    db.execute("RELEASE mainspring_finish")
    return [row[0] for row in rows]


def _is_recorded(db: sqlite3.Connection, outcome: Outcome) -> bool:
    values = {"id": outcome.id, "lease": outcome.lease, "ending": outcome.ending, "at": micros(outcome.finished_at)}
    return db.execute(_RECORDED, values).fetchone() is not None


def outcome_row(outcome: Outcome) -> Row:
    """The statement's values: four for a plain completion, thirteen for any other outcome."""
    at = micros(outcome.finished_at)
    if is_plain_completion(outcome):
        return (outcome.id, outcome.lease, at, outcome.result)
    return (
        outcome.id,
        outcome.lease,
        outcome.state.value,
        outcome.ending.value,
        at,
        outcome.result,
        failure_text(outcome.failure),
        None if outcome.run_at is None else micros(outcome.run_at),
        outcome.refund,
        outcome.crash,
        outcome.silent,
        outcome.failure and outcome.failure.kind,
        json_of(outcome.account),
    )


# consequences of outcomes

_PUT_CIRCUIT = "INSERT OR REPLACE INTO mainspring_circuits VALUES (?, ?, ?, ?)"


def _apply_consequences(
    db: sqlite3.Connection, accepted: list[Outcome], states: Counter[State], job_ends: dict[JobId, JobEnd]
) -> None:
    """Updates counts, schedules, circuits and tallies, and enqueues the jobs that follow."""
    add_to_counts(db, states)
    apply_job_transitions(
        db, [one for outcome in accepted if (one := job_ends.get(outcome.id) or _completion(outcome)) is not None]
    )
    known = {circuit.task: circuit for circuit in circuits(db)}
    for outcome in accepted if known else [one for one in accepted if one.then or one.breaker]:
        if outcome.then:
            enqueue(db, outcome.then, outcome.finished_at, micros(outcome.finished_at))
        if known or outcome.breaker is not None:
            _update_circuit(db, known, outcome)
    count_runs(db, accepted)


def _completion(outcome: Outcome) -> JobEnd | None:
    """The end of a plain completion for the job's schedule; None if it has none."""
    if outcome.schedule is None or not is_plain_completion(outcome):
        return None
    return JobEnd(outcome.schedule, outcome.id, _COMPLETED, outcome.finished_at, outcome.result)


def _update_circuit(db: sqlite3.Connection, known: dict[str, Circuit], outcome: Outcome) -> None:
    # A worker that releases an unknown run cannot name the task; if the run was a probe, it is over all the same.
    task = outcome.task or next((task for task, circuit in known.items() if circuit.probe == outcome.id), "")
    circuit = next_circuit(known.get(task), outcome)
    if circuit is None:
        if known.pop(task, None):
            db.execute("DELETE FROM mainspring_circuits WHERE task = ?", (task,))
    elif circuit != known.get(task):
        known[task] = circuit
        until = None if circuit.open_until is None else micros(circuit.open_until)
        db.execute(_PUT_CIRCUIT, (circuit.task, circuit.failures, until, circuit.probe))


def circuits(db: sqlite3.Connection) -> list[Circuit]:
    rows = db.execute("SELECT task, failures, open_until, probe FROM mainspring_circuits ORDER BY task").fetchall()
    return [Circuit(task, failures, None if at is None else instant(at), probe) for task, failures, at, probe in rows]


_RUNNING = "SELECT progress FROM mainspring_jobs WHERE id = ? AND lease = ? AND state = 'running'"
_LINE = "INSERT OR IGNORE INTO mainspring_logs VALUES (?, ?, ?, ?, ?, ?)"


def save_reports(db: sqlite3.Connection, reports: Sequence[RunReport]) -> set[JobId]:
    """Records log lines and progress of running jobs. Returns the ids of the runs that still go on."""
    running: set[JobId] = set()
    for report in reports:
        row = db.execute(_RUNNING, (report.id, report.lease)).fetchone()
        if row is None:
            continue
        lines = [(report.id, line.run, line.n, micros(line.at), line.level, line.text) for line in report.lines]
        db.executemany(_LINE, lines)
        if is_newer_progress(report.progress, progress_or_none(report.id, row[0])):
            db.execute("UPDATE mainspring_jobs SET progress = ? WHERE id = ?", (json_of(report.progress), report.id))
        running.add(report.id)
    return running
