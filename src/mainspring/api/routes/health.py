"""/health: liveness and readiness of this process. Open to everyone: load balancers have no keys."""

from __future__ import annotations

from litestar import Response, get
from litestar.datastructures import ResponseHeader
from litestar.openapi.datastructures import ResponseSpec

from ...health import Body, ProbeResult
from ..access.authenticate import ANYONE, App, allow

_FAILING = {503: ResponseSpec(Body, description="Not live or not ready, for these reasons.", generate_examples=False)}
_NO_STORE = [ResponseHeader(name="Cache-Control", value="no-store")]


@get("/health/live", responses=_FAILING, response_headers=_NO_STORE, **allow(ANYONE))
async def live(app: App) -> Response[Body]:
    """Whether every loop of this process has run recently. The store is not checked: a restart would not help it."""
    return _response((await app.health(store=False)).answer("live"))


@get("/health/ready", responses=_FAILING, response_headers=_NO_STORE, **allow(ANYONE))
async def ready(app: App) -> Response[Body]:
    """Whether this process is live and the store is reachable."""
    return _response((await app.health()).answer("ready"))


def _response(answer: ProbeResult) -> Response[Body]:
    return Response(answer.body, status_code=answer.code)


ROOT_ROUTES = [live, ready]
