"""/health: whether this process lives, and whether it can serve. For anybody: balancers have no keys."""

from __future__ import annotations

from litestar import Response, get
from litestar.datastructures import ResponseHeader
from litestar.openapi.datastructures import ResponseSpec

from ...health import Body, ProbeResult
from ..access.authenticate import ANYONE, Spring, may

_FAILING = {503: ResponseSpec(Body, description="It is not, for these reasons.", generate_examples=False)}
_FRESH = [ResponseHeader(name="Cache-Control", value="no-store")]


@get("/health/live", responses=_FAILING, response_headers=_FRESH, **may(ANYONE))
async def live(spring: Spring) -> Response[Body]:
    """Whether every loop here has turned recently. The store is not asked: if it is away, starting anew is no help."""
    return _told((await spring.health(store=False)).answer("live"))


@get("/health/ready", responses=_FAILING, response_headers=_FRESH, **may(ANYONE))
async def ready(spring: Spring) -> Response[Body]:
    """Whether it lives and the store answers."""
    return _told((await spring.health()).answer("ready"))


def _told(answer: ProbeResult) -> Response[Body]:
    return Response(answer.body, status_code=answer.code)


BESIDE = [live, ready]
