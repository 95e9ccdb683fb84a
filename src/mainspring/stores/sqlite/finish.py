"""Outcomes into the SQLite store, fenced; and what follows from them in the same step."""

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
from ..job_ends import JobEnd
from ..rows import Row, counted_schedule_of, failure_text, json_of, progress_or_none
from ..rules import is_newer_progress, is_plain_completion, next_circuit
from .batch import CHUNK_ROWS, chunks, flatten, value_lists
from .enqueue import add_to_counts, enqueue
from .schedules import apply_job_transitions
from .tally import count_runs

# The last run of a finished job needs no execution row: the job's own row has it all, and its `ending`
# says so. That is one write a job in the common case; only runs that others follow, or that have more to
# tell, get rows of their own.
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
# The fence: this very run, still running, and if asked for a worker that is silent still.
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
    outcomes = [outcome for outcome, _ in ended]
    ids = {outcome.id for outcome in outcomes}
    if len(ids) < len(outcomes) or _must_run_in_order(ended):
        return set().union(*(finish(db, [one]) for one in ended))
    states: Counter[State] = Counter()
    news: dict[JobId, JobEnd] = {}
    plain = [row for _, row in ended if len(row) == 4]
    accepted = _complete(db, plain) if plain else []
    states[State.COMPLETED] = len(accepted)
    if len(plain) < len(ended):
        accepted += [id for one, row in ended if len(row) != 4 for id in _finish_one(db, one, row, states, news)]
    if len(accepted) == len(ended):
        _apply_consequences(db, outcomes, states, news)
        return ids
    stood = set(accepted)
    _apply_consequences(db, [outcome for outcome in outcomes if outcome.id in stood], states, news)
    # Some were late or are told a second time: those that are the recorded ending of their run stand.
    return {outcome.id for outcome in outcomes if _is_recorded(db, outcome)}


def _must_run_in_order(ended: Sequence[OutcomeRow]) -> bool:
    """Whether they must be settled one after the other: what one of them enqueues may meet a key that the job of
    another holds until it ends."""
    sequels = [new for outcome, _ in ended if outcome.then for new in outcome.then]
    return len(ended) > 1 and any(new.unique_key is not None or new.idempotency_key is not None for new in sequels)


def _finish_one(
    db: sqlite3.Connection, outcome: Outcome, row: Row, states: Counter[State], news: dict[JobId, JobEnd]
) -> list[JobId]:
    """The job, if its outcome was accepted: a run that others follow, or that has more to tell."""
    if not db.execute(_RECORD, row).rowcount:
        return []
    failpoint("finish.mid_batch")
    task, state, error, options, key = db.execute(_APPLY_OUTCOME, row).fetchone()
    states[State(state)] += 1
    if State(state).final and (schedule := counted_schedule_of(outcome.id, options, key)) is not None:
        news[outcome.id] = JobEnd(schedule, outcome.id, State(state), outcome.finished_at, outcome.result)
    if error is not None:
        db.execute("INSERT OR REPLACE INTO mainspring_errors VALUES (?, ?)", (row[0], error))
        if state == "dead":
            db.execute("INSERT INTO mainspring_dead VALUES (?, ?, ?, ?)", (task, error, row[4], row[0]))
    return [outcome.id]


def _complete(db: sqlite3.Connection, rows: list[Row]) -> list[JobId]:
    """The jobs whose outcomes were accepted: if not all of them, one by one, to know which."""
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
    told = {"id": outcome.id, "lease": outcome.lease, "ending": outcome.ending, "at": micros(outcome.finished_at)}
    return db.execute(_RECORDED, told).fetchone() is not None


def outcome_row(outcome: Outcome) -> Row:
    """Four columns for the plain end of a job, all of them where there is more to say."""
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


# what follows

_PUT_CIRCUIT = "INSERT OR REPLACE INTO mainspring_circuits VALUES (?, ?, ?, ?)"


def _apply_consequences(
    db: sqlite3.Connection, accepted: list[Outcome], states: Counter[State], news: dict[JobId, JobEnd]
) -> None:
    add_to_counts(db, states)
    apply_job_transitions(
        db, [one for outcome in accepted if (one := news.get(outcome.id) or _completion(outcome)) is not None]
    )
    known = {circuit.task: circuit for circuit in circuits(db)}
    for outcome in accepted if known else [one for one in accepted if one.then or one.breaker]:
        if outcome.then:
            enqueue(db, outcome.then, outcome.finished_at, micros(outcome.finished_at))
        if known or outcome.breaker is not None:
            _update_circuit(db, known, outcome)
    count_runs(db, accepted)


def _completion(outcome: Outcome) -> JobEnd | None:
    """What the plain end of a job is to its schedule."""
    if outcome.schedule is None or not is_plain_completion(outcome):
        return None
    return JobEnd(outcome.schedule, outcome.id, _COMPLETED, outcome.finished_at, outcome.result)


def _update_circuit(db: sqlite3.Connection, known: dict[str, Circuit], outcome: Outcome) -> None:
    # Whoever releases a run it has never heard of cannot name the task; its turn as a probe is over all the same.
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
    stands: set[JobId] = set()
    for told in reports:
        row = db.execute(_RUNNING, (told.id, told.lease)).fetchone()
        if row is None:
            continue
        lines = [(told.id, line.run, line.n, micros(line.at), line.level, line.text) for line in told.lines]
        db.executemany(_LINE, lines)
        if is_newer_progress(told.progress, progress_or_none(told.id, row[0])):
            db.execute("UPDATE mainspring_jobs SET progress = ? WHERE id = ?", (json_of(told.progress), told.id))
        stands.add(told.id)
    return stands
