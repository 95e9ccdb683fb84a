"""The actions of an operator on schedules, and on the newest jobs of schedules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from mainspring.app import Mainspring
from mainspring.errors import BadInput, InvalidTransition, JobExists, JobNotFound, ScheduleExists, ScheduleNotFound

from .plan import Arrange, Create
from .schedule_plan import InputError, PlannedSchedule

_TOO_LATE = (BadInput, InvalidTransition, JobExists, JobNotFound, ScheduleExists, ScheduleNotFound, InputError)


async def arrange(app: Mainspring, move: Arrange | Create, rescheduled: set[datetime]) -> None:
    """Applies a move; a move that comes too early or too late is ignored.

    Adds the instants to which ticks are moved to `rescheduled`.
    """
    try:
        if isinstance(move, Create):
            await _create(app, move.entry)
        elif move.action.endswith(" job"):
            await _job(app, move.action.removesuffix(" job"), move.schedule)
        else:
            await _schedule(app, move.action, move.schedule, move.given, rescheduled)
    except _TOO_LATE:
        pass


async def _create(app: Mainspring, entry: PlannedSchedule) -> None:
    kwargs = {"value": entry.value}
    await app.schedules.create(entry.name, entry.trigger, app.tasks[entry.task], kwargs=kwargs, **entry.options)


async def _job(app: Mainspring, action: str, name: str) -> None:
    row = await app.schedules.get(name)
    if row.last_job_id is not None:
        await getattr(app.jobs, action)(row.last_job_id)


async def _schedule(
    app: Mainspring, action: str, name: str, given: Mapping[str, Any], rescheduled: set[datetime]
) -> None:  # fmt: skip
    await app.connect()  # the first call sets its clock
    now = app.clock.now()
    match action:
        case "reschedule":
            at = now + timedelta(seconds=given["seconds"])
            rescheduled.add(at)
            await app.schedules.reschedule(name, at)
        case "backfill":
            await app.schedules.backfill(name, now - timedelta(seconds=given["seconds"]), limit=100)
        case "update" if "trigger" in given:
            changed: dict[str, Any] = {**given, "trigger": PlannedSchedule(name=name, when=given["trigger"]).trigger}
            await app.schedules.update(name, **changed)
        case _:
            await getattr(app.schedules, action)(name, **given)
