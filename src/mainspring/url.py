"""URLs, split in the same way by every release of Python."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import NamedTuple
from unicodedata import normalize

MAX_PORT = 65_535
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?")
_HOST = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:,\s]*))(?::(?P<port>[0-9]{0,6}))?", re.ASCII)
# Some characters of other scripts become one of these when a name is looked up, which would end the host there.
_DELIMITERS = set("/?#@:[]")


class UrlHost(NamedTuple):
    """A host's name, or its address without brackets, and its port."""

    name: str
    port: int | None


class Url(NamedTuple):
    """The parts of a URL. `user` is the part before the last @, `authority` the part after it."""

    scheme: str
    user: str | None
    authority: str
    hosts: list[UrlHost]
    path: str
    query: str
    fragment: str | None

    @property
    def host(self) -> UrlHost:
        return self.hosts[0]


def split_url(text: str, *, many: bool = False) -> Url:
    """The parts of a URL. With `many` it may have several hosts. Raises ValueError with the part that is invalid.

    urllib is not used because of the brackets of IPv6 hosts: which of them `urlsplit` accepts has changed in patch
    releases, and newer ones accept none after a comma.
    """
    if not text.isprintable():
        raise ValueError("a character that must be percent-encoded")
    if (found := _URL.fullmatch(text)) is None:
        raise ValueError("no scheme, such as https://")
    scheme, where, path, query, fragment = found.groups()
    user, at, authority = where.rpartition("@")
    hosts = [_host(one) for one in (authority.split(",") if many else [authority])]
    return Url(scheme.lower(), user if at else None, authority, hosts, path, query or "", fragment)


def _host(text: str) -> UrlHost:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ValueError("a bad host or port")
    port = int(found["port"]) if found["port"] else None
    if port is not None and not 0 < port <= MAX_PORT:
        raise ValueError(f"port {port}, which is not from 1 to {MAX_PORT}")
    return UrlHost(_address(found["address"]) if found["address"] else _name(found["name"]), port)


def _address(text: str) -> str:
    """The IPv6 address. A zone follows %, which a URL should have as %25."""
    address = text.replace("%25", "%")
    try:
        IPv6Address(address)
    except ValueError:
        raise ValueError("a bad host or port") from None
    return address


def _name(text: str) -> str:
    if not text.isascii() and _DELIMITERS & set(normalize("NFKC", text)):
        raise ValueError("a bad host or port")
    return text
