"""/schedules: reads, edits and controls schedules."""

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
from ..access.authenticate import App, allow
from ..access.redaction import redact_tick
from ..etag import etag, etag_secret, keyed_digest
from ..masked_values import restore_arguments, restore_in_thread
from ..response_cache import Cache
from ..views import build_view, build_views
from .schedule_run_view import ScheduleExecution, redact_stats, schedule_execution
from .schedule_view import NewSchedule, ScheduleEdit, ScheduleView, TickView, schedule_view, tick_views

Limit = Annotated[int, QueryParameter(ge=1, le=200)]
Window = Annotated[str, QueryParameter(max_length=20, description="A span such as 1h, 24h, 7d; up to 366d.")]
Before = Annotated[int | None, QueryParameter(ge=0, le=MAX_TICK_NUMBER, description="A tick's number.")]
IfMatch = Annotated[str | None, HeaderParameter(name="If-Match")]


class SchedulePageResponse(Struct, frozen=True):
    items: list[ScheduleView]
    next: str | None
    """Pass it as `after` to get the next page; null on the last page."""


class SchedulePauseRequest(Struct, forbid_unknown_fields=True):
    note: str = ""
    """Why it is paused; stored with the schedule."""


class ScheduleResumeRequest(Struct, forbid_unknown_fields=True):
    catch_up: bool = False
    """Apply the schedule's catch-up rule to the ticks during the pause; otherwise they are skipped."""


class ScheduleTriggerRequest(Struct, forbid_unknown_fields=True):
    kwargs: dict[str, Any] | None = None
    """The job's arguments, instead of the schedule's own."""


class TriggeredJob(Struct, frozen=True):
    job_id: str


class ScheduleRescheduleRequest(Struct, forbid_unknown_fields=True):
    at: datetime


class BackfillRequest(Struct, forbid_unknown_fields=True):
    start: datetime
    end: datetime | None = None
    dry_run: bool = False
    limit: int = 1000


@get("/schedules", **allow("viewer"))
async def list_schedules(
    app: App,
    q: FromQuery[str | None] = None,
    task: FromQuery[str | None] = None,
    owner: FromQuery[Owner | None] = None,
    status: FromQuery[Status | None] = None,
    after: FromQuery[str | None] = None,
    limit: Limit = 50,
) -> SchedulePageResponse:
    """Schedules by name. `q` is a part of the name. A page may have fewer than `limit` schedules; `next` is null on the
    last page only.

    If there are very many schedules, a filtered list may lack changes of the last seconds that were made elsewhere.
    """
    page = await app.schedules.page(q=q, task=task, owner=owner, status=status, limit=limit, after=after)
    return SchedulePageResponse(await build_views(app, page.rows, schedule_view), page.next)


@post("/schedules", **allow("operator"))
async def create_schedule(app: App, data: JSONBody[NewSchedule]) -> Response[ScheduleView]:
    """Creates a schedule that is owned by users: deploys do not change it."""
    given = await restore_in_thread(app, data.given)
    row = await app.schedules.create(data.name, given.pop("trigger"), data.task, **given)
    return await _with_etag(app, row, status_code=201)


@get("/schedules/{name:str}", **allow("viewer"))
async def get_schedule(app: App, name: FromPath[str]) -> Response[ScheduleView]:
    """One schedule."""
    return await _with_etag(app, await app.schedules.get(name))


@patch("/schedules/{name:str}", **allow("operator"))
async def update_schedule(
    app: App, name: FromPath[str], data: JSONBody[ScheduleEdit], if_match: IfMatch = None
) -> Response[ScheduleView]:
    """Edits a schedule. With If-Match, only if it was not changed since it was read."""
    spec = (await app.schedules.get(name)).spec
    secret, wanted = await etag_secret(app), str(if_match).removeprefix("W/").strip('"')

    def is_unchanged(spec: Spec) -> bool:
        return keyed_digest(secret, fingerprint(spec).encode()) == wanted

    expected = None if if_match in (None, "*") else is_unchanged
    given = await restore_in_thread(app, lambda: data.given(spec))
    return await _with_etag(app, await app.schedules.update(name, expected=expected, **given))


@delete("/schedules/{name:str}", status_code=204, **allow("operator"))
async def delete_schedule(app: App, name: FromPath[str]) -> None:
    """Deletes a schedule. Its jobs stay. A schedule that code declares returns when the next worker starts."""
    await app.schedules.delete(name)


