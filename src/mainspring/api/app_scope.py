"""The app that a request is for. A process has one Litestar application, which serves any number of apps."""

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
    from .access.sign_in_hint import SignInHint
    from .event_stream import Streams
    from .idempotency import StoredResponses
    from .response_cache import ResponseCache
    from .routes.session import Sessions

# The key in an ASGI scope under which the AppScope of the request is stored.
SCOPE_KEY = "mainspring.served"
_app: ContextVar[Mainspring] = ContextVar("mainspring.living")


@dataclass(frozen=True)
class AppScope:
    """One app and the state that its requests share."""

    framework: ASGIApp
    app: Mainspring
    authenticators: tuple[Authenticator, ...]
    sessions: Sessions
    cache: ResponseCache
    responses: StoredResponses
    streams: Streams
    cluster: ClusterMetrics
    sign_in_hint: SignInHint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[SCOPE_KEY] = self  # type: ignore[literal-required]
        _app.set(self.app)
        await self.sign_in_hint(scope)
        await self.framework(scope, receive, send)


def app_scope(scope: Any) -> AppScope:
    """The AppScope of a request."""
    found: AppScope = scope[SCOPE_KEY]
    return found


@asynccontextmanager
async def open_app(_: Litestar) -> AsyncIterator[None]:
    """Opens the app for the life of the server, unless something else has opened it (and closes it), such as a worker
    in the same process."""
    app = _app.get()
    if app.is_open:
        yield
    else:
        async with app:
            yield
