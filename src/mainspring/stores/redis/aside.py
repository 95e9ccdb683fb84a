"""Records in Redis that cannot be decoded: where they are put, and what doctor says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ...ids import JobId, WorkerId
from ...records.finding import Finding
from ...records.job import Job, State, UnreadableRecord
from ...records.query import Changed
from ...records.unreadable import decoded, record_finding, unreadable_record
from ...schedule.record import Schedule
from .index import Arguments, final_spots
from .known import read_home
from .records import CLAIM_PARTS, Raw, aside_of, packed, unpacked
from .shard import Shard, Shards
from .snapshot import Found
from .two_phase import Unit, commit_one, has

_schedule = msgspec.json.Decoder(Schedule).decode
# Schedules read at a time.
BATCH_SCHEDULES = 500


async def set_aside(homes: Shards, broken: Sequence[UnreadableRecord], worker: WorkerId, now: int) -> None:
    """Jobs that a claim took and cannot decode, or that their worker left: where no claim finds them."""
    ids = {packed(one.name): one for one in broken}
    for home in homes.all:
        claims = await home.call("HMGET", f"{home.base}:run", *ids)
        for (id, one), said in zip(ids.items(), claims, strict=True):
            if said is not None and len(parts := said.decode(errors="backslashreplace").split("\0")) == CLAIM_PARTS:
                commands = [("SREM", f"{home.base}:held:{worker}", id), *parked(home, id, parts[4], parts[5], one, now)]
                await commit_one(homes, Unit([has(f"{home.base}:run", id, said)], commands))


def parked(home: Shard, id: bytes, queue: str, task: str, one: UnreadableRecord, now: int) -> list[Arguments]:
    """The commands that put a job whose record cannot be decoded among those that are held back by hand."""
    base, park = home.base, f"{State.PAUSED.value}\0{queue}"
    return [
        ("HSET", f"{base}:run", id, aside_of(queue, task, now)),
        ("SADD", f"{base}:parked:{park}", id), ("SADD", f"{base}:parks", park),
        ("ZREM", f"{base}:expiring", id), ("SREM", f"{base}:suspect", id), ("ZREM", f"{base}:again:{queue}", id),
        ("HSET", f"{base}:unreadable", id, one.error),
    ]  # fmt: skip


async def take_out(
    homes: Shards, home: Shard, found: Mapping[JobId, Found], placed: Sequence[tuple[str, bytes]], now: int
) -> list[UnreadableRecord]:
    """Sets aside the jobs that cannot be decoded, and removes entries without a job. `placed`: groups and entries."""
    broken = {
        packed(id): unreadable_record("job", id, job.failure.message)
        for id, (_, job) in found.items()
        if job is not None and job.failure is not None and job.unreadable
    }
    for group, entry in placed:
        if entry[10:] in broken or found[unpacked(entry[10:])][1] is None:
            await _take_out_entry(homes, home, group, entry, broken.get(entry[10:]), now)
    for id in broken.keys() - {entry[10:] for _, entry in placed}:
        await _aside_groupless(homes, home, id, broken[id], found[unpacked(id)], now)
    return list(broken.values())


async def _take_out_entry(
    homes: Shards, home: Shard, group: str, entry: bytes, broken: UnreadableRecord | None, now: int
) -> None:
    """An entry that no claim can use; the record of its job stays, if there is one."""
    base, id = home.base, entry[10:]
    commands: list[Arguments] = [
        *(("ZREM", f"{base}:{kind}:{group}", entry) for kind in ("ready", "later")),
        ("GROUP", f"{base}:{group}"),
    ]
    if broken is None:
        await commit_one(homes, Unit([has(f"{base}:job", id, None)], commands))
        await home.call("HINCRBY", f"{base}:health", "stale", 1)
    else:
        queue, _, task = group.partition("\0")
        commands += parked(home, id, queue, task, broken, now)
        await commit_one(homes, Unit([has(f"{base}:run", id, None)], commands))


async def _aside_groupless(
    homes: Shards, home: Shard, id: bytes, one: UnreadableRecord, found: Found, now: int
) -> None:
    """A suspect or one that may expire: its own record says its queue and task, or else the index of its group."""
    base, (raw, job) = home.base, found
    group = None if job is None or raw[1] is not None else await _group_of(home, id, job)
    if group is not None:
        commands = parked(home, id, *group, one, now)
    else:
        commands = [("ZREM", f"{base}:expiring", id), ("SREM", f"{base}:suspect", id),
                    ("HSET", f"{base}:unreadable", id, one.error)]  # fmt: skip
    conditions = [has(f"{base}:job", id, raw[0]), has(f"{base}:run", id, raw[1])]
    await commit_one(homes, Unit(conditions, commands))


async def _group_of(home: Shard, id: bytes, job: Job) -> tuple[str, str] | None:
    """The queue and the task of a job whose record may not have them."""
    if job.queue:
        return job.queue, job.task
    groups = await home.call("SMEMBERS", f"{home.base}:groups")
    scores = await home.many([("ZSCORE", f"{home.base}:made:".encode() + group, id) for group in groups])
    found = next((group for group, score in zip(groups, scores, strict=True) if score is not None), None)
    if found is None:
        return None
    queue, _, task = found.decode(errors="backslashreplace").partition("\0")
    return queue, task


async def delete_queueless(homes: Shards, changed: Changed) -> Changed:
    """Deletes those that were refused because their records do not even say their queue."""
    done, ids = list(changed.done), list(changed.refused)
    for home in homes.all:
        for id, (raw, job) in (await read_home(home, ids)).items():
            if job is not None and job.unreadable and not job.queue and await _deleted(homes, home, raw, job):
                done.append(id)
    refused = {id: why for id, why in changed.refused.items() if id not in done}
    return replace(changed, done=sorted(done), refused=refused)


async def _deleted(homes: Shards, home: Shard, raw: Raw, job: Job) -> bool:
    """Entries of its group and its tags that remain lead to no record; a claim that meets one takes it out."""
    base, id = home.base, packed(job.id)
    conditions = [has(f"{base}:{name}", id, value) for name, value in zip(("job", "run", "end"), raw, strict=True)]
    commands: list[Arguments] = [
        *(("HDEL", f"{base}:{name}", id) for name in ("job", "run", "end", "unreadable")),
        *(("ZREM", f"{base}:{name}", id) for name in ("expiring", "odd")), ("SREM", f"{base}:suspect", id),
        ("DEL", f"{base}:exec:{job.id}", f"{base}:log:{job.id}"),
    ]  # fmt: skip
    if (group := await _group_of(home, id, job)) is not None:
        queue, task = group
        commands += [("ZREM", f"{base}:made:{queue}\0{task}", id), ("ZREM", f"{base}:again:{queue}", id)]
        commands += [("ZREM", f"{base}:{spot.key}", id) for spot in final_spots(id, task)]
    return await commit_one(homes, Unit(conditions, commands))


async def set_aside_schedules(homes: Shards, broken: Sequence[UnreadableRecord]) -> None:
    """These are due no more, and a new one may take the place of each; until then their records stay as they are."""
    home = homes.first
    for one in broken:
        text = await home.call("HGET", f"{home.base}:schedule", one.name)
        if text is not None and decoded("schedule", [(one.name, text)], _schedule)[1]:
            unread = has(f"{home.base}:schedule", one.name, text)
            await commit_one(homes, Unit([unread], [("ZREM", f"{home.base}:due", one.name)]))


async def records(homes: Shards) -> Finding:
    jobs = [id for some in await homes.each(_jobs) for id in some]
    return record_finding(jobs, sorted(await _schedules(homes.first)))


async def _jobs(home: Shard) -> list[str]:
    ids = await home.call("HKEYS", f"{home.base}:unreadable")
    found = await read_home(home, [unpacked(id) for id in ids])
    return [id for id, (_, job) in found.items() if job is not None and job.unreadable]


async def _schedules(home: Shard) -> list[str]:
    cursor, found = b"", list[str]()
    while cursor != b"0":
        cursor, pairs = await home.call("HSCAN", f"{home.base}:schedule", cursor or 0, "COUNT", BATCH_SCHEDULES)
        found += [one.name for one in decoded("schedule", zip(pairs[::2], pairs[1::2], strict=True), _schedule)[1]]
    return found
