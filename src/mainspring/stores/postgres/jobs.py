"""The two tables of jobs, unfinished and finished: finding rows, locking them, writing them back.

Locks are taken in one order by every verb: keys, schedules, jobs, circuits. So two of them rarely wait for each
other in a ring, and where they do PostgreSQL ends one, which is played again.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from ...clock import micros
from ...ids import JobId
from ...records.job import Job, NewJob, State
from ..job_ends import JobEnd, news_of
from ..rows import COLUMNS, NEW_COLUMNS, Row, job_of, new_row, row_of
from . import schedules as series
from .pool import NUMBERS, Session

BESIDE = "error, tags, schedule"
BOTH = f"{COLUMNS}, {BESIDE}"

# Keys share this many locks: a batch of any size must fit into the server's table of locks.
BUCKETS = 512

Pair = tuple[Job, Job]
"""A job as it was, and as it is to be."""


# locks


async def lock_keys(db: Session, jobs: Iterable[NewJob | Job]) -> None:
    """Until the commit nobody else gives these keys away."""
    keys = {key for job in jobs for key in (job.unique_key, job.idempotency_key) if key is not None}
    await lock_names(db, keys)


async def lock_names(db: Session, names: Iterable[str]) -> None:
    buckets = sorted({zlib.crc32(name.encode()) % BUCKETS for name in names})
    if buckets:
        sql = f"SELECT pg_advisory_xact_lock($1, bucket::integer) FROM unnest($2::{NUMBERS}) AS bucket"
        await db.run(sql, db.place.lock, [*map(str, buckets)])


async def lock(db: Session, ids: Collection[JobId], *, finished: bool = False) -> list[Job]:
    """These jobs, in order of id, as they stay until the commit; what was deleted is left out."""
    found = {}
    for table in ("mainspring_jobs", "mainspring_finished") if finished else ("mainspring_jobs",):
        sql = f"SELECT {COLUMNS} FROM {table} WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"
        found.update({row[0]: job_of(row) for row in await db.rows(sql, list(ids))})
    return [found[id] for id in sorted(found)]


async def find(db: Session, ids: Collection[JobId]) -> list[Job]:
    """These jobs as they are at the moment, without a lock."""
    sql = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE id = ANY($1)
        UNION ALL SELECT {COLUMNS} FROM mainspring_finished WHERE id = ANY($1)"""
    return [job_of(row) for row in await db.rows(sql, list(ids))]


# writing


_NAMES = BOTH.split(", ")
# What a job that has never run has to say.
_NEW_NAMES = (*NEW_COLUMNS.split(", "), "tags", "schedule")
_NUMBERS = {"rank", "run_at", "created_at", "expires_at", "attempt", "crashes", "runs", "started_at", "finished_at"}
# Of arrays the driver knows only those of texts, and rows of tags differ in length.
_CASTS = {**dict.fromkeys(_NUMBERS, "::bigint"), "tags": "::text[]"}


def _given(names: Sequence[str]) -> str:
    return ", ".join(f"given.{name}{_CASTS.get(name, '')}" for name in names)


def _batch(names: Sequence[str]) -> str:
    """A batch of rows as one array for each column."""
    arrays = ", ".join(f"${n}::text[]" for n in range(1, len(names) + 1))
    return f"unnest({arrays}) AS given ({', '.join(names)})"


_INSERT = f"INSERT INTO {{}} ({BOTH}) SELECT {_given(_NAMES)} FROM {_batch(_NAMES)}"
# An enqueue that is repeated at the very moment its job ends may bring it back: it runs again, and its end is the last.
OVER = " ON CONFLICT (id) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in [*_NAMES[1:], "ending"])
_UPDATE = f"""UPDATE mainspring_jobs AS job SET ({BOTH}) = ROW ({_given(_NAMES)}) FROM {_batch(_NAMES)}
    WHERE job.id = given.id AND job.id = ANY($1)"""
INSERT_NEW = f"""INSERT INTO mainspring_jobs ({", ".join(_NEW_NAMES)})
    SELECT {_given(_NEW_NAMES)} FROM {_batch(_NEW_NAMES)}"""

Columns = list[Sequence[str | None]]
_STAND = "UPDATE mainspring_jobs SET state = $2, lease = $3, worker = $4 WHERE id = $1"


def _columns(jobs: Iterable[Job]) -> Columns:
    rows = [(*row_of(job), None if job.failure is None else job.failure.kind, array_text(job.tags), job.schedule)
            for job in jobs]  # fmt: skip
    return _texts(_NAMES, rows)


