"""How the PostgreSQL store enqueues jobs: all jobs of a call, or none if one is refused.

One job without keys is a call of the function mainspring_put, a few are one INSERT, MIN_COPY_ROWS or more are a COPY.
Jobs with keys need a transaction: it locks the keys, reads their holders, decides in memory (Admission), and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import asyncpg
from msgspec.structs import replace

from ...clock import micros
from ...ids import JobId
from ...records.job import Enqueued, Job, NewJob, State
from ..rows import options_of
from ..rules import resolve_conflict, to_job
from . import schedules
from .jobs import (
    Holders,
    JobPair,
    apply_job_changes,
    array_text,
    counted_schedules_of,
    insert_jobs,
    lock_jobs,
    lock_keys,
    write_jobs,
)
from .pool import BIGINT_ARRAY, Session

_NEW = "id, queue, task, rank, run_at, created_at, expires_at, schedule, tags, options, payload, state"
_INTO = f"INSERT INTO mainspring_jobs ({_NEW})"
# A finished job is not in the table of the insert, and a job may finish meanwhile; so both tables are searched, in one
# snapshot. The array is computed once, and is almost always empty.
_INSERT = f"""{_INTO}
    SELECT id, queue, task, rank, run_at, $11, expires_at, schedule, tags::text[], options, payload, 'pending'
    FROM unnest($1::text[], $2::text[], $3::text[], $4::{BIGINT_ARRAY}, $5::{BIGINT_ARRAY}, $6::{BIGINT_ARRAY},
        $7::text[], $8::text[], $9::text[], $10::text[])
        AS job (id, queue, task, rank, run_at, expires_at, schedule, tags, options, payload)
    WHERE id <> ALL (ARRAY(SELECT id FROM mainspring_jobs WHERE id = ANY($1)
        UNION ALL SELECT id FROM mainspring_finished WHERE id = ANY($1)))
    ON CONFLICT (id) DO NOTHING"""
_INSERT_ONE = "SELECT mainspring_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
# From this many jobs on, COPY is faster.
MIN_COPY_ROWS = 100


def has_keys(jobs: Sequence[NewJob]) -> bool:
    return any(job.unique_key is not None or job.idempotency_key is not None for job in jobs)


def _new_row(job: NewJob, now: int) -> tuple[Any, ...]:
    return (
        job.id,
        job.queue,
        job.task,
        -job.priority,
        now if job.run_at is None else micros(job.run_at),
        now,
        None if job.expires_at is None else micros(job.expires_at),
        job.schedule,
        list(job.tags) or None,
        options_of(job),
        job.payload,
        "pending",
    )


async def insert(db: Session, jobs: Sequence[NewJob], now: datetime, notification: str | None = None) -> list[Enqueued]:
    """Inserts jobs without keys in one statement. With a single job, a notification is sent in the same statement."""
    us = micros(now)
    if len(jobs) == 1:
        await db.run(
            _INSERT_ONE, *_new_row(jobs[0], us)[:-1], None if notification is None else db.url.channel, notification
        )
    else:
        (ids, queues, tasks, ranks, due, _, expire, schedules, tags, options, payloads, _) = zip(
            *(_new_row(job, us) for job in jobs), strict=True
        )
        texts = [array_text(some) for some in tags]
        ends = [None if at is None else str(at) for at in expire]
        await db.run(
            _INSERT,
            ids,
            queues,
            tasks,
            [*map(str, ranks)],
            [*map(str, due)],
            ends,
            schedules,
            texts,
            options,
            payloads,
            us,
        )
    return [Enqueued(job.id) for job in jobs]


_FINISHED_IDS = "SELECT id FROM mainspring_finished WHERE id >= $1 AND id <= $2"


class AlreadyInserted(Exception):
    """One of the jobs exists already."""


async def copy(db: Session, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    """Copies many jobs without keys, inside a transaction. Raises AlreadyInserted if one exists."""
    us = micros(now)
    try:
        await db.copy("mainspring_jobs", _NEW.split(", "), [_new_row(job, us) for job in jobs])
    except asyncpg.UniqueViolationError as error:
        raise AlreadyInserted from error
    # Checked after the COPY: a job that exists has ended by now, or the COPY would have failed. Ids grow with time, so
    # hardly any finished job has an id between the first and the last of these.
    ids = {job.id for job in jobs}
    ended = await db.rows(_FINISHED_IDS, min(ids), max(ids))
    if any(id in ids for (id,) in ended):
        raise AlreadyInserted
    return [Enqueued(job.id) for job in jobs]


async def enqueue(db: Session, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    """Enqueues jobs with or without keys, inside a transaction."""
    if not jobs or not has_keys(jobs):
        return await insert(db, jobs, now) if jobs else []
    await lock_keys(db, jobs)
    holders = await _holders(db, jobs, now)
    admission = Admission(holders, now)
    for n, job in enumerate(jobs):
        if admission.admit(job).status == "refused":
            return [admission.answers[n] if i == n else Enqueued(other.id, "refused") for i, other in enumerate(jobs)]
    await admission.write(db)
    await apply_job_changes(db, admission.ended)
    return admission.answers


async def _holders(db: Session, jobs: Sequence[NewJob], now: datetime) -> Holders:
    """The holders of the jobs' keys, locked if one of them may be changed."""
    holders = await Holders.of_new(db, jobs)
    held = holders.all()
    changes = any(job.on_conflict in ("replace", "debounce") for job in jobs)
    if held and (changes or any(job.shown(now) == "expired" for job in held)):
        await schedules.lock_schedules(db, counted_schedules_of(held))
        await lock_jobs(db, [job.id for job in held])
        holders = await Holders.of_new(db, jobs)
    return holders


