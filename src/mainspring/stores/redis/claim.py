"""Claims: jobs leased to workers.

If nothing but the order decides, claim.lua takes the jobs: it repeats the rule rules.claim.claim, and test_twin.py
compares the two. With expired jobs, suspects or open circuits the claim is written by the rule.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from ...bounds import CLAIM_BYTES
from ...clock import Clock, micros, nearest_instant
from ...config import Durability
from ...failpoint import failpoint
from ...ids import JobId, WorkerId
from ...records.job import Job, UnreadableRecord
from ...records.unreadable import decoded
from ...records.worker import Claim
from ..rules import claim as rules
from ..rules.claim_index import ClaimIndex
from ..rules.conflict import size_of
from ..rules.limit_gates import LimitRows
from ..rules.loaded import LoadedTables
from ..rules.read_sets import Name
from .access_paths import group_names
from .aside import set_aside, take_out_unreadable
from .attempts import Attempts
from .connection import Arg
from .diff import unit_of
from .handle import RedisHandle
from .index import Command
from .job_reads import read_shard
from .limit_rows import LoadedLimitRows, first_limited
from .listener import RedisWakeups
from .reads import fetch
from .records import claimed_job, unpacked
from .releases import has_had_limits
from .shard import Shard, Shards
from .snapshot import Found, Snapshot
from .transact import contend_one, settle
from .two_phase import Unit, resolve
from .url import RedisUrl

# Jobs requested from each shard of a cluster, at least (but not more than the claim's limit).
MIN_JOBS_PER_SHARD = 16
# Records of each group that a claim by the rule reads first; each further read takes eight times as many.
FIRST_READ_ROWS = 4
# Expired jobs that a claim ends in each shard, at most: the server does nothing else meanwhile.
MAX_EXPIRED = 1_000
# What claim.lua returns in place of an instant if it takes nothing.
REFUSALS = (b"silent", b"look", b"held")


class RedisClaim(RedisHandle):
    """Claims due jobs for workers."""

    def __init__(
        self,
        url: RedisUrl,
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
        wakeups: RedisWakeups | None = None,
    ) -> None:
        super().__init__(url, clock=clock, durability=durability, wakeups=wakeups)
        # Jobs that the last claim took from each shard: the next claim asks for about as many.
        self._last_claimed: dict[Shard, int] = {}

    async def claim(
        self,
        queues: Collection[str] | None,
        *,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
    ) -> Claim:
        with self._clock.outside():
            found = await self._claim(self._open(), queues, worker, tasks, limit, now)
        failpoint("claim.after_commit")
        if found.expired:
            self._wakeups.notify("new", "final")
        return found

    async def _claim(
        self,
        shards: Shards,
        queues: Collection[str] | None,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
    ) -> Claim:
        """Claims jobs: by claim.lua if nothing but the order decides, else by the rule."""
        if (found := await self._claim_in_order(shards, queues, worker, tasks, limit, now)) is not None:
            return found
        if not await has_had_limits(shards):
            return await _claim_by_rule(shards, queues, worker, tasks, limit, now)
        first = await _claim_by_rule(shards, queues, worker, tasks, limit, now, only_first=True)
        left = limit - len(first.jobs)
        rest = await self._claim_in_order(shards, queues, worker, tasks, left, now, first=first.jobs) if left else None
        return first if rest is None else _joined(first, rest)

    async def _claim_in_order(
        self,
        shards: Shards,
        queues: Collection[str] | None,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
        *,
        first: Sequence[Job] | None = None,
    ) -> Claim | None:
        """A claim by claim.lua; None if something else than the order decides. `first` is what the rule has claimed."""
        lease, us = os.urandom(8).hex(), micros(now)
        names = list(queues) if queues is not None else []
        count, room = -1 if queues is None else len(names), CLAIM_BYTES - sum(map(size_of, first or ()))
        which: list[Arg] = [max(1, room), count, len(tasks), int(first is not None), *names, *tasks]
        attempts = Attempts(shards, "claim")
        while True:
            if len(shards.all) == 1:
                answers = [await shards.first.script("claim", [us, limit, limit, worker, lease, *which])]
            else:
                answers = await self._claim_across(
                    shards, limit, lambda most, lease: [us, limit, most, worker, lease, *which], lease
                )
            if any(status in REFUSALS[:2] for status, *_ in answers):
                return None
            if held := [(shard, one[1]) for shard, one in zip(shards.all, answers, strict=True) if one[0] == b"held"]:
                await resolve(shards, held[0][0], held[0][1].decode())
                await attempts.pause()
                continue
            pairs = [pair for _, some in answers for pair in zip(some[::2], some[1::2], strict=True)]
            named_pairs = ((unpacked(id), (id, text)) for id, text in pairs)
            jobs, broken = decoded("job", named_pairs, lambda pair: claimed_job(*pair, lease, worker, now))
            if broken:
                await set_aside(shards, broken, worker, us)
            if len(answers) > 1 or any(job.limit_key is not None for job in jobs):
                jobs.sort(key=rules.claim_order)
            instants = [nearest_instant(int(float(status))) for status, _ in answers if status != b""]
            return Claim(jobs, max(now, min(instants)) if instants else None, [], broken)

    async def _claim_across(
        self, shards: Shards, limit: int, args: Callable[[int, str], list[Arg]], lease: str
    ) -> list[Any]:
        """The replies of claim.lua by shard. First every shard offers its best jobs, then the best of all are taken."""
        offers: dict[Shard, Any] = {}
        limits = {
            shard: min(limit, max(MIN_JOBS_PER_SHARD, 2 * self._last_claimed.get(shard, limit))) for shard in shards.all
        }
        best, full, unsure = list[tuple[bytes, int]](), False, list(shards.all)
        while unsure:
            answers = await shards.each(lambda shard: shard.script("claim", args(limits[shard], "")), unsure)
            offers |= zip(unsure, answers, strict=True)
            if any(status in REFUSALS for status, *_ in answers):
                return list(offers.values())
            every = ((*one, n) for n, shard in enumerate(shards.all) for one in zip(*offers[shard][1:], strict=True))
            best, left = _fitting(sorted(every)[:limit])
            full = len(best) == limit or left <= 0
            # A shard that offered as many as requested may have more, which come before the last of the best.
            unsure = [
                shard
                for shard in shards.all
                if len(entries := offers[shard][1]) == limits[shard] < limit and (not full or entries[-1] < best[-1][0])
            ]
            limits.update(dict.fromkeys(unsure, limit))
        counts = Counter(n for _, n in best)
        self._last_claimed = {shard: counts[n] for n, shard in enumerate(shards.all)}
        now = args(0, "")[0]
        given: list[Any] = [[now if full else offers[shard][0], []] for shard in shards.all]

        async def take(n: int) -> None:
            answer = await shards.all[n].script("claim", args(counts[n], lease))
            given[n] = [now, []] if answer[0] in REFUSALS else answer  # jobs taken from other shards stay claimed
            if full:
                given[n][0] = now

        await asyncio.gather(*map(take, counts))
        return given


def _fitting(entries: Sequence[tuple[bytes, int, int]]) -> tuple[list[tuple[bytes, int]], int]:
    """The entries that fit into CLAIM_BYTES, and the bytes left. `entries` have a sort key, a size and a shard number;
    the result has no sizes."""
    fit, left = list[tuple[bytes, int]](), CLAIM_BYTES
    for entry, size, n in entries:
        if left <= 0:
            break
        fit.append((entry, n))
        left -= size
    return fit, left


def _joined(one: Claim, other: Claim) -> Claim:
    instants = [claim.next_at for claim in (one, other) if claim.next_at is not None]
    return Claim(
        sorted([*one.jobs, *other.jobs], key=rules.claim_order),
        min(instants, default=None),
        one.expired,
        [*one.unreadable, *other.unreadable],
    )


async def _claim_by_rule(
    shards: Shards,
    queues: Collection[str] | None,
    worker: WorkerId,
    tasks: Collection[str],
    limit: int,
    now: datetime,
    *,
    only_first: bool = False,
) -> Claim:
    """A claim by the rule, which also handles expired jobs, suspects and open circuits.

    `only_first`: only suspects and probes of circuits are claimed, also those with a limit.
    """
    broken: dict[JobId, UnreadableRecord] = {}

    async def propose() -> tuple[Claim, Unit]:
        snapshot, paused = Snapshot(), set[str]()
        await fetch(shards, snapshot, [Name("worker", worker), Name("circuits", "")])
        probed = _half_open(snapshot) if only_first else None
        for found, names, others in await shards.each(lambda shard: _candidates(shards, shard, limit, now, probed)):
            snapshot.jobs |= found
            paused |= names
            broken.update((one.name, one) for one in others)
        schedules = _schedules_of(snapshot, now)
        await fetch(shards, snapshot, schedules)
        tables = ClaimCandidates()
        await tables.limit_rows.read(shards, [job for _, job in snapshot.jobs.values() if job is not None])
        snapshot.fill(tables, [Name("worker", worker), Name("circuits", ""), *schedules])
        snapshot.fill(tables, [Name("job", id) for id in snapshot.jobs])
        expired = rules.expire_due(tables, now)
        await settle(shards, snapshot, [tables])
        claim = _run_rule(tables, expired, paused, queues, worker, tasks, limit, now)
        unit = unit_of(shards, snapshot, tables, micros(now), {job.queue for job in claim.jobs})
        limits = tables.limit_rows
        return claim, Unit([*unit.conditions, *limits.conditions()], [*unit.commands, *limits.commands()])

    return replace(await contend_one(shards, "claim", propose, "new final"), unreadable=list(broken.values()))


class ClaimCandidates(LoadedTables):
    """The jobs that a claim may take or end, with the index that the rule reads."""

    def __init__(self) -> None:
        super().__init__(flows=True)
        self.index = ClaimIndex(self.job)
        self.limit_rows = LoadedLimitRows()
        self.limits: LimitRows = self.limit_rows
        self.index.limited = self.limit_rows.counts

    def add_job(self, id: JobId, job: Job | None) -> None:
        super().add_job(id, job)
        if job is not None:
            self.index.add(job)

    def put_job(self, job: Job) -> None:
        if self.is_read(Name("job", job.id)) and (old := self.job(job.id)) is not None:
            self.index.remove(old)
        super().put_job(job)
        self.index.add(job)


def _run_rule(
    tables: ClaimCandidates,
    expired: list[JobId],
    paused: Collection[str],
    queues: Collection[str] | None,
    worker: WorkerId,
    tasks: Collection[str],
    limit: int,
    now: datetime,
) -> Claim:
    """Runs the rule, after it has ended expired jobs."""
    if tables.is_silent(worker, now):
        return Claim([], None, expired)
    jobs, next_at = rules.claim(tables, paused, queues, worker, tasks, limit, now)
    return Claim(jobs, now if len(expired) >= MAX_EXPIRED else next_at, expired)


def _schedules_of(snapshot: Snapshot, now: datetime) -> set[Name]:
    """The schedules of expired jobs: their end changes them."""
    jobs = [job for _, job in snapshot.jobs.values() if job is not None and job.counted_schedule is not None]
    return {Name("schedule", job.counted_schedule or "") for job in jobs if job.shown(now) == "expired"}


def _half_open(snapshot: Snapshot) -> set[str]:
    """The tasks whose circuit is open: of these a claim in order takes no job."""
    return {
        task for task, (_, one) in (snapshot.circuits or {}).items() if one is not None and one.open_until is not None
    }


async def _candidates(
    shards: Shards, shard: Shard, limit: int, now: datetime, probed: Collection[str] | None
) -> tuple[dict[JobId, Found], set[str], list[UnreadableRecord]]:
    """The jobs that a claim may take or end: the first of every group, suspects, expired ones and the next to expire.

    Also returns the paused queues, and the jobs that could not be decoded and were set aside. `probed`: only the groups
    of these tasks, also of jobs with a limit.
    """
    base, us = shard.base, micros(now)
    expired = await shard.call("ZRANGEBYSCORE", f"{base}:expiring", "-inf", us, "LIMIT", 0, MAX_EXPIRED)
    commands: list[Command] = [
        ("SMEMBERS", f"{base}:paused"),
        ("SMEMBERS", f"{base}:suspect"),
        ("ZRANGE", f"{base}:expiring", 0, len(expired)),
    ]
    # With very many expired jobs a claim ends some of them and takes nothing: the next claim follows at once.
    groups = [] if len(expired) == MAX_EXPIRED else await group_names(shard)
    if probed is not None:
        groups = [name for name in groups if name.partition("\0")[2] in probed]
    limited = await first_limited(shard, probed) if probed and groups else []
    for name in groups:
        commands.append(("ZRANGE", f"{base}:ready:{name}", 0, limit + len(expired)))
        commands.append(("ZRANGE", f"{base}:later:{name}", 0, limit + len(expired)))
    paused, suspects, first, *entries = await shard.multi(commands)
    if probed is not None:  # the claim in order tells when the next one expires
        first = expired
    found = await read_shard(shard, [unpacked(id) for id in {*suspects, *first, *expired, *limited}])
    entries = await _read_within_bytes(shard, entries, found, set(expired))
    twice = [name for name in groups for _ in range(2)]
    placed = [(name, entry) for name, some in zip(twice, entries, strict=True) for entry in some]
    broken = await take_out_unreadable(shards, shard, found, placed, us)
    gone = {one.name for one in broken}
    kept = {id: one for id, one in found.items() if id not in gone}
    return kept, {name.decode() for name in paused}, broken


async def _read_within_bytes(
    shard: Shard, entries: Sequence[Sequence[bytes]], found: dict[JobId, Found], expired: set[bytes]
) -> list[list[bytes]]:
    """Reads the first jobs of each group into `found`, up to CLAIM_BYTES plus expired ones; returns their entries."""
    read, left, look = [list[bytes]() for _ in entries], [CLAIM_BYTES] * len(entries), FIRST_READ_ROWS
    while True:
        some = [
            group[len(done) : len(done) + look] if room > 0 else []
            for group, done, room in zip(entries, read, left, strict=True)
        ]
        ids = {id for group in some for entry in group if (id := unpacked(entry[10:])) not in found}
        if not any(some):
            return read
        found.update(await read_shard(shard, list(ids)))
        for n, group in enumerate(some):
            read[n] += group
            kept = (unpacked(entry[10:]) for entry in group if entry[10:] not in expired)
            left[n] -= sum(len(found[id][0][0] or b"") for id in kept)
        look *= 8