def new_columns(jobs: Iterable[Job]) -> Columns:
    """Jobs that were just admitted, for INSERT_NEW."""
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
    """As PostgreSQL writes it: an array of arrays of different sizes has no other way in."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts or ())
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}" if texts else None


async def write(db: Session, pairs: Sequence[Pair]) -> None:
    """Each job, which the caller has locked, as it is to be: in the table of its state.

    The record of one that cannot be decoded stays as it is, but for where it stands.
    """
    if broken := [new for _, new in pairs if new.unreadable]:
        await db.many(_STAND, [(job.id, job.state.value, job.lease, job.worker) for job in broken])
        pairs = [pair for pair in pairs if not pair[1].unreadable]
    stay = [new for old, new in pairs if not (old.state.final or new.state.final)]
    if stay:
        await db.run(_UPDATE, *_columns(stay))
    for final, here, there in ((True, "mainspring_jobs", "mainspring_finished"),
                               (False, "mainspring_finished", "mainspring_jobs")):  # fmt: skip
        moved = [new for old, new in pairs if new.state.final is final and old.state.final is not final]
        if moved:
            await db.run(f"DELETE FROM {here} WHERE id = ANY($1)", [job.id for job in moved])
            await db.run(_INSERT.format(there) + (OVER if final else ""), *_columns(moved))


async def create(db: Session, jobs: Sequence[Job]) -> None:
    """Jobs that were not there before."""
    if new := [job for job in jobs if job.state is State.PENDING]:
        await db.run(INSERT_NEW, *new_columns(new))
    for final, table in ((False, "mainspring_jobs"), (True, "mainspring_finished")):
        if rest := [job for job in jobs if job.state is not State.PENDING and job.state.final is final]:
            await db.run(_INSERT.format(table), *_columns(rest))


async def follow(db: Session, pairs: Iterable[Pair]) -> None:
    """Tells their schedules what became of these jobs."""
    await series.tell(db, [news for old, new in pairs if (news := news_of(old, new)) is not None])


async def drop(db: Session, jobs: Sequence[Job], now: datetime) -> None:
    """The jobs and all that is kept beside them; their schedules hear of it."""
    ids = [job.id for job in jobs]
    gone = [
        JobEnd(job.counted_schedule, job.id, None, now)
        for job in jobs
        if job.counted_schedule is not None and not job.state.final
    ]
    await series.tell(db, gone)
    for table, column in (("executions", "job_id"), ("logs", "job_id"), ("jobs", "id"), ("finished", "id")):
        await db.run(f"DELETE FROM mainspring_{table} WHERE {column} = ANY($1)", ids)


def series_of(jobs: Iterable[Job]) -> set[str]:
    return {job.counted_schedule for job in jobs if job.counted_schedule is not None}


# who holds a key

# One statement, so that all of it sees one state: a job that ends goes from one table to the other.
_HOLDERS = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE unique_key = ANY($1)
    UNION ALL SELECT {COLUMNS} FROM mainspring_jobs WHERE idempotency_key = ANY($2)
    UNION ALL SELECT {COLUMNS} FROM mainspring_done($2)"""
_MET = f"""{_HOLDERS} UNION ALL SELECT {COLUMNS} FROM mainspring_jobs WHERE id = ANY($3)
    UNION ALL SELECT {COLUMNS} FROM mainspring_finished WHERE id = ANY($3)"""


class Holders:
    """Which job holds each key that some requests name; the caller has locked the keys."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Job] = {}
        self.ids: set[JobId] = set()
        """Of the jobs that were met."""

    @classmethod
    async def of(cls, db: Session, jobs: Iterable[NewJob | Job]) -> Holders:
        given, holders = _given_keys(jobs), cls()
        if any(given):
            holders._meet(await db.rows(_HOLDERS, *given))
        return holders

    @classmethod
    async def met(cls, db: Session, jobs: Sequence[NewJob]) -> Holders:
        """The same, and which of these jobs are there already."""
        holders = cls()
        if jobs:
            holders._meet(await db.rows(_MET, *_given_keys(jobs), [job.id for job in jobs]))
        return holders

    def _meet(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.put(job_of(row))
            self.ids.add(row[0])

    def put(self, job: Job) -> None:
        """The job as it is now holds its keys, or lets go of them."""
        for kind, key in _keys(job):
            free = job.state.final and not (kind == "idempotent" and job.state is State.COMPLETED)
            if not free:
                self._held[kind, key] = job
            elif (kind, key) in self._held and self._held[kind, key].id == job.id:
                del self._held[kind, key]

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
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
