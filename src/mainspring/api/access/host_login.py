"""The login of the application that mounts the API: a function of its own names the caller of each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec.structs import replace

from ...records.api_key import ROLES
from ...records.principal import HostLogin, Principal
from ..security_headers import header
from .authenticate import UNSAFE_METHODS, Connection
from .origin import check_not_foreign, check_same_origin

# The key under which a request has the scope that the host has passed, which routing changes.
_HOST_SCOPE = "mainspring.host_scope"
# Before the caller's name in the audit log: a host's user cannot pass for a key.
PREFIX = "host:"


class HostScope:
    """ASGI middleware that keeps the host's scope as it came, with what the host's own middleware has put into it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, _HOST_SCOPE: scope}, receive, send)  # type: ignore[arg-type]


class HostAuthenticator:
    """Authenticates callers by the function of the host. None: the host does not know them."""

    def __init__(self, login: HostLogin) -> None:
        self._login = login

    async def __call__(self, connection: Connection) -> Principal | None:
        scope = connection.scope
        host_scope: Mapping[str, Any] = scope[_HOST_SCOPE]  # type: ignore[literal-required]
        found = await self._login(host_scope)
        if found is None:
            return None
        if not isinstance(found, Principal) or found.role not in ROLES or not found.name.strip():
            # An error of the host's code: what it returned is for its log, and not for the caller.
            raise TypeError(
                f"asgi(auth=…) takes a coroutine function that returns None or a Principal with a name and one of the "
                f"roles {', '.join(ROLES)}; it returned {found!r:.200}"
            )
        if scope.get("method") in UNSAFE_METHODS:
            # A browser sends its cookies with requests of other sites' pages, too.
            check = check_not_foreign if header(scope, b"cookie") is None else check_same_origin
            check(scope)
        # Without an end: nothing here can sign the caller out.
        return replace(found, name=f"{PREFIX}{found.name}", expires_at=None)
