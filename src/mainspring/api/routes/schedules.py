"""/schedules: what runs when, and whether it may."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, QueryParameter
from msgspec import Struct

from ...app import Mainspring
from ...config import read_span
from ...control import Backfill, ScheduleStats
from ...control.schedule_history import MAX_TICK_NUMBER
from ...schedule.edit import fingerprint
from ...schedule.record import Owner, Schedule, Spec, Status, Tick
from ..access.authenticate import Spring, may
from ..access.redaction import shown_tick
from ..etag import etag, keyed, secret_of
from ..response_cache import Lately
from ..showing import shown_each, shown_one
from ..unchanged import given_values, kept_arguments
from .schedule_run_view import ScheduleExecution, schedule_execution, shown_stats
from .schedule_view import NewSchedule, Rules, ScheduleView, TickView, schedule_view, tick_views

Limit = Annotated[int, QueryParameter(ge=1, le=200)]
Window = Annotated[str, QueryParameter(max_length=20, description="A span such as 1h, 24h, 7d; up to 366d.")]
Before = Annotated[int | None, QueryParameter(ge=0, le=MAX_TICK_NUMBER, description="A tick's number.")]
IfMatch = Annotated[str | None, HeaderParameter(name="If-Match")]


class SchedulePageResponse(Struct, frozen=True):
    items: list[ScheduleView]
    next: str | None
    """Give it as `after` for the next page; null: there is none."""


class NoteRequest(Struct, forbid_unknown_fields=True):
    note: str = ""
    """Why; kept with the schedule."""


class Resumption(Struct, forbid_unknown_fields=True):
    catch_up: bool = False
    """Meet the ticks of the pause by its catch-up rule; else they are let go."""


class TriggerRequest(Struct, forbid_unknown_fields=True):
    kwargs: dict[str, Any] | None = None
    """In place of its own input."""


class Triggered(Struct, frozen=True):
    job_id: str


class Appointment(Struct, forbid_unknown_fields=True):
    at: datetime


class BackfillRange(Struct, forbid_unknown_fields=True):
    start: datetime
    end: datetime | None = None
    dry_run: bool = False
    limit: int = 1000


@get("/schedules", **may("viewer"))
async def list_schedules(
    spring: Spring,
    q: FromQuery[str | None] = None,
    task: FromQuery[str | None] = None,
    owner: FromQuery[Owner | None] = None,
    status: FromQuery[Status | None] = None,
    after: FromQuery[str | None] = None,
    limit: Limit = 50,
) -> SchedulePageResponse:
    """Schedules, by name; `q` is a part of it. A page may have fewer than `limit`: `next` says whether there are more.

    With filters, where there are very many, changes that others made in the last seconds may not be seen yet.
    """
    page = await spring.schedules.page(q=q, task=task, owner=owner, status=status, limit=limit, after=after)
    return SchedulePageResponse(await shown_each(spring, page.rows, schedule_view), page.next)


@post("/schedules", **may("operator"))
async def create_schedule(spring: Spring, data: JSONBody[NewSchedule]) -> Response[ScheduleView]:
    """Makes a schedule of the users' own, which no deploy touches."""
    given = await given_values(spring, data.given)
    row = await spring.schedules.create(data.name, given.pop("trigger"), data.task, **given)
    return await _tagged(spring, row, status_code=201)


@get("/schedules/{name:str}", **may("viewer"))
async def get_schedule(spring: Spring, name: FromPath[str]) -> Response[ScheduleView]:
    return await _tagged(spring, await spring.schedules.get(name))


@patch("/schedules/{name:str}", **may("operator"))
async def update_schedule(
    spring: Spring, name: FromPath[str], data: JSONBody[Rules], if_match: IfMatch = None
) -> Response[ScheduleView]:
    """Says some of it anew; with If-Match only if nobody has changed it since it was read."""
    spec = (await spring.schedules.get(name)).spec
    secret, wanted = await secret_of(spring), str(if_match).removeprefix("W/").strip('"')

    def is_as_read(spec: Spec) -> bool:
        return keyed(secret, fingerprint(spec).encode()) == wanted

    expected = None if if_match in (None, "*") else is_as_read
    given = await given_values(spring, lambda: data.given(spec))
    return await _tagged(spring, await spring.schedules.update(name, expected=expected, **given))


@delete("/schedules/{name:str}", status_code=204, **may("operator"))
async def delete_schedule(spring: Spring, name: FromPath[str]) -> None:
    """Jobs already made are left alone; one that code declares comes back with the next worker that starts."""
    await spring.schedules.delete(name)


