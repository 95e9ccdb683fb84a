"""The security headers of every response; and the reading of request headers."""

from __future__ import annotations

from typing import Any

from litestar.types import ASGIApp, Message, Scope

# A browser may give a response only to the page of the same origin that requested it.
SECURITY_HEADERS: dict[bytes, bytes] = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}


def header(scope: Scope, name: bytes) -> str | None:
    """The first header with this name (lower case). None if there is none. Cheaper than reading all of them."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


class SecurityHeaders:
    """ASGI middleware that adds the headers above, unless the response sets them itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The parameters have no types, since frameworks that mount it define their own."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(one for one in SECURITY_HEADERS.items() if one[0] not in present),
                ]
            await send(message)

        await self._app(scope, receive, send_with_headers)
