"""/metrics: the cluster's figures and those of this process, for Prometheus."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get

from ...metrics import exposition
from ...metrics.process import families
from ...metrics.timed_store import counters_of
from ..access.authenticate import Spring, may
from ..app_scope import served


@get("/metrics", media_type="text/plain", **may("viewer"))
async def metrics(spring: Spring, request: Request[Any, Any, Any]) -> Response[bytes]:
    """In the text format of Prometheus, or as OpenMetrics for those who accept it."""
    found, meter = await served(request.scope).cluster.families(), counters_of(spring)
    if meter is not None:
        found += families(meter.whole())
    body, kind = exposition(found, request.headers.get("accept", ""))
    return Response(body, media_type=kind)


BESIDE = [metrics]
