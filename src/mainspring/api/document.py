"""What there is, as OpenAPI 3.1: the routes by the framework, the records by those who encode them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args, get_origin

import msgspec
from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler

from .access.cookie import NAME
from .codes import CODES
from .operation import REF, complete

_PROBLEM = {
    "type": "object",
    "description": "What is wrong, and what to do about it; `code` is for programs, and stays.",
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "enum": sorted(CODES)},
        "detail": {"type": "string"},
        "instance": {"type": "string", "description": "The path that was asked for."},
    },
    "required": ["type", "status", "code", "detail", "instance"],
}
_WAYS_IN = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a JSON web token."},
    "cookie": {"type": "apiKey", "in": "cookie", "name": NAME, "description": "A browser's, from POST /session."},
}


def document(app: Litestar, root: str = "") -> dict[str, Any]:
    """The framework's description of the routes, with our records as they are and our answers to what goes wrong.

    `root` is where another application has put us.
    """
    known: dict[str, Any] | None = app.state.get("document")
    if known is None:
        known = app.state.document = _made(app)
    return known | {"servers": [{"url": root or "/"}]}


def operation_id(handler: HTTPRouteHandler, *_: Any) -> str:
    """list_jobs as listJobs."""
    first, *others = handler.handler_name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _made(app: Litestar) -> dict[str, Any]:
    made = app.openapi_schema.to_schema()
    handlers = [(route.path, handler) for route in app.routes for handler in getattr(route, "route_handlers", ())]
    parts: dict[str, Any] = made.setdefault("components", {})
    schemas: dict[str, Any] = parts.setdefault("schemas", {})
    for name, record in _records(handler for _, handler in handlers).items():
        schemas[name] = _with_formats(record, schemas.get(name, {}))
    schemas["Problem"] = _PROBLEM
    parts["securitySchemes"] = _WAYS_IN
    for path, handler in handlers:
        for method in handler.http_methods:
            operation = made["paths"].get(_template(path), {}).get(method.lower())
            if operation is not None:
                complete(operation, handler, method, path)
    return made


def _template(path: str) -> str:
    """/jobs/{id:str} as /jobs/{id}."""
    return "/".join(f"{part.partition(':')[0]}}}" if part.startswith("{") else part for part in path.split("/"))


def _records(handlers: Iterable[HTTPRouteHandler]) -> dict[str, Any]:
    """The schemas of what is sent and answered, by those who decode and encode it."""
    kinds = {id(kind): kind for handler in handlers for kind in _kinds(handler) if _tells(kind)}
    _, found = msgspec.json.schema_components(list(kinds.values()), ref_template=REF)
    return found


def _with_formats(record: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The record with the formats of texts (instants, spans) that the other knows of."""
    for name, theirs in other.get("properties", {}).items():
        formats = [one["format"] for one in (theirs, *theirs.get("oneOf", ())) if "format" in one]
        ours = record.get("properties", {}).get(name, {})
        for one in (ours, *ours.get("anyOf", ())):
            if formats and one.get("type") == "string":
                one.setdefault("format", formats[0])
    return record


def _kinds(handler: HTTPRouteHandler) -> Iterable[Any]:
    if handler.parsed_data_field is not None:
        yield handler.parsed_data_field.annotation
    answer = handler.parsed_return_field.annotation
    for kind in get_args(answer) if get_origin(answer) is Response else [answer]:
        yield from [kind] if _tells(kind) else get_args(kind)


def _tells(kind: Any) -> bool:
    try:
        msgspec.json.schema(kind)
    except TypeError:
        return False
    return True
