"""Which page a browser asks for, so that other sites cannot act in the name of its user."""

from __future__ import annotations

from litestar.types import Scope

from ...url import split_url
from ..problem import Problem
from ..security_headers import header
from .loopback import is_loopback, name_of


def check_same_origin(scope: Scope) -> None:
    """Refuses a change that a browser does not prove to come from a page of this very origin."""
    site = header(scope, b"sec-fetch-site")
    if not (site == "same-origin" if site is not None else _is_ours(scope, header(scope, b"origin"))):
        raise _csrf()


def check_not_foreign(scope: Scope) -> None:
    """Refuses what a browser says to come from another origin; what is no browser says nothing."""
    site, origin = header(scope, b"sec-fetch-site"), header(scope, b"origin")
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        foreign = origin is not None and not _is_ours(scope, origin)
    if foreign:
        raise _csrf()


def _is_ours(scope: Scope, origin: str | None) -> bool:
    """TLS may end before us, so https is no less ours than http."""
    scheme, _, place = (origin or "").partition("://")
    secure = scheme == "https" or (scheme == "http" and scope["scheme"] == "http")
    return secure and place != "" and place.lower() == (header(scope, b"host") or "").lower()


def is_local_page(scope: Scope) -> bool:
    """Whether a browser has this from its own machine, without TLS."""
    origin = header(scope, b"origin")
    if origin is not None:
        return _is_local(origin)
    return scope["scheme"] == "http" and is_loopback(name_of(header(scope, b"host") or ""))


def _is_local(origin: str) -> bool:
    try:
        page = split_url(origin)
    except ValueError:  # "null", or what no browser sends
        return False
    return page.scheme == "http" and is_loopback(page.host.name.lower())


def _csrf() -> Problem:
    return Problem(
        403, "csrf", "a browser may do this only from a page of this very origin, and this came from elsewhere"
    )
