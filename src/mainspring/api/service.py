"""The ASGI application of the API and the dashboard, served alone or mounted under a path of another."""

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

from .. import control
from ..app import Mainspring
from ..codec import is_async
from ..errors import BadInput
from ..metrics.cluster import ClusterMetrics
from ..records.principal import HostLogin, Principal
from .access.authenticate import Authenticate, Authenticator, allow
from .access.bearer import BearerAuthenticator
from .access.host_login import HostAuthenticator, HostScope
from .access.jwt_settings import check_jwt
from .access.no_auth import local_admin
from .access.sign_in_attempts import SignInAttempts
from .access.sign_in_hint import SignInHint
from .app_scope import AppScope, app_scope, open_app
from .body import StrictRequest
from .deadline import Deadline
from .event_stream import Streams
from .idempotency import Idempotency, StoredResponses
from .mount_path import ROOT, MountPath
from .openapi import openapi_document, operation_id
from .parameters import check_query
from .problem import HANDLERS
from .response_cache import InvalidateCache, ResponseCache
from .routes import ROOT_ROUTES, ROUTES
from .routes.dashboard_pages import not_found
from .routes.session import Sessions
from .security_headers import SecurityHeaders

if TYPE_CHECKING:
    from .access.jwt_verifier import JwtVerifier

PREFIX = "/api/v1"
# A body may have many jobs; each payload has its own limit.
MAX_BODY_BYTES = 8 << 20


@get("/openapi.json", **allow("viewer", unscoped=True))
async def get_openapi(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """This API as an OpenAPI 3.1 document."""
    return openapi_document(request.app, str(request.scope.get(ROOT, "")))


def asgi(
    app: Mainspring,
    *,
    auth: bool | HostLogin = True,
    authenticators: Sequence[Authenticator] | None = None,
    sign_in_hint: bool = True,
) -> SecurityHeaders:
    """The ASGI application of an app.

    `authenticators` replace keys, tokens and sessions: the first that returns a principal decides. Without `auth`
    every caller is an admin, and only this machine is served; a function for `auth` is asked before keys, tokens and
    sessions. `sign_in_hint`: while there is no key, the first request logs how to sign in.
    """
    if not isinstance(auth, bool) and not is_async(auth):
        raise BadInput(f"asgi(auth=…) takes True, False or an `async def who(scope)` function; got {auth!r:.80}")
    for name in control.__all__:
        getattr(control, name)  # imported now, not within the first request that needs it
    attempts = SignInAttempts(app.clock)
    sessions = Sessions(app, attempts)
    hint = SignInHint(app, silent=not sign_in_hint or auth is not True or authenticators is not None)
    if authenticators is None and auth:
        host = () if isinstance(auth, bool) else (HostAuthenticator(auth),)
        authenticators = (*host, BearerAuthenticator(app, attempts, _jwt_verifier(app)), sessions)
    scope = AppScope(
        framework=litestar_app(),
        app=app,
        authenticators=(local_admin,) if authenticators is None else tuple(authenticators),
        sessions=sessions,
        cache=ResponseCache(app.clock),
        responses=StoredResponses(app),
        streams=Streams(app),
        cluster=ClusterMetrics(app),
        sign_in_hint=hint,
    )
    mounted = MountPath(scope)
    return SecurityHeaders(mounted if isinstance(auth, bool) else HostScope(mounted))


async def _app(scope: Scope) -> Mainspring:
    return app_scope(scope).app


async def _caller(scope: Scope) -> Principal:
    principal: Principal = scope["user"]
    return principal


async def _sessions(scope: Scope) -> Sessions:
    return app_scope(scope).sessions


async def _cache(scope: Scope) -> ResponseCache:
    return app_scope(scope).cache


# Injected into handlers by parameter name.
_DEPENDENCIES = {
    "app": Provide(_app),
    "caller": Provide(_caller),
    "sessions": Provide(_sessions),
    "cache": Provide(_cache),
}


@cache
def litestar_app() -> Litestar:
    """The Litestar application. All apps share it, since building it takes a sixth of a second."""
    return Litestar(
        [Router(PREFIX, route_handlers=ROUTES, before_request=check_query), *ROOT_ROUTES],
        dependencies=_DEPENDENCIES,
        middleware=[
            DefineMiddleware(Authenticate),
            DefineMiddleware(InvalidateCache),
            DefineMiddleware(Idempotency, limit=MAX_BODY_BYTES),
            DefineMiddleware(Deadline),
        ],
        exception_handlers={**HANDLERS, NotFoundException: not_found},
        request_class=StrictRequest,
        request_max_body_size=MAX_BODY_BYTES,
        openapi_config=_document(),
        lifespan=[open_app],
        logging_config=None,
        debug=False,
    )


def _jwt_verifier(app: Mainspring) -> JwtVerifier | None:
    check_jwt(app.settings)
    if not app.settings.jwt_algorithm:
        return None
    from .access.jwt_verifier import JwtVerifier  # cryptography takes longer to import than all of Mainspring

    return JwtVerifier(app.settings, app.clock)


def _document() -> OpenAPIConfig:
    config = OpenAPIConfig(
        title="Mainspring",
        version=version("mainspring"),
        description="Jobs, schedules, queues and workers.",
        use_handler_docstrings=True,
        operation_id_creator=operation_id,
    )
    # Replaces Litestar's HTML pages, which load scripts from other sites: Litestar only adds this to the routes.
    config.openapi_controller = get_openapi  # type: ignore[assignment]
    return config
