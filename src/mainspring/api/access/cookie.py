"""The cookie of a session: no script sees it, and no other site, nor plain HTTP, makes a browser send it."""

from __future__ import annotations

from litestar.types import Scope

from ..security_headers import header
from .loopback import is_loopback, name_of, port_of
from .origin import is_local_page

# The prefix makes browsers refuse it unless it is Secure, for this host alone and for all of it.
NAME = "__Host-mainspring"


def read(scope: Scope) -> str | None:
    """The secret in it, if there is one."""
    sent = [value.decode("latin-1") for key, value in scope["headers"] if key == b"cookie"]
    if not sent:
        return None
    names = {NAME, *([_local(scope)] if _may_be_local(scope) else [])}
    for pair in ";".join(sent).split(";"):
        name, _, secret = pair.strip().partition("=")
        if name in names and secret:
            return secret
    return None


def given(scope: Scope, secret: str) -> str:
    """As Set-Cookie; the browser keeps it until it is closed, the server may end it sooner."""
    return _said(scope, secret)


def taken(scope: Scope) -> str:
    """As Set-Cookie: the browser is to forget it."""
    return f"{_said(scope, '')}; Max-Age=0"


def _said(scope: Scope, secret: str) -> str:
    rest = "Path=/; HttpOnly; SameSite=Strict"
    if is_local_page(scope):
        # Not every browser takes a Secure cookie from http://127.0.0.1, and there it would protect nothing.
        return f"{_local(scope)}={secret}; {rest}"
    return f"{NAME}={secret}; {rest}; Secure"


def _may_be_local(scope: Scope) -> bool:
    return scope["scheme"] == "http" and is_loopback(name_of(header(scope, b"host") or ""))


def _local(scope: Scope) -> str:
    """With the port: to a browser all servers of a machine are one host, and they would take each other's place."""
    return f"mainspring-{port_of(header(scope, b'host') or '') or 80}"
