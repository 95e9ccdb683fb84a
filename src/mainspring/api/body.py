"""What comes with a request: JSON, taken at its word."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from litestar import Request
from litestar.types import Empty, Receive
from msgspec import UNSET

from ..bounds import MAX_CONTAINERS, MAX_MEMBERS, MAX_TEXTS
from ..codec import too_deep
from .problem import Problem
from .security_headers import header
from .unknown_field import is_lenient, lenient_parts, unknown_field, unknown_in_part

# A larger body, or part of it, is not decoded a second time to find members that its type does not have.
MAX_EXPLAINED_BYTES = 512 << 10


class StrictRequest(Request[Any, Any, Any]):
    """A request whose body is decoded once, as the handler's `data`, and in which "5" is no number."""

    async def body(self) -> bytes:
        if self._body is Empty:
            self._body = await read(self.receive, self.route_handler.resolve_request_max_body_size())
        return self._body

    async def json(self) -> Any:
        kind = header(self.scope, b"content-type")
        if kind is not None and kind.partition(";")[0].strip().lower() != "application/json":
            raise Problem(415, "unsupported_media_type", "send JSON, with Content-Type: application/json")
        field = self.route_handler.parsed_data_field
        return decoded(await self.body(), _decoder(Any if field is None else field.annotation))


async def read(receive: Receive, limit: int | None) -> bytes:
    """All of a body, up to that many bytes."""
    body = bytearray()
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "malformed", "whoever asks has gone before the body was complete")
        body += message.get("body", b"")
        if limit is not None and len(body) > limit:
            raise Problem(413, "too_large", f"a body has at most {limit:,} bytes here")
        if not message.get("more_body"):
            return bytes(body)


def decoded(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    _check_parts(body)
    kind: Any = decoder.type
    try:
        if too_deep(body):
            raise RecursionError
        value = decoder.decode(body)
        if is_lenient(kind):
            _check_members(body, kind)
        return value
    except msgspec.ValidationError as bad:
        raise Problem(422, "invalid", _explained(bad, body, kind)) from None
    except RecursionError:
        raise Problem(400, "malformed", "the body is nested too deeply") from None
    except ValueError as bad:  # no JSON, no UTF-8, or a number of more digits than anybody counts
        raise Problem(400, "malformed", f"the body is not JSON: {bad}") from None


def _check_members(body: bytes, kind: Any) -> None:
    """Refuses a member that means nothing in the parts of a body that would take it, however large the rest is."""
    parts = lenient_parts(kind)
    found = parts.decoder.decode(body)
    for name, shape in parts.shapes.items():
        part = getattr(found, name, UNSET)
        if part is UNSET:
            continue
        if len(part) > MAX_EXPLAINED_BYTES:
            raise Problem(413, "too_large", f"`{name}` has at most {MAX_EXPLAINED_BYTES:,} bytes here")
        if unknown := unknown_in_part(msgspec.json.decode(part), shape, name):
            raise Problem(422, "invalid", str(unknown))


def _explained(bad: msgspec.ValidationError, body: bytes, kind: Any) -> str:
    """The error in words, with the nearest field if it is about one that is not there."""
    if len(body) > MAX_EXPLAINED_BYTES or "unknown field" not in str(bad):
        return str(bad)
    try:
        return str(unknown_field(msgspec.json.decode(body), kind) or bad)
    except (ValueError, RecursionError):  # it is not JSON beyond that field
        return str(bad)


def _check_parts(body: bytes) -> None:
    """At most as many as there are signs for them, those in texts included: to tell these apart would take longer."""
    if body.count(b"[") + body.count(b"{") > MAX_CONTAINERS:
        raise Problem(413, "too_large", f"a body has at most {MAX_CONTAINERS:,} lists and objects here")
    texts = body.count(b'"') // 2
    if min(body.count(b":"), texts) > MAX_MEMBERS:
        raise Problem(413, "too_large", f"the objects of a body have at most {MAX_MEMBERS:,} members here")
    if texts > MAX_TEXTS:
        raise Problem(413, "too_large", f"a body has at most {MAX_TEXTS:,} texts here")


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
