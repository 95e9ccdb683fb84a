"""How the SQLite store finishes runs, and records their log lines, output and progress.

Plain completions are updated in chunks, fenced by the lease, and reports are written without reading whole jobs. This
repeats the rules rules.finish.finish_one and report_one, and test_twin.py compares them. What follows a completion
(schedules, circuits, further jobs), and every other outcome, is written by the rule.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from ...clock import micros
from ...failpoint import failpoint
from ...ids import JobId, Lease, WorkerId
from ...records.job import Job, State
from ...records.outcome import Outcome
from ...records.run import RunReport
from ...records.worker import CarryOn, Finished
from ..rows import Row, json_of, notes_text, progress_or_none, report_rows
from ..rules import is_newer_progress, is_plain_completion
from ..rules.finish import finish_one, follow_completion, follow_suspension, has_only_checkpoints
from ..rules.loaded import LoadedTables
from ..rules.outcome import is_plain_suspension
from ..rules.read_sets import KnownValues, Name, of_completion, of_completions, of_outcome
from .batch import CHUNK_ROWS, chunks, flatten, value_lists
from .circuits import circuits
from .flow_ends import plain_conclusions, suspend
from .flow_rows import older_workers
from .handle import SqliteHandle
from .job_rows import add_to_counts
from .runs import add_checkpoints
from .tables import fetch, load, write
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

# The same for runs of one claim: their ids and ends as one JSON object, so that a batch is one step of SQLite and not
# one for each chunk. `+` leaves the index of ids as the only one that can be used.
_OF_A_CLAIM = """FROM json_each(:ended) AS ended
    WHERE job.id = ended.key AND +job.lease = :lease AND +job.state = 'running'"""
COMPLETE_BARE = f"""UPDATE mainspring_jobs AS job
    SET state = 'completed', ending = 'completed', finished_at = ended.value, result = NULL, failure = NULL,
        error = NULL
    {_OF_A_CLAIM}"""
# Their values are arrays of the end and the result.
COMPLETE_WITH_RESULTS = f"""UPDATE mainspring_jobs AS job
    SET state = 'completed', ending = 'completed', finished_at = json_extract(ended.value, '$[0]'),
        result = json_extract(ended.value, '$[1]'), failure = NULL, error = NULL
    {_OF_A_CLAIM}"""

# Runs with notes, as one JSON array of their values: an execution row has the notes, and the job's own row no mark.
_NOTED = """(SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS lease,
        json_extract(value, '$[2]') AS finished_at, json_extract(value, '$[3]') AS result,
        json_extract(value, '$[4]') AS account
    FROM json_each(:ended)) AS ended"""
KEEP_NOTES = f"""INSERT OR IGNORE INTO mainspring_executions
    SELECT job.id, job.runs, job.attempt, 'completed', job.worker, job.lease, job.started_at, ended.finished_at,
        coalesce(length(CAST(ended.result AS BLOB)), 0), NULL, ended.account
    FROM {_NOTED} CROSS JOIN mainspring_jobs AS job
    WHERE job.id = ended.id AND +job.lease = ended.lease AND +job.state = 'running'"""
COMPLETE_NOTED = f"""UPDATE mainspring_jobs AS job
    SET state = 'completed', ending = NULL, lease = NULL, worker = NULL, finished_at = ended.finished_at,
        result = ended.result, failure = NULL, error = NULL
    FROM {_NOTED}
    WHERE job.id = ended.id AND +job.lease = ended.lease AND +job.state = 'running'"""

# Fewer than this many runs of one claim are written with the others: each statement has a fixed cost.
MIN_RUNS_OF_A_CLAIM = 8
# Longer results are written with the others: SQLite would parse them.
MAX_RESULT_IN_JSON = 4096
_encode = msgspec.json.Encoder().encode

OutcomeRow = tuple[Outcome, Row | None]
"""An outcome, and the values of outcome_row() if it is a plain completion."""


class SqliteFinish(SqliteHandle):
    """The verbs finish and report."""

    async def finish(self, outcomes: Sequence[Outcome], *, carry_on: CarryOn | None = None) -> Finished:
        ended = [(outcome, outcome_row(outcome)) for outcome in outcomes]
        finished = await self._write(lambda db: write_outcomes(db, ended, carry_on))
        self._after_finish(outcomes)
        return finished

    def _after_finish(self, outcomes: Sequence[Outcome]) -> None:
        if any(outcome.then or outcome.breaker or outcome.limit_key for outcome in outcomes):
            self._idle = False
        self._waiters.wake_all()

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        stands = await self._write(lambda db: write_reports(db, reports))
        if not all(map(has_only_checkpoints, reports)):
            self._waiters.wake_all()
        return stands


def write_outcomes(db: sqlite3.Connection, ended: Sequence[OutcomeRow], carry_on: CarryOn | None = None) -> Finished:
    """Writes the outcomes that the fence accepts. Returns the ids whose outcome is the recorded end of its run, and
    the jobs that were started."""
    in_order = _must_run_in_order(ended)
    plain = [] if in_order else [row for _, row in ended if row is not None]
    outcomes, tables, suspended = [outcome for outcome, _ in ended], LoadedTables(flows=True, wakes=True), set[JobId]()
    if len(plain) < len(ended):
        rest = [outcome for outcome, row in ended if row is None]
        tables.older_workers = _older_workers(db, rest)
        if not in_order:
            plain += [completed_row(outcome) for outcome in plain_conclusions(db, tables, rest)]
            plans = [one for one in rest if one.limit_key is None and is_plain_suspension(one)]
            suspended = suspend(db, [] if tables.older_workers else plans)
    completed = set(_complete(db, plain)) if plain else set[JobId]()
    add_to_counts(db, {State.COMPLETED: len(completed)})
    if limited := [outcome.id for outcome in outcomes if outcome.limit_key is not None and outcome.id in completed]:
        from .limited_jobs import drop_entries

        drop_entries(db, limited)
    plain_ends = len(completed) == len(ended) and not any(one.then or one.schedule or one.step for one in outcomes)
    if plain_ends and not circuits(db):
        count_runs(db, outcomes)
        return Finished(completed)
    by_sql = suspended.union([row[0] for row in plain])
    _read(db, tables, outcomes, by_sql, completed | suspended)

    def accept(outcome: Outcome) -> bool:
        if outcome.id in completed:
            follow_completion(tables, outcome)
        elif outcome.id in suspended:
            follow_suspension(tables, outcome)
        else:
            return outcome.id not in by_sql and finish_one(tables, outcome)
        return True

    # Some may have come late or are repeated: those that are the recorded end of their run stand.
    stands = {outcome.id for outcome in outcomes if accept(outcome) or tables.is_recorded(outcome)}
    started = list[Job]()
    if carry_on is not None and tables.flow_changes.noted:
        from .carry_on import settle_and_start

        started = settle_and_start(db, tables, carry_on)
    write(db, tables, "finish.mid_batch")
    return Finished(stands, started)


def _read(
    db: sqlite3.Connection,
    tables: LoadedTables,
    outcomes: Sequence[Outcome],
    by_sql: Collection[JobId],
    accepted: Collection[JobId],
) -> None:
    """Reads what the rules need. `by_sql` are the runs that the store has tried to end itself."""
    times = Counter(outcome.id for outcome in outcomes)

    def needs(outcome: Outcome, known: KnownValues) -> Iterator[Name]:
        if outcome.id not in by_sql:
            return of_outcome(outcome, known, times[outcome.id] > 1)
        return of_completion(outcome, known) if outcome.id in accepted else iter([Name("runs", outcome.id)])

    # What usually follows is named at once for all.
    usual = [outcome for outcome in outcomes if outcome.id in accepted and not outcome.then]
    fetch(db, tables, of_completions(usual))
    if len(usual) < len(outcomes):
        load(db, [one for one in outcomes if one.id not in accepted or one.then], needs, tables)


def _older_workers(db: sqlite3.Connection, outcomes: Iterable[Outcome]) -> list[WorkerId]:
    """The live workers that do not know flows, if one of these runs has planned a flow, or waits for a signal."""
    planned = [outcome.finished_at for outcome in outcomes if outcome.plan is not None or outcome.awaits]
    return older_workers(db, micros(max(planned))) if planned else []


def _must_run_in_order(ended: Sequence[OutcomeRow]) -> bool:
    """Whether every outcome has to be written by the rule: a job that follows one of them may need a key that another
    job of the batch holds until it ends; or two of them are for the same job."""
    sequels = [new for outcome, _ in ended if outcome.then for new in outcome.then]
    keyed = any(new.unique_key is not None or new.idempotency_key is not None for new in sequels)
    return len(ended) > 1 and (keyed or len({outcome.id for outcome, _ in ended}) < len(ended))


def _complete(db: sqlite3.Connection, rows: list[Row]) -> list[JobId]:
    """Writes plain completions and returns the accepted ids. If not all are, writes one by one to learn which."""
    db.execute("SAVEPOINT mainspring_finish")
    bare: dict[Lease, dict[JobId, int]] = {}
    with_results: dict[Lease, dict[JobId, tuple[int, str]]] = {}
    rest: list[Row] = []
    noted = [row for row in rows if row[4] is not None]
    for id, lease, at, result, notes in rows:
        if notes is not None:
            continue
        if result is None:
            bare.setdefault(lease, {})[id] = at
        elif len(result) <= MAX_RESULT_IN_JSON:
            with_results.setdefault(lease, {})[id] = at, result
        else:
            rest.append((id, lease, at, result, None))
    accepted = 0
    for lease, ends in bare.items():
        if len(ends) < MIN_RUNS_OF_A_CLAIM:
            rest += [(id, lease, at, None, None) for id, at in ends.items()]
        else:
            accepted += _complete_of_claim(db, COMPLETE_BARE, lease, ends)
    for lease, results in with_results.items():
        if len(results) < MIN_RUNS_OF_A_CLAIM:
            rest += [(id, lease, at, result, None) for id, (at, result) in results.items()]
        else:
            accepted += _complete_of_claim(db, COMPLETE_WITH_RESULTS, lease, results)
    for chunk in chunks(rest):
        accepted += db.execute(_COMPLETE[len(chunk)], flatten([row[:4] for row in chunk])).rowcount
        failpoint("finish.mid_batch")
    if noted:
        accepted += _complete_noted(db, noted)
        failpoint("finish.mid_batch")
    if accepted < len(rows):
        db.execute("ROLLBACK TO mainspring_finish")
        rows = [row for row in rows if _complete_one(db, row)]
    db.execute("RELEASE mainspring_finish")
    return [row[0] for row in rows]


def _complete_of_claim(db: sqlite3.Connection, sql: str, lease: Lease, ends: Mapping[JobId, object]) -> int:
    accepted = db.execute(sql, {"ended": _encode(ends).decode(), "lease": lease}).rowcount
    failpoint("finish.mid_batch")
    return accepted


def _complete_one(db: sqlite3.Connection, row: Row) -> int:
    return db.execute(_COMPLETE[1], row[:4]).rowcount if row[4] is None else _complete_noted(db, [row])


def _complete_noted(db: sqlite3.Connection, rows: Sequence[Row]) -> int:
    """Writes plain completions with notes, and returns how many are accepted."""
    values = {"ended": _encode(rows).decode()}
    db.execute(KEEP_NOTES, values)
    return db.execute(COMPLETE_NOTED, values).rowcount


def outcome_row(outcome: Outcome) -> Row | None:
    """The values of _COMPLETE for a plain completion, and its notes; None for any other outcome."""
    if not is_plain_completion(outcome):
        return None
    return completed_row(outcome)


def completed_row(outcome: Outcome) -> Row:
    notes = None if outcome.account is None else notes_text(outcome.account)
    return (outcome.id, outcome.lease, micros(outcome.finished_at), outcome.result, notes)


_RUNNING = "SELECT progress FROM mainspring_jobs WHERE id = ? AND lease = ? AND state = 'running'"
_LINE = "INSERT OR IGNORE INTO mainspring_logs VALUES (?, ?, ?, ?, ?, ?)"


def write_reports(db: sqlite3.Connection, reports: Sequence[RunReport]) -> set[JobId]:
    """Records what running jobs report. Returns the ids of the runs that still go on."""
    running: set[JobId] = set()
    for report in reports:
        row = db.execute(_RUNNING, (report.id, report.lease)).fetchone()
        if row is None:
            continue
        db.executemany(_LINE, report_rows(report))
        if report.checkpoints:
            add_checkpoints(db, report.id, report.checkpoints)
        if is_newer_progress(report.progress, progress_or_none(report.id, row[0])):
            db.execute("UPDATE mainspring_jobs SET progress = ? WHERE id = ?", (json_of(report.progress), report.id))
        running.add(report.id)
    return running
