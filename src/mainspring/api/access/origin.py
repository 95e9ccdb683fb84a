"""The origin of a browser's request, checked so that other sites cannot act for its user (CSRF)."""

from __future__ import annotations

from litestar.types import Scope

from ...url import split_url
from ..problem import Problem
from ..security_headers import header
from .loopback import host_name, is_loopback


def check_same_origin(scope: Scope) -> None:
    """Raises Problem(403) unless the browser states that the request comes from a page of this origin."""
    site = header(scope, b"sec-fetch-site")
    if not (site == "same-origin" if site is not None else _is_ours(scope, header(scope, b"origin"))):
        raise _csrf()


def check_not_foreign(scope: Scope) -> None:
    """Raises Problem(403) if a browser states another origin. Clients that are no browsers state none."""
    site, origin = header(scope, b"sec-fetch-site"), header(scope, b"origin")
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        foreign = origin is not None and not _is_ours(scope, origin)
    if foreign:
        raise _csrf()


def _is_ours(scope: Scope, origin: str | None) -> bool:
    """Whether the origin is this server. With https also if the request came as http: a proxy may end TLS."""
    scheme, _, host = (origin or "").partition("://")
    secure = scheme == "https" or (scheme == "http" and scope["scheme"] == "http")
    return secure and host != "" and host.lower() == (header(scope, b"host") or "").lower()


def is_local_page(scope: Scope) -> bool:
    """Whether the browser's page comes from its own machine, without TLS."""
    origin = header(scope, b"origin")
    if origin is not None:
        return _is_local(origin)
    return scope["scheme"] == "http" and is_loopback(host_name(header(scope, b"host") or ""))


def _is_local(origin: str) -> bool:
    try:
        page = split_url(origin)
    except ValueError:  # "null", or a value that no browser sends
        return False
    return page.scheme == "http" and is_loopback(page.host.name.lower())


def _csrf() -> Problem:
    return Problem(
        403, "csrf", "a browser may send this only from a page of this origin, and the request came from another one"
    )
