"""What an operator does to schedules, and to the jobs they have made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from mainspring.app import Mainspring
from mainspring.errors import BadInput, InvalidTransition, JobExists, JobNotFound, ScheduleExists, ScheduleNotFound

from .plan import Arrange, Create
from .schedule_plan import Entry, Wrong

_TOO_LATE = (BadInput, InvalidTransition, JobExists, JobNotFound, ScheduleExists, ScheduleNotFound, Wrong)


async def arrange(app: Mainspring, move: Arrange | Create, wished: set[datetime]) -> None:
    """Does it, or finds that it came too early or too late. `wished` hears to which instant a tick is moved."""
    try:
        if isinstance(move, Create):
            await _create(app, move.entry)
        elif move.action.endswith(" job"):
            await _job(app, move.action.removesuffix(" job"), move.schedule)
        else:
            await _schedule(app, move.action, move.schedule, move.given, wished)
    except _TOO_LATE:
        pass


async def _create(app: Mainspring, entry: Entry) -> None:
    kwargs = {"value": entry.value}
    await app.schedules.create(entry.name, entry.trigger, app.tasks[entry.task], kwargs=kwargs, **entry.options)


async def _job(app: Mainspring, action: str, name: str) -> None:
    row = await app.schedules.get(name)
    if row.last_job_id is not None:
        await getattr(app.jobs, action)(row.last_job_id)


async def _schedule(
    app: Mainspring, action: str, name: str, given: Mapping[str, Any], wished: set[datetime]
) -> None:  # fmt: skip
    await app.opened()  # the first time, its clock is set
    now = app.clock.now()
    match action:
        case "reschedule":
            at = now + timedelta(seconds=given["seconds"])
            wished.add(at)
            await app.schedules.reschedule(name, at)
        case "backfill":
            await app.schedules.backfill(name, now - timedelta(seconds=given["seconds"]), limit=100)
        case "update" if "trigger" in given:
            changed: dict[str, Any] = {**given, "trigger": Entry(name=name, when=given["trigger"]).trigger}
            await app.schedules.update(name, **changed)
        case _:
            await getattr(app.schedules, action)(name, **given)
