"""/metrics: metrics of the cluster and of this process, for Prometheus."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get

from ...metrics import exposition
from ...metrics.process import families
from ...metrics.timed_store import counters_of
from ..access.authenticate import App, allow
from ..app_scope import app_scope


@get("/metrics", media_type="text/plain", **allow("viewer"))
async def metrics(app: App, request: Request[Any, Any, Any]) -> Response[bytes]:
    """Metrics in the Prometheus text format, or as OpenMetrics if the client accepts it."""
    found, meter = await app_scope(request.scope).cluster.families(), counters_of(app)
    if meter is not None:
        found += families(meter.whole())
    body, kind = exposition(found, request.headers.get("accept", ""))
    return Response(body, media_type=kind)


ROOT_ROUTES = [metrics]
