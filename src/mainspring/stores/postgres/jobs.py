"""Finds, locks and writes rows of the two tables of jobs: unfinished and finished.

Every verb takes its locks in this order: keys, schedules, jobs, circuits. So deadlocks are rare; PostgreSQL ends one of
the transactions then, and the pool runs it again.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from ...clock import micros
from ...ids import JobId
from ...records.job import Job, NewJob, State
from ..rows import COLUMNS, NEW_COLUMNS, Row, job_of, new_row, row_of
from ..rules.job_ends import JobEnd, transition_of
from . import schedules
from .pool import BIGINT_ARRAY, Session

EXTRA_COLUMNS = "error, tags, schedule"
ALL_COLUMNS = f"{COLUMNS}, {EXTRA_COLUMNS}"

# Number of advisory locks that all keys share: a batch of any size must fit into the server's lock table.
MAX_KEY_LOCKS = 512

JobPair = tuple[Job, Job]
"""A job before and after a change."""


# locks


async def lock_keys(db: Session, jobs: Iterable[NewJob | Job]) -> None:
    """Locks the keys of these jobs until the commit, so that no other transaction assigns them."""
    keys = {key for job in jobs for key in (job.unique_key, job.idempotency_key) if key is not None}
    await lock_names(db, keys)


async def lock_names(db: Session, names: Iterable[str]) -> None:
    buckets = sorted({zlib.crc32(name.encode()) % MAX_KEY_LOCKS for name in names})
    if buckets:
        sql = f"SELECT pg_advisory_xact_lock($1, bucket::integer) FROM unnest($2::{BIGINT_ARRAY}) AS bucket"
        await db.run(sql, db.url.lock, [*map(str, buckets)])


async def lock_jobs(db: Session, ids: Collection[JobId], *, finished: bool = False) -> list[Job]:
    """Locks these jobs until the commit, and returns them in order of id; a deleted job is left out."""
    found = {}
    for table in ("mainspring_jobs", "mainspring_finished") if finished else ("mainspring_jobs",):
        sql = f"SELECT {COLUMNS} FROM {table} WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"
        found.update({row[0]: job_of(row) for row in await db.rows(sql, list(ids))})
    return [found[id] for id in sorted(found)]


async def find_jobs(db: Session, ids: Collection[JobId]) -> list[Job]:
    """These jobs, read without a lock."""
    sql = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE id = ANY($1)
        UNION ALL SELECT {COLUMNS} FROM mainspring_finished WHERE id = ANY($1)"""
    return [job_of(row) for row in await db.rows(sql, list(ids))]


# writing


_NAMES = ALL_COLUMNS.split(", ")
# The columns of a job that has never run.
_NEW_NAMES = (*NEW_COLUMNS.split(", "), "tags", "schedule")
_NUMBERS = {"rank", "run_at", "created_at", "expires_at", "attempt", "crashes", "runs", "started_at", "finished_at"}
# Columns are sent as arrays of texts, the only arrays that the driver knows; tags of jobs differ in number.
_CASTS = {**dict.fromkeys(_NUMBERS, "::bigint"), "tags": "::text[]"}


def _given(names: Sequence[str]) -> str:
    return ", ".join(f"given.{name}{_CASTS.get(name, '')}" for name in names)


def _batch(names: Sequence[str]) -> str:
    """A batch of rows as FROM item, with one array parameter per column."""
    arrays = ", ".join(f"${n}::text[]" for n in range(1, len(names) + 1))
    return f"unnest({arrays}) AS given ({', '.join(names)})"


_INSERT = f"INSERT INTO {{}} ({ALL_COLUMNS}) SELECT {_given(_NAMES)} FROM {_batch(_NAMES)}"
# If an enqueue is repeated just when its job ends, the job may come back and run again; its last end wins.
OVERWRITE = " ON CONFLICT (id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in [*_NAMES[1:], "ending"]
)
_UPDATE = f"""UPDATE mainspring_jobs AS job SET ({ALL_COLUMNS}) = ROW ({_given(_NAMES)}) FROM {_batch(_NAMES)}
    WHERE job.id = given.id AND job.id = ANY($1)"""
INSERT_NEW = f"""INSERT INTO mainspring_jobs ({", ".join(_NEW_NAMES)})
    SELECT {_given(_NEW_NAMES)} FROM {_batch(_NEW_NAMES)}"""

Columns = list[Sequence[str | None]]
_SET_STATE = "UPDATE mainspring_jobs SET state = $2, lease = $3, worker = $4 WHERE id = $1"


def _columns(jobs: Iterable[Job]) -> Columns:
    rows = [
        (*row_of(job), None if job.failure is None else job.failure.kind, array_text(job.tags), job.schedule)
        for job in jobs
    ]
    return _texts(_NAMES, rows)


def new_columns(jobs: Iterable[Job]) -> Columns:
    """The parameters of INSERT_NEW for jobs that were just admitted."""
    return _texts(
        _NEW_NAMES, [(*new_row(job, micros(job.created_at)), array_text(job.tags), job.schedule) for job in jobs]
    )


def _texts(names: Sequence[str], rows: Sequence[Row]) -> Columns:
    columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else ([] for _ in names)
    return [
        [None if value is None else str(value) for value in column] if name in _NUMBERS else column
        for name, column in zip(names, columns, strict=True)
    ]


