"""The session cookie. Scripts cannot read it, and browsers do not send it from other sites or over plain HTTP."""

from __future__ import annotations

from litestar.types import Scope

from ..security_headers import header
from .loopback import host_name, host_port, is_loopback
from .origin import is_local_page

# With the prefix __Host- browsers accept it only if it is Secure, for this host alone, and for all paths.
COOKIE_NAME = "__Host-mainspring"


def session_secret(scope: Scope) -> str | None:
    """The secret in the session cookie. None if there is no cookie."""
    sent = [value.decode("latin-1") for key, value in scope["headers"] if key == b"cookie"]
    if not sent:
        return None
    names = {COOKIE_NAME, *([_local_name(scope)] if _may_be_local(scope) else [])}
    for pair in ";".join(sent).split(";"):
        name, _, secret = pair.strip().partition("=")
        if name in names and secret:
            return secret
    return None


def set_cookie(scope: Scope, secret: str) -> str:
    """The Set-Cookie header of a new session. The cookie lasts until the browser closes, or the server ends it."""
    return _cookie(scope, secret)


def clear_cookie(scope: Scope) -> str:
    """The Set-Cookie header that deletes the cookie."""
    return f"{_cookie(scope, '')}; Max-Age=0"


def _cookie(scope: Scope, secret: str) -> str:
    attributes = "Path=/; HttpOnly; SameSite=Strict"
    if is_local_page(scope):
        # Some browsers refuse a Secure cookie from http://127.0.0.1, where it would protect nothing.
        return f"{_local_name(scope)}={secret}; {attributes}"
    return f"{COOKIE_NAME}={secret}; {attributes}; Secure"


def _may_be_local(scope: Scope) -> bool:
    return scope["scheme"] == "http" and is_loopback(host_name(header(scope, b"host") or ""))


def _local_name(scope: Scope) -> str:
    """The cookie's name on this machine, with the port: browsers share cookies between all ports of a host."""
    return f"mainspring-{host_port(header(scope, b'host') or '') or 80}"
