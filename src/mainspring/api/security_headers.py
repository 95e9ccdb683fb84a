"""Headers: those of a request, and those that every answer has."""

from __future__ import annotations

from typing import Any

from litestar.types import ASGIApp, Message, Scope

# Browsers may do nothing with what the API says but hand it to the page of the same origin that asked.
ALWAYS: dict[bytes, bytes] = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}


def header(scope: Scope, name: bytes) -> str | None:
    """The first of that name, which is in lower case. Cheaper than reading them all."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


class SecurityHeaders:
    """An application whose answers have the headers above, unless they say otherwise themselves."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Plain ASGI: frameworks that mount it have names of their own for these types."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in ALWAYS.items() if one[0] not in said)]
            await send(message)

        await self._app(scope, receive, guarded)
