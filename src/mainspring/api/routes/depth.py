"""/depth: how deep the queues were."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from ...config import read_span
from ...insight.queue_depth import DepthSample, grid_of
from ..access.authenticate import Spring, may

Window = Annotated[str, QueryParameter(max_length=20, description="A span such as 15m, 1h, 24h, up to 4d.")]
Only = Annotated[str | None, QueryParameter(max_length=200, description="Only this queue.")]


class Depths(Struct, frozen=True):
    step: float
    """Seconds from one sample to the next, where none is missing."""
    items: list[DepthSample]


# Not /queues/history, which is the queue of that name.
@get("/depth", **may("viewer", noun="queues"))
async def list_depths(spring: Spring, window: Window = "1h", queue: Only = None) -> Depths:
    """How deep the queues were within the window, first to last; where no worker lived there is no sample."""
    back = timedelta(seconds=read_span(window, "window"))
    step = grid_of(back).step.total_seconds()
    return Depths(step, list(await spring.queues.history(back, queue=queue)))


ROUTES = [list_depths]
