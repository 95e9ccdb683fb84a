"""Reads, writes and deletes jobs of the SQLite store, with their tags, keys, errors and counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from ...clock import micros
from ...ids import JobId
from ...records.job import Job, NewJob, State
from ..ranks import LIMITED_RANK
from ..rows import COLUMNS, NEW_COLUMNS, STARTED_COLUMNS, Row, job_of, new_row, row_of, started_row
from ..rules.loaded import ChangedJob
from .batch import CHUNK_ROWS, chunks, flatten, value_lists
from .flow_rows import add_flow_jobs, drop_flow_job
from .lists import fetch_whole_rows
from .out_of_order import drop_out_of_order, record_any_out_of_order, record_out_of_order
from .runs import keep_last_runs

_encode = msgspec.json.Encoder().encode
INSERT = {
    size: f"INSERT INTO mainspring_jobs ({NEW_COLUMNS}) VALUES {value_lists(size, 12)} ON CONFLICT (id) DO NOTHING"
    for size in CHUNK_ROWS
}

_INSERT_STARTED = {
    size: f"INSERT INTO mainspring_jobs ({STARTED_COLUMNS}) VALUES {value_lists(size, 17)}" for size in CHUNK_ROWS
}

# reading

_UNFINISHED = "'pending', 'running', 'waiting', 'paused'"
_FIND = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE id IN (SELECT value FROM json_each(:ids))
    UNION ALL SELECT {COLUMNS} FROM mainspring_jobs WHERE unique_key IN (SELECT value FROM json_each(:unique))
        AND state IN ({_UNFINISHED})
    UNION ALL SELECT {COLUMNS} FROM mainspring_jobs WHERE idempotency_key IN (SELECT value FROM json_each(:idempotent))
        AND state IN ({_UNFINISHED}, 'completed')"""


def find_jobs(
    db: sqlite3.Connection, ids: Collection[JobId], unique: Collection[str], idempotent: Collection[str]
) -> list[Job]:
    """The jobs of these ids, and the jobs that hold these unique and idempotency keys."""
    given = {"ids": ids, "unique": unique, "idempotent": idempotent}
    texts = {name: _encode(list(values)).decode() for name, values in given.items()}
    return [job_of(row) for row in fetch_whole_rows(db, _FIND, texts)]


def existing_ids(db: sqlite3.Connection, ids: Collection[JobId]) -> set[JobId]:
    sql = "SELECT id FROM mainspring_jobs WHERE id IN (SELECT value FROM json_each(?))"
    return {id for (id,) in db.execute(sql, (_encode(list(ids)).decode(),))}


# writing


def insert_new(db: sqlite3.Connection, jobs: Sequence[NewJob | Job], us: int) -> None:
    """Inserts jobs whose ids are new and whose keys are free, created at `us`."""
    for chunk in chunks(jobs):
        db.execute(INSERT[len(chunk)], flatten([new_job_row(job, us) for job in chunk]))
    record_out_of_order(db, jobs, us)
    add_flow_jobs(db, jobs)
    _add_tags_and_keys(db, jobs)
    follow_limits(db, jobs, us)


def new_job_row(job: NewJob | Job, us: int) -> Row:
    row = new_row(job, us)
    return row if job.limit_key is None else _with_limited_rank(row)


def _with_limited_rank(row: Row) -> Row:
    return (*row[:3], row[3] + LIMITED_RANK, *row[4:])


def follow_limits(db: sqlite3.Connection, jobs: Sequence[NewJob | Job], us: int) -> None:
    """Adds the entries of those new jobs that have a limit."""
    if limited := [job for job in jobs if job.limit_key is not None]:
        from .limited_jobs import IN_LINE, follow_new

        due = ((job, us if job.run_at is None else micros(job.run_at)) for job in limited)
        follow_new(db, [(job.id, job.limit_key, IN_LINE, job.queue, job.task, -job.priority, at) for job, at in due])


def _add_tags_and_keys(db: sqlite3.Connection, jobs: Sequence[NewJob | Job]) -> None:
    add_tags(db, jobs)
    keys = {(key, job.id) for job in jobs for key in (job.unique_key, job.idempotency_key) if key is not None}
    db.executemany("INSERT INTO mainspring_keys VALUES (?, ?)", sorted(keys))


