"""The OpenAPI 3.1 document: routes as Litestar describes them, schemas of records as msgspec describes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args, get_origin

import msgspec
from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler

from .access.cookie import COOKIE_NAME
from .openapi_operation import REF, complete_operation
from .problem_codes import CODES

_PROBLEM = {
    "type": "object",
    "description": "An error. `detail` says what is wrong and what to do; programs use `code`, which never changes.",
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "enum": sorted(CODES)},
        "detail": {"type": "string"},
        "instance": {"type": "string", "description": "The path of the request."},
    },
    "required": ["type", "status", "code", "detail", "instance"],
}
_SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key or a JSON web token."},
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE_NAME,
        "description": "The session of a browser, opened by POST /session.",
    },
}


def openapi_document(app: Litestar, root: str = "") -> dict[str, Any]:
    """The OpenAPI document. `root` is the path under which another application has mounted this one."""
    known: dict[str, Any] | None = app.state.get("document")
    if known is None:
        known = app.state.document = _build(app)
    return known | {"servers": [{"url": root or "/"}]}


def operation_id(handler: HTTPRouteHandler, *_: Any) -> str:
    """The operation id of a handler: listJobs for list_jobs."""
    first, *others = handler.handler_name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _build(app: Litestar) -> dict[str, Any]:
    made = app.openapi_schema.to_schema()
    handlers = [(route.path, handler) for route in app.routes for handler in getattr(route, "route_handlers", ())]
    parts: dict[str, Any] = made.setdefault("components", {})
    schemas: dict[str, Any] = parts.setdefault("schemas", {})
    for name, record in _schemas(handler for _, handler in handlers).items():
        schemas[name] = _with_formats(record, schemas.get(name, {}))
    schemas["Problem"] = _PROBLEM
    parts["securitySchemes"] = _SECURITY_SCHEMES
    for path, handler in handlers:
        for method in handler.http_methods:
            operation = made["paths"].get(_template(path), {}).get(method.lower())
            if operation is not None:
                complete_operation(operation, handler, method, path)
    return made


def _template(path: str) -> str:
    """The path as OpenAPI writes it: /jobs/{id} for /jobs/{id:str}."""
    return "/".join(f"{part.partition(':')[0]}}}" if part.startswith("{") else part for part in path.split("/"))


def _schemas(handlers: Iterable[HTTPRouteHandler]) -> dict[str, Any]:
    """The schemas of request and response types, by name, as msgspec encodes and decodes them."""
    kinds = {id(kind): kind for handler in handlers for kind in _types(handler) if _has_schema(kind)}
    _, found = msgspec.json.schema_components(list(kinds.values()), ref_template=REF)
    return found


def _with_formats(record: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The schema `record` with the text formats (date-time, duration) that Litestar's schema `other` has."""
    for name, theirs in other.get("properties", {}).items():
        formats = [one["format"] for one in (theirs, *theirs.get("oneOf", ())) if "format" in one]
        ours = record.get("properties", {}).get(name, {})
        for one in (ours, *ours.get("anyOf", ())):
            if formats and one.get("type") == "string":
                one.setdefault("format", formats[0])
    return record


def _types(handler: HTTPRouteHandler) -> Iterable[Any]:
    if handler.parsed_data_field is not None:
        yield handler.parsed_data_field.annotation
    answer = handler.parsed_return_field.annotation
    for kind in get_args(answer) if get_origin(answer) is Response else [answer]:
        yield from [kind] if _has_schema(kind) else get_args(kind)


def _has_schema(kind: Any) -> bool:
    try:
        msgspec.json.schema(kind)
    except TypeError:
        return False
    return True
