"""How the SQLite store enqueues jobs, and writes and deletes them.

Jobs without keys are inserted in chunks; a job whose id exists is left as it is. Jobs with keys are checked one by one
inside a savepoint: if one with on_conflict="raise" meets a held key, the whole call is rolled back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from ...clock import micros
from ...ids import JobId
from ...records.job import Enqueued, Job, NewJob, State
from ..rows import COLUMNS, NEW_COLUMNS, job_of, new_row, row_of
from ..rules import resolve_conflict
from . import out_of_order
from .batch import CHUNK_ROWS, chunks, flatten, value_lists
from .lenient import fetch_rows
from .lists import mark_undecodable
from .schedules import apply_job_change

_encode = msgspec.json.Encoder().encode
_INSERT = {
    size: f"INSERT INTO mainspring_jobs ({NEW_COLUMNS}) VALUES {value_lists(size, 12)} ON CONFLICT (id) DO NOTHING"
    for size in CHUNK_ROWS
}


def enqueue(db: sqlite3.Connection, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued]:
    if all(job.unique_key is None and job.idempotency_key is None for job in jobs):
        if any(job.tags for job in jobs):
            first_by_id = {job.id: job for job in reversed(jobs)}
            _tag(db, [job for job in first_by_id.values() if job.tags and not _exists(db, job.id)])
        for chunk in chunks(jobs):
            db.execute(_INSERT[len(chunk)], flatten([new_row(job, us) for job in chunk]))
        out_of_order.record(db, jobs, us)
        return [Enqueued(job.id) for job in jobs]
    db.execute("SAVEPOINT mainspring_enqueue")
    answers: list[Enqueued] = []
    for n, job in enumerate(jobs):
        answers.append(_enqueue_one(db, job, now, us))
        if answers[-1].status == "refused":
            db.execute("ROLLBACK TO mainspring_enqueue")
            answers = [Enqueued(other.id, "refused") if i != n else answers[-1] for i, other in enumerate(jobs)]
            break
    db.execute("RELEASE mainspring_enqueue")
    return answers


def _enqueue_one(db: sqlite3.Connection, new: NewJob, now: datetime, us: int) -> Enqueued:
    if _exists(db, new.id):
        return Enqueued(new.id)
    key, other = holder(db, new)
    while other is not None and other.shown(now) == "expired":
        save_job(db, other, replace(other, state=State.EXPIRED, finished_at=now))
        key, other = holder(db, new)
    if other is None:
        insert_new(db, [new], us)
        return Enqueued(new.id)
    if new.on_conflict == "raise":
        return Enqueued(other.id, "refused", key)
    changed, status = resolve_conflict(other, new, now)
    if changed is not other:
        save_job(db, other, changed)
    return Enqueued(other.id, status, key)


def insert_new(db: sqlite3.Connection, jobs: Sequence[NewJob], us: int) -> None:
    """Inserts jobs whose ids are new and whose keys are free (see all_new)."""
    for chunk in chunks(jobs):
        db.execute(_INSERT[len(chunk)], flatten([new_row(job, us) for job in chunk]))
    out_of_order.record(db, jobs, us)
    _tag(db, jobs)
    keys = {(key, job.id) for job in jobs for key in (job.unique_key, job.idempotency_key) if key is not None}
    db.executemany("INSERT INTO mainspring_keys VALUES (?, ?)", sorted(keys))


_CONFLICTS = """SELECT id FROM mainspring_jobs WHERE id IN (SELECT value FROM json_each(:ids))
    UNION ALL SELECT :held FROM mainspring_jobs WHERE unique_key IN (SELECT value FROM json_each(:unique))
        AND state IN ('pending', 'running', 'waiting', 'paused')
    UNION ALL SELECT :held FROM mainspring_jobs WHERE idempotency_key IN (SELECT value FROM json_each(:idempotent))
        AND state IN ('pending', 'running', 'waiting', 'paused', 'completed') LIMIT 1"""


def all_new(db: sqlite3.Connection, jobs: Sequence[NewJob]) -> bool:
    """Whether none of these jobs exists and none of their keys is held, in the store or twice in the list."""
    given = {
        "ids": [job.id for job in jobs],
        "unique": [job.unique_key for job in jobs if job.unique_key is not None],
        "idempotent": [job.idempotency_key for job in jobs if job.idempotency_key is not None],
    }
    if any(len(set(values)) < len(values) for values in given.values()):
        return False
    texts = {name: _encode(values).decode() for name, values in given.items()}
    return db.execute(_CONFLICTS, texts | {"held": ""}).fetchone() is None


def _exists(db: sqlite3.Connection, id: JobId) -> bool:
    return db.execute("SELECT 1 FROM mainspring_jobs WHERE id = ?", (id,)).fetchone() is not None


def _tag(db: sqlite3.Connection, jobs: Sequence[NewJob | Job]) -> None:
    pairs = [(tag, job.id) for job in jobs for tag in job.tags]
    db.executemany("INSERT OR IGNORE INTO mainspring_tags VALUES (?, ?)", pairs)


def _untag(db: sqlite3.Connection, job: Job) -> None:
    db.executemany("DELETE FROM mainspring_tags WHERE tag = ? AND job_id = ?", [(tag, job.id) for tag in job.tags])


def holder(db: sqlite3.Connection, job: NewJob | Job) -> tuple[str | None, Job | None]:
    """The key of this job that is held, and the job that holds it; (None, None) if its keys are free."""
    unfinished = "'pending', 'running', 'waiting', 'paused'"
    for column, key, states in (
        ("unique_key", job.unique_key, unfinished),
        ("idempotency_key", job.idempotency_key, f"{unfinished}, 'completed'"),
    ):
        if key is not None:
            sql = f"SELECT {COLUMNS} FROM mainspring_jobs WHERE {column} = ? AND state IN ({states})"
            rows = mark_undecodable(fetch_rows(db, sql, (key,)))
            if rows:
                return key, job_of(rows[0])
    return None, None


_SAVE = f"UPDATE mainspring_jobs SET ({COLUMNS}, error, ending) = ({value_lists(1, 24)[1:-1]}, NULL) WHERE id = ?"
_COUNT = """INSERT INTO mainspring_counts VALUES (?, ?)
    ON CONFLICT (state) DO UPDATE SET count = count + excluded.count"""


def save_job(db: sqlite3.Connection, old: Job, job: Job) -> None:
    """Writes the whole job with its tags and counts, and applies a change of state to its schedule."""
    db.execute(_SAVE, (*row_of(job), failure_kind_of(job), job.id))
    if job.tags != old.tags:
        _untag(db, old)
        _tag(db, [job])
    if job.state is not old.state:
        add_to_counts(db, {old.state: -1, job.state: 1})
        apply_job_change(db, old, job, job.finished_at or job.run_at)
        if old.state is State.DEAD:
            _remove_from_dead(db, old)


def add_to_counts(db: sqlite3.Connection, moves: Mapping[State, int]) -> None:
    """Adds to the stored number of jobs in each final state."""
    db.executemany(_COUNT, [(state.value, by) for state, by in moves.items() if state.final and by])


def delete_job(db: sqlite3.Connection, job: Job, now: datetime) -> None:
    """Deletes the job with its runs, log lines, errors, tags and keys."""
    apply_job_change(db, job, None, now)
    for table in ("executions", "logs", "errors"):
        db.execute(f"DELETE FROM mainspring_{table} WHERE job_id = ?", (job.id,))
    _untag(db, job)
    for key in (job.unique_key, job.idempotency_key):
        if key is not None:
            db.execute("DELETE FROM mainspring_keys WHERE key = ? AND job_id = ?", (key, job.id))
    if job.state is State.DEAD:
        _remove_from_dead(db, job)
    out_of_order.drop(db, job)
    db.execute("DELETE FROM mainspring_jobs WHERE id = ?", (job.id,))
    add_to_counts(db, {job.state: -1})


def failure_kind_of(job: Job) -> str | None:
    return None if job.failure is None else job.failure.kind


def _remove_from_dead(db: sqlite3.Connection, job: Job) -> None:
    """Removes the job from the table of dead jobs."""
    sql = "DELETE FROM mainspring_dead WHERE task = ? AND error = ? AND finished_at = ? AND job_id = ?"
    if job.failure is not None and job.finished_at is not None:
        db.execute(sql, (job.task, job.failure.kind, micros(job.finished_at), job.id))
