"""Sign-in turned off: whoever is on this machine is an admin."""

from __future__ import annotations

from ..problem import Problem
from ..security_headers import header
from .authenticate import Connection, Principal
from .loopback import is_loopback, name_of
from .origin import check_not_foreign

ANYBODY = Principal(name="anyone", role="admin")


async def anyone(connection: Connection) -> Principal:
    """A way in for this machine, and for no page of another site that is open in a browser on it."""
    scope = connection.scope
    client, host = scope.get("client"), name_of(header(scope, b"host") or "")
    # Whoever hands on requests of others is not the one who asks.
    handed_on = header(scope, b"x-forwarded-for") or header(scope, b"forwarded")
    # By another name than this machine's own a browser may have been sent here by whoever owns that name.
    if (client and not is_loopback(client[0])) or not is_loopback(host) or handed_on:
        raise Problem(
            403,
            "not_local",
            "sign-in is off, so this serves its own machine alone, by the names localhost and 127.0.0.1 "
            f"(not {host!r:.80}, nor {client[0] if client else 'a socket'} if that is elsewhere)",
        )
    # Reads, too: another site cannot see the answer, but how long it takes, and it would make the server work.
    check_not_foreign(scope)
    return ANYBODY
