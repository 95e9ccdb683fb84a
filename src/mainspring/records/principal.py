"""The authenticated caller of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from .api_key import ROLES, Role, scope_allows


class Principal(Struct, frozen=True, kw_only=True):
    """The authenticated caller of a request."""

    name: str
    """As in the audit trail: key:deploy, jwt:alice."""
    role: Role
    scopes: tuple[str, ...] | None = None
    """Nouns with :read or :write, such as jobs:write. None: everything that the role allows."""
    expires_at: datetime | None = None
    """When the key, token or session expires."""

    def has(self, role: Role, scope: str | None = None) -> bool:
        """Whether it has this role, or a higher one, and this scope."""
        in_scope = scope is None or scope_allows(self.scopes, scope)
        return in_scope and ROLES.index(self.role) >= ROLES.index(role)


HostLogin = Callable[[Mapping[str, Any]], Awaitable[Principal | None]]
"""Names the caller of a request by its ASGI scope; None: a caller it does not know."""
