"""/scheduler/outlook: what runs next, and which schedules need somebody."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from ...schedule import Schedule
from ...scheduler import everything
from ..access.door import Spring, may
from .schedule_view import ScheduleView, schedule_view

# So long after it was due somebody should have looked at a schedule.
LATE = timedelta(minutes=1)
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


@get("/scheduler/outlook", **may("viewer"))
async def scheduler_outlook(spring: Spring, limit: Limit = 10) -> Outlook:
    """Which schedules tick next, which are late, and which have paused themselves after failures."""
    rows, now = await everything(await spring.opened()), spring.clock.now()
    active = [row for row in rows if row.status == "active"]
    late = [row for row in active if row.due_at is not None and now - row.due_at >= LATE]
    return Outlook(
        active=len(active), paused=sum(row.status == "paused" for row in rows),
        next=_views(sorted((row for row in active if row.next_run_at is not None), key=_tick), limit),
        late=_views(sorted(late, key=lambda row: row.due_at or now), limit),
        tripped=_views([row for row in rows if row.tripped], limit),
    )  # fmt: skip


def _tick(row: Schedule) -> tuple[datetime | None, str]:
    return row.next_run_at, row.name


def _views(rows: list[Schedule], limit: int) -> list[ScheduleView]:
    return [schedule_view(row) for row in rows[:limit]]


ROUTES = [scheduler_outlook]
