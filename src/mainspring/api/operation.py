"""One operation of the document: what its handler says, and what all of them have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from litestar import Response
from litestar.handlers import HTTPRouteHandler

from .access.authenticate import ANYONE, UNSAFE
from .problem import MEDIA_TYPE

REF = "#/components/schemas/{name}"
_WHY = {
    400: "A parameter, or a body that is not JSON.", 401: "Nobody has signed in.", 403: "Not with this role or scope.",
    404: "There is no such thing.", 409: "Not in its present state.", 412: "It was changed since it was read.",
    413: "More than is taken.", 415: "Not JSON.", 422: "JSON, and not what is asked for.", 429: "Too often.",
    503: "Not now: the store is away, or this server stops.",
}  # fmt: skip
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A request that is repeated under its key gets the answer of the first time, for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
}
_TEXT, _SECONDS = {"type": "string"}, {"type": "integer", "minimum": 0}
_ETAG = {"description": "Of what can be edited: give it as If-Match.", "schema": _TEXT, "required": True}
_REPLAYED = {"description": "true: the answer of the first time.", "schema": {"type": "string", "enum": ["true"]}}
_LATER = {"description": "Seconds after which to ask again.", "schema": _SECONDS}
_WAYS = {"description": "How to sign in.", "schema": _TEXT, "required": True}
# What these are answered with has an ETag, where a handler answers with one of them alone.
_TAGGED = {"JobView", "ScheduleView", "TriggerView", "WebhookView"}


def complete(operation: dict[str, Any], handler: HTTPRouteHandler, method: str, path: str) -> None:
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
        _unsaid(answer)
    told = handler.responses or {}
    for status in [status for status in _statuses(handler, method, path) if status not in told]:
        answers[str(status)] = _refusal(status)


def _parameters(operation: dict[str, Any], handler: HTTPRouteHandler, method: str) -> None:
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _said(parameter["schema"])
    for media in operation.get("requestBody", {}).get("content", {}).values():
        operation["requestBody"]["required"] = {"type": "null"} not in media["schema"].get("oneOf", ())
    if method == "POST" and handler.opt.get("role") != ANYONE and not handler.opt.get("unkept"):
        operation.setdefault("parameters", []).append(_KEY)


def _headers(operation: dict[str, Any], handler: HTTPRouteHandler) -> Iterator[tuple[str, Any]]:
    kinds = {getattr(kind, "__name__", "") for kind in answered(handler)}
    if kinds & _TAGGED and get_origin(handler.parsed_return_field.annotation) is Response:
        yield "ETag", _ETAG
    if "Accepted" in kinds and handler.handler_name == "enqueue":
        yield "Location", {"description": "Where the one job is.", "schema": {"type": "string"}}
    if _KEY in operation.get("parameters", ()):
        yield "Idempotent-Replayed", _REPLAYED


def _statuses(handler: HTTPRouteHandler, method: str, path: str) -> list[int]:
    known = {400, 429, 503}
    known |= {401, 403} if handler.opt.get("role") != ANYONE or method in UNSAFE else set()
    known |= {404} if "{" in path or method in UNSAFE else set()
    known |= {409, 412, 413, 415, 422} if method in UNSAFE else set()
    return sorted(known)


def _refusal(status: int) -> dict[str, Any]:
    body = {MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}}
    headers = {401: {"WWW-Authenticate": _WAYS}, 429: {"Retry-After": _LATER}, 503: {"Retry-After": _LATER}}
    return {"description": _WHY[status], "content": body, "headers": headers.get(status, {})}


def _unsaid(answer: dict[str, Any]) -> None:
    """Nothing to say has no schema."""
    for name, media in list(answer.get("content", {}).items()):
        if media.get("schema") == {"type": "null"}:
            del answer["content"][name]


def answered(handler: HTTPRouteHandler) -> tuple[Any, ...]:
    """The kinds of what it answers with."""
    answer = handler.parsed_return_field.annotation
    found = get_args(answer) if get_origin(answer) is Response else (answer,)
    return tuple(kind for one in found for kind in (one, *get_args(one)))


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