@post("/schedules/{name:str}/pause", status_code=200, **allow("operator"))
async def pause_schedule(
    app: App, name: FromPath[str], data: JSONBody[SchedulePauseRequest | None] = None
) -> ScheduleView:
    """Pauses a schedule: it creates no jobs until it is resumed; its running jobs continue."""
    row = await app.schedules.pause(name, data.note if data else "")
    return await build_view(app, row, schedule_view)


@post("/schedules/{name:str}/resume", status_code=200, **allow("operator"))
async def resume_schedule(
    app: App, name: FromPath[str], data: JSONBody[ScheduleResumeRequest | None] = None
) -> ScheduleView:
    """Resumes a paused schedule."""
    row = await app.schedules.resume(name, catch_up=data is not None and data.catch_up)
    return await build_view(app, row, schedule_view)


@post("/schedules/{name:str}/trigger", **allow("operator"))
async def trigger_schedule(
    app: App, name: FromPath[str], data: JSONBody[ScheduleTriggerRequest | None] = None
) -> TriggeredJob:
    """Creates one job now, even if the schedule is paused. Its next tick does not change."""
    kwargs = None if data is None else data.kwargs
    if kwargs is not None:
        given, payload = kwargs, (await app.schedules.get(name)).spec.payload
        kwargs = await restore_in_thread(app, lambda: restore_arguments(given, payload))
    handle = await app.schedules.trigger(name, kwargs=kwargs)
    return TriggeredJob(handle.id)


@post("/schedules/{name:str}/reschedule", status_code=200, **allow("operator"))
async def reschedule_schedule(app: App, name: FromPath[str], data: JSONBody[ScheduleRescheduleRequest]) -> ScheduleView:
    """Moves the next tick to this instant. Later ticks follow the trigger."""
    return await build_view(app, await app.schedules.reschedule(name, data.at), schedule_view)


@post("/schedules/{name:str}/backfill", status_code=200, **allow("operator"))
async def backfill_schedule(app: App, name: FromPath[str], data: JSONBody[BackfillRequest]) -> Backfill:
    """Creates the jobs of past ticks that have none."""
    return await app.schedules.backfill(name, data.start, data.end, dry_run=data.dry_run, limit=data.limit)


@get("/schedules/{name:str}/preview", **allow("viewer"))
async def preview_schedule(
    app: App, name: FromPath[str], count: Annotated[int, QueryParameter(ge=1, le=1000)] = 10
) -> list[TickView]:
    """The next ticks of a schedule, with the effects of clock changes."""
    return tick_views(await app.schedules.preview(name, count))


@get("/schedules/{name:str}/ticks", **allow("viewer"))
async def schedule_ticks(app: App, name: FromPath[str], limit: Limit = 50, before: Before = None) -> list[Tick]:
    """The recorded ticks of a schedule, newest first. Each fired tick has the id of its job."""
    return [redact_tick(tick) for tick in await app.schedules.ticks(name, limit=limit, before=before)]


@get("/schedules/{name:str}/executions", **allow("viewer"))
async def schedule_executions(
    app: App, name: FromPath[str], limit: Limit = 50, before: Before = None
) -> list[ScheduleExecution]:
    """Finished runs of a schedule's jobs, each with its tick, newest first: all runs of up to `limit` ticks.

    Pass the `n` of the last run as `before` to get the next page; after the last page, the list is empty. Deleted jobs
    have no runs.
    """
    found = await app.schedules.executions(name, limit=limit, before=before)
    return await build_views(app, found, schedule_execution)


@get("/schedules/{name:str}/stats", **allow("viewer"))
async def schedule_stats(app: App, cache: Cache, name: FromPath[str], window: Window = "7d") -> ScheduleStats:
    """Totals since the schedule was created, and statistics of its runs within the window. Durations are seconds.

    The runs are those of its newest 500 jobs, as far as they are still stored: see `sample`.
    """
    back = timedelta(seconds=read_span(window, "window"))
    return redact_stats(await cache.get(("schedule", name, back), lambda: app.schedules.stats(name, back)))


async def _with_etag(app: Mainspring, row: Schedule, *, status_code: int = 200) -> Response[ScheduleView]:
    """A response with the schedule and its ETag, which is made from its spec: a tick does not change it."""
    view = await build_view(app, row, schedule_view)
    tag = await etag(app, fingerprint(row.spec).encode())
    return Response(view, status_code=status_code, headers={"ETag": f'"{tag}"'})


ROUTES = [
    list_schedules,
    create_schedule,
    get_schedule,
    update_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
    trigger_schedule,
    reschedule_schedule,
    backfill_schedule,
    preview_schedule,
    schedule_ticks,
    schedule_executions,
    schedule_stats,
]
