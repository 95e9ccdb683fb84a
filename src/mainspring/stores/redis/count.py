"""How many jobs there are of each kind, as the sizes of the sets they are in tell."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from ...clock import instant, micros
from ...job import SUSPECT, DeadGroup, Job, Queue, Shown, State
from .index import REGISTERS
from .known import read_jobs
from .lists import group_names
from .pool import Pool
from .records import unpacked

ByQueue = dict[str, Counter[str]]
# So many names are looked behind at a time.
TIDIED = 500


async def waiting(pool: Pool, now: datetime) -> ByQueue:
    """Jobs that are not final, by queue and shown state."""
    base, us = pool.place.base, micros(now)
    groups = await group_names(pool)
    queues = sorted({name.partition("\0")[0] for name in groups})
    commands: list[tuple[Any, ...]] = []
    for name in groups:
        commands += (
            ("ZCARD", f"{base}:ready:{name}"),
            ("ZCOUNT", f"{base}:later:{name}", "-inf", us),
            ("ZCARD", f"{base}:later:{name}"),
        )
    for name in queues:
        commands += (("ZCOUNT", f"{base}:again:{name}", "-inf", us), ("ZCARD", f"{base}:again:{name}"))
    commands += (("HVALS", f"{base}:run"), ("SMEMBERS", f"{base}:parks"), ("SMEMBERS", f"{base}:suspect"),
                 ("ZRANGEBYSCORE", f"{base}:expiring", "-inf", us))  # fmt: skip
    answers = iter(await pool.many(commands))
    found: ByQueue = {}
    for name in groups:
        count = found.setdefault(name.partition("\0")[0], Counter())
        ready, due, later = next(answers), next(answers), next(answers)
        count["pending"] += ready + due
        count["scheduled"] += later - due
    for name in queues:
        due, all = next(answers), next(answers)
        found[name]["retrying"] += all
        found[name]["pending"] -= due
        found[name]["scheduled"] -= all - due
    for said in next(answers):
        found.setdefault(said.split(b"\0")[4].decode(), Counter())["running"] += 1
    parks, suspects, expired = next(answers), next(answers), next(answers)
    await _parked(pool, found, [name.decode() for name in parks])
    await _apart(pool, found, {*suspects, *expired}, now)
    return {name: +count for name, count in found.items() if +count}


async def _parked(pool: Pool, found: ByQueue, parks: list[str]) -> None:
    sizes = await pool.many([("SCARD", f"{pool.place.base}:parked:{name}") for name in parks]) if parks else []
    for name, size in zip(parks, sizes, strict=True):
        state, _, queue = name.partition("\0")
        found.setdefault(queue, Counter())[state] += size


async def _apart(pool: Pool, found: ByQueue, ids: set[bytes], now: datetime) -> None:
    """Suspects are counted in no set; what has expired is counted as if it had not."""
    jobs = [job for _, job in (await read_jobs(pool, [unpacked(id) for id in ids])).values() if job is not None]
    for job in jobs:
        if job.state is not State.PENDING:
            continue
        count = found.setdefault(job.queue, Counter())
        if job.crashes < SUSPECT:
            count[_as_if_fresh(job, now)] -= 1
        count[job.shown(now)] += 1


def _as_if_fresh(job: Job, now: datetime) -> Shown:
    if job.attempt:
        return "retrying"
    return "scheduled" if job.run_at > now else "pending"


async def counts(pool: Pool, now: datetime) -> dict[Shown, int]:
    base = pool.place.base
    total: Counter[Any] = Counter()
    for count in (await waiting(pool, now)).values():
        total.update(count)
    ends = [name.decode() for name in await pool.call("SMEMBERS", f"{base}:ends")]
    sizes = await pool.many([("ZCARD", f"{base}:ended:{name}") for name in ends]) if ends else []
    for name, size in zip(ends, sizes, strict=True):
        total[name.partition("\0")[0]] += size
    return dict(+total)


async def queues(pool: Pool, now: datetime) -> list[Queue]:
    found = await waiting(pool, now)
    paused = {name.decode() for name in await pool.call("SMEMBERS", f"{pool.place.base}:paused")}
    return [
        Queue(
            name=name, paused=name in paused, pending=count["pending"], scheduled=count["scheduled"],
            retrying=count["retrying"], running=count["running"],
        )
        for name in sorted(found.keys() | paused) if (count := found.get(name, Counter())) is not None
    ]  # fmt: skip


async def dead(pool: Pool, limit: int) -> list[DeadGroup]:
    base = pool.place.base
    kinds = [name.decode() for name in await pool.call("SMEMBERS", f"{base}:kinds")]
    sizes = await pool.many([("ZCARD", f"{base}:dead:{name}") for name in kinds]) if kinds else []
    most = sorted(zip(sizes, kinds, strict=True), key=lambda one: (-one[0], *one[1].split("\0", 1)))
    most = [(size, name) for size, name in most if size][:limit]
    commands = [("ZREVRANGE", f"{base}:dead:{name}", 0, 0, "WITHSCORES") for _, name in most]
    found = []
    for (size, name), (newest, at) in zip(most, await pool.many(commands) if commands else [], strict=True):
        task, _, error = name.partition("\0")
        found.append(
            DeadGroup(task=task, error=error, count=size, newest=unpacked(newest), last_at=instant(int(float(at))))
        )
    return found


async def ended(pool: Pool) -> list[tuple[State, str]]:
    """Each final state and task for which there are jobs."""
    base = pool.place.base
    names = sorted(name.decode() for name in await pool.call("SMEMBERS", f"{base}:ends"))
    sizes = await pool.many([("ZCARD", f"{base}:ended:{name}") for name in names]) if names else []
    pairs = [name.partition("\0") for name, size in zip(names, sizes, strict=True) if size]
    return sorted((State(state), task) for state, _, task in pairs)


async def tidy(pool: Pool) -> None:
    """Forgets queues, tasks, workers and errors of which there is no job any more."""
    names = await pool.many([("SMEMBERS", f"{pool.place.base}:{register}") for register in REGISTERS])
    pairs = zip(REGISTERS.items(), names, strict=True)
    words = [word for (register, prefix), some in pairs for name in some for word in (register, prefix, name)]
    for start in range(0, len(words), 3 * TIDIED):
        await pool.script("tidy", words[start : start + 3 * TIDIED])


async def surplus(pool: Pool, state: State, task: str, keep: int, before: datetime, limit: int) -> list[Job]:
    key = f"{pool.place.base}:ended:{state.value}\0{task}"
    spare = max(0, await pool.call("ZCARD", key) - keep)
    found = await pool.call("ZRANGEBYSCORE", key, "-inf", f"({micros(before)}", "LIMIT", 0, min(limit, spare))
    jobs = (await read_jobs(pool, [unpacked(id) for id in found])).values() if spare else ()
    return [job for _, job in jobs if job is not None]
