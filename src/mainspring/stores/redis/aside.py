"""Unreadable records: jobs and schedules that cannot be decoded are set aside, and reported by doctor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ...ids import JobId, WorkerId
from ...records.finding import Finding
from ...records.job import Job, State, UnreadableRecord
from ...records.limit import limit_name
from ...records.query import Changed
from ...records.unreadable import decoded, record_finding, unreadable_record
from ...schedule.record import Schedule
from .index import RUNNING_OF, Command, final_entries, limited_entry, limited_group
from .job_reads import read_shard
from .records import CLAIM_PARTS, Raw, aside_claim, packed, unpacked
from .shard import Shard, Shards
from .snapshot import Found
from .two_phase import Unit, commit_one, has

_schedule = msgspec.json.Decoder(Schedule).decode
# Schedules read per round trip.
BATCH_SCHEDULES = 500


async def set_aside(shards: Shards, broken: Sequence[UnreadableRecord], worker: WorkerId, now: int) -> None:
    """Parks unreadable jobs that are claimed by this worker, so that they are not claimed again."""
    ids = {packed(one.name): one for one in broken}
    for shard in shards.all:
        claims = await shard.call("HMGET", f"{shard.base}:run", *ids)
        for (id, one), claim in zip(ids.items(), claims, strict=True):
            if claim is not None and len(parts := claim.decode(errors="backslashreplace").split("\0")) in CLAIM_PARTS:
                commands = [
                    ("SREM", f"{shard.base}:held:{worker}", id),
                    *_free_commands(shard, id, *parts[4:]),
                    *park_commands(shard, id, parts[4], parts[5], one, now),
                ]
                await commit_one(shards, Unit([has(f"{shard.base}:run", id, claim)], commands))


def _free_commands(shard: Shard, id: bytes, queue: str, task: str, *limit_keys: str) -> Iterator[Command]:
    """The commands that give back the place of a claimed job."""
    for limit_key in limit_keys:
        yield "ZREM", f"{shard.base}:{RUNNING_OF}{limit_name(limit_key)}", limited_entry(limit_key, id)
        yield "FREE", f"{shard.base}:{limited_group(queue, task, limit_key)}"


def park_commands(shard: Shard, id: bytes, queue: str, task: str, one: UnreadableRecord, now: int) -> list[Command]:
    """The commands that make an unreadable job a paused one."""
    base, park = shard.base, f"{State.PAUSED.value}\0{queue}"
    return [
        ("HSET", f"{base}:run", id, aside_claim(queue, task, now)),
        ("SADD", f"{base}:parked:{park}", id),
        ("SADD", f"{base}:parks", park),
        ("ZREM", f"{base}:expiring", id),
        ("SREM", f"{base}:suspect", id),
        ("ZREM", f"{base}:again:{queue}", id),
        ("HSET", f"{base}:unreadable", id, one.error),
    ]


async def take_out_unreadable(
    shards: Shards, shard: Shard, found: Mapping[JobId, Found], placed: Sequence[tuple[str, bytes]], now: int
) -> list[UnreadableRecord]:
    """Sets aside unreadable jobs and removes entries without a job. `placed` are groups and the entries read there."""
    broken = {
        packed(id): unreadable_record("job", id, job.failure.message)
        for id, (_, job) in found.items()
        if job is not None and job.failure is not None and job.unreadable
    }
    for group, entry in placed:
        if entry[10:] in broken or found[unpacked(entry[10:])][1] is None:
            await _take_out_entry(shards, shard, group, entry, broken.get(entry[10:]), now)
    for id in broken.keys() - {entry[10:] for _, entry in placed}:
        await _set_aside_groupless(shards, shard, id, broken[id], found[unpacked(id)], now)
    return list(broken.values())


async def _take_out_entry(
    shards: Shards, shard: Shard, group: str, entry: bytes, broken: UnreadableRecord | None, now: int
) -> None:
    """Removes an entry that cannot be claimed, and parks its job if there is one."""
    base, id = shard.base, entry[10:]
    commands: list[Command] = [
        *(("ZREM", f"{base}:{kind}:{group}", entry) for kind in ("ready", "later")),
        ("GROUP", f"{base}:{group}"),
    ]
    if broken is None:
        await commit_one(shards, Unit([has(f"{base}:job", id, None)], commands))
        await shard.call("HINCRBY", f"{base}:health", "stale", 1)
    else:
        queue, _, task = group.partition("\0")
        commands += park_commands(shard, id, queue, task, broken, now)
        await commit_one(shards, Unit([has(f"{base}:run", id, None)], commands))


async def _set_aside_groupless(
    shards: Shards, shard: Shard, id: bytes, one: UnreadableRecord, found: Found, now: int
) -> None:
    """Sets aside a suspect or expiring job, which is in no claimable group."""
    base, (raw, job) = shard.base, found
    group = None if job is None or raw[1] is not None else await _group_of(shard, id, job)
    if group is not None:
        commands = park_commands(shard, id, *group, one, now)
    else:
        commands = [
            ("ZREM", f"{base}:expiring", id),
            ("SREM", f"{base}:suspect", id),
            ("HSET", f"{base}:unreadable", id, one.error),
        ]
    conditions = [has(f"{base}:job", id, raw[0]), has(f"{base}:run", id, raw[1])]
    await commit_one(shards, Unit(conditions, commands))


async def _group_of(shard: Shard, id: bytes, job: Job) -> tuple[str, str] | None:
    """The queue and task of a job, from its record or from the index of groups. None if neither has them."""
    if job.queue:
        return job.queue, job.task
    groups = await shard.call("SMEMBERS", f"{shard.base}:groups")
    scores = await shard.multi([("ZSCORE", f"{shard.base}:made:".encode() + group, id) for group in groups])
    found = next((group for group, score in zip(groups, scores, strict=True) if score is not None), None)
    if found is None:
        return None
    queue, _, task = found.decode(errors="backslashreplace").partition("\0")
    return queue, task


async def delete_queueless(shards: Shards, changed: Changed) -> Changed:
    """Deletes jobs whose deletion was refused because not even their queue can be decoded."""
    done, ids = list(changed.done), list(changed.refused)
    for shard in shards.all:
        for id, (raw, job) in (await read_shard(shard, ids)).items():
            if job is not None and job.unreadable and not job.queue and await _delete_record(shards, shard, raw, job):
                done.append(id)
    refused = {id: why for id, why in changed.refused.items() if id not in done}
    return replace(changed, done=sorted(done), refused=refused)


async def _delete_record(shards: Shards, shard: Shard, raw: Raw, job: Job) -> bool:
    """Deletes the record. Entries of its group and tags may remain; a claim that meets one removes it."""
    base, id = shard.base, packed(job.id)
    conditions = [has(f"{base}:{name}", id, value) for name, value in zip(("job", "run", "end"), raw, strict=True)]
    commands: list[Command] = [
        *(("HDEL", f"{base}:{name}", id) for name in ("job", "run", "end", "unreadable")),
        *(("ZREM", f"{base}:{name}", id) for name in ("expiring", "odd")),
        ("SREM", f"{base}:suspect", id),
        ("DEL", *(f"{base}:{kind}:{job.id}" for kind in ("exec", "log", "output", "checkpoint"))),
    ]
    if (group := await _group_of(shard, id, job)) is not None:
        queue, task = group
        commands += [("ZREM", f"{base}:made:{queue}\0{task}", id), ("ZREM", f"{base}:again:{queue}", id)]
        commands += [("ZREM", f"{base}:{entry.key}", id) for entry in final_entries(id, task)]
    return await commit_one(shards, Unit(conditions, commands))


async def set_aside_schedules(shards: Shards, broken: Sequence[UnreadableRecord]) -> None:
    """Makes unreadable schedules not due. Their records stay until they are replaced or dropped."""
    shard = shards.first
    for one in broken:
        text = await shard.call("HGET", f"{shard.base}:schedule", one.name)
        if text is not None and decoded("schedule", [(one.name, text)], _schedule)[1]:
            unread = has(f"{shard.base}:schedule", one.name, text)
            await commit_one(shards, Unit([unread], [("ZREM", f"{shard.base}:due", one.name)]))


async def records_finding(shards: Shards) -> Finding:
    """The finding about unreadable jobs and schedules."""
    jobs = [id for some in await shards.each(_unreadable_jobs) for id in some]
    return record_finding(jobs, sorted(await _unreadable_schedules(shards.first)))


async def _unreadable_jobs(shard: Shard) -> list[str]:
    ids = await shard.call("HKEYS", f"{shard.base}:unreadable")
    found = await read_shard(shard, [unpacked(id) for id in ids])
    return [id for id, (_, job) in found.items() if job is not None and job.unreadable]


async def _unreadable_schedules(shard: Shard) -> list[str]:
    cursor, found = b"", list[str]()
    while cursor != b"0":
        cursor, pairs = await shard.call("HSCAN", f"{shard.base}:schedule", cursor or 0, "COUNT", BATCH_SCHEDULES)
        found += [one.name for one in decoded("schedule", zip(pairs[::2], pairs[1::2], strict=True), _schedule)[1]]
    return found
