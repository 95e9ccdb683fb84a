"""Answers that cost a store much are given again for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from litestar.di import NamedDependency
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from ..clock import Clock
from .access.authenticate import UNSAFE
from .app_scope import served

T = TypeVar("T")
# Seconds: what cost less is asked for each time, and the longest that an answer is given again.
DEAR, LONGEST = 0.05, 60.0
# However many look, and however often: counting takes a twentieth of a store's time.
SHARE = 20
# Questions that are remembered; they come with parameters, so there is no end of them. Beyond, the oldest goes.
MOST = 1000


class ResponseCache:
    """What was asked lately. Whoever changes something here is told the truth at once; others a little later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[Any, tuple[object, float]] = {}
        self._asked: dict[Any, asyncio.Future[Any]] = {}

    async def get(self, question: Any, load: Callable[[], Awaitable[T]]) -> T:
        """Those who ask the same at once ask once."""
        value, until = self._kept.get(question, (None, 0.0))
        if self._clock.monotonic() < until:
            return value  # type: ignore[return-value]
        asked = self._asked
        if question not in asked:
            asked[question] = asyncio.ensure_future(self._load(question, load))
            asked[question].add_done_callback(lambda _: asked.pop(question))
        return await asyncio.shield(asked[question])

    async def _load(self, question: Any, load: Callable[[], Awaitable[T]]) -> T:
        begun, kept = self._clock.monotonic(), self._kept
        value = await load()
        now = self._clock.monotonic()
        if now - begun >= DEAR:
            kept.pop(question, None)
            kept[question] = value, now + min(LONGEST, SHARE * (now - begun))
            if len(kept) > MOST:
                del kept[next(iter(kept))]
        return value

    def forget(self) -> None:
        """Also of what is being asked: its answer may be of before."""
        self._kept = {}
        self._asked = {}


Lately = NamedDependency[ResponseCache]


class InvalidateCache:
    """An application after whose changes nothing is known from before.

    A request that is refused changes nothing, nor does a POST that only reads: else anyone could make the store count
    all the time.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            if message["type"] == "http.response.start" and not 400 <= message["status"] < 500:
                served(scope).recent.forget()
            await send(message)

        await self._app(scope, receive, told if _changes(scope) else send)


def _changes(scope: Scope) -> bool:
    return scope.get("method") in UNSAFE and not scope["route_handler"].opt.get("reads")