def array_text(texts: Sequence[str] | None) -> str | None:
    """The array in PostgreSQL's text form, since arrays of different lengths cannot be sent as one. None if empty."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts or ())
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}" if texts else None


async def write_jobs(db: Session, pairs: Sequence[JobPair]) -> None:
    """Writes changed jobs, which the caller has locked, into the table of their state.

    Of a job that cannot be decoded only state, lease and worker are written.
    """
    if broken := [new for _, new in pairs if new.unreadable]:
        await db.many(_SET_STATE, [(job.id, job.state.value, job.lease, job.worker) for job in broken])
        pairs = [pair for pair in pairs if not pair[1].unreadable]
    stay = [new for old, new in pairs if not (old.state.final or new.state.final)]
    if stay:
        await db.run(_UPDATE, *_columns(stay))
    for final, source, target in (
        (True, "mainspring_jobs", "mainspring_finished"),
        (False, "mainspring_finished", "mainspring_jobs"),
    ):
        moved = [new for old, new in pairs if new.state.final is final and old.state.final is not final]
        if moved:
            await db.run(f"DELETE FROM {source} WHERE id = ANY($1)", [job.id for job in moved])
            await db.run(_INSERT.format(target) + (OVERWRITE if final else ""), *_columns(moved))


async def insert_jobs(db: Session, jobs: Sequence[Job]) -> None:
    """Inserts new jobs into the table of their state."""
    if new := [job for job in jobs if job.state is State.PENDING]:
        await db.run(INSERT_NEW, *new_columns(new))
    for final, table in ((False, "mainspring_jobs"), (True, "mainspring_finished")):
        if rest := [job for job in jobs if job.state is not State.PENDING and job.state.final is final]:
            await db.run(_INSERT.format(table), *_columns(rest))


async def apply_job_changes(db: Session, pairs: Iterable[JobPair]) -> None:
    """Applies the changes of these jobs to their schedules."""
    await schedules.apply_job_transitions(
        db, [change for old, new in pairs if (change := transition_of(old, new)) is not None]
    )


async def delete_jobs(db: Session, jobs: Sequence[Job], now: datetime) -> None:
    """Deletes the jobs with their runs and log lines, and applies that to their schedules."""
    ids = [job.id for job in jobs]
    gone = [
        JobEnd(job.counted_schedule, job.id, None, now)
        for job in jobs
        if job.counted_schedule is not None and not job.state.final
    ]
    await schedules.apply_job_transitions(db, gone)
    for table, column in (("executions", "job_id"), ("logs", "job_id"), ("jobs", "id"), ("finished", "id")):
        await db.run(f"DELETE FROM mainspring_{table} WHERE {column} = ANY($1)", ids)


def counted_schedules_of(jobs: Iterable[Job]) -> set[str]:
    return {job.counted_schedule for job in jobs if job.counted_schedule is not None}


# holders of keys

# One statement, hence one snapshot: a job that ends meanwhile moves from one table to the other.
_HOLDERS = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE unique_key = ANY($1)
    UNION ALL SELECT {COLUMNS} FROM mainspring_jobs WHERE idempotency_key = ANY($2)
    UNION ALL SELECT {COLUMNS} FROM mainspring_done($2)"""
_HOLDERS_AND_JOBS = f"""{_HOLDERS} UNION ALL SELECT {COLUMNS} FROM mainspring_jobs WHERE id = ANY($3)
    UNION ALL SELECT {COLUMNS} FROM mainspring_finished WHERE id = ANY($3)"""


class Holders:
    """The jobs that hold the keys of some requests; the caller has locked the keys."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Job] = {}
        self.ids: set[JobId] = set()
        """The ids of all jobs that were read."""

    @classmethod
    async def of(cls, db: Session, jobs: Iterable[NewJob | Job]) -> Holders:
        given, holders = _given_keys(jobs), cls()
        if any(given):
            holders._add(await db.rows(_HOLDERS, *given))
        return holders

    @classmethod
    async def of_new(cls, db: Session, jobs: Sequence[NewJob]) -> Holders:
        """Like `of`, and also reads those of these jobs that exist already."""
        holders = cls()
        if jobs:
            holders._add(await db.rows(_HOLDERS_AND_JOBS, *_given_keys(jobs), [job.id for job in jobs]))
        return holders

    def _add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.put(job_of(row))
            self.ids.add(row[0])

    def put(self, job: Job) -> None:
        """Records that the job holds its keys, or has released them, as its state says."""
        for kind, key in _keys(job):
            released = job.state.final and not (kind == "idempotent" and job.state is State.COMPLETED)
            if not released:
                self._held[kind, key] = job
            elif (kind, key) in self._held and self._held[kind, key].id == job.id:
                del self._held[kind, key]

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        """The key of this job that is held, and the job that holds it; (None, None) if its keys are free."""
        for kind, key in _keys(job):
            if (kind, key) in self._held:
                return key, self._held[kind, key]
        return None, None

    def all(self) -> list[Job]:
        return list({job.id: job for job in self._held.values()}.values())


def _given_keys(jobs: Iterable[NewJob | Job]) -> tuple[list[str], list[str]]:
    chosen = list(jobs)
    unique = [job.unique_key for job in chosen if job.unique_key is not None]
    return unique, [job.idempotency_key for job in chosen if job.idempotency_key is not None]


def _keys(job: NewJob | Job) -> list[tuple[str, str]]:
    pairs: tuple[tuple[str, Any], ...] = (("unique", job.unique_key), ("idempotent", job.idempotency_key))
    return [(kind, key) for kind, key in pairs if key is not None]
