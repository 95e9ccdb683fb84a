"""Enqueue: plain jobs and jobs with free keys by enqueue.lua, one plain job by enqueue_one.lua, others by the rule.

An item that is collected is added by collect.lua.

The scripts repeat the rule rules.enqueue.enqueue for jobs whose keys are free; test_twin.py compares them with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ...clock import micros
from ...errors import StoreUnavailable
from ...records.job import Enqueued, NewJob
from ..rules import enqueue as rules
from ..rules.finish import older_workers_text
from ..rules.keys import keys_of
from ..rules.loaded import LoadedTables
from ..rules.read_sets import KnownValues, Name, of_new_jobs
from .attempts import Attempts
from .collect import add_items
from .connection import Arg
from .enqueue_items import enqueue_items, plain_items
from .enqueue_limited import admit_limited, check_holders
from .handle import RedisHandle
from .index import group, has_creation_time
from .new_jobs import MAX_JOBS, Paired, by_group, unit_of_jobs
from .records import claim_key, new_record, packed
from .releases import older_workers
from .shard import Shard, Shards
from .transact import transact
from .two_phase import commit_one, job_locks, resolve, transactions_in

# Jobs per MULTI of several calls. More jobs, and those of several shards, are written by a two-phase commit.
MAX_TRANSACTION = 10_000


def is_plain(job: NewJob, id: bytes, now: int) -> bool:
    """Whether enqueue.lua can add the job: it has no keys, and is plain but for them."""
    return job.unique_key is None and job.idempotency_key is None and is_plain_but_for_keys(job, id, now)


def is_plain_but_for_keys(job: NewJob, id: bytes, now: int) -> bool:
    """Whether enqueue.lua can add it if its keys are free: no schedule, expiry, tags, flow; an id with a time."""
    simple = job.schedule is None and job.expires_at is None and job.step is None and job.plan is None and not job.tags
    return simple and has_creation_time(id, now)


class RedisEnqueue(RedisHandle):
    """Adds jobs."""

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        shards = self._open()
        if within is not None:
            self.capabilities.require_transactions("within=")
        if not jobs:
            return []
        us = micros(now)
        with self._clock.outside():
            if len(jobs) == 1 and (args := _args_of_one(jobs[0], us)) is not None:
                await shards.of(jobs[0].queue).script("enqueue_one", args)
                answers = [Enqueued(jobs[0].id)]
            elif len(jobs) == 1 and jobs[0].collect is not None and (added := await add_items(shards, jobs[0], us)):
                return [added]  # nothing is due earlier than before
            else:
                answers = await _enqueue_batch(shards, jobs, now, us)
        self._wakeups.notify("new")
        return answers


def _args_of_one(job: NewJob, now: int) -> tuple[Arg, ...] | None:
    """The arguments of enqueue_one.lua, which does what enqueue.lua does, without what only batches need.

    None if the job is not plain or due later.
    """
    id, run_at = packed(job.id), now if job.run_at is None else micros(job.run_at)
    if run_at > now or job.limit_key is not None or not is_plain(job, id, now):
        return None
    return "new", id, new_record(job, now), group(job.queue, job.task), claim_key(job.priority, run_at, id)


async def _enqueue_batch(shards: Shards, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued]:
    if any(job.limit_key is not None for job in jobs):
        await admit_limited(shards, jobs, now)
    pairs = [(job, packed(job.id)) for job in jobs]
    if all(is_plain(job, id, us) for job, id in pairs):
        await _enqueue_plain(shards, pairs, us)
    elif not await _enqueue_with_keys(shards, pairs, us):
        return await _enqueue_by_rule(shards, jobs, now, us)
    return [Enqueued(job.id) for job in jobs]


async def _enqueue_by_rule(shards: Shards, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued]:
    if (ids := plain_items(jobs, us)) is not None and await enqueue_items(shards, jobs, ids, now):
        return [Enqueued(job.id) for job in jobs]
    if any(job.plan is not None for job in jobs) and (alive := await older_workers(shards, now)):
        raise StoreUnavailable(older_workers_text(alive))

    def needs(jobs: Sequence[NewJob], known: KnownValues) -> Iterator[Name]:
        return of_new_jobs(jobs, known, now)

    def rule(tables: LoadedTables, jobs: Sequence[NewJob]) -> list[Enqueued]:
        answers = rules.enqueue(tables, jobs, now)
        check_holders(shards, jobs, tables)
        return answers

    (answers,) = await transact(shards, "enqueue", [jobs], needs, rule, now, "new")
    return answers


async def _enqueue_with_keys(shards: Shards, pairs: Paired, now: int) -> bool:
    """Adds jobs with keys if all keys are free and in one shard; False if it added none."""
    if len(shards.all) > 1 or len(pairs) > MAX_JOBS or not all(is_plain_but_for_keys(*pair, now) for pair in pairs):
        return False
    keys = [(key, id) for job, id in pairs for key in keys_of(job)]
    if len({key for key, _ in keys}) < len(keys) or len({id for _, id in pairs}) < len(pairs):
        return False  # jobs of the batch conflict with each other
    return bool(await shards.first.script("enqueue", _script_args(pairs, now, keys)))


async def _enqueue_plain(shards: Shards, pairs: Paired, now: int) -> None:
    """Adds all of these plain jobs or none, whatever their number and shards."""
    shares: dict[Shard, list[tuple[NewJob, bytes]]] = {}
    for pair in pairs:
        shares.setdefault(shards.of(pair[0].queue), []).append(pair)
    (shard, jobs), *others = shares.items()
    if others or len(jobs) > MAX_TRANSACTION:
        await _enqueue_across(shards, shares, now)
    elif len(jobs) <= MAX_JOBS:
        await shard.script("enqueue", _script_args(jobs, now))
    else:
        starts = range(0, len(jobs), MAX_JOBS)
        await shard.scripts("enqueue", [_script_args(jobs[start : start + MAX_JOBS], now) for start in starts])


async def _enqueue_across(shards: Shards, shares: dict[Shard, list[tuple[NewJob, bytes]]], now: int) -> None:
    """Adds the jobs by a two-phase commit. Jobs whose ids exist are left alone, so a repeated call changes nothing."""
    attempts = Attempts(shards, "enqueue")
    while not await commit_one(shards, unit_of_jobs(shares, now), "new"):
        await attempts.pause()
        for shard, jobs in shares.items():
            existing = await _existing(shards, shard, [id for _, id in jobs])
            shares[shard] = [(job, id) for job, id in jobs if id not in existing]


async def _existing(shards: Shards, shard: Shard, ids: Sequence[bytes]) -> set[bytes]:
    """The ids of jobs that exist, or existed and moved away. Transactions that write one of them are resolved first."""
    existing = set[bytes]()
    for start in range(0, len(ids), MAX_JOBS):
        some = ids[start : start + MAX_JOBS]
        jobs, moved, locks = await shard.multi(
            [
                ("HMGET", f"{shard.base}:job", *some),
                ("HMGET", f"{shard.base}:moved", *some),
                job_locks(shard, some),
            ]
        )
        for transaction in transactions_in(locks):
            await resolve(shards, shard, transaction)
        found = zip(some, jobs, moved, strict=True)
        existing |= {id for id, job, gone in found if job is not None or gone is not None}
    return existing


def _script_args(jobs: Paired, now: int, keys: Sequence[tuple[str, bytes]] = ()) -> list[Arg]:
    """The arguments of enqueue.lua."""
    records, groups = by_group(jobs, now)
    args: list[Arg] = ["new", len(jobs), len(keys), *records]
    for pair in keys:
        args += pair
    for key, id in keys:
        args += ("0", key[1:].encode() + b"\0" + id)
    for name, made, ready, later, listed in groups:
        args += (name, len(made), len(ready), len(later), len(listed), *made, *ready, *later, *listed)
    return args
