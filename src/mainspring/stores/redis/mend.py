"""What homes tell of each other's jobs, brought in line: one that lost its last words may have lost those jobs."""

from __future__ import annotations

from datetime import datetime

from ...aftermath import ended
from ...job import JobId
from ...schedule import Schedule
from .home import Home, Homes
from .index import held_keys
from .known import Known, load
from .part import Part
from .play import play
from .records import packed, unpacked
from .series import schedules
from .step import Field, commit
from .ways import keeper

# So many at a time.
STEP = 200


async def mend(homes: Homes, now: datetime) -> None:
    """No schedule is held up by a job that is not there."""
    last: str | None = None
    while rows := await schedules(homes.first, None, STEP, last):
        last = rows[-1].name
        for row in rows:
            if row.active and await _gone(homes, row) and (gone := await _gone(homes, row)):
                await _let_go(homes, row.name, gone, now)


async def _gone(homes: Homes, row: Schedule) -> set[JobId]:
    """Asked twice: one that is just moving from home to home may be seen in neither."""
    known = Known()
    await load(homes, known, "job", row.active)
    return {id for id, (_, job) in known.jobs.items() if job is None}


async def _let_go(homes: Homes, name: str, gone: set[JobId], now: datetime) -> None:
    async def prepare(known: Known) -> None:
        await load(homes, known, "schedule", [name])

    def verb(part: Part) -> None:
        for id in gone:
            if (row := part.jobs.series.rows.get(name)) is not None and id in row.active:
                part.jobs.series.write(ended(row, id, None, now))

    await play(homes, verb, now, prepare)


async def mend_keys(homes: Homes) -> None:
    """Every key is held by the job that has it, and by no other. It takes a look at all of them."""
    for home in homes.all:
        await _release(homes, home)
        await _return(homes, home)


async def _release(homes: Homes, home: Home) -> None:
    """Keys of jobs that are gone, or do not hold them any more."""
    cursor, table = b"", f"{home.base}:key"
    while cursor != b"0":
        cursor, pairs = await home.call("HSCAN", table, cursor or 0, "COUNT", STEP)
        known = Known()
        await load(homes, known, "job", {unpacked(id) for id in pairs[1::2]})
        for key, id in zip(pairs[::2], pairs[1::2], strict=True):
            job = known.jobs[unpacked(id)][1]
            if job is None or key.decode() not in held_keys(job):
                await commit(homes, [(table, key, id), *_as_read(homes, known, unpacked(id))], [("HDEL", table, key)])


async def _return(homes: Homes, home: Home) -> None:
    """Keys that jobs of this home hold, and of which nothing is written."""
    start = 0
    while entries := await home.call("ZRANGE", f"{home.base}:keys", start, start + STEP - 1):
        start, known = start + STEP, Known()
        await load(homes, known, "job", {unpacked(keeper(entry)) for entry in entries})
        held = {key: job.id for _, job in known.jobs.values() if job is not None for key in held_keys(job)}
        await load(homes, known, "key", held)
        for key, id in held.items():
            if known.keys[key] is None:
                table = f"{homes.keeping(key).base}:key"
                expected = [(table, key, None), *_as_read(homes, known, id)]
                await commit(homes, expected, [("HSET", table, key, packed(id))])


def _as_read(homes: Homes, known: Known, id: JobId) -> list[Field]:
    """The job has to be as it was found, or nowhere."""
    seen = Known()
    seen.jobs[id], seen.touched = known.jobs[id], {id}
    nowhere: list[Field] = [(f"{home.base}:job", packed(id), None) for home in homes.all]
    return list(seen.expected(homes)) or nowhere
