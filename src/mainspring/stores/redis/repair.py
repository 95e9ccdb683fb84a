"""Repair after a data loss: references from one shard to jobs that another shard has lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ...ids import JobId
from ..rules.job_ends import JobEnd, apply_transition
from ..rules.keys import keys_held_by
from ..rules.loaded import LoadedTables
from ..rules.read_sets import KnownValues, Name
from .access_paths import holder_in
from .data_loss import DataLossDetector
from .diff import job_as_read
from .reads import fetch
from .records import packed, unpacked
from .schedules import repair_index, schedules_by_name
from .shard import Shard, Shards
from .snapshot import Snapshot
from .transact import transact
from .two_phase import Unit, commit_one, has

# Schedules or keys checked per round trip.
BATCH_ROWS = 200


async def repair_losses(shards: Shards, data_loss: DataLossDetector, now: datetime) -> None:
    """Repairs the store after a data loss that a beat noticed. The beat itself has no time for it."""
    if data_loss.repaired < (losses := len(data_loss.losses)):
        await repair_schedules(shards, now)
        await repair_keys(shards)
        data_loss.mark_repaired(losses)


async def repair_schedules(shards: Shards, now: datetime) -> None:
    """Releases schedules that wait for lost jobs, and repairs the index of schedules."""
    await repair_index(shards.first)
    last: str | None = None
    while rows := await schedules_by_name(shards.first, BATCH_ROWS, last):
        last = rows[-1].name
        if missing := await _missing(shards, {id for row in rows for id in row.active}):
            missing = await _missing(shards, missing)
        held = [row.name for row in rows if missing.intersection(row.active)]
        await _release_schedules(shards, held, missing, now)


async def _missing(shards: Shards, ids: set[JobId]) -> set[JobId]:
    """The ids without a job. The caller asks twice: a job that moves between shards may be seen in neither."""
    snapshot = Snapshot()
    await fetch(shards, snapshot, [Name("job", id) for id in ids])
    return {id for id, (_, job) in snapshot.jobs.items() if job is None}


async def _release_schedules(shards: Shards, names: Sequence[str], missing: set[JobId], now: datetime) -> None:
    """Ends the missing jobs for these schedules."""

    def needs(name: str, known: KnownValues) -> Iterator[Name]:
        yield Name("schedule", name)

    def rule(tables: LoadedTables, name: str) -> None:
        row = tables.schedule(name)
        for id in () if row is None else missing.intersection(row.active):
            apply_transition(tables, JobEnd(name, id, None, now))

    await transact(shards, "repair", names, needs, rule, now)


async def repair_keys(shards: Shards) -> None:
    """Makes every key held by the job that has it, and by no other. It reads all keys."""
    for shard in shards.all:
        await _drop_stale_keys(shards, shard)
        await _restore_keys(shards, shard)


async def _drop_stale_keys(shards: Shards, shard: Shard) -> None:
    """Frees keys of jobs that are lost or no longer hold them."""
    cursor, table = b"", f"{shard.base}:key"
    while cursor != b"0":
        cursor, pairs = await shard.call("HSCAN", table, cursor or 0, "COUNT", BATCH_ROWS)
        snapshot = Snapshot()
        await fetch(shards, snapshot, [Name("job", unpacked(id)) for id in {*pairs[1::2]}])
        for key, id in zip(pairs[::2], pairs[1::2], strict=True):
            job = snapshot.known_job(unpacked(id))
            if job is None or key.decode() not in keys_held_by(job):
                conditions = [has(table, key, id), *job_as_read(shards, snapshot, unpacked(id))]
                await commit_one(shards, Unit(conditions, [("HDEL", table, key)]))


async def _restore_keys(shards: Shards, shard: Shard) -> None:
    """Records the holders of keys that jobs of this shard hold without a record."""
    start = 0
    while entries := await shard.call("ZRANGE", f"{shard.base}:keys", start, start + BATCH_ROWS - 1):
        start, snapshot = start + BATCH_ROWS, Snapshot()
        await fetch(shards, snapshot, [Name("job", id) for id in {unpacked(holder_in(entry)) for entry in entries}])
        held = {key: job.id for _, job in snapshot.jobs.values() if job is not None for key in keys_held_by(job)}
        await fetch(shards, snapshot, [Name("key", key) for key in held])
        for key, id in held.items():
            if snapshot.keys[key] is None:
                table = f"{shards.of_key(key).base}:key"
                conditions = [has(table, key, None), *job_as_read(shards, snapshot, id)]
                await commit_one(shards, Unit(conditions, [("HSET", table, key, packed(id))]))
