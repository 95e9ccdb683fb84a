"""Jobs out of Redis under a lease, and the workers that hold them."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from ...bounds import CLAIM_BYTES
from ...clock import micros, nearest_instant
from ...ids import JobId, WorkerId
from ...records.job import Job, State, UnreadableRecord
from ...records.unreadable import decoded, unreadable_record
from ...records.worker import BeatReply, Claim, WorkerCommands, WorkerInfo, WorkerRow
from ..memory import claim as memory
from ..memory.workers import WorkerTable
from .access_paths import group_names
from .aside import set_aside, take_out
from .attempts import Attempts
from .connection import Word
from .diff import unit_of
from .index import Arguments
from .kept import instant_of, watched
from .known import named, read_brief, read_hash, read_home, worker_text, workers_of
from .reads import fetch
from .records import taken, unpacked
from .shard import Shard, Shards
from .snapshot import Found, Name, Snapshot
from .tables import Tables
from .transact import contend_one
from .two_phase import Condition, Unit, has, settle

# A home of a cluster is asked for at least so many when it may be asked for fewer than all.
FEW = 16
# Records read of each group at first, where more than the order decides; each later read takes eight times as many.
FIRST_LOOK = 4
# A claim ends about this number of expired jobs of each home at most: others wait for the script that writes them.
MAX_EXPIRED = 1_000
# What claim.lua says in place of an instant.
WORDS = (b"silent", b"look", b"held")


async def claim(
    homes: Shards, queues: Collection[str] | None, worker: WorkerId, tasks: Collection[str], limit: int, now: datetime
) -> Claim:
    lease, us = os.urandom(8).hex(), micros(now)
    named = list(queues) if queues is not None else []
    which: list[Word] = [CLAIM_BYTES, -1 if queues is None else len(named), len(tasks), *named, *tasks]
    attempts = Attempts(homes, "claim")
    while True:
        if len(homes.all) == 1:
            answers = [await homes.first.script("claim", [us, limit, limit, worker, lease, *which])]
        else:
            answers = await _across(homes, limit, lambda most, lease: [us, limit, most, worker, lease, *which], lease)
        if any(word in WORDS[:2] for word, *_ in answers):
            return await _look(homes, queues, worker, tasks, limit, now)
        if held := [(home, one[1]) for home, one in zip(homes.all, answers, strict=True) if one[0] == b"held"]:
            await settle(homes, held[0][0], held[0][1].decode())
            await attempts.again()
            continue
        pairs = [pair for _, some in answers for pair in zip(some[::2], some[1::2], strict=True)]
        named_pairs = ((unpacked(id), (id, text)) for id, text in pairs)
        jobs, broken = decoded("job", named_pairs, lambda pair: taken(*pair, lease, worker, now))
        if broken:
            await set_aside(homes, broken, worker, us)
        if len(answers) > 1:
            jobs.sort(key=lambda job: (-job.priority, job.run_at, job.id))
        instants = [nearest_instant(int(float(word))) for word, _ in answers if word != b""]
        return Claim(jobs, max(now, min(instants)) if instants else None, [], broken)


async def _across(homes: Shards, limit: int, words: Callable[[int, str], list[Word]], lease: str) -> list[Any]:
    """Of each home what claim.lua answers: first all say what they have, then each gives what is among the best."""
    offers: dict[Shard, Any] = {}
    asked = {home: min(limit, max(FEW, 2 * homes.gave.get(home, limit))) for home in homes.all}
    best, full, short = list[tuple[bytes, int]](), False, list(homes.all)
    while short:
        answers = await homes.each(lambda home: home.script("claim", words(asked[home], "")), short)
        offers |= zip(short, answers, strict=True)
        if any(word in WORDS for word, *_ in answers):
            return list(offers.values())
        every = ((*one, n) for n, home in enumerate(homes.all) for one in zip(*offers[home][1:], strict=True))
        best, left = _fitting(sorted(every)[:limit])
        full = len(best) == limit or left <= 0
        # Who has given all that was asked for may have more, and better ones than the last of the others.
        short = [
            home
            for home in homes.all
            if len(entries := offers[home][1]) == asked[home] < limit and (not full or entries[-1] < best[-1][0])
        ]
        asked.update(dict.fromkeys(short, limit))
    counts = Counter(n for _, n in best)
    homes.gave = {home: counts[n] for n, home in enumerate(homes.all)}
    now = words(0, "")[0]
    given: list[Any] = [[now if full else offers[home][0], []] for home in homes.all]

    async def take(n: int) -> None:
        answer = await homes.all[n].script("claim", words(counts[n], lease))
        given[n] = [now, []] if answer[0] in WORDS else answer  # what others have given is not given back
        if full:
            given[n][0] = now

    await asyncio.gather(*map(take, counts))
    return given


def _fitting(entries: Sequence[tuple[bytes, int, int]]) -> tuple[list[tuple[bytes, int]], int]:
    """Those of these entries, each with its size and its home, that one claim takes, without their sizes; and the bytes
    that are left for others."""
    fit, left = list[tuple[bytes, int]](), CLAIM_BYTES
    for entry, size, n in entries:
        if left <= 0:
            break
        fit.append((entry, n))
        left -= size
    return fit, left


async def _look(
    homes: Shards, queues: Collection[str] | None, worker: WorkerId, tasks: Collection[str], limit: int, now: datetime
) -> Claim:
    """A claim in which more than the order has a say: the rule runs on all that it may meet."""
    broken: dict[JobId, UnreadableRecord] = {}

    async def propose() -> tuple[Claim, Unit]:
        snapshot, paused = Snapshot(), set[str]()
        await fetch(homes, snapshot, [Name("worker", worker), Name("circuits", "")])
        for found, names, others in await homes.each(lambda home: _candidates(homes, home, limit, now)):
            snapshot.jobs |= found
            paused |= names
            broken.update((one.name, one) for one in others)
        await fetch(homes, snapshot, _schedules_of(snapshot, now))
        tables = Tables(snapshot)
        claim = _claimed(tables, paused, queues, worker, tasks, limit, now)
        tables.taken_from |= {job.queue for job in claim.jobs}
        return claim, unit_of(homes, tables, micros(now))

    return replace(await contend_one(homes, "claim", propose, "new final"), unreadable=list(broken.values()))


def _claimed(
    tables: Tables,
    paused: Collection[str],
    queues: Collection[str] | None,
    worker: WorkerId,
    tasks: Collection[str],
    limit: int,
    now: datetime,
) -> Claim:
    expired = tables.jobs.expire(now)
    if not tables.workers.alive(worker, now):
        return Claim([], None, expired)
    jobs, next_at = memory.claim(tables.jobs, tables.ledger, paused, queues, worker, tasks, limit, now)
    return Claim(jobs, now if len(expired) >= MAX_EXPIRED else next_at, expired)


async def paused_queues(homes: Shards) -> set[str]:
    sets = await homes.each(lambda home: home.call("SMEMBERS", f"{home.base}:paused"))
    return {name.decode() for some in sets for name in some}


def _schedules_of(snapshot: Snapshot, now: datetime) -> set[Name]:
    """A job that expires tells its schedule."""
    jobs = [job for _, job in snapshot.jobs.values() if job is not None and job.counted_schedule is not None]
    return {Name("schedule", job.counted_schedule or "") for job in jobs if job.shown(now) == "expired"}


async def _candidates(
    homes: Shards, home: Shard, limit: int, now: datetime
) -> tuple[dict[JobId, Found], set[str], list[UnreadableRecord]]:
    """The first of every group, suspects, what has expired or will be the next to; the queues that are paused; and
    what could not be decoded, which was set aside."""
    base, us = home.base, micros(now)
    expired = await home.call("ZRANGEBYSCORE", f"{base}:expiring", "-inf", us, "LIMIT", 0, MAX_EXPIRED)
    commands: list[Arguments] = [
        ("SMEMBERS", f"{base}:paused"), ("SMEMBERS", f"{base}:suspect"),
        ("ZRANGE", f"{base}:expiring", 0, len(expired)),
    ]  # fmt: skip
    # Where very many have expired, a claim ends some of them and takes nothing: the next one follows at once.
    groups = [] if len(expired) == MAX_EXPIRED else await group_names(home)
    for name in groups:
        commands.append(("ZRANGE", f"{base}:ready:{name}", 0, limit + len(expired)))
        commands.append(("ZRANGE", f"{base}:later:{name}", 0, limit + len(expired)))
    paused, suspects, first, *entries = await home.many(commands)
    found = await read_home(home, [unpacked(id) for id in {*suspects, *first, *expired}])
    entries = await _read_within_bytes(home, entries, found, set(expired))
    twice = [name for name in groups for _ in range(2)]
    placed = [(name, entry) for name, some in zip(twice, entries, strict=True) for entry in some]
    broken = await take_out(homes, home, found, placed, us)
    gone = {one.name for one in broken}
    kept = {id: one for id, one in found.items() if id not in gone}
    return kept, {name.decode() for name in paused}, broken


async def _read_within_bytes(
    home: Shard, entries: Sequence[Sequence[bytes]], found: dict[JobId, Found], expired: set[bytes]
) -> list[list[bytes]]:
    """Reads of each group the first ones, into `found`, and returns these: about as many as a claim may take, beside
    those that have expired."""
    read, left, look = [list[bytes]() for _ in entries], [CLAIM_BYTES] * len(entries), FIRST_LOOK
    while True:
        some = [
            group[len(done) : len(done) + look] if room > 0 else []
            for group, done, room in zip(entries, read, left, strict=True)
        ]
        ids = {id for group in some for entry in group if (id := unpacked(entry[10:])) not in found}
        if not any(some):
            return read
        found.update(await read_home(home, list(ids)))
        for n, group in enumerate(some):
            read[n] += group
            live = (unpacked(entry[10:]) for entry in group if entry[10:] not in expired)
            left[n] -= sum(len(found[id][0][0] or b"") for id in live)
        look *= 8


async def beat(homes: Shards, worker: WorkerInfo, until: datetime, now: datetime) -> BeatReply:
    """In the first home is its row, in each how long it lives: never longer than its row says."""
    base = homes.first.base

    async def propose() -> tuple[tuple[WorkerCommands, WorkerRow | None, bytes | None], Unit]:
        rows, watched_until = await homes.first.many([("HGETALL", f"{base}:worker"), watched(homes.first)])
        known: dict[WorkerId, bytes | None] = {worker.id: None, **named(rows)}
        workers = WorkerTable(workers_of(known))
        orders = workers.beat(worker, until, now)
        return (orders, workers.get(worker.id), watched_until), _rows(base, known, workers)

    orders, row, watched_until = await contend_one(homes, "beat", propose)
    held = await homes.each(lambda home: _held(homes, home, worker.id, None if row is None else row.until))
    mine = [job for some in held for job in some]
    cancels = {job.id: job.cancel_reason for job in mine if job.cancel_reason is not None}
    leases = {job.id: job.lease or "" for job in mine}
    return BeatReply(leases, cancels, orders, watched_until=instant_of(watched_until))


async def _held(homes: Shards, home: Shard, worker: WorkerId, until: datetime | None) -> list[Job]:
    key, commands = f"{home.base}:until", list[Arguments]()
    if home is not homes.first:
        commands.append(("HDEL", key, worker) if until is None else ("HSET", key, worker, micros(until)))
    *_, ids = await home.many([*commands, ("SMEMBERS", f"{home.base}:held:{worker}")])
    # Briefly: they may be large, and there are as many of them as the worker has slots.
    return [job for job in await read_brief(home, [unpacked(id) for id in ids]) if job.state is State.RUNNING]


def _rows(base: str, known: dict[WorkerId, bytes | None], workers: WorkerTable) -> Unit:
    """What is to be written of workers; only those rows have to be as they were read."""
    conditions, commands = list[Condition](), list[Arguments]()
    for id, text in known.items():
        new = workers.get(id)
        fresh = None if new is None else worker_text(new)
        if fresh == text or (new is None and text is not None and not workers_of({id: text})):
            continue
        conditions.append(has(f"{base}:worker", id, text))
        if new is None or fresh is None:
            commands += (("HDEL", f"{base}:worker", id), ("HDEL", f"{base}:until", id))
        else:
            commands += (("HSET", f"{base}:worker", id, fresh), ("HSET", f"{base}:until", id, micros(new.until)))
    return Unit(conditions, commands)


async def order(
    homes: Shards,
    workers: Collection[WorkerId] | None,
    orders: WorkerCommands,
    now: datetime,
    seen: WorkerCommands | None,
) -> list[WorkerId]:
    base = homes.first.base

    async def propose() -> tuple[list[WorkerId], Unit]:
        known: dict[WorkerId, bytes | None] = {**await read_hash(homes.first, f"{base}:worker")}
        rows = WorkerTable(workers_of(known))
        return rows.order(workers, orders, now, seen), _rows(base, known, rows)

    return await contend_one(homes, "order", propose)


async def expired(homes: Shards, now: datetime, limit: int) -> list[Job]:
    # Not by their rows: one may be unreadable.
    rows = await read_hash(homes.first, f"{homes.first.base}:until")
    alive = {name for name, until in rows.items() if int(until) > micros(now)}
    found = await homes.each(lambda home: _orphans(home, alive, limit))
    jobs = sorted((job for some in found for job in some), key=lambda job: job.id)[:limit]
    for job in jobs:
        if job.unreadable and job.failure is not None:
            one = unreadable_record("job", job.id, job.failure.message)
            await set_aside(homes, [one], job.worker or "", micros(now))
    return [job for job in jobs if not job.unreadable]


async def _orphans(home: Shard, alive: set[WorkerId], limit: int) -> list[Job]:
    holders = [name.decode() for name in await home.call("SMEMBERS", f"{home.base}:holders")]
    silent = [name for name in holders if name not in alive]
    sets = await home.many([("SMEMBERS", f"{home.base}:held:{name}") for name in silent]) if silent else []
    ids = sorted({id for some in sets for id in some})[:limit]
    found = (await read_home(home, [unpacked(id) for id in ids])).values()
    return [job for _, job in found if job is not None and job.state is State.RUNNING]
