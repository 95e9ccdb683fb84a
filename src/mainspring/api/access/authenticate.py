"""Authentication and authorization: principals, roles, and the check of every route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.enums import ScopeType
from litestar.handlers import BaseRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send

from ...actor import act_as
from ...app import Mainspring
from ...errors import StoreUnavailable
from ...records.api_key import Role
from ...records.principal import Principal
from ..app_scope import app_scope
from ..path import unescape_path
from ..problem import Problem
from .redaction import redact_for

# The role of routes that are open to everyone, or that authenticate callers themselves.
ANYONE: Literal["anyone"] = "anyone"
UNSAFE_METHODS = {"POST", "PUT", "PATCH", "DELETE"}


# Injected into a handler by the parameter names `app` and `caller`.
App = NamedDependency[Mainspring]
Caller = NamedDependency[Principal]

Connection = ASGIConnection[Any, Any, Any, Any]
# Returns the caller's principal; None if the request has no credentials of its kind. Raises Problem(401) if they are
# not valid.
Authenticator = Callable[[Connection], Awaitable[Principal | None]]


def allow(role: Role | Literal["anyone"], **opt: Any) -> dict[str, Any]:
    """The options of a route handler that name the role it needs: @get("/queues", **allow("viewer")).

    Its scope is the first part of its path with :read or :write. `noun` replaces that part. `reads`: a POST that
    changes nothing. `unscoped`: no scope is needed. `unkept`: the response is secret and not stored for repeated
    requests. `waits`: no deadline for a read. `problems`: statuses that it answers with beside the usual ones.
    """
    return {"opt": {"role": role, **opt}}


class Authenticate:
    """Middleware that authenticates and authorizes the caller. The handler then runs as this actor."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            scope["user"] = None
            await self._app(scope, receive, send)
            return
        unescape_path(scope)
        # CORS allows no other origin, so there are no preflight requests to answer.
        if scope["method"] == "OPTIONS":
            raise Problem(405, "method_not_allowed", "there is no OPTIONS here: other origins have no access")
        connection: Connection = ASGIConnection(scope)
        served = app_scope(scope)
        scope["user"] = principal = await _authenticate(connection, served.authenticators)
        # Not a guard of Litestar, which copies the handler for each request: a tenth of the cost of an enqueue.
        check_allowed(connection, scope["route_handler"])
        with act_as(principal.name if principal else None), redact_for(principal, served.app.settings):
            await self._app(scope, receive, send)


async def _authenticate(connection: Connection, authenticators: tuple[Authenticator, ...]) -> Principal | None:
    if connection.scope["route_handler"].opt.get("role") == ANYONE:
        return None
    for authenticator in authenticators:
        if (principal := await authenticator(connection)) is not None:
            return principal
    return None


async def is_still_allowed(connection: Connection) -> bool:
    """Whether the caller's credentials are still valid: its key may be revoked, its session ended."""
    try:
        principal = await _authenticate(connection, app_scope(connection.scope).authenticators)
    except Problem as refused:
        return refused.status == 503  # the store is not reachable: the stream stays open
    except StoreUnavailable:
        return True
    before: Principal = connection.scope["user"]
    return principal is not None and (principal.role, principal.scopes) == (before.role, before.scopes)


def check_allowed(connection: Connection, handler: BaseRouteHandler) -> None:
    """Raises Problem(401 or 403) unless the caller may use the route. A route that declares no role is closed."""
    role = handler.opt.get("role")
    if role == ANYONE:
        return
    principal: Principal | None = connection.scope["user"]
    if principal is None:
        raise unauthenticated("this needs an API key, a token or a session: send Authorization: Bearer …")
    if role is None:
        raise Problem(403, "forbidden", "this route declares no role and is closed")
    if not principal.has(role):
        raise Problem(403, "forbidden", f"{principal.name} has role {principal.role}; this needs role {role} or above")
    if not principal.has(role, scope := scope_of(connection, handler)):
        raise Problem(403, "forbidden", f"{principal.name} lacks the scope {scope}")


def scope_of(connection: Connection, handler: BaseRouteHandler) -> str | None:
    """The scope that a request needs: the route's noun with :read or :write. None if it needs no scope."""
    if handler.opt.get("unscoped"):
        return None
    noun: str = handler.opt.get("noun") or next(iter(handler.paths)).strip("/").split("/")[0]
    writes = connection.scope.get("method") in UNSAFE_METHODS and not handler.opt.get("reads")
    return f"{noun}:{'write' if writes else 'read'}"


def unauthenticated(detail: str) -> Problem:
    return Problem(401, "unauthenticated", detail, headers={"WWW-Authenticate": 'Bearer realm="mainspring"'})
