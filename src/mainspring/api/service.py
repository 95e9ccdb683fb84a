"""The whole of it as one ASGI application, alone or under any prefix of another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from litestar import Litestar, Request, Router, get
from litestar.di import Provide
from litestar.exceptions import NotFoundException
from litestar.middleware import DefineMiddleware
from litestar.openapi.config import OpenAPIConfig
from litestar.types import Scope

from ..app import Mainspring
from ..metrics.cluster import ClusterMetrics
from .access.attempts import SignInAttempts
from .access.authenticate import Authenticate, Authenticator, Principal, may
from .access.bearer import Bearer
from .access.greeting import Greeting
from .access.issuer import check_jwt
from .access.no_auth import anyone
from .app_scope import AppScope, opened, served
from .body import StrictRequest
from .deadline import Deadline
from .document import document, operation_id
from .idempotency import Answers, Idempotency
from .mount_path import ROOT, MountPath
from .parameters import known_only
from .problem import HANDLERS
from .response_cache import InvalidateCache, ResponseCache
from .routes import BESIDE, ROUTES
from .routes.pages import no_such_address
from .routes.session import Sessions
from .security_headers import SecurityHeaders
from .stream import Streams

if TYPE_CHECKING:
    from .access.webtoken import WebTokens

PREFIX = "/api/v1"
# A job's payload has a limit of its own; a body may carry many jobs.
BODY_LIMIT = 8 << 20


@get("/openapi.json", **may("viewer", unscoped=True))
async def get_openapi(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """What there is, as OpenAPI 3.1."""
    return document(request.app, str(request.scope.get(ROOT, "")))


def asgi(
    app: Mainspring, *, auth: bool = True, ways: Sequence[Authenticator] | None = None, greets: bool = True
) -> SecurityHeaders:
    """The API of an app. `ways` say who asks, in place of keys, tokens and sessions: the first that can tell does.

    Without `auth` everybody is an admin, and only this machine is served. `greets`: the first request logs how to
    sign in, while there is no key.
    """
    attempts = SignInAttempts(app.clock)
    known = Sessions(app, attempts)
    greeting = Greeting(app, silent=not greets or not auth or ways is not None)
    if ways is None:
        ways = (Bearer(app, attempts, _web_tokens(app)), known) if auth else (anyone,)
    kept = ResponseCache(app.clock), Answers(app), Streams(app), ClusterMetrics(app), greeting
    return SecurityHeaders(MountPath(AppScope(litestar(), app, tuple(ways), known, *kept)))


# What a handler may ask for.


async def spring(scope: Scope) -> Mainspring:
    return served(scope).app


async def who(scope: Scope) -> Principal:
    principal: Principal = scope["user"]
    return principal


async def sessions(scope: Scope) -> Sessions:
    return served(scope).sessions


async def recent(scope: Scope) -> ResponseCache:
    return served(scope).recent


@cache
def litestar() -> Litestar:
    """Made once: nothing in it is of one app, and it takes a sixth of a second."""
    return Litestar(
        [Router(PREFIX, route_handlers=ROUTES, before_request=known_only), *BESIDE],
        dependencies={one.__name__: Provide(one) for one in (spring, who, sessions, recent)},
        middleware=[
            DefineMiddleware(Authenticate),
            DefineMiddleware(InvalidateCache),
            DefineMiddleware(Idempotency, limit=BODY_LIMIT),
            DefineMiddleware(Deadline),
        ],
        exception_handlers={**HANDLERS, NotFoundException: no_such_address},
        request_class=StrictRequest,
        request_max_body_size=BODY_LIMIT,
        openapi_config=_document(),
        lifespan=[opened],
        logging_config=None,
        debug=False,
    )


def _web_tokens(app: Mainspring) -> WebTokens | None:
    check_jwt(app.settings)
    if not app.settings.jwt_algorithm:
        return None
    from .access.webtoken import WebTokens  # cryptography takes longer to import than all of ours

    return WebTokens(app.settings, app.clock)


def _document() -> OpenAPIConfig:
    config = OpenAPIConfig(
        title="Mainspring",
        version=version("mainspring"),
        description="Jobs, schedules, queues and workers.",
        use_handler_docstrings=True,
        operation_id_creator=operation_id,
    )
    # In place of pages for people, made by scripts from elsewhere: this is only put among the routes.
    config.openapi_controller = get_openapi  # type: ignore[assignment]
    return config
