"""What comes with a request: JSON, taken at its word."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from litestar import Request

from .problem import Problem


class Strict(Request[Any, Any, Any]):
    """A request whose body is decoded once, as the handler's `data`, and in which "5" is no number."""

    async def json(self) -> Any:
        kind = self.headers.get("content-type", "application/json")
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise Problem(415, "unsupported_media_type", "send JSON, with Content-Type: application/json")
        field = self.route_handler.parsed_data_field
        return decoded(await self.body(), _decoder(Any if field is None else field.annotation))


def decoded(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as bad:
        raise Problem(422, "invalid", str(bad)) from None
    except RecursionError:
        raise Problem(400, "malformed", "the body is nested too deeply") from None
    except ValueError as bad:  # no JSON, no UTF-8, or a number of more digits than anybody counts
        raise Problem(400, "malformed", f"the body is not JSON: {bad}") from None


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
