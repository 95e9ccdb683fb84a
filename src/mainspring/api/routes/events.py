"""/events: what happens, as it happens."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, QueryParameter

from ...feed.event import feed_filter
from ...records.job import Shown
from ..access.authenticate import Who, may, still_may
from ..app_scope import served
from ..stream import EventStream

# How often a filter may be repeated, and the highest number that every client can say.
MANY, MOST = 100, 2**53 - 1
_ANY = "May be repeated: any of them."
_AFTER = "The number of the last event seen: what came after it is sent first."
Names = Annotated[list[str] | None, QueryParameter(max_items=MANY, description=_ANY)]
Types = Annotated[
    list[str] | None,
    QueryParameter(name="type", max_items=MANY, description=f"job.log, or all that begin so: job. {_ANY}"),
]
States = Annotated[list[Shown] | None, QueryParameter(name="state", max_items=MANY, description=_ANY)]
Seen = Annotated[int | None, HeaderParameter(name="Last-Event-ID", ge=0, le=MOST, description=_AFTER)]
AlsoSeen = Annotated[
    int | None,
    QueryParameter(name="last_event_id", ge=0, le=MOST, description=f"For clients without headers. {_AFTER}"),
]


@get(
    "/events",
    media_type="text/event-stream",
    responses={200: ResponseSpec(str, media_type="text/event-stream", description="Server-sent events.")},
    **may("viewer", waits=True),
)
async def follow_events(
    request: Request[Any, Any, Any],
    who: Who,
    types: Types = None,
    job: Names = None,
    queue: Names = None,
    task: Names = None,
    schedule: Names = None,
    states: States = None,
    last_event_id: Seen = None,
    seen: AlsoSeen = None,
) -> EventStream:
    """Jobs, progress, log lines, schedules, queues and workers as server-sent events, until the client leaves."""
    wish = feed_filter(types=types, jobs=job, queues=queue, tasks=task, schedules=schedule, states=states)
    after = seen if last_event_id is None else last_event_id
    return EventStream(served(request.scope).streams, who.name, wish, after, lambda: still_may(request))


ROUTES = [follow_events]
