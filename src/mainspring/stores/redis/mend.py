"""Schedules that wait for jobs which are gone: a home that lost its last words may have lost what another tells of."""

from __future__ import annotations

from datetime import datetime

from ...aftermath import ended
from ...job import JobId
from ...schedule import Schedule
from .home import Homes
from .known import Known, load
from .part import Part
from .play import play
from .series import schedules

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