def insert_jobs(db: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    """Inserts jobs that rules have made; their ids are new and their keys are free."""
    if not jobs:
        return
    rows = [new_job_row(job, micros(job.created_at)) for job in jobs]
    for chunk in chunks(rows):
        db.execute(INSERT[len(chunk)], flatten(chunk))
    _after_insert(db, jobs)


def _insert_started(db: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    """Inserts jobs that run already."""
    if not jobs:
        return
    rows = [started_row(job) for job in jobs]
    for chunk in chunks(rows):
        db.execute(_INSERT_STARTED[len(chunk)], flatten(chunk))
    _after_insert(db, jobs)


def _after_insert(db: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    record_any_out_of_order(db, jobs)
    add_flow_jobs(db, jobs)
    _add_tags_and_keys(db, jobs)


def write_jobs(db: sqlite3.Connection, changed: Iterable[ChangedJob]) -> None:
    """Writes the jobs that a rule has changed, created or deleted; changed ones first, as they may release a key."""
    saved, new, limited = list[tuple[Job, Job]](), list[Job](), list[tuple[Job | None, Job | None]]()
    for _, before, after in changed:
        if (before is not None and before.limit_key is not None) or (after is not None and after.limit_key is not None):
            limited.append((before, after))
        if after is None and before is not None:
            _delete(db, before)
        elif after is not None and before is not None:
            saved.append((before, after))
        elif after is not None:
            new.append(after)
    _save(db, saved)
    # A job may have ended in the same step: its key may be another new job's.
    for ended in [job for job in new if job.state not in (State.PENDING, State.RUNNING)]:
        insert_jobs(db, [ended])
        _save(db, [(_as_inserted(ended), ended)])
    insert_jobs(db, [job for job in new if job.state is State.PENDING])
    _insert_started(db, [job for job in new if job.state is State.RUNNING])
    if limited:
        from .limited_jobs import follow_jobs

        follow_jobs(db, limited)


def _as_inserted(job: Job) -> Job:
    return msgspec.structs.replace(job, state=State.PENDING)


_SAVED_COLUMNS = len(COLUMNS.split(", ")) + 1
_SAVE = {
    size: f"""UPDATE mainspring_jobs AS job
        SET ({COLUMNS}, error, ending) = ({", ".join(f"changed.column{n}" for n in range(1, _SAVED_COLUMNS + 1))}, NULL)
        FROM (VALUES {value_lists(size, _SAVED_COLUMNS)}) AS changed WHERE job.id = changed.column1"""
    for size in (64, 8, 1)
}
# Of a job that cannot be decoded only these are written: its record stays.
_SAVE_STATE = "UPDATE mainspring_jobs SET state = ?, lease = ?, worker = ? WHERE id = ?"


def _save(db: sqlite3.Connection, pairs: Sequence[tuple[Job, Job]]) -> None:
    """Writes changed jobs, each with its tags, its error and the counts of final states."""
    keep_last_runs(db, [old.id for old, new in pairs if old.state.final and not new.state.final])
    whole = [new for _, new in pairs if not new.unreadable]
    for chunk in chunks([(*_saved_row(job), _failure_kind(job)) for job in whole], tuple(_SAVE)):
        db.execute(_SAVE[len(chunk)], flatten(chunk))
    broken = [new for _, new in pairs if new.unreadable]
    if broken:
        from .limited_jobs import drop_entries

        db.executemany(_SAVE_STATE, [(job.state.value, job.lease, job.worker, job.id) for job in broken])
        drop_entries(db, [job.id for job in broken])
    moves: dict[State, int] = {}
    for old, job in pairs:
        if job.tags != old.tags:
            _remove_tags(db, old)
            add_tags(db, [job])
        if job.unique_key != old.unique_key and old.unique_key is not None:
            _remove_key(db, old.unique_key, job.id)
        if (kind := _failure_kind(job)) is not None and kind != _failure_kind(old):
            db.execute("INSERT OR REPLACE INTO mainspring_errors VALUES (?, ?)", (job.id, kind))
        if job.state is not old.state:
            moves[old.state] = moves.get(old.state, 0) - 1
            moves[job.state] = moves.get(job.state, 0) + 1
            _remove_from_dead(db, old)
            if (row := _dead_row(job)) is not None:
                db.execute("INSERT INTO mainspring_dead VALUES (?, ?, ?, ?)", row)
    add_to_counts(db, moves)


def _saved_row(job: Job) -> Row:
    row = row_of(job)
    return row if job.limit_key is None else _with_limited_rank(row)


def _delete(db: sqlite3.Connection, job: Job) -> None:
    """Deletes the job with its runs, log lines, checkpoints, errors, tags and keys."""
    for table in ("executions", "logs", "checkpoints", "errors"):
        db.execute(f"DELETE FROM mainspring_{table} WHERE job_id = ?", (job.id,))
    _remove_tags(db, job)
    for key in (job.unique_key, job.idempotency_key):
        if key is not None:
            _remove_key(db, key, job.id)
    _remove_from_dead(db, job)
    drop_out_of_order(db, job)
    drop_flow_job(db, job)
    db.execute("DELETE FROM mainspring_jobs WHERE id = ?", (job.id,))
    add_to_counts(db, {job.state: -1})


# tags, errors and counts


def add_tags(db: sqlite3.Connection, jobs: Sequence[NewJob | Job]) -> None:
    pairs = [(tag, job.id) for job in jobs for tag in job.tags]
    db.executemany("INSERT OR IGNORE INTO mainspring_tags VALUES (?, ?)", pairs)


def _remove_key(db: sqlite3.Connection, key: str, id: JobId) -> None:
    db.execute("DELETE FROM mainspring_keys WHERE key = ? AND job_id = ?", (key, id))


def _remove_tags(db: sqlite3.Connection, job: Job) -> None:
    db.executemany("DELETE FROM mainspring_tags WHERE tag = ? AND job_id = ?", [(tag, job.id) for tag in job.tags])


_COUNT = """INSERT INTO mainspring_counts VALUES (?, ?)
    ON CONFLICT (state) DO UPDATE SET count = count + excluded.count"""


def add_to_counts(db: sqlite3.Connection, moves: Mapping[State, int]) -> None:
    """Adds to the stored number of jobs in each final state."""
    db.executemany(_COUNT, [(state.value, by) for state, by in moves.items() if state.final and by])


def _failure_kind(job: Job) -> str | None:
    return None if job.failure is None else job.failure.kind


def _dead_row(job: Job) -> tuple[str, str, int, JobId] | None:
    """The job's row in the table of dead jobs; None if it has none."""
    if job.state is not State.DEAD or job.failure is None or job.finished_at is None:
        return None
    return job.task, job.failure.kind, micros(job.finished_at), job.id


def _remove_from_dead(db: sqlite3.Connection, job: Job) -> None:
    sql = "DELETE FROM mainspring_dead WHERE task = ? AND error = ? AND finished_at = ? AND job_id = ?"
    if (row := _dead_row(job)) is not None:
        db.execute(sql, row)
