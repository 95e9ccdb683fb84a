"""/events: live events as server-sent events."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, QueryParameter

from ...feed.event import feed_filter
from ...records.job import Shown
from ..access.authenticate import Caller, allow, is_still_allowed
from ..app_scope import app_scope
from ..event_stream import EventStream

# Of one query parameter.
MAX_FILTER_VALUES = 100
# The largest integer that every JSON client can represent.
MAX_EVENT_NUMBER = 2**53 - 1
_ANY = "May be repeated: any of the values."
_AFTER = "The number of the last event received: later events are sent first."
Names = Annotated[list[str] | None, QueryParameter(max_items=MAX_FILTER_VALUES, description=_ANY)]
Types = Annotated[
    list[str] | None,
    QueryParameter(name="type", max_items=MAX_FILTER_VALUES, description=f"A type (job.log) or a prefix (job). {_ANY}"),
]
States = Annotated[list[Shown] | None, QueryParameter(name="state", max_items=MAX_FILTER_VALUES, description=_ANY)]
LastEventId = Annotated[
    int | None, HeaderParameter(name="Last-Event-ID", ge=0, le=MAX_EVENT_NUMBER, description=_AFTER)
]
LastEventIdQuery = Annotated[
    int | None,
    QueryParameter(
        name="last_event_id", ge=0, le=MAX_EVENT_NUMBER, description=f"For clients that cannot send headers. {_AFTER}"
    ),
]


@get(
    "/events",
    media_type="text/event-stream",
    responses={200: ResponseSpec(str, media_type="text/event-stream", description="Server-sent events.")},
    **allow("viewer", waits=True),
)
async def follow_events(
    request: Request[Any, Any, Any],
    caller: Caller,
    types: Types = None,
    job: Names = None,
    queue: Names = None,
    task: Names = None,
    schedule: Names = None,
    states: States = None,
    flow: Names = None,
    last_event_id: LastEventId = None,
    last_event_id_query: LastEventIdQuery = None,
) -> EventStream:
    """Streams the events of jobs, progress, log lines, schedules, queues and workers until the client disconnects."""
    event_filter = feed_filter(
        types=types, jobs=job, queues=queue, tasks=task, schedules=schedule, states=states, flows=flow
    )
    after = last_event_id_query if last_event_id is None else last_event_id
    return EventStream(
        app_scope(request.scope).streams, caller.name, event_filter, after, lambda: is_still_allowed(request)
    )


ROUTES = [follow_events]
