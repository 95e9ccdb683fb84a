"""Query parameters: an unknown one is refused, not ignored."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from litestar import Request
from litestar.params import QueryParameter

from ..suggest import did_you_mean
from .problem import Problem

# Of one request, repeated ones included.
MAX_PARAMETERS = 500
_KNOWN = "query_parameters"
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
# An instant with its zone. With the type datetime Litestar would also accept numbers, and instants without a zone.
InstantText = Annotated[
    str | None,
    QueryParameter(max_length=40, schema_extra={"format": "date-time"}, description="Inclusive."),
]


async def check_query(request: Request[Any, Any, Any]) -> None:
    """Raises Problem(400) if a query parameter is unknown to the route, or repeated where it takes one value."""
    if not request.scope["query_string"]:
        return
    opt = request.route_handler.opt
    if _KNOWN not in opt:
        _find_parameters(request)
    known: dict[str, bool] = opt[_KNOWN]
    given: list[tuple[str, str]] = list(request.query_params.multi_items())
    if len(given) > MAX_PARAMETERS:
        raise Problem(400, "bad_parameter", f"{len(given)} parameters: at most {MAX_PARAMETERS} are allowed")
    seen: set[str] = set()
    for name, value in given:
        _check(request.scope["path"], name, value, known, repeated=name in seen)
        seen.add(name)


def parse_instant(given: str | None) -> datetime | None:
    """The instant in a query parameter. Raises Problem(400) if the text is not one."""
    if given is None:
        return None
    try:
        if _INSTANT.fullmatch(given):
            return datetime.fromisoformat(given.upper())
    except ValueError:
        pass
    text = f"{given[:80]!r} is not an instant with its zone, such as 2026-05-01T08:00:00Z (a + is %2B in a URL)"
    raise Problem(400, "bad_parameter", text)


def _check(path: str, name: str, value: str, known: dict[str, bool], *, repeated: bool) -> None:
    if name not in known:
        raise Problem(400, "bad_parameter", f"{path} has no parameter {name[:80]!r}; {did_you_mean(name, known)}")
    if repeated and not known[name]:
        raise Problem(400, "bad_parameter", f"{name} takes one value, but was given more than once")
    if value == "null" and not known[name]:  # Litestar would treat it as absent
        raise Problem(400, "bad_parameter", f"{name}: null is not a value here; omit the parameter instead")


def _find_parameters(request: Request[Any, Any, Any]) -> None:
    """Records the query parameters of every route, and whether they may be repeated."""
    for route in request.app.routes:
        for handler, expected in getattr(route, "route_handler_map", {}).values():
            handler.opt[_KNOWN] = {one.field_alias: one.is_sequence for one in expected.expected_query_params}
