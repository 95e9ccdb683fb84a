"""The deadline of reads: one that takes too long is aborted, so that no client can keep the store busy."""

from __future__ import annotations

import asyncio

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from .problem import Problem

# Until the response has begun.
RESPONSE_DEADLINE_SECONDS = 10.0


class Deadline:
    """Middleware that aborts a GET whose response has not begun in time. Routes with the option `waits` have no
    deadline: the caller chose how long to wait."""

    def __init__(self, app: ASGIApp, seconds: float = RESPONSE_DEADLINE_SECONDS) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reads = scope["type"] == ScopeType.HTTP and scope["method"] == "GET"
        if not reads or scope["route_handler"].opt.get("waits"):
            await self._app(scope, receive, send)
            return

        limit = asyncio.timeout(self._seconds)

        async def send_and_disarm(message: Message) -> None:
            limit.reschedule(None)  # from here on the client may be slow
            await send(message)

        try:
            async with limit:
                await self._app(scope, receive, send_and_disarm)
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"this took more than {self._seconds:g} s and was aborted: request less, or use fewer filters"
            raise Problem(503, "too_slow", text, headers={"Retry-After": "10"}) from None
