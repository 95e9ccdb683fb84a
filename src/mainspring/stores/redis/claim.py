"""Jobs out of Redis under a lease, and the workers that hold them."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from ...clock import instant, micros
from ...job import Beat, Claim, Job, JobId, LiveWorker, Orders, State, UnreadableRecord, WorkerId, WorkerInfo
from ..memory import claim as memory
from ..unreadable import decoded, unreadable
from .aside import aside_of_no_group, parked, set_aside
from .home import Home, Homes
from .index import Arguments
from .kept import instant_of, watched
from .known import Found, Known, load, named, read_hash, read_home, worker_text, workers_of
from .line import Word
from .part import Part
from .play import play
from .records import packed, taken, unpacked
from .step import commit, settle
from .ways import group_names

# A home of a cluster is asked for at least so many when it may be asked for fewer than all.
FEW = 16
# What claim.lua says in place of an instant.
WORDS = (b"silent", b"look", b"held")


async def claim(
    homes: Homes, queues: Collection[str] | None, worker: WorkerId, tasks: Collection[str], limit: int, now: datetime
) -> Claim:
    lease, us = os.urandom(8).hex(), micros(now)
    named = list(queues) if queues is not None else []
    which: list[Word] = [-1 if queues is None else len(named), len(tasks), *named, *tasks]
    while True:
        if len(homes.all) == 1:
            answers = [await homes.first.script("claim", [us, limit, limit, worker, lease, *which])]
        else:
            answers = await _across(homes, limit, lambda most, lease: [us, limit, most, worker, lease, *which], lease)
        if any(word in WORDS[:2] for word, *_ in answers):
            return await _look(homes, queues, worker, tasks, limit, now)
        if held := [(home, one[1]) for home, one in zip(homes.all, answers, strict=True) if one[0] == b"held"]:
            await settle(homes, held[0][0], held[0][1].decode())
            continue
        pairs = [pair for _, some in answers for pair in zip(some[::2], some[1::2], strict=True)]
        named_pairs = ((unpacked(id), (id, text)) for id, text in pairs)
        jobs, broken = decoded("job", named_pairs, lambda pair: taken(*pair, lease, worker, now))
        if broken:
            await set_aside(homes, broken, worker, us)
        if len(answers) > 1:
            jobs.sort(key=lambda job: (-job.priority, job.run_at, job.id))
        instants = [instant(int(float(word))) for word, _ in answers if word != b""]
        return Claim(jobs, max(now, min(instants)) if instants else None, [], broken)


async def _across(homes: Homes, limit: int, words: Callable[[int, str], list[Word]], lease: str) -> list[Any]:
    """Of each home what claim.lua answers: first all say what they have, then each gives what is among the best."""
    offers: dict[Home, Any] = {}
    asked = {home: min(limit, max(FEW, 2 * homes.gave.get(home, limit))) for home in homes.all}
    best, short = list[tuple[bytes, int]](), list(homes.all)
    while short:
        answers = await homes.each(lambda home: home.script("claim", words(asked[home], "")), short)
        offers |= zip(short, answers, strict=True)
        if any(word in WORDS for word, *_ in answers):
            return list(offers.values())
        best = sorted((entry, n) for n, home in enumerate(homes.all) for entry in offers[home][1])[:limit]
        # Who has given all that was asked for may have more, and better ones than the last of the others.
        short = [home for home in homes.all if _may_have_more(offers[home][1], asked[home], best, limit)]
        asked.update(dict.fromkeys(short, limit))
    counts = Counter(n for _, n in best)
    homes.gave = {home: counts[n] for n, home in enumerate(homes.all)}
    given: list[Any] = [[words(0, "")[0] if len(best) == limit else offers[home][0], []] for home in homes.all]

    async def take(n: int) -> None:
        answer = await homes.all[n].script("claim", words(counts[n], lease))
        given[n] = [words(0, "")[0], []] if answer[0] in WORDS else answer  # what others have given is not given back

    await asyncio.gather(*map(take, counts))
    return given


def _may_have_more(entries: Sequence[bytes], asked: int, best: Sequence[tuple[bytes, int]], limit: int) -> bool:
    return asked < limit and len(entries) == asked and (len(best) < limit or entries[-1] < best[-1][0])


async def _look(
    homes: Homes, queues: Collection[str] | None, worker: WorkerId, tasks: Collection[str], limit: int, now: datetime
) -> Claim:
    """A claim in which more than the order has a say: played on all that it may meet."""
    paused = await paused_queues(homes)
    broken: dict[JobId, UnreadableRecord] = {}

    async def prepare(known: Known) -> None:
        await load(homes, known, "worker", [worker])
        await load(homes, known, "circuits", [""])
        for some, others in await homes.each(lambda home: _candidates(homes, home, limit, now)):
            known.jobs |= some
            broken.update((one.name, one) for one in others)

    def verb(part: Part) -> Claim:
        expired = part.jobs.expire(now)
        if not part.workers.alive(worker, now):
            return Claim([], None, expired)
        return Claim(*memory.claim(part.jobs, part.ledger, paused, queues, worker, tasks, limit, now), expired)

    return replace(await play(homes, verb, now, prepare), unreadable=list(broken.values()))


async def paused_queues(homes: Homes) -> set[str]:
    sets = await homes.each(lambda home: home.call("SMEMBERS", f"{home.base}:paused"))
    return {name.decode() for some in sets for name in some}


async def _candidates(
    homes: Homes, home: Home, limit: int, now: datetime
) -> tuple[dict[JobId, Found], list[UnreadableRecord]]:
    """The first of every group, suspects, and what has expired or will be the next to. What cannot be decoded among
    them is set aside, and an entry without its job removed."""
    base, us = home.base, micros(now)
    expired = await home.call("ZRANGEBYSCORE", f"{base}:expiring", "-inf", us)
    commands: list[Arguments] = [("SMEMBERS", f"{base}:suspect"), ("ZRANGE", f"{base}:expiring", 0, len(expired))]
    names = await group_names(home)
    for name in names:
        commands.append(("ZRANGE", f"{base}:ready:{name}", 0, limit + len(expired)))
        commands.append(("ZRANGE", f"{base}:later:{name}", 0, limit + len(expired)))
    suspects, first, *entries = await home.many(commands)
    ids = {*suspects, *first, *expired, *(entry[10:] for some in entries for entry in some)}
    found = await read_home(home, [unpacked(id) for id in ids])
    groups = [name for name in names for _ in range(2)]
    placed = [(name, entry) for name, some in zip(groups, entries, strict=True) for entry in some]
    broken = {
        packed(id): unreadable("job", id, job.failure.message)
        for id, (_, job) in found.items()
        if job is not None and job.failure is not None and job.unreadable
    }
    for name, entry in placed:
        if entry[10:] in broken or found[unpacked(entry[10:])][1] is None:
            await _taken_out(homes, home, name, entry, broken.get(entry[10:]), us)
    for id in broken.keys() - {entry[10:] for _, entry in placed}:
        await aside_of_no_group(homes, home, id, broken[id], found[unpacked(id)], us)
    return {id: one for id, one in found.items() if packed(id) not in broken}, list(broken.values())


async def _taken_out(
    homes: Homes, home: Home, name: str, entry: bytes, broken: UnreadableRecord | None, now: int
) -> None:
    """An entry of a group that no claim can use; the record of its job stays, if there is one."""
    base, id = home.base, entry[10:]
    commands: list[Arguments] = [
        ("ZREM", f"{base}:ready:{name}", entry), ("ZREM", f"{base}:later:{name}", entry), ("GROUP", f"{base}:{name}"),
    ]  # fmt: skip
    if broken is None:
        await commit(homes, [(f"{base}:job", id, None)], commands)
        await home.call("HINCRBY", f"{base}:health", "stale", 1)
    else:
        queue, _, task = name.partition("\0")
        await commit(homes, [(f"{base}:run", id, None)], [*commands, *parked(home, id, queue, task, broken, now)])


async def beat(homes: Homes, worker: WorkerInfo, until: datetime, now: datetime) -> Beat:
    """In the first home is its row, in each how long it lives: never longer than its row says."""
    base = homes.first.base
    while True:
        known = Known()
        rows, watched_until = await homes.first.many([("HGETALL", f"{base}:worker"), watched(homes.first)])
        known.workers |= {worker.id: None, **named(rows)}
        part = Part(known)
        orders = part.workers.beat(worker, until, now)
        if await commit(homes, known.expected(homes), list(_rows(base, known, part.workers))):
            break
    row = part.workers.get(worker.id)
    held = await homes.each(lambda home: _held(homes, home, worker.id, None if row is None else row.until))
    mine = [job for some in held for job in some]
    cancels = {job.id: job.cancel_reason for job in mine if job.cancel_reason is not None}
    leases = {job.id: job.lease or "" for job in mine}
    return Beat(leases, cancels, orders, watched_until=instant_of(watched_until))


async def _held(homes: Homes, home: Home, worker: WorkerId, until: datetime | None) -> list[Job]:
    key, commands = f"{home.base}:until", list[Arguments]()
    if home is not homes.first:
        commands.append(("HDEL", key, worker) if until is None else ("HSET", key, worker, micros(until)))
    *_, ids = await home.many([*commands, ("SMEMBERS", f"{home.base}:held:{worker}")])
    return await _running(home, ids)


async def _running(home: Home, ids: Iterable[bytes]) -> list[Job]:
    found = (await read_home(home, [unpacked(id) for id in ids])).values()
    return [job for _, job in found if job is not None and job.state is State.RUNNING]


def _rows(base: str, known: Known, workers: dict[WorkerId, LiveWorker]) -> list[Arguments]:
    """What is to be written of workers; only those rows have to be as they were read."""
    commands: list[Arguments] = []
    for id, text in list(known.workers.items()):
        new = workers.get(id)
        fresh = None if new is None else worker_text(new)
        if fresh == text or (new is None and text is not None and not workers_of({id: text})):
            del known.workers[id]
        elif new is None or fresh is None:
            commands += (("HDEL", f"{base}:worker", id), ("HDEL", f"{base}:until", id))
        else:
            commands += (("HSET", f"{base}:worker", id, fresh), ("HSET", f"{base}:until", id, micros(new.until)))
    return commands


async def order(
    homes: Homes, workers: Collection[WorkerId] | None, orders: Orders, now: datetime, seen: Orders | None
) -> list[WorkerId]:
    base = homes.first.base
    while True:
        known = Known()
        known.workers |= await read_hash(homes.first, f"{base}:worker")
        part = Part(known)
        found = part.workers.order(workers, orders, now, seen)
        if await commit(homes, known.expected(homes), list(_rows(base, known, part.workers))):
            return found


async def expired(homes: Homes, now: datetime, limit: int) -> list[Job]:
    # Not by their rows, one of which may be unreadable.
    rows = await read_hash(homes.first, f"{homes.first.base}:until")
    alive = {name for name, until in rows.items() if int(until) > micros(now)}
    found = await homes.each(lambda home: _orphans(home, alive, limit))
    jobs = sorted((job for some in found for job in some), key=lambda job: job.id)[:limit]
    for job in jobs:
        if job.unreadable and job.failure is not None:
            one = unreadable("job", job.id, job.failure.message)
            await set_aside(homes, [one], job.worker or "", micros(now))
    return [job for job in jobs if not job.unreadable]


async def _orphans(home: Home, alive: set[WorkerId], limit: int) -> list[Job]:
    holders = [name.decode() for name in await home.call("SMEMBERS", f"{home.base}:holders")]
    silent = [name for name in holders if name not in alive]
    sets = await home.many([("SMEMBERS", f"{home.base}:held:{name}") for name in silent]) if silent else []
    return await _running(home, sorted({id for some in sets for id in some})[:limit])