@post("/schedules/{name:str}/pause", status_code=200, **may("operator"))
async def pause_schedule(
    spring: Spring, name: FromPath[str], data: JSONBody[NoteRequest | None] = None
) -> ScheduleView:
    """It makes no jobs until it is resumed; its running jobs go on."""
    row = await spring.schedules.pause(name, data.note if data else "")
    return await shown_one(spring, row, schedule_view)


@post("/schedules/{name:str}/resume", status_code=200, **may("operator"))
async def resume_schedule(
    spring: Spring, name: FromPath[str], data: JSONBody[Resumption | None] = None
) -> ScheduleView:
    row = await spring.schedules.resume(name, catch_up=data is not None and data.catch_up)
    return await shown_one(spring, row, schedule_view)


@post("/schedules/{name:str}/trigger", **may("operator"))
async def trigger_schedule(
    spring: Spring, name: FromPath[str], data: JSONBody[TriggerRequest | None] = None
) -> Triggered:
    """One job at once, paused or not; its next tick is left alone."""
    kwargs = None if data is None else data.kwargs
    if kwargs is not None:
        given, payload = kwargs, (await spring.schedules.get(name)).spec.payload
        kwargs = await given_values(spring, lambda: kept_arguments(given, payload))
    handle = await spring.schedules.trigger(name, kwargs=kwargs)
    return Triggered(handle.id)


@post("/schedules/{name:str}/reschedule", status_code=200, **may("operator"))
async def reschedule_schedule(spring: Spring, name: FromPath[str], data: JSONBody[Appointment]) -> ScheduleView:
    """Its next tick is at this instant; those after it follow its trigger."""
    return await shown_one(spring, await spring.schedules.reschedule(name, data.at), schedule_view)


@post("/schedules/{name:str}/backfill", status_code=200, **may("operator"))
async def backfill_schedule(spring: Spring, name: FromPath[str], data: JSONBody[BackfillRange]) -> Backfill:
    """Makes the jobs of past ticks that have none."""
    return await spring.schedules.backfill(name, data.start, data.end, dry_run=data.dry_run, limit=data.limit)


@get("/schedules/{name:str}/preview", **may("viewer"))
async def preview_schedule(
    spring: Spring, name: FromPath[str], count: Annotated[int, QueryParameter(ge=1, le=1000)] = 10
) -> list[TickView]:
    """Its next ticks, with what changes of the clocks do to them."""
    return tick_views(await spring.schedules.preview(name, count))


@get("/schedules/{name:str}/ticks", **may("viewer"))
async def schedule_ticks(spring: Spring, name: FromPath[str], limit: Limit = 50, before: Before = None) -> list[Tick]:
    """What became of its ticks, newest first; each fired one names its job."""
    return [shown_tick(tick) for tick in await spring.schedules.ticks(name, limit=limit, before=before)]


@get("/schedules/{name:str}/executions", **may("viewer"))
async def schedule_executions(
    spring: Spring, name: FromPath[str], limit: Limit = 50, before: Before = None
) -> list[ScheduleExecution]:
    """Runs of its jobs that have ended, with the tick each is for, newest first: all runs of up to `limit` ticks.

    Give the last one's `n` as `before` for the next page; an empty one is the end. Jobs that are no longer kept have
    none.
    """
    found = await spring.schedules.executions(name, limit=limit, before=before)
    return await shown_each(spring, found, schedule_execution)


@get("/schedules/{name:str}/stats", **may("viewer"))
async def schedule_stats(spring: Spring, recent: Lately, name: FromPath[str], window: Window = "7d") -> ScheduleStats:
    """How it has gone since it was made, and how its runs went within the window. Durations are seconds.

    Runs are those of its newest 500 jobs at most, as long as they are kept: `sample` says which.
    """
    back = timedelta(seconds=read_span(window, "window"))
    return shown_stats(await recent.get(("schedule", name, back), lambda: spring.schedules.stats(name, back)))


async def _tagged(spring: Mainspring, row: Schedule, *, status_code: int = 200) -> Response[ScheduleView]:
    """Its ETag is of what was said about it: that a tick came in between is no change."""
    view = await shown_one(spring, row, schedule_view)
    tag = await etag(spring, fingerprint(row.spec).encode())
    return Response(view, status_code=status_code, headers={"ETag": f'"{tag}"'})


ROUTES = [
    list_schedules, create_schedule, get_schedule, update_schedule, delete_schedule, pause_schedule, resume_schedule,
    trigger_schedule, reschedule_schedule, backfill_schedule, preview_schedule, schedule_ticks, schedule_executions,
    schedule_stats,
]  # fmt: skip
