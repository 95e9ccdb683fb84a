"""Where on a Redis server the store is: the server, the database and the prefix of its keys."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from ...errors import BadSetting

_FORM = "redis://user:password@host:6379/0?prefix=name"
_SOCKET_FORM = "redis+unix:///run/redis.sock?db=0&prefix=name"
_PREFIX = re.compile(r"[A-Za-z0-9_:.-]{1,64}")
_HOST = re.compile(r"[\w.:%-]+")
_DB = re.compile(r"[0-9]{1,6}")
# To the last @, across slashes: a password that should have been percent-encoded must not be shown either.
_PASSWORD = re.compile(r"(//[^:@]*):.*@")
_LATE_AT = re.compile(r"//[^/?]*[/?].*@")


class Place:
    """Every key of the store begins with `base`, whose braces keep them in one slot of a cluster."""

    def __init__(self, url: str, shown: str) -> None:
        self.shown = _PASSWORD.sub(r"\1:***@", shown)
        parts = self._parts(url)
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.prefix = asked.pop("prefix", "mainspring")
        if not _PREFIX.fullmatch(self.prefix):
            raise BadSetting(
                f"prefix={self.prefix!r} in store URL {self.shown!r}: use letters, digits and _ - : . only, 64 at most"
            )
        self.base = f"{{{self.prefix}}}"
        self.host, self.port, self.db = "", 0, 0  # a socket has neither host nor port
        if parts.scheme == "redis+unix":
            self.url = self._socket(parts, asked.pop("db", "0"))
        else:
            self.url = self._server(parts)
        if asked:
            raise BadSetting(f"unknown {', '.join(sorted(asked))} in store URL {self.shown!r}: it takes prefix only")

    def _parts(self, url: str) -> SplitResult:
        if not url.isprintable() or " " in url or "#" in url or _LATE_AT.search(url):
            raise BadSetting(
                f"store URL {self.shown!r} has a character that must be percent-encoded: "
                "in a password / is %2F, ? is %3F, # is %23, @ is %40"
            )
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError:
            raise BadSetting(f"store URL {self.shown!r} has a bad host or port: use {_FORM}") from None
        return parts

    def _server(self, parts: SplitResult) -> str:
        if not _HOST.fullmatch(parts.hostname or ""):
            raise BadSetting(f"store URL {self.shown!r} names no host, or more than one: use {_FORM}")
        if parts.port == 0:
            raise BadSetting(f"port 0 in store URL {self.shown!r} is no server's: use {_FORM}")
        self.host, self.port = parts.hostname or "", parts.port or 6379
        self.db = self._number(parts.path.removeprefix("/") or "0")
        return f"{parts.scheme}://{parts.netloc}/{self.db}"

    def _socket(self, parts: SplitResult, db: str) -> str:
        user, _, host = parts.netloc.rpartition("@")
        if host or len(parts.path) < 2 or parts.path.endswith("/"):
            raise BadSetting(f"store URL {self.shown!r} names no socket: use {_SOCKET_FORM}")
        self.db = self._number(db)
        return f"unix://{user}{'@' if user else ''}{parts.path}?db={self.db}"

    def _number(self, db: str) -> int:
        if not _DB.fullmatch(db):
            raise BadSetting(f"{db!r} in store URL {self.shown!r} is no database's number: use 0, as in {_FORM}")
        return int(db)
