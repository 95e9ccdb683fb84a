"""Sign-in turned off: every caller on this machine is an admin."""

from __future__ import annotations

from ...records.principal import Principal
from ..problem import Problem
from ..security_headers import header
from .authenticate import Connection
from .loopback import host_name, is_loopback
from .origin import check_not_foreign

LOCAL_ADMIN = Principal(name="anyone", role="admin")


async def local_admin(connection: Connection) -> Principal:
    """Authenticates callers on this machine as admins. Raises Problem(403) for other machines, and for pages of other
    sites in a browser on this machine."""
    scope = connection.scope
    client, host = scope.get("client"), host_name(header(scope, b"host") or "")
    # A proxy on this machine forwards requests of other machines.
    forwarded = header(scope, b"x-forwarded-for") or header(scope, b"forwarded")
    # Another host name may be one that its owner points at 127.0.0.1 (DNS rebinding).
    if (client and not is_loopback(client[0])) or not is_loopback(host) or forwarded:
        raise Problem(
            403,
            "not_local",
            "sign-in is off, so only this machine is served, under the names localhost and 127.0.0.1 "
            f"(this request: host {host!r:.80}, client {client[0] if client else 'a socket'})",
        )
    # Also for reads: another site cannot see a response, but it could measure its time, and load the server.
    check_not_foreign(scope)
    return LOCAL_ADMIN
