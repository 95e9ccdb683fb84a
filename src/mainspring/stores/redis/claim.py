"""Jobs out of Redis under a lease, and the workers that hold them."""

from __future__ import annotations

import os
from collections.abc import Collection
from datetime import datetime

from ...clock import instant, micros
from ...job import Beat, Claim, Job, JobId, LiveWorker, Orders, State, WorkerId, WorkerInfo
from ..memory import claim as memory
from .changes import commit
from .index import Arguments
from .known import Known, live, load, read_hash, read_jobs, worker_text
from .lists import group_names
from .part import Part
from .play import play
from .pool import Pool, Word
from .records import taken, unpacked


async def claim(
    pool: Pool, queues: Collection[str] | None, worker: WorkerId, tasks: Collection[str], limit: int, now: datetime
) -> Claim:
    lease, us = os.urandom(8).hex(), micros(now)
    named = list(queues) if queues is not None else []
    words: list[Word] = [us, limit, worker, lease, -1 if queues is None else len(named), len(tasks), *named, *tasks]
    word, *answer = await pool.script("claim", words)
    if word in (b"silent", b"look"):
        return await _look(pool, queues, worker, tasks, limit, now)
    pairs = answer[0]
    jobs = [taken(id, text, lease, worker, now) for id, text in zip(pairs[::2], pairs[1::2], strict=True)]
    return Claim(jobs, None if word == b"" else max(now, instant(int(float(word)))))


async def _look(
    pool: Pool, queues: Collection[str] | None, worker: WorkerId, tasks: Collection[str], limit: int, now: datetime
) -> Claim:
    """A claim in which more than the order has a say: played on all that it may meet."""
    paused = {name.decode() for name in await pool.call("SMEMBERS", f"{pool.place.base}:paused")}

    async def prepare(known: Known) -> None:
        await load(pool, known, "worker", [worker])
        await load(pool, known, "circuits", [""])
        await load(pool, known, "job", await _candidates(pool, limit, now))

    def verb(part: Part) -> Claim:
        expired = part.jobs.expire(now)
        if not part.workers.alive(worker, now):
            return Claim([], None, expired)
        return Claim(*memory.claim(part.jobs, part.ledger, paused, queues, worker, tasks, limit, now), expired)

    return await play(pool, verb, now, prepare)


async def _candidates(pool: Pool, limit: int, now: datetime) -> list[JobId]:
    """The first of every group, suspects, and what has expired or will be the next to."""
    base, us = pool.place.base, micros(now)
    expired = await pool.call("ZRANGEBYSCORE", f"{base}:expiring", "-inf", us)
    commands: list[Arguments] = [("SMEMBERS", f"{base}:suspect"), ("ZRANGE", f"{base}:expiring", 0, len(expired))]
    for name in await group_names(pool):
        commands.append(("ZRANGE", f"{base}:ready:{name}", 0, limit + len(expired)))
        commands.append(("ZRANGE", f"{base}:later:{name}", 0, limit + len(expired)))
    suspects, first, *entries = await pool.many(commands)
    ids = {*suspects, *first, *expired, *(entry[10:] for some in entries for entry in some)}
    return [unpacked(id) for id in ids]


async def beat(pool: Pool, worker: WorkerInfo, until: datetime, now: datetime) -> Beat:
    base = pool.place.base
    while True:
        known = Known()
        known.workers |= await read_hash(pool, f"{base}:worker")
        await load(pool, known, "worker", [worker.id])
        part = Part(known)
        orders = part.workers.beat(worker, until, now)
        if await commit(pool, known, list(_rows(base, known, part.workers))):
            break
    ids = [unpacked(id) for id in await pool.call("SMEMBERS", f"{base}:held:{worker.id}")]
    mine = [job for _, job in (await read_jobs(pool, ids)).values() if job is not None and job.state is State.RUNNING]
    cancels = {job.id: job.cancel_reason for job in mine if job.cancel_reason is not None}
    return Beat({job.id: job.lease or "" for job in mine}, cancels, orders)


def _rows(base: str, known: Known, workers: dict[WorkerId, LiveWorker]) -> list[Arguments]:
    """What is to be written of workers; only those rows have to be as they were read."""
    commands: list[Arguments] = []
    for id, text in list(known.workers.items()):
        new = workers.get(id)
        fresh = None if new is None else worker_text(new)
        if fresh == text:
            del known.workers[id]
        elif new is None or fresh is None:
            commands += (("HDEL", f"{base}:worker", id), ("HDEL", f"{base}:until", id))
        else:
            commands += (("HSET", f"{base}:worker", id, fresh), ("HSET", f"{base}:until", id, micros(new.until)))
    return commands


async def order(pool: Pool, workers: Collection[WorkerId] | None, orders: Orders, now: datetime) -> list[WorkerId]:
    while True:
        known = Known()
        known.workers |= await read_hash(pool, f"{pool.place.base}:worker")
        part = Part(known)
        found = part.workers.order(workers, orders, now)
        if await commit(pool, known, list(_rows(pool.place.base, known, part.workers))):
            return found


async def expired(pool: Pool, now: datetime, limit: int) -> list[Job]:
    base = pool.place.base
    holders = [name.decode() for name in await pool.call("SMEMBERS", f"{base}:holders")]
    rows = await read_hash(pool, f"{base}:worker")
    silent = [name for name in holders if name not in rows or live(rows[name]).until <= now]
    ids: set[bytes] = set()
    if silent:
        for some in await pool.many([("SMEMBERS", f"{base}:held:{name}") for name in silent]):
            ids.update(some)
    found = await read_jobs(pool, [unpacked(id) for id in sorted(ids)[:limit]])
    return [job for _, job in found.values() if job is not None and job.state is State.RUNNING]
