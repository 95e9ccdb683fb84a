"""Whom a request is for: there is one application of the framework in a process, whatever number of apps it serves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from litestar import Litestar
from litestar.types import ASGIApp, Receive, Scope, Send

from ..app import Mainspring

if TYPE_CHECKING:
    from ..metrics.cluster import ClusterMetrics
    from .access.authenticate import Authenticator
    from .access.greeting import Greeting
    from .idempotency import Answers
    from .response_cache import ResponseCache
    from .routes.session import Sessions
    from .stream import Streams

SERVED = "mainspring.served"
_living: ContextVar[Mainspring] = ContextVar("mainspring.living")


@dataclass(frozen=True)
class AppScope:
    """One app, and what is remembered of its requests."""

    through: ASGIApp
    app: Mainspring
    ways: tuple[Authenticator, ...]
    sessions: Sessions
    recent: ResponseCache
    answers: Answers
    streams: Streams
    cluster: ClusterMetrics
    greeting: Greeting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[SERVED] = self  # type: ignore[literal-required]
        _living.set(self.app)
        await self.greeting(scope)
        await self.through(scope, receive, send)


def served(scope: Any) -> AppScope:
    found: AppScope = scope[SERVED]
    return found


@asynccontextmanager
async def opened(_: Litestar) -> AsyncIterator[None]:
    """Whoever has opened the app before, a worker beside us perhaps, closes it himself."""
    app = _living.get()
    if app.is_open:
        yield
    else:
        async with app:
            yield
