"""What stands behind the question mark: a parameter that a route does not know is refused, not passed over."""

from __future__ import annotations

from typing import Any

from litestar import Request

from ..hint import hint
from .problem import Problem

_KNOWN = "query_parameters"


async def known_only(request: Request[Any, Any, Any]) -> None:
    if not request.scope["query_string"]:
        return
    opt = request.route_handler.opt
    if _KNOWN not in opt:
        _learn(request)
    known: frozenset[str] = opt[_KNOWN]
    for name in request.query_params:
        if name not in known:
            path = request.scope["path"]
            raise Problem(400, "bad_parameter", f"{path} has no parameter {name[:80]!r}; {hint(name, known)}")


def _learn(request: Request[Any, Any, Any]) -> None:
    for route in request.app.routes:
        for handler, expected in getattr(route, "route_handler_map", {}).values():
            handler.opt[_KNOWN] = frozenset(one.field_alias for one in expected.expected_query_params)
