"""The URL of an API."""

from __future__ import annotations

import ipaddress
from ssl import SSLContext
from urllib.parse import parse_qsl

from .. import url as urls
from ..errors import BadSetting
from ..stores.redis.certificates import FILES, context

_HINT = "use https://host/prefix, where the API is mounted"


class ApiUrl:
    """https://host/prefix?ca=file, where the API is mounted under the prefix. Raises BadSetting if it is not valid."""

    def __init__(self, url: str, shown: str) -> None:
        self.shown = shown
        try:
            parts = urls.split_url(url)
        except ValueError as bad:
            raise BadSetting(f"store URL {shown!r} has {bad}: {_HINT}") from None
        if not parts.host.name or parts.fragment:
            raise BadSetting(f"store URL {shown!r} does not name an API: {_HINT}")
        if parts.user is not None:
            raise BadSetting(f"store URL {shown!r} takes no user or password: give api_key=, or $MAINSPRING_API_KEY")
        if parts.scheme == "http" and not _is_private(parts.host.name.lower()):
            raise BadSetting(f"store URL {shown!r} would send the API key for everybody to read: use https://")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := [name for name in options if name not in FILES]:
            raise BadSetting(f"store URL {shown!r} has an unknown option {unknown[0]!r} (known: {', '.join(FILES)})")
        self.root = f"{parts.scheme}://{parts.authority}{parts.path.rstrip('/')}"
        self._files = options

    def tls(self) -> SSLContext:
        return context(self._files, self.shown)


def _is_private(host: str) -> bool:
    """Whether the host is this machine or in a private network, where plain HTTP is allowed."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host
    return address.is_private
