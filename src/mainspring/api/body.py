"""Request bodies: JSON, decoded strictly."""

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
from .unknown_field import is_lenient, lenient_members, unknown_field, unknown_in_member

# A larger body, or member of it, is not decoded a second time to find fields that its type does not have.
MAX_EXPLAINED_BYTES = 512 << 10


class StrictRequest(Request[Any, Any, Any]):
    """A request whose body is decoded once, to the type of the handler's `data`, and strictly: "5" is no number."""

    async def body(self) -> bytes:
        if self._body is Empty:
            self._body = await read_body(self.receive, self.route_handler.resolve_request_max_body_size())
        return self._body

    async def json(self) -> Any:
        kind = header(self.scope, b"content-type")
        if kind is not None and kind.partition(";")[0].strip().lower() != "application/json":
            raise Problem(415, "unsupported_media_type", "send JSON, with Content-Type: application/json")
        field = self.route_handler.parsed_data_field
        return decode_body(await self.body(), _decoder(Any if field is None else field.annotation))


async def read_body(receive: Receive, limit: int | None) -> bytes:
    """The whole body. Raises Problem(413) if it is larger than `limit` bytes."""
    body = bytearray()
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "malformed", "the client disconnected before the body was complete")
        body += message.get("body", b"")
        if limit is not None and len(body) > limit:
            raise Problem(413, "too_large", f"the body is too large: at most {limit:,} bytes here")
        if not message.get("more_body"):
            return bytes(body)


def decode_body(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """The decoded body. Raises Problem(400) if it is not JSON, 422 if it has the wrong type, 413 if it is too large."""
    _check_size(body)
    kind: Any = decoder.type
    try:
        if too_deep(body):
            raise RecursionError
        value = decoder.decode(body)
        if is_lenient(kind):
            _check_members(body, kind)
        return value
    except msgspec.ValidationError as bad:
        raise Problem(422, "invalid", _explain(bad, body, kind)) from None
    except RecursionError:
        raise Problem(400, "malformed", "the body is nested too deeply") from None
    except ValueError as bad:  # not JSON, not UTF-8, or a number with too many digits
        raise Problem(400, "malformed", f"the body is not JSON: {bad}") from None


def _check_members(body: bytes, kind: Any) -> None:
    """Raises Problem(422) for an unknown field in a member whose type would ignore it."""
    lenient = lenient_members(kind)
    found = lenient.decoder.decode(body)
    for name, shape in lenient.shapes.items():
        member = getattr(found, name, UNSET)
        if member is UNSET:
            continue
        if len(member) > MAX_EXPLAINED_BYTES:
            raise Problem(413, "too_large", f"`{name}` is too large: at most {MAX_EXPLAINED_BYTES:,} bytes here")
        if unknown := unknown_in_member(msgspec.json.decode(member), shape, name):
            raise Problem(422, "invalid", str(unknown))


def _explain(bad: msgspec.ValidationError, body: bytes, kind: Any) -> str:
    """The error's text; for an unknown field with the nearest known one."""
    if len(body) > MAX_EXPLAINED_BYTES or "unknown field" not in str(bad):
        return str(bad)
    try:
        return str(unknown_field(msgspec.json.decode(body), kind) or bad)
    except (ValueError, RecursionError):  # the body is not JSON after that field
        return str(bad)


def _check_size(body: bytes) -> None:
    """Raises Problem(413) if the body has too many values.

    Counts brackets, colons and quotes, also those inside texts: to tell them apart would take longer. The counts are
    upper bounds.
    """
    if body.count(b"[") + body.count(b"{") > MAX_CONTAINERS:
        raise Problem(413, "too_large", f"the body is too large: at most {MAX_CONTAINERS:,} lists and objects here")
    texts = body.count(b'"') // 2
    if min(body.count(b":"), texts) > MAX_MEMBERS:
        raise Problem(413, "too_large", f"the body is too large: at most {MAX_MEMBERS:,} members of objects here")
    if texts > MAX_TEXTS:
        raise Problem(413, "too_large", f"the body is too large: at most {MAX_TEXTS:,} texts here")


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
