"""What homes tell of each other's jobs, brought in line: one that lost its last words may have lost those jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ...ids import JobId
from ...schedule.job_ended import after_job_ended
from .access_paths import keeper
from .diff import job_as_read
from .index import held_keys
from .reads import fetch
from .records import packed, unpacked
from .schedules import repair_index, schedules
from .shard import Shard, Shards
from .snapshot import Name, Snapshot
from .tables import Tables
from .transact import transact
from .two_phase import Unit, commit_one, has

# So many at a time.
STEP = 200


async def mend(homes: Shards, now: datetime) -> None:
    """No schedule is held up by a job that is not there, and the index of schedules has them all."""
    await repair_index(homes.first)
    last: str | None = None
    while rows := await schedules(homes.first, None, STEP, last):
        last = rows[-1].name
        if gone := await _gone(homes, {id for row in rows for id in row.active}):
            gone = await _gone(homes, gone)
        held = [row.name for row in rows if gone.intersection(row.active)]
        await _let_go(homes, held, gone, now)


async def _gone(homes: Shards, ids: set[JobId]) -> set[JobId]:
    """Asked twice: one that is just moving from home to home may be seen in neither."""
    snapshot = Snapshot()
    await fetch(homes, snapshot, [Name("job", id) for id in ids])
    return {id for id, (_, job) in snapshot.jobs.items() if job is None}


async def _let_go(homes: Shards, names: Sequence[str], gone: set[JobId], now: datetime) -> None:
    def needs(name: str, snapshot: Snapshot) -> Iterator[Name]:
        yield Name("schedule", name)

    def rule(tables: Tables, name: str) -> None:
        series = tables.jobs.schedules
        for id in () if (row := series.rows.get(name)) is None else gone.intersection(row.active):
            series.write(after_job_ended(series.rows[name], id, None, now))

    await transact(homes, "mend", names, needs, rule, now)


async def mend_keys(homes: Shards) -> None:
    """Every key is held by the job that has it, and by no other. It takes a look at all of them."""
    for home in homes.all:
        await _release(homes, home)
        await _return(homes, home)


async def _release(homes: Shards, home: Shard) -> None:
    """Keys of jobs that are gone, or do not hold them any more."""
    cursor, table = b"", f"{home.base}:key"
    while cursor != b"0":
        cursor, pairs = await home.call("HSCAN", table, cursor or 0, "COUNT", STEP)
        snapshot = Snapshot()
        await fetch(homes, snapshot, [Name("job", unpacked(id)) for id in {*pairs[1::2]}])
        for key, id in zip(pairs[::2], pairs[1::2], strict=True):
            job = snapshot.job(unpacked(id))
            if job is None or key.decode() not in held_keys(job):
                conditions = [has(table, key, id), *job_as_read(homes, snapshot, unpacked(id))]
                await commit_one(homes, Unit(conditions, [("HDEL", table, key)]))


async def _return(homes: Shards, home: Shard) -> None:
    """Keys that jobs of this home hold, and of which nothing is written."""
    start = 0
    while entries := await home.call("ZRANGE", f"{home.base}:keys", start, start + STEP - 1):
        start, snapshot = start + STEP, Snapshot()
        await fetch(homes, snapshot, [Name("job", id) for id in {unpacked(keeper(entry)) for entry in entries}])
        held = {key: job.id for _, job in snapshot.jobs.values() if job is not None for key in held_keys(job)}
        await fetch(homes, snapshot, [Name("key", key) for key in held])
        for key, id in held.items():
            if snapshot.keys[key] is None:
                table = f"{homes.keeping(key).base}:key"
                conditions = [has(table, key, None), *job_as_read(homes, snapshot, id)]
                await commit_one(homes, Unit(conditions, [("HSET", table, key, packed(id))]))
