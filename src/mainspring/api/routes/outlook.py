"""/scheduler/outlook: what runs next, and which schedules need somebody."""

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
from ..access.authenticate import Spring, may
from ..showing import shown_each
from .schedule_view import ScheduleView, schedule_view

# So long after it was due somebody should have looked at a schedule.
LATE = timedelta(minutes=1)
# Whatever is due at all is due before that.
_YEARS = timedelta(days=36_525)
Limit = Annotated[int, QueryParameter(ge=1, le=100)]


class Outlook(Struct, frozen=True, kw_only=True):
    """All schedules in one look; each list up to the limit."""

    active: int
    paused: int
    next: list[ScheduleView]
    """Active ones, the soonest tick first."""
    late: list[ScheduleView]
    """Due for a minute or more and not fired, the latest first."""
    tripped: list[ScheduleView]
    """Those that failures have paused."""
    as_of: datetime
    """When the schedules were counted: where there are very many, that may be some seconds ago."""
    complete: bool
    """False: they are still being counted for the first time, and the figures are of those that were read so far."""


@get("/scheduler/outlook", **may("viewer"))
async def scheduler_outlook(spring: Spring, limit: Limit = 10) -> Outlook:
    """Which schedules tick next, which are late, and which have paused themselves after failures."""
    store, now = await spring.opened(), spring.clock.now()
    index = await spring.schedules.index.snapshot()
    coming = await store.due(now=now + _YEARS, limit=limit)
    overdue = await store.due(now=now - LATE, limit=limit)
    # The store does not look by itself for all that tick, nor for those whose input only some workers can compute.
    names = {*index.ticking[:limit], *index.due_first[:limit], *index.tripped[:limit]}
    rows = {row.name: row for row in (*coming.schedules, *overdue.schedules)}
    rows |= {row.name: row for row in await store.schedules(names, limit=len(names))} if names else {}
    active = [row for row in rows.values() if row.status == "active"]
    late = [row for row in active if row.due_at is not None and now - row.due_at >= LATE]
    tripped = [rows[name] for name in index.tripped if name in rows and rows[name].tripped]
    return Outlook(
        active=index.counts["active"], paused=index.counts["paused"],
        next=await _views(spring, sorted((row for row in active if row.next_run_at is not None), key=_tick), limit),
        late=await _views(spring, sorted(late, key=lambda row: row.due_at or now), limit),
        tripped=await _views(spring, tripped, limit),
        as_of=index.as_of, complete=index.complete,
    )  # fmt: skip


def _tick(row: Schedule) -> tuple[datetime | None, str]:
    return row.next_run_at, row.name


async def _views(spring: Mainspring, rows: Iterable[Schedule], limit: int) -> list[ScheduleView]:
    return await shown_each(spring, list(islice(rows, limit)), schedule_view)


ROUTES = [scheduler_outlook]
