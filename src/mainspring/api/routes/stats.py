"""/stats: numbers of jobs and statistics of runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from msgspec.structs import replace

from ...config import read_span
from ...insight.stats import Stats, TopError
from ..access.authenticate import App, allow
from ..access.redaction import mask_note, redact_error, redact_message
from ..response_cache import Cache

ALL_TIME = "ever"
Window = Annotated[str, QueryParameter(max_length=20, description="A span such as 15m, 1h, 24h, 7d; or ever.")]

Only = Annotated[str | None, QueryParameter(max_length=200, description="Only runs of this queue or task.")]


@get("/stats", **allow("viewer"))
async def get_stats(app: App, cache: Cache, window: Window = "1h", queue: Only = None, task: Only = None) -> Stats:
    """Jobs by state, and statistics of runs within the window: by task, by queue, over time. Durations are seconds."""
    back = None if window == ALL_TIME else timedelta(seconds=read_span(window, "window"))
    found = await cache.get(("stats", back, queue, task), lambda: app.stats(back, queue=queue, task=task))
    queues = [replace(queue, note=mask_note(queue.note) or "") for queue in found.queues]
    return replace(found, queues=queues, errors=[_redacted(one) for one in found.errors])


def _redacted(one: TopError) -> TopError:
    return replace(one, error=redact_error(one.error), message=redact_message(one.message))


ROUTES = [get_stats]
