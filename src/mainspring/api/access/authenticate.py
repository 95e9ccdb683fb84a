"""Who may come in, and how far: principals, roles, and the guard of every route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Literal

from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.enums import ScopeType
from litestar.handlers import BaseRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec import Struct

from ...actor import act_as
from ...app import Mainspring
from ...errors import StoreUnavailable
from ...records.api_key import ROLES, Role, scope_allows
from ..app_scope import served
from ..path import found
from ..problem import Problem
from .redaction import shown_to

# For routes that anybody may use, and for those that check by themselves who it is.
ANYONE: Literal["anyone"] = "anyone"
UNSAFE = {"POST", "PUT", "PATCH", "DELETE"}


class Principal(Struct, frozen=True, kw_only=True):
    """Whoever a request comes from."""

    name: str
    """As the audit trail has it: key:deploy, jwt:alice."""
    role: Role
    scopes: tuple[str, ...] | None = None
    """Nouns with :read or :write, such as jobs:write; None: whatever the role may."""
    expires_at: datetime | None = None
    """When whatever it came in with ends."""

    def may(self, role: Role, scope: str | None = None) -> bool:
        named = scope is None or scope_allows(self.scopes, scope)
        return named and ROLES.index(self.role) >= ROLES.index(role)


# What a handler may ask for: the app as `spring`, whoever asks as `who`.
Spring = NamedDependency[Mainspring]
Who = NamedDependency[Principal]

Connection = ASGIConnection[Any, Any, Any, Any]
# Says who it is, or None if it cannot tell; raises Problem(401) if somebody pretends.
Authenticator = Callable[[Connection], Awaitable[Principal | None]]


def may(role: Role | Literal["anyone"], **opt: Any) -> dict[str, Any]:
    """What a route handler says of who may call it: @get("/queues", **may("viewer")).

    Its scope is the first word of its path with :read or :write. `noun` is another word, `reads` says that a POST
    changes nothing, `unscoped` that no scope is needed, `unkept` that its answer is a secret, not to be kept for who
    repeats a request, `waits` that it may take longer than reads do.
    """
    return {"opt": {"role": role, **opt}}


class Authenticate:
    """Finds out who asks, before anything else is done; the handler runs in that name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            scope["user"] = None
            await self._app(scope, receive, send)
            return
        found(scope)
        # No other origin is ever told that it may ask, so nobody has to ask whether.
        if scope["method"] == "OPTIONS":
            raise Problem(405, "method_not_allowed", "there is no OPTIONS here: other origins have no access")
        connection: Connection = ASGIConnection(scope)
        here = served(scope)
        scope["user"] = principal = await _who(connection, here.ways)
        # Not as a guard of the framework, which copies the handler for each request: a tenth of what an enqueue costs.
        guard(connection, scope["route_handler"])
        with act_as(principal.name if principal else None), shown_to(principal, here.app.settings):
            await self._app(scope, receive, send)


async def _who(connection: Connection, ways: tuple[Authenticator, ...]) -> Principal | None:
    if connection.scope["route_handler"].opt.get("role") == ANYONE:
        return None
    for way in ways:
        if (principal := await way(connection)) is not None:
            return principal
    return None


async def still_may(connection: Connection) -> bool:
    """Whether the caller would still be let in: its key may be revoked, its session ended."""
    try:
        principal = await _who(connection, served(connection.scope).ways)
    except Problem as refused:
        return refused.status == 503  # the store does not answer: the stream stays open
    except StoreUnavailable:
        return True
    before: Principal = connection.scope["user"]
    return principal is not None and (principal.role, principal.scopes) == (before.role, before.scopes)


def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Deny by default: a route that does not say who may call it is for nobody."""
    role = handler.opt.get("role")
    if role == ANYONE:
        return
    principal: Principal | None = connection.scope["user"]
    if principal is None:
        raise unauthenticated("this needs an API key, a token or a session: send Authorization: Bearer …")
    if role is None:
        raise Problem(403, "forbidden", "this route says of nobody that he may call it")
    if not principal.may(role):
        raise Problem(403, "forbidden", f"{principal.name} is {principal.role}, and this is for role {role} or above")
    if not principal.may(role, scope := scope_of(connection, handler)):
        raise Problem(403, "forbidden", f"{principal.name} lacks the scope {scope}")


def scope_of(connection: Connection, handler: BaseRouteHandler) -> str | None:
    """The route's noun, and whether it changes something: jobs:write. None: it needs no scope."""
    if handler.opt.get("unscoped"):
        return None
    noun: str = handler.opt.get("noun") or next(iter(handler.paths)).strip("/").split("/")[0]
    writes = connection.scope.get("method") in UNSAFE and not handler.opt.get("reads")
    return f"{noun}:{'write' if writes else 'read'}"


def unauthenticated(detail: str) -> Problem:
    return Problem(401, "unauthenticated", detail, headers={"WWW-Authenticate": 'Bearer realm="mainspring"'})
