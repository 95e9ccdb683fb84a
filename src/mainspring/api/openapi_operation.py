"""One operation of the OpenAPI document: the parts that Litestar does not describe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from litestar import Response
from litestar.handlers import HTTPRouteHandler

from .access.authenticate import ANYONE, UNSAFE_METHODS
from .problem import MEDIA_TYPE

REF = "#/components/schemas/{name}"
_DESCRIPTIONS = {
    400: "A parameter is invalid, or the body is not JSON.",
    401: "The credentials are missing or not valid.",
    403: "The caller's role or scopes do not allow this.",
    404: "There is no such resource.",
    409: "The resource's state does not allow this, or it already exists.",
    410: "It is too late for this.",
    412: "The resource was changed since it was read.",
    413: "The body exceeds a limit.",
    415: "The Content-Type is not application/json.",
    422: "The body is JSON, but not of the expected type.",
    429: "Too many requests.",
    503: "The store is not reachable, the server is stopping, or the request took too long.",
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repeated request with the same key gets the response of the first one, for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
}
_TEXT, _SECONDS = {"type": "string"}, {"type": "integer", "minimum": 0}
_ETAG = {"description": "Version of the editable fields: send it as If-Match.", "schema": _TEXT, "required": True}
_REPLAYED = {
    "description": "true if this is the stored response of the first request.",
    "schema": {"type": "string", "enum": ["true"]},
}
_RETRY_AFTER = {"description": "Seconds to wait before the next request.", "schema": _SECONDS}
_WWW_AUTHENTICATE = {"description": "How to sign in.", "schema": _TEXT, "required": True}
# A response with one of these types alone has an ETag.
_TYPES_WITH_ETAG = {"JobView", "ScheduleView", "TriggerView", "WebhookView"}


def complete_operation(operation: dict[str, Any], handler: HTTPRouteHandler, method: str, path: str) -> None:
    """Adds security, tags, summary, headers and problem responses to an operation."""
    _parameters(operation, handler, method)
    if handler.opt.get("role") != ANYONE:
        operation["security"] = [{"bearer": []}, {"cookie": []}]
    noun: str = handler.opt.get("noun") or next(iter(handler.paths)).strip("/").split("/")[0]
    operation["tags"] = [noun.partition(".")[0]]
    words = handler.handler_name.replace("_", " ")
    operation["summary"] = words[0].upper() + words[1:]
    answers = operation["responses"]
    for answer in answers.values():
        answer.setdefault("headers", {}).update(_headers(operation, handler))
        _drop_null_content(answer)
    described = handler.responses or {}
    for status in [status for status in _problem_statuses(handler, method, path) if status not in described]:
        answers[str(status)] = _problem_response(status)


def _parameters(operation: dict[str, Any], handler: HTTPRouteHandler, method: str) -> None:
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
    for media in operation.get("requestBody", {}).get("content", {}).values():
        operation["requestBody"]["required"] = {"type": "null"} not in media["schema"].get("oneOf", ())
    if method == "POST" and handler.opt.get("role") != ANYONE and not handler.opt.get("unkept"):
        operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)


def _headers(operation: dict[str, Any], handler: HTTPRouteHandler) -> Iterator[tuple[str, Any]]:
    kinds = {getattr(kind, "__name__", "") for kind in response_types(handler)}
    if kinds & _TYPES_WITH_ETAG and get_origin(handler.parsed_return_field.annotation) is Response:
        yield "ETag", _ETAG
    if "EnqueueResult" in kinds and handler.handler_name in ("enqueue", "enqueue_flow"):
        yield "Location", {"description": "The path of the job, if there is one job.", "schema": {"type": "string"}}
    if _IDEMPOTENCY_KEY in operation.get("parameters", ()):
        yield "Idempotent-Replayed", _REPLAYED


def _problem_statuses(handler: HTTPRouteHandler, method: str, path: str) -> list[int]:
    statuses = {400, 429, 503}
    statuses |= {401, 403} if handler.opt.get("role") != ANYONE or method in UNSAFE_METHODS else set()
    statuses |= {404} if "{" in path or method in UNSAFE_METHODS else set()
    statuses |= set(handler.opt.get("problems", ()))
    statuses |= {409, 412, 413, 415, 422} if method in UNSAFE_METHODS else set()
    return sorted(statuses)


def _problem_response(status: int) -> dict[str, Any]:
    body = {MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}}
    headers = {
        401: {"WWW-Authenticate": _WWW_AUTHENTICATE},
        429: {"Retry-After": _RETRY_AFTER},
        503: {"Retry-After": _RETRY_AFTER},
    }
    return {"description": _DESCRIPTIONS[status], "content": body, "headers": headers.get(status, {})}


def _drop_null_content(answer: dict[str, Any]) -> None:
    """Removes the content of a response without a body."""
    for name, media in list(answer.get("content", {}).items()):
        if media.get("schema") == {"type": "null"}:
            del answer["content"][name]


def response_types(handler: HTTPRouteHandler) -> tuple[Any, ...]:
    """The types that a handler returns."""
    answer = handler.parsed_return_field.annotation
    found = get_args(answer) if get_origin(answer) is Response else (answer,)
    return tuple(kind for one in found for kind in (one, *get_args(one)))


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter without null: a parameter is present or absent."""
    found = {name: value for name, value in schema.items() if name not in ("oneOf", "type", "enum")}
    options = [one for one in schema.get("oneOf", ()) if one != {"type": "null"}]
    found |= options[0] if len(options) == 1 else {"oneOf": options} if options else {}
    if "type" in schema:
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        found["type"] = next(one for one in types if one != "null")
    if "enum" in schema:
        found["enum"] = [value for value in schema["enum"] if value is not None]
    return found
