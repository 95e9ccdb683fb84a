"""/depth: the history of queue depths."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from ...config import read_span
from ...insight.queue_depth import DepthSample, grid_of
from ..access.authenticate import App, allow

Window = Annotated[str, QueryParameter(max_length=20, description="A span such as 15m, 1h, 24h, up to 4d.")]
QueueName = Annotated[str | None, QueryParameter(max_length=200, description="Only this queue.")]


class QueueDepthHistory(Struct, frozen=True):
    step: float
    """Seconds from one sample to the next, if none is missing."""
    items: list[DepthSample]


# Not /queues/history: that is the queue named "history".
@get("/depth", **allow("viewer", noun="queues"))
async def list_depths(app: App, window: Window = "1h", queue: QueueName = None) -> QueueDepthHistory:
    """Queue depths within the window, oldest first. There are no samples of times without a live worker."""
    back = timedelta(seconds=read_span(window, "window"))
    step = grid_of(back).step.total_seconds()
    return QueueDepthHistory(step, list(await app.queues.history(back, queue=queue)))


ROUTES = [list_depths]
