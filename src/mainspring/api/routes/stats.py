"""/stats: how many jobs there are, and how runs have gone."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from msgspec.structs import replace

from ...config import read_span
from ...insight.stats import Stats, TopError
from ..access.authenticate import Spring, may
from ..access.redaction import shown_error, shown_message, shown_text
from ..response_cache import Lately

EVER = "ever"
Window = Annotated[str, QueryParameter(max_length=20, description="A span such as 15m, 1h, 24h, 7d; or ever.")]

Only = Annotated[str | None, QueryParameter(max_length=200, description="Only runs of this one.")]


@get("/stats", **may("viewer"))
async def get_stats(
    spring: Spring, recent: Lately, window: Window = "1h", queue: Only = None, task: Only = None
) -> Stats:
    """Jobs by state, and how runs went within the window: by task, by queue, in time. Durations are seconds."""
    back = None if window == EVER else timedelta(seconds=read_span(window, "window"))
    found = await recent.get(("stats", back, queue, task), lambda: spring.stats(back, queue=queue, task=task))
    queues = [replace(queue, note=shown_text(queue.note) or "") for queue in found.queues]
    return replace(found, queues=queues, errors=[_shown(one) for one in found.errors])


def _shown(one: TopError) -> TopError:
    return replace(one, error=shown_error(one.error), message=shown_message(one.message))


ROUTES = [get_stats]
