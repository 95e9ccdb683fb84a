"""POST /scheduler/bulk: one action on many schedules."""

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
from ..access.authenticate import App, allow
from ..access.redaction import redact_line
from ..problem import Problem

Text = Annotated[str, Meta(max_length=200)]


class ScheduleFilterRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Selects the schedules that match all fields."""

    q: Text | None = None
    """A part of the name, in upper or lower case."""
    task: Text | None = None
    owner: Owner | None = None
    status: Status | None = None


class BulkSchedulesRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """An action and a selection of schedules: by name; by filter, page by page; or all."""

    action: Literal["pause", "resume", "trigger", "delete"]
    names: Annotated[list[str], Meta(min_length=1, max_length=MAX_ROWS)] | None = None
    filter: ScheduleFilterRequest | None = None
    all: bool = False
    """Must be true if the filter is empty."""
    note: Annotated[str, Meta(max_length=MAX_NOTE_CHARACTERS)] = ""
    """For pause: the reason; stored with the schedules."""
    catch_up: bool = False
    """For resume: apply each schedule's catch-up rule to the ticks during the pause."""
    dry_run: bool = False
    """Change nothing, and report which schedules are selected."""
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS)] = MAX_ROWS
    """The maximum number of schedules in this call."""
    after: str | None = None
    """The `next` of the previous call with the same selection."""


@post("/scheduler/bulk", status_code=200, **allow("operator", noun="schedules"))
async def bulk_schedules(app: App, data: JSONBody[BulkSchedulesRequest]) -> ScheduleBulk:
    """Pauses, resumes, triggers or deletes up to 1,000 schedules. The audit trail has one entry for them.

    `next` is present if there may be more, even if no schedule in this call matched.
    """
    found = await _apply(app, data, _selected(data))
    return replace(found, refused={name: redact_line(why) for name, why in found.refused.items()})


def _selected(data: BulkSchedulesRequest) -> ScheduleFilter:
    given = sum((data.names is not None, data.filter is not None, data.all))
    if data.names is not None and given == 1:
        return ScheduleFilter(names=tuple(data.names))
    if data.names is not None:
        raise Problem(422, "invalid", "`names` selects the schedules: it cannot be combined with filter or all")
    which = ScheduleFilter(**asdict(data.filter)) if data.filter is not None else ScheduleFilter()
    if which == ScheduleFilter() and not data.all:
        raise Problem(422, "invalid", 'which schedules? Send names, a filter that is not empty, or "all": true')
    return which


async def _apply(app: Mainspring, data: BulkSchedulesRequest, which: ScheduleFilter) -> ScheduleBulk:
    for name, action in (("note", "pause"), ("catch_up", "resume")):
        if getattr(data, name) and data.action != action:
            raise Problem(422, "invalid", f"`{name}` is allowed only with action {action}")
    many = app.schedules.many
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
