"""/scheduler/outlook: the schedules that run next, and those that need attention."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from ...app import Mainspring
from ...schedule.record import Schedule
from ..access.authenticate import App, allow
from ..views import build_views
from .schedule_view import ScheduleView, schedule_view

# A schedule that has not fired this long after it was due is late.
LATE_AFTER = timedelta(minutes=1)
# Later than any due time.
_FAR_FUTURE = timedelta(days=36_525)
Limit = Annotated[int, QueryParameter(ge=1, le=100)]


class ScheduleOverview(Struct, frozen=True, kw_only=True):
    """All schedules at a glance. Each list has up to `limit` schedules."""

    active: int
    paused: int
    next: list[ScheduleView]
    """Active schedules, the soonest tick first."""
    late: list[ScheduleView]
    """Due for a minute or more and not fired, the longest overdue first."""
    tripped: list[ScheduleView]
    """Paused because of failures."""
    as_of: datetime
    """When the schedules were counted. If there are very many, that may be some seconds ago."""
    complete: bool
    """false while the schedules are being counted for the first time: the numbers are partial."""


@get("/scheduler/outlook", **allow("viewer"))
async def scheduler_outlook(app: App, limit: Limit = 10) -> ScheduleOverview:
    """The schedules that tick next, those that are late, and those that were paused because of failures."""
    store, now = await app.connect(), app.clock.now()
    index = await app.schedules.index.snapshot()
    coming = await store.due(now=now + _FAR_FUTURE, limit=limit)
    overdue = await store.due(now=now - LATE_AFTER, limit=limit)
    # The store's due list lacks schedules that wait for a run or a dependency, and those whose input only some workers
    # can compute.
    names = {*index.ticking[:limit], *index.due_first[:limit], *index.tripped[:limit]}
    rows = {row.name: row for row in (*coming.schedules, *overdue.schedules)}
    rows |= {row.name: row for row in await store.schedules(names, limit=len(names))} if names else {}
    active = [row for row in rows.values() if row.status == "active"]
    late = [row for row in active if row.due_at is not None and now - row.due_at >= LATE_AFTER]
    tripped = [rows[name] for name in index.tripped if name in rows and rows[name].tripped]
    return ScheduleOverview(
        active=index.counts["active"],
        paused=index.counts["paused"],
        next=await _views(app, sorted((row for row in active if row.next_run_at is not None), key=_next_run), limit),
        late=await _views(app, sorted(late, key=lambda row: row.due_at or now), limit),
        tripped=await _views(app, tripped, limit),
        as_of=index.as_of,
        complete=index.complete,
    )


def _next_run(row: Schedule) -> tuple[datetime | None, str]:
    return row.next_run_at, row.name


async def _views(app: Mainspring, rows: Iterable[Schedule], limit: int) -> list[ScheduleView]:
    return await build_views(app, list(islice(rows, limit)), schedule_view)


ROUTES = [scheduler_outlook]
