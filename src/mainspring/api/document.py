"""What there is, as OpenAPI 3.1: what every route has in common is said here, once."""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType
from typing import Any, get_args, get_origin

import msgspec
from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler

from .door import ANYONE, UNSAFE
from .problem import MEDIA_TYPE

_REF = "#/components/schemas/{name}"
_WHY = {
    400: "A parameter, or a body that is not JSON.", 401: "Nobody has signed in.", 403: "Not with this role or scope.",
    404: "There is no such thing.", 409: "Not in its present state.", 412: "It was changed since it was read.",
    413: "More than is taken.", 415: "Not JSON.", 422: "JSON, and not what is asked for.", 429: "Too often.",
    503: "Not now: the store is away, or this server stops.",
}  # fmt: skip
_PROBLEM = {
    "type": "object",
    "description": "What is wrong, and what to do about it; `code` is for programs, and stays.",
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
    },
    "required": ["type", "status", "code", "detail", "instance"],
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A request that is repeated under its key gets the answer of the first time, for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}
_BEARER = {"type": "http", "scheme": "bearer", "description": "An API key, or a JSON web token."}


def document(app: Litestar) -> dict[str, Any]:
    """The framework's description of the routes, with our records as they are and our answers to what goes wrong."""
    known: dict[str, Any] | None = app.state.get("document")
    if known is None:
        known = app.state.document = _made(app)
    return known


def _made(app: Litestar) -> dict[str, Any]:
    made = app.openapi_schema.to_schema()
    handlers = [(route.path, handler) for route in app.routes for handler in getattr(route, "route_handlers", ())]
    parts: dict[str, Any] = made.setdefault("components", {})
    schemas: dict[str, Any] = parts.setdefault("schemas", {})
    for name, record in _records(handler for _, handler in handlers).items():
        schemas[name] = _with_formats(record, schemas.get(name, {}))
    schemas["Problem"] = _PROBLEM
    parts["securitySchemes"] = {"bearer": _BEARER}
    for path, handler in handlers:
        for method in handler.http_methods:
            operation = made["paths"].get(_template(path), {}).get(method.lower())
            if operation is not None:
                _complete(operation, handler, method, "{" in path)
    return made


def _template(path: str) -> str:
    """/jobs/{id:str} as /jobs/{id}."""
    return "/".join(f"{part.partition(':')[0]}}}" if part.startswith("{") else part for part in path.split("/"))


def _records(handlers: Iterable[HTTPRouteHandler]) -> dict[str, Any]:
    """The schemas of what is sent and answered, by those who decode and encode it."""
    kinds = {id(kind): kind for handler in handlers for kind in _kinds(handler) if _tells(kind)}
    _, found = msgspec.json.schema_components(list(kinds.values()), ref_template=_REF)
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
    (answer,) = get_args(answer) if get_origin(answer) is Response else (answer,)
    yield from get_args(answer) if isinstance(answer, UnionType) else (answer,)


def _tells(kind: Any) -> bool:
    try:
        msgspec.json.schema(kind)
    except TypeError:
        return False
    return True


def _complete(operation: dict[str, Any], handler: HTTPRouteHandler, method: str, named: bool) -> None:
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _said(parameter["schema"])
    anyone, unsafe = handler.opt.get("role") == ANYONE, method in UNSAFE
    if method == "POST" and not anyone and not handler.opt.get("unkept"):
        operation.setdefault("parameters", []).append(_KEY)
    if not anyone:
        operation["security"] = [{"bearer": []}]
    known = {400, 429, 503} | ({401, 403} if not anyone else set()) | ({404} if named else set())
    known |= {404, 409, 412, 413, 415, 422} if unsafe else set()
    body = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}}
    answers = operation["responses"]
    for status in sorted(known):
        answers[str(status)] = {"description": _WHY[status], "content": body}


def _said(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is there or not, and never null."""
    kept = {name: value for name, value in schema.items() if name not in ("oneOf", "type", "enum")}
    ways = [one for one in schema.get("oneOf", ()) if one != {"type": "null"}]
    kept |= ways[0] if len(ways) == 1 else {"oneOf": ways} if ways else {}
    if "type" in schema:
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        kept["type"] = next(one for one in types if one != "null")
    if "enum" in schema:
        kept["enum"] = [value for value in schema["enum"] if value is not None]
    return kept
