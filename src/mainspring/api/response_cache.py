"""A cache of results that are expensive for the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from litestar.di import NamedDependency
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from ..clock import Clock
from .access.authenticate import UNSAFE_METHODS
from .app_scope import app_scope

T = TypeVar("T")
# A result that loaded faster is not cached.
MIN_LOAD_SECONDS = 0.05
MAX_AGE_SECONDS = 60.0
# A result is cached for 20 times as long as it took to load: so loading uses at most 1/20 of the store's time.
AGE_PER_LOAD_SECOND = 20
# Cache keys include parameters of requests. Beyond this number the oldest result is dropped.
MAX_CACHED_RESPONSES = 1000


class ResponseCache:
    """Results of slow reads, by cache key. Changes made through this server are visible at once, others after the
    result's age limit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._results: dict[Any, tuple[object, float]] = {}
        self._loading: dict[Any, asyncio.Future[Any]] = {}

    async def get(self, key: Any, load: Callable[[], Awaitable[T]]) -> T:
        """The cached result, or that of `load`. Concurrent calls with the same key share one load."""
        value, until = self._results.get(key, (None, 0.0))
        if self._clock.monotonic() < until:
            return value  # type: ignore[return-value]
        loading = self._loading
        if key not in loading:
            loading[key] = asyncio.ensure_future(self._load(key, load))
            loading[key].add_done_callback(lambda _: loading.pop(key))
        return await asyncio.shield(loading[key])

    async def _load(self, key: Any, load: Callable[[], Awaitable[T]]) -> T:
        begun, results = self._clock.monotonic(), self._results
        value = await load()
        now = self._clock.monotonic()
        if now - begun >= MIN_LOAD_SECONDS:
            results.pop(key, None)
            results[key] = value, now + min(MAX_AGE_SECONDS, AGE_PER_LOAD_SECOND * (now - begun))
            if len(results) > MAX_CACHED_RESPONSES:
                del results[next(iter(results))]
        return value

    def clear(self) -> None:
        """Drops all results, and those of loads under way: they may be from before the change."""
        self._results = {}
        self._loading = {}


Cache = NamedDependency[ResponseCache]


class InvalidateCache:
    """Middleware that clears the cache when a request has changed something.

    A refused request (4xx) and a POST that only reads do not clear it: else any caller could disable the cache.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def clear_and_send(message: Message) -> None:
            if message["type"] == "http.response.start" and not 400 <= message["status"] < 500:
                app_scope(scope).cache.clear()
            await send(message)

        await self._app(scope, receive, clear_and_send if _changes(scope) else send)


def _changes(scope: Scope) -> bool:
    return scope.get("method") in UNSAFE_METHODS and not scope["route_handler"].opt.get("reads")
