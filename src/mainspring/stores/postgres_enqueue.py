"""Jobs into the PostgreSQL store: all of a call or none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from ..clock import micros
from ..job import Enqueued, Job, JobId, NewJob, State
from . import postgres_series as series
from .postgres_jobs import Holders, Pair, create, follow, lock, lock_keys, series_of, write
from .postgres_pool import Session
from .rows import options_of
from .rules import admit, meet

# What has ended is no longer where the insert would meet it; nor is what ends meanwhile, so both tables are looked at,
# as they are at one moment. The array is found once, and almost always empty.
_INSERT = """INSERT INTO mainspring_jobs
        (id, queue, task, rank, state, run_at, created_at, expires_at, schedule, tags, options, payload)
    SELECT id, queue, task, rank, 'pending', run_at, $6, expires_at, schedule, tags::text[], options, payload
    FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::bigint[], $7::bigint[], $8::text[], $9::text[],
        $10::text[], $11::text[]) AS job (id, queue, task, rank, run_at, expires_at, schedule, tags, options, payload)
    WHERE id <> ALL (ARRAY(SELECT id FROM mainspring_jobs WHERE id = ANY($1)
        UNION ALL SELECT id FROM mainspring_finished WHERE id = ANY($1)))
    ON CONFLICT (id) DO NOTHING"""


def keyed(jobs: Sequence[NewJob]) -> bool:
    return any(job.unique_key is not None or job.idempotency_key is not None for job in jobs)


async def insert(db: Session, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    """Jobs without keys: one statement."""
    us = micros(now)
    await db.run(
        _INSERT,
        [job.id for job in jobs],
        [job.queue for job in jobs],
        [job.task for job in jobs],
        [-job.priority for job in jobs],
        [us if job.run_at is None else micros(job.run_at) for job in jobs],
        us,
        [None if job.expires_at is None else micros(job.expires_at) for job in jobs],
        [job.schedule for job in jobs],
        [_array(job.tags) if job.tags else None for job in jobs],
        [options_of(job) for job in jobs],
        [job.payload for job in jobs],
    )
    return [Enqueued(job.id) for job in jobs]


def _array(texts: Sequence[str]) -> str:
    """As PostgreSQL writes it: an array of arrays of different sizes has no other way in."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"


async def enqueue(db: Session, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    """Inside a transaction."""
    if not jobs or not keyed(jobs):
        return await insert(db, jobs, now) if jobs else []
    await lock_keys(db, jobs)
    desk = _Desk(await _known(db, jobs), await _holders(db, jobs, now), now)
    for n, job in enumerate(jobs):
        if desk.admit(job).status == "refused":
            return [desk.answers[n] if i == n else Enqueued(other.id, "refused") for i, other in enumerate(jobs)]
    await write(db, list(desk.changed.values()))  # first, as one of them may let go of a key
    await create(db, list(desk.new.values()))
    await follow(db, desk.ended)
    return desk.answers


async def _known(db: Session, jobs: Sequence[NewJob]) -> set[JobId]:
    sql = """SELECT id FROM mainspring_jobs WHERE id = ANY($1)
        UNION ALL SELECT id FROM mainspring_finished WHERE id = ANY($1)"""
    return {id for (id,) in await db.rows(sql, [job.id for job in jobs])}


async def _holders(db: Session, jobs: Sequence[NewJob], now: datetime) -> Holders:
    """Locked, if one of them may be changed."""
    holders = await Holders.of(db, jobs)
    held = holders.all()
    changes = any(job.on_conflict in ("replace", "debounce") for job in jobs)
    if held and (changes or any(job.shown(now) == "expired" for job in held)):
        await series.lock(db, series_of(held))
        await lock(db, [job.id for job in held])
        holders = await Holders.of(db, jobs)
    return holders


class _Desk:
    """What one call makes of its jobs, in order, before anything is written."""

    def __init__(self, known: set[JobId], holders: Holders, now: datetime) -> None:
        self._known, self._holders, self._now = known, holders, now
        self.answers: list[Enqueued] = []
        self.new: dict[JobId, Job] = {}
        self.changed: dict[JobId, Pair] = {}
        self.ended: list[Pair] = []

    def admit(self, new: NewJob) -> Enqueued:
        self.answers.append(self._admit(new))
        return self.answers[-1]

    def _admit(self, new: NewJob) -> Enqueued:
        if new.id in self._known:
            return Enqueued(new.id)
        key, held = self._holders.holder(new)
        while held is not None and held.shown(self._now) == "expired":
            gone = replace(held, state=State.EXPIRED, finished_at=self._now)
            self._put(held, gone)
            self.ended.append((held, gone))
            key, held = self._holders.holder(new)
        if held is not None and new.on_conflict == "raise":
            return Enqueued(held.id, "refused", key)
        if held is not None:
            changed, status = meet(held, new, self._now)
            if changed is not held:
                self._put(held, changed)
            return Enqueued(held.id, status, key)
        self._known.add(new.id)
        self.new[new.id] = job = admit(new, self._now)
        self._holders.put(job)
        return Enqueued(new.id)

    def _put(self, old: Job, job: Job) -> None:
        if old.id in self.new:
            self.new[old.id] = job
        else:
            self.changed[old.id] = (self.changed.get(old.id, (old,))[0], job)
        self._holders.put(job)
