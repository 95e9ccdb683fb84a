"""The pages of a worker's endpoint: metrics of the process and of the cluster, and its health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from ..counters import CounterSnapshot
from ..health import Health
from . import exposition
from .cluster import ClusterMetrics
from .endpoint import PageHandler
from .process import families

if TYPE_CHECKING:
    from ..app import Mainspring

JSON = "application/json"


def pages(
    app: Mainspring, counts: Callable[[], CounterSnapshot], health: Callable[[bool], Awaitable[Health]]
) -> dict[str, PageHandler]:
    """Handlers by path. `health` is called with whether the store has to be checked."""
    cluster = ClusterMetrics(app)

    async def process_page(accept: str) -> tuple[int, str, bytes]:
        body, kind = exposition(families(counts()), accept)
        return 200, kind, body

    async def cluster_page(accept: str) -> tuple[int, str, bytes]:
        body, kind = exposition(await cluster.families(), accept)
        return 200, kind, body

    def health_page(question: Literal["live", "ready"]) -> PageHandler:
        async def page(accept: str) -> tuple[int, str, bytes]:
            answer = (await health(question == "ready")).answer(question)
            return answer.code, JSON, msgspec.json.encode(answer.body)

        return page

    return {
        "/metrics": process_page,
        "/metrics/cluster": cluster_page,
        "/health/live": health_page("live"),
        "/health/ready": health_page("ready"),
    }
