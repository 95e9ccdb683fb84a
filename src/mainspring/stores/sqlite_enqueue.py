"""Jobs into the SQLite store, and who holds their keys."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from ..job import Enqueued, Job, NewJob, State
from .rows import COLUMNS, NEW_COLUMNS, job_of, new_row, row_of
from .rules import meet
from .sqlite_batch import CHUNKS, chunks, flat, places

_INSERT = {
    size: f"INSERT INTO mainspring_jobs ({NEW_COLUMNS}) VALUES {places(size, 12)} ON CONFLICT (id) DO NOTHING"
    for size in CHUNKS
}


def enqueue(db: sqlite3.Connection, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued]:
    if all(job.unique_key is None and job.idempotency_key is None for job in jobs):
        for chunk in chunks(jobs):
            db.execute(_INSERT[len(chunk)], flat([new_row(job, us) for job in chunk]))
        return [Enqueued(job.id) for job in jobs]
    db.execute("SAVEPOINT mainspring_enqueue")
    answers: list[Enqueued] = []
    for n, job in enumerate(jobs):
        answers.append(_admit(db, job, now, us))
        if answers[-1].status == "refused":
            db.execute("ROLLBACK TO mainspring_enqueue")
            answers = [Enqueued(other.id, "refused") if i != n else answers[-1] for i, other in enumerate(jobs)]
            break
    db.execute("RELEASE mainspring_enqueue")
    return answers


def _admit(db: sqlite3.Connection, new: NewJob, now: datetime, us: int) -> Enqueued:
    if db.execute("SELECT 1 FROM mainspring_jobs WHERE id = ?", (new.id,)).fetchone():
        return Enqueued(new.id)
    key, held = holder(db, new)
    while held is not None and held.shown(now) == "expired":
        save(db, replace(held, state=State.EXPIRED, finished_at=now))
        key, held = holder(db, new)
    if held is None:
        db.execute(_INSERT[1], new_row(new, us))
        return Enqueued(new.id)
    if new.on_conflict == "raise":
        return Enqueued(held.id, "refused", key)
    changed, status = meet(held, new, now)
    if changed is not held:
        save(db, changed)
    return Enqueued(held.id, status, key)


def holder(db: sqlite3.Connection, job: NewJob | Job) -> tuple[str | None, Job | None]:
    """The job that keeps this one's key from being used, if any."""
    unfinished = "'pending', 'running', 'waiting', 'paused'"
    for column, key, states in (
        ("unique_key", job.unique_key, unfinished),
        ("idempotency_key", job.idempotency_key, f"{unfinished}, 'completed'"),
    ):
        if key is not None:
            sql = f"SELECT {COLUMNS} FROM mainspring_jobs WHERE {column} = ? AND state IN ({states})"
            row = db.execute(sql, (key,)).fetchone()
            if row is not None:
                return key, job_of(row)
    return None, None


_SAVE = f"UPDATE mainspring_jobs SET ({COLUMNS}, ending) = ({', '.join('?' * 22)}, NULL) WHERE id = ?"


def save(db: sqlite3.Connection, job: Job) -> None:
    db.execute(_SAVE, (*row_of(job), job.id))
