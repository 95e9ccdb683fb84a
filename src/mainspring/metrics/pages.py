"""The pages of a worker's endpoint: its own figures, the cluster's, and how it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from ..counters import CounterSnapshot
from ..health import Health
from . import exposition
from .cluster import ClusterMetrics
from .endpoint import Page
from .process import families

if TYPE_CHECKING:
    from ..app import Mainspring

JSON = "application/json"


def pages(
    app: Mainspring, counts: Callable[[], CounterSnapshot], health: Callable[[bool], Awaitable[Health]]
) -> dict[str, Page]:
    """`health` is told whether the store is to be asked."""
    cluster = ClusterMetrics(app)

    async def own(accept: str) -> tuple[int, str, bytes]:
        body, kind = exposition(families(counts()), accept)
        return 200, kind, body

    async def whole(accept: str) -> tuple[int, str, bytes]:
        body, kind = exposition(await cluster.families(), accept)
        return 200, kind, body

    def told(question: Literal["live", "ready"]) -> Page:
        async def page(accept: str) -> tuple[int, str, bytes]:
            answer = (await health(question == "ready")).answer(question)
            return answer.code, JSON, msgspec.json.encode(answer.body)

        return page

    return {
        "/metrics": own,
        "/metrics/cluster": whole,
        "/health/live": told("live"),
        "/health/ready": told("ready"),
    }
