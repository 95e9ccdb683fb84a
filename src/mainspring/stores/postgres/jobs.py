"""The two tables of jobs, unfinished and finished: finding rows, locking them, writing them back.

Locks are taken in one order by every verb: keys, schedules, jobs, circuits. So two of them rarely wait for each
other in a ring, and where they do PostgreSQL ends one, which is played again.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from ...job import Job, JobId, NewJob, State
from ..rows import COLUMNS, Row, job_of, row_of
from . import series
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


# writing


def _places(count: int) -> str:
    return ", ".join(f"${n}" for n in range(1, count + 1))


_WIDTH = BOTH.count(",") + 1
_INSERT = f"INSERT INTO {{}} ({BOTH}) VALUES ({_places(_WIDTH)})"
# An enqueue that is repeated at the very moment its job ends may bring it back: it runs again, and its end is the last.
OVER = " ON CONFLICT (id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in [*BOTH.split(", ")[1:], "ending"]
)
_STAND = "UPDATE mainspring_jobs SET state = $2, lease = $3, worker = $4 WHERE id = $1"
_UPDATE = f"UPDATE mainspring_jobs SET ({BOTH}) = ({_places(_WIDTH)}) WHERE id = $1"


def _row(job: Job) -> Row:
    kind = None if job.failure is None else job.failure.kind
    return (*row_of(job), kind, list(job.tags) or None, job.schedule)


async def write(db: Session, pairs: Sequence[Pair]) -> None:
    """Each job, which the caller has locked, as it is to be: in the table of its state.

    The record of one that cannot be decoded stays as it is, but for where it stands.
    """
    if broken := [new for _, new in pairs if new.unreadable]:
        await db.many(_STAND, [(job.id, job.state.value, job.lease, job.worker) for job in broken])
        pairs = [pair for pair in pairs if not pair[1].unreadable]
    stay = [_row(new) for old, new in pairs if not (old.state.final or new.state.final)]
    if stay:
        await db.many(_UPDATE, stay)
    for final, here, there in ((True, "mainspring_jobs", "mainspring_finished"),
                               (False, "mainspring_finished", "mainspring_jobs")):  # fmt: skip
        moved = [new for old, new in pairs if new.state.final is final and old.state.final is not final]
        if moved:
            await db.run(f"DELETE FROM {here} WHERE id = ANY($1)", [job.id for job in moved])
            await db.many(_INSERT.format(there) + (OVER if final else ""), [_row(job) for job in moved])


async def create(db: Session, jobs: Sequence[Job]) -> None:
    """Jobs that were not there before."""
    for final, table in ((False, "mainspring_jobs"), (True, "mainspring_finished")):
        if rows := [_row(job) for job in jobs if job.state.final is final]:
            await db.many(_INSERT.format(table), rows)


async def follow(db: Session, pairs: Iterable[Pair]) -> None:
    """Tells their schedules what became of these jobs."""
    for old, new in pairs:
        if old.series is None:
            continue
        if new.state.final and not old.state.final:
            await series.end(db, old.series, old.id, new.state, new.finished_at or new.run_at, new.result)
        elif old.state.final and not new.state.final:
            await series.revive(db, old.series, old.id)


async def drop(db: Session, jobs: Sequence[Job], now: datetime) -> None:
    """The jobs and all that is kept beside them; their schedules hear of it."""
    ids = [job.id for job in jobs]
    for job in jobs:
        if job.series is not None and not job.state.final:
            await series.end(db, job.series, job.id, None, now)
    for table, column in (("executions", "job_id"), ("logs", "job_id"), ("jobs", "id"), ("finished", "id")):
        await db.run(f"DELETE FROM mainspring_{table} WHERE {column} = ANY($1)", ids)


def series_of(jobs: Iterable[Job]) -> set[str]:
    return {job.series for job in jobs if job.series is not None}


# who holds a key

_HOLDERS = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE unique_key = ANY($1)
    UNION ALL SELECT {COLUMNS} FROM mainspring_jobs WHERE idempotency_key = ANY($2)"""
_DONE = f"SELECT {COLUMNS} FROM mainspring_done($1)"


class Holders:
    """Which job holds each key that some requests name; the caller has locked the keys."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Job] = {}

    @classmethod
    async def of(cls, db: Session, jobs: Iterable[NewJob | Job]) -> Holders:
        jobs = list(jobs)
        unique = [job.unique_key for job in jobs if job.unique_key is not None]
        idempotent = [job.idempotency_key for job in jobs if job.idempotency_key is not None]
        holders = cls()
        if unique or idempotent:
            # In this order: a job that ends meanwhile goes from the first table to the second.
            rows = await db.rows(_HOLDERS, unique, idempotent)
            if idempotent:
                rows += await db.rows(_DONE, idempotent)
            for row in rows:
                holders.put(job_of(row))
        return holders

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


def _keys(job: NewJob | Job) -> list[tuple[str, str]]:
    pairs: tuple[tuple[str, Any], ...] = (("unique", job.unique_key), ("idempotent", job.idempotency_key))
    return [(kind, key) for kind, key in pairs if key is not None]
