"""Reads that take too long are given up, so that nobody can keep the store busy by asking for everything."""

from __future__ import annotations

import asyncio

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from .problem import Problem

# Seconds until an answer must have begun.
LONGEST = 10.0


class Deadline:
    """Around every GET but those that say `waits`: they take their time, as they were asked to."""

    def __init__(self, app: ASGIApp, seconds: float = LONGEST) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reads = scope["type"] == ScopeType.HTTP and scope["method"] == "GET"
        if not reads or scope["route_handler"].opt.get("waits"):
            await self._app(scope, receive, send)
            return

        limit = asyncio.timeout(self._seconds)

        async def begun(message: Message) -> None:
            limit.reschedule(None)  # from here on it is the client who may be slow
            await send(message)

        try:
            async with limit:
                await self._app(scope, receive, begun)
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"this took more than {self._seconds:g} s and was given up: ask for less, or by fewer filters"
            raise Problem(503, "too_slow", text, headers={"Retry-After": "10"}) from None
