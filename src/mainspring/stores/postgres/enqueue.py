"""Jobs into the PostgreSQL store: all of a call or none."""

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
# What has ended is no longer where the insert would meet it; nor is what ends meanwhile, so both tables are looked at,
# as they are at one moment. The array is found once, and almost always empty.
_INSERT = f"""{_INTO}
    SELECT id, queue, task, rank, run_at, $11, expires_at, schedule, tags::text[], options, payload, 'pending'
    FROM unnest($1::text[], $2::text[], $3::text[], $4::{BIGINT_ARRAY}, $5::{BIGINT_ARRAY}, $6::{BIGINT_ARRAY},
        $7::text[], $8::text[], $9::text[], $10::text[])
        AS job (id, queue, task, rank, run_at, expires_at, schedule, tags, options, payload)
    WHERE id <> ALL (ARRAY(SELECT id FROM mainspring_jobs WHERE id = ANY($1)
        UNION ALL SELECT id FROM mainspring_finished WHERE id = ANY($1)))
    ON CONFLICT (id) DO NOTHING"""
_INSERT_ONE = "SELECT mainspring_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
# From so many on a COPY is faster.
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


async def insert(db: Session, jobs: Sequence[NewJob], now: datetime, word: str | None = None) -> list[Enqueued]:
    """Jobs without keys: one statement. With a single one a word may ride along."""
    us = micros(now)
    if len(jobs) == 1:
        await db.run(_INSERT_ONE, *_new_row(jobs[0], us)[:-1], None if word is None else db.url.channel, word)
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
    """One of the jobs was there before."""


async def copy(db: Session, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    """Many jobs without keys, inside a transaction; Known: none of them, and they go another way."""
    us = micros(now)
    try:
        await db.copy("mainspring_jobs", _NEW.split(", "), [_new_row(job, us) for job in jobs])
    except asyncpg.UniqueViolationError as error:
        raise AlreadyInserted from error
    # Afterwards: what has ended by now is there, what has not would have been in the way. Ids grow with time, so
    # there is hardly one between the first and the last of these.
    ids = {job.id for job in jobs}
    ended = await db.rows(_FINISHED_IDS, min(ids), max(ids))
    if any(id in ids for (id,) in ended):
        raise AlreadyInserted
    return [Enqueued(job.id) for job in jobs]


async def enqueue(db: Session, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    """Inside a transaction."""
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
    """Locked, if one of them may be changed."""
    holders = await Holders.of_new(db, jobs)
    held = holders.all()
    changes = any(job.on_conflict in ("replace", "debounce") for job in jobs)
    if held and (changes or any(job.shown(now) == "expired" for job in held)):
        await schedules.lock_schedules(db, counted_schedules_of(held))
        await lock_jobs(db, [job.id for job in held])
        holders = await Holders.of_new(db, jobs)
    return holders


class Admission:
    """What one call makes of its jobs, in order, before anything is written."""

    def __init__(self, holders: Holders, now: datetime) -> None:
        """`holders` are those that were met() by all jobs that will ask."""
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
        key, held = self.holders.holder(new)
        while held is not None and held.shown(self._now) == "expired":
            gone = replace(held, state=State.EXPIRED, finished_at=self._now)
            self.put(held, gone)
            self.ended.append((held, gone))
            key, held = self.holders.holder(new)
        if held is not None and new.on_conflict == "raise":
            return Enqueued(held.id, "refused", key)
        if held is not None:
            changed, status = resolve_conflict(held, new, self._now)
            if changed is not held:
                self.put(held, changed)
            return Enqueued(held.id, status, key)
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
        """A job that this call has made or changed, as it is by now."""
        return self.new.get(id) or (self.changed[id][1] if id in self.changed else None)

    async def write(self, db: Session) -> None:
        await write_jobs(db, list(self.changed.values()))  # first, as one of them may let go of a key
        await insert_jobs(db, list(self.new.values()))