class Admission:
    """Decides for the jobs of one call, in order and in memory: insert, change the holder, or refuse. Then writes."""

    def __init__(self, holders: Holders, now: datetime) -> None:
        """`holders` must have been read (Holders.of_new) for all jobs that are admitted."""
        self.holders = holders
        self._known, self._now = set(holders.ids), now
        self.answers: list[Enqueued] = []
        self.new: dict[JobId, Job] = {}
        self.changed: dict[JobId, JobPair] = {}
        self.ended: list[JobPair] = []

    def admit(self, new: NewJob) -> Enqueued:
        self.answers.append(self._admit(new))
        return self.answers[-1]

    def _admit(self, new: NewJob) -> Enqueued:
        if new.id in self._known:
            return Enqueued(new.id)
        key, other = self.holders.holder(new)
        while other is not None and other.shown(self._now) == "expired":
            expired = replace(other, state=State.EXPIRED, finished_at=self._now)
            self.put(other, expired)
            self.ended.append((other, expired))
            key, other = self.holders.holder(new)
        if other is not None and new.on_conflict == "raise":
            return Enqueued(other.id, "refused", key)
        if other is not None:
            changed, status = resolve_conflict(other, new, self._now)
            if changed is not other:
                self.put(other, changed)
            return Enqueued(other.id, status, key)
        self._known.add(new.id)
        self.new[new.id] = job = to_job(new, self._now)
        self.holders.put(job)
        return Enqueued(new.id)

    def put(self, old: Job, job: Job) -> None:
        if old.id in self.new:
            self.new[old.id] = job
        else:
            self.changed[old.id] = (self.changed.get(old.id, (old,))[0], job)
        self.holders.put(job)

    def current(self, id: JobId) -> Job | None:
        """The job as this call has created or changed it; None if it has not."""
        return self.new.get(id) or (self.changed[id][1] if id in self.changed else None)

    async def write(self, db: Session) -> None:
        await write_jobs(db, list(self.changed.values()))  # first, as one of them may release a key
        await insert_jobs(db, list(self.new.values()))
