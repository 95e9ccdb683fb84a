"""What stands behind the question mark: a parameter that a route does not know is refused, not passed over."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from litestar import Request
from litestar.params import QueryParameter

from ..suggest import did_you_mean
from .problem import Problem

# As many may be given, repeated ones included.
MANY = 500
_KNOWN = "query_parameters"
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
# An instant with its zone. As a datetime it would be taken from numbers, too, and without a zone.
When = Annotated[
    str | None,
    QueryParameter(max_length=40, schema_extra={"format": "date-time"}, description="The instant itself is within."),
]


async def known_only(request: Request[Any, Any, Any]) -> None:
    if not request.scope["query_string"]:
        return
    opt = request.route_handler.opt
    if _KNOWN not in opt:
        _learn(request)
    known: dict[str, bool] = opt[_KNOWN]
    given: list[tuple[str, str]] = list(request.query_params.multi_items())
    if len(given) > MANY:
        raise Problem(400, "bad_parameter", f"{len(given)} parameters, and at most {MANY} are read")
    seen: set[str] = set()
    for name, value in given:
        _check(request.scope["path"], name, value, known, again=name in seen)
        seen.add(name)


def instant(said: str | None) -> datetime | None:
    if said is None:
        return None
    try:
        if _INSTANT.fullmatch(said):
            return datetime.fromisoformat(said.upper())
    except ValueError:
        pass
    text = f"{said[:80]!r} is not an instant with its zone, such as 2026-05-01T08:00:00Z (a + is %2B in a URL)"
    raise Problem(400, "bad_parameter", text)


def _check(path: str, name: str, value: str, known: dict[str, bool], *, again: bool) -> None:
    if name not in known:
        raise Problem(400, "bad_parameter", f"{path} has no parameter {name[:80]!r}; {did_you_mean(name, known)}")
    if again and not known[name]:
        raise Problem(400, "bad_parameter", f"{name} was given more than once, and it means one thing")
    if value == "null" and not known[name]:  # the framework takes it for none at all
        raise Problem(400, "bad_parameter", f"{name}: leave it out to say nothing; null is no value here")


def _learn(request: Request[Any, Any, Any]) -> None:
    """Which parameters a route has, and which of them may be repeated."""
    for route in request.app.routes:
        for handler, expected in getattr(route, "route_handler_map", {}).values():
            handler.opt[_KNOWN] = {one.field_alias: one.is_sequence for one in expected.expected_query_params}
