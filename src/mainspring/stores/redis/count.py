"""Counts of jobs by state, queue, task and error, from the sizes of the index sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from ...clock import instant, micros
from ...records.job import UNREADABLE, Job, Shown, State
from ...records.queue import DeadGroup, Overview, Queue
from .access_paths import group_names
from .handle import RedisHandle
from .hashes import read_hash
from .job_reads import read_shard
from .queues import paused_queues
from .records import CLAIM_PARTS, circuits_of, unpacked
from .shard import Shard

_ASIDE = UNREADABLE.encode()
ByQueue = dict[str, Counter[str]]
# Up to this number, jobs past their expires_at that no claim has ended yet are counted one by one.
MAX_LATE_JOBS = 5_000
# Of more, this number of the first and of the last is counted, and scaled up.
LATE_SAMPLE_JOBS = 500
# Jobs read per round trip.
BATCH_JOBS = 500


class RedisCount(RedisHandle):
    """Counts of jobs."""

    async def overview(self, *, now: datetime, finished: bool = True) -> Overview:
        async def count(shard: Shard) -> tuple[ByQueue, dict[tuple[str, str], int]]:
            return await _count_waiting(shard, now), await register_sizes(shard, "ends", "ended")

        shards, waiting, states = self._open(), ByQueue(), Counter[Any]()
        first = shards.first
        with self._clock.outside():
            for found, ended in await shards.each(count):
                waiting |= found
                for some in found.values():
                    states.update(some)
                for (state, _), size in ended.items():
                    states[state] += size
            circuits = circuits_of(await read_hash(first, f"{first.base}:circuit"))
            queues = _queues(waiting, await paused_queues(shards))
        return Overview(dict(+states), queues, [circuits[task] for task in sorted(circuits)])

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        shards, sizes = self._open(), Counter[tuple[str, str]]()
        with self._clock.outside():
            for some in await shards.each(lambda shard: register_sizes(shard, "kinds", "dead")):
                sizes.update(some)
            most = sorted(sizes.items(), key=lambda one: (-one[1], *one[0]))[:limit]
            if not most:
                return []
            last = await shards.each(lambda shard: _newest_dead(shard, [group for group, _ in most]))
        found = []
        for n, ((task, error), size) in enumerate(most):
            at, newest = max(some[n] for some in last)
            found.append(DeadGroup(task=task, error=error, count=size, newest=unpacked(newest), last_at=instant(at)))
        return found


async def _count_waiting(shard: Shard, now: datetime) -> ByQueue:
    """Number of jobs that are not final, by queue and shown state."""
    base, us = shard.base, micros(now)
    groups = await group_names(shard)
    queues = sorted({name.partition("\0")[0] for name in groups})
    commands: list[tuple[Any, ...]] = []
    for name in groups:
        commands += (
            ("ZCARD", f"{base}:ready:{name}"),
            ("ZCOUNT", f"{base}:later:{name}", "-inf", us),
            ("ZCARD", f"{base}:later:{name}"),
            ("ZCOUNT", f"{base}:limited:{name}", "-inf", us),
            ("ZCARD", f"{base}:limited:{name}"),
        )
    for name in queues:
        commands += (("ZCOUNT", f"{base}:again:{name}", "-inf", us), ("ZCARD", f"{base}:again:{name}"))
    commands += (
        ("HVALS", f"{base}:run"),
        ("SMEMBERS", f"{base}:parks"),
        ("SMEMBERS", f"{base}:suspect"),
        ("ZCOUNT", f"{base}:expiring", "-inf", us),
    )
    answers = iter(await shard.multi(commands))
    found: ByQueue = {}
    for name in groups:
        count = found.setdefault(name.partition("\0")[0], Counter())
        ready, due, later, limited_due, limited = (next(answers) for _ in range(5))
        count["pending"] += ready + due + limited_due
        count["scheduled"] += later - due + limited - limited_due
    for name in queues:
        due, all = next(answers), next(answers)
        found[name]["retrying"] += all
        found[name]["pending"] -= due
        found[name]["scheduled"] -= all - due
    for claim in next(answers):
        parts = claim.split(b"\0")
        if len(parts) in CLAIM_PARTS and parts[0] != _ASIDE:
            found.setdefault(parts[4].decode(), Counter())["running"] += 1
    parks, suspects, late = next(answers), set(next(answers)), next(answers)
    await _count_parked(shard, found, [name.decode() for name in parks])
    for job in await _pending(shard, sorted(suspects)):  # they are in no set that was counted
        found.setdefault(job.queue, Counter())[job.shown(now)] += 1
    await _count_expired(shard, found, late, suspects, now)
    return {name: +count for name, count in found.items() if +count}


async def _count_parked(shard: Shard, found: ByQueue, parks: list[str]) -> None:
    sizes = await shard.multi([("SCARD", f"{shard.base}:parked:{name}") for name in parks]) if parks else []
    for name, size in zip(parks, sizes, strict=True):
        state, _, queue = name.partition("\0")
        found.setdefault(queue, Counter())[state] += size


async def _count_expired(shard: Shard, found: ByQueue, number: int, suspects: set[bytes], now: datetime) -> None:
    """Moves `number` expired jobs in `found` to the state "expired": an estimate from a sample if they are many."""
    key, us = f"{shard.base}:expiring", micros(now)
    if not number:
        return
    most = number if number <= MAX_LATE_JOBS else LATE_SAMPLE_JOBS
    ids = await shard.call("ZRANGEBYSCORE", key, "-inf", us, "LIMIT", 0, most)
    if number > MAX_LATE_JOBS:
        ids += await shard.call("ZREVRANGEBYSCORE", key, us, "-inf", "LIMIT", 0, most)
    jobs = await _pending(shard, [id for id in ids if id not in suspects])
    for (queue, shown), size in Counter((job.queue, _state_without_expiry(job, now)) for job in jobs).items():
        count, size = found.setdefault(queue, Counter()), round(size * number / len(ids))
        count[shown] -= size
        count["expired"] += size


async def _pending(shard: Shard, ids: Sequence[bytes]) -> list[Job]:
    """The jobs of these ids that are pending."""
    jobs: list[Job] = []
    for start in range(0, len(ids), BATCH_JOBS):
        some = await read_shard(shard, [unpacked(id) for id in ids[start : start + BATCH_JOBS]])
        jobs += [job for _, job in some.values() if job is not None and job.state is State.PENDING]
    return jobs


def _state_without_expiry(job: Job, now: datetime) -> Shown:
    if job.attempt:
        return "retrying"
    return "scheduled" if job.run_at > now else "pending"


async def register_sizes(shard: Shard, register: str, prefix: str) -> dict[tuple[str, str], int]:
    """The sizes of the sets that a register names, by the two parts of the name."""
    names = [name.decode() for name in await shard.call("SMEMBERS", f"{shard.base}:{register}")]
    sizes = await shard.multi([("ZCARD", f"{shard.base}:{prefix}:{name}") for name in names]) if names else []
    pairs = [(name.partition("\0"), size) for name, size in zip(names, sizes, strict=True) if size]
    return {(one, other): size for (one, _, other), size in pairs}


def _queues(found: ByQueue, paused: Collection[str]) -> list[Queue]:
    return [
        Queue(
            name=name,
            paused=name in paused,
            pending=count["pending"],
            scheduled=count["scheduled"],
            retrying=count["retrying"],
            running=count["running"],
        )
        for name in sorted({*found, *paused})
        if (count := found.get(name, Counter())) is not None
    ]


async def _newest_dead(shard: Shard, groups: Sequence[tuple[str, str]]) -> list[tuple[int, bytes]]:
    commands = [("ZREVRANGE", f"{shard.base}:dead:{task}\0{error}", 0, 0, "WITHSCORES") for task, error in groups]
    return [(int(float(one[1])), one[0]) if one else (-1, b"") for one in await shard.multi(commands)]
