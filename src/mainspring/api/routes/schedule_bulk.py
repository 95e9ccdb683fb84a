"""POST /scheduler/bulk: the same to many schedules."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import post
from litestar.params import JSONBody
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from ...app import Mainspring
from ...bounds import MAX_NOTE_CHARACTERS
from ...control.schedule_bulk import MAX_ROWS, ScheduleBulk, ScheduleFilter
from ...schedule.record import Owner, Status
from ..access.authenticate import Spring, may
from ..access.redaction import shown_line
from ..problem import Problem

Text = Annotated[str, Meta(max_length=200)]


class ScheduleChoice(Struct, kw_only=True, forbid_unknown_fields=True):
    """All of it must hold."""

    q: Text | None = None
    """A part of the name, in any case."""
    task: Text | None = None
    owner: Owner | None = None
    status: Status | None = None


class BulkSchedules(Struct, kw_only=True, forbid_unknown_fields=True):
    """The schedules meant: by name; by filter, in parts; or all."""

    action: Literal["pause", "resume", "trigger", "delete"]
    names: Annotated[list[str], Meta(min_length=1, max_length=MAX_ROWS)] | None = None
    filter: ScheduleChoice | None = None
    all: bool = False
    """Must be true where the filter is empty."""
    note: Annotated[str, Meta(max_length=MAX_NOTE_CHARACTERS)] = ""
    """For pause: why; kept with the schedules."""
    catch_up: bool = False
    """For resume: meet the ticks of the pause by each one's catch-up rule."""
    dry_run: bool = False
    """Only answer which schedules are meant."""
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS)] = MAX_ROWS
    """At most this number in this call."""
    after: str | None = None
    """The `next` of the call before, with the same choice."""


@post("/scheduler/bulk", status_code=200, **may("operator", noun="schedules"))
async def bulk_schedules(spring: Spring, data: JSONBody[BulkSchedules]) -> ScheduleBulk:
    """Pauses, resumes, triggers or deletes schedules, up to 1,000 a call; one act in the audit trail.

    `next` is given where there may be more, also if this call met none that fits.
    """
    found = await _changed(spring, data, _chosen(data))
    return replace(found, refused={name: shown_line(why) for name, why in found.refused.items()})


def _chosen(data: BulkSchedules) -> ScheduleFilter:
    given = sum((data.names is not None, data.filter is not None, data.all))
    if data.names is not None and given == 1:
        return ScheduleFilter(names=tuple(data.names))
    if data.names is not None:
        raise Problem(422, "invalid", "`names` choose the schedules: filter and all do not go with them")
    which = ScheduleFilter(**asdict(data.filter)) if data.filter is not None else ScheduleFilter()
    if which == ScheduleFilter() and not data.all:
        raise Problem(422, "invalid", 'which schedules? Give names, a filter that is not empty, or "all": true')
    return which


async def _changed(spring: Mainspring, data: BulkSchedules, which: ScheduleFilter) -> ScheduleBulk:
    for name, action in (("note", "pause"), ("catch_up", "resume")):
        if getattr(data, name) and data.action != action:
            raise Problem(422, "invalid", f"`{name}` goes with action {action}, and only with that")
    many = spring.schedules.many
    limit, after, dry_run = data.limit, data.after, data.dry_run
    match data.action:
        case "pause":
            return await many.pause(which, data.note, limit=limit, after=after, dry_run=dry_run)
        case "resume":
            return await many.resume(which, catch_up=data.catch_up, limit=limit, after=after, dry_run=dry_run)
        case "trigger":
            return await many.trigger(which, limit=limit, after=after, dry_run=dry_run)
    return await many.delete(which, limit=limit, after=after, dry_run=dry_run)


ROUTES = [bulk_schedules]
