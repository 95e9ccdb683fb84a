"""URLs of Redis stores: a server, a socket, sentinels or a cluster, and the prefix of all keys."""

from __future__ import annotations

import re
from binascii import crc_hqx
from functools import cached_property
from ssl import SSLContext
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote

from ... import url as urls
from ...errors import BadSetting
from .certificates import FILES, context

FORMS = {
    "server": "redis://user:password@host:6379/0?prefix=name",
    "cluster": "redis+cluster://user:password@host:6379,host:6379/?prefix=name",
    "sentinel": "redis+sentinel://user:password@host:26379,host:26379/service/0?prefix=name",
    "socket": "redis+unix:///run/redis.sock?db=0&prefix=name",
}
SCHEMES = {
    f"redis{tls}{kind and '+'}{kind}": kind or "server" for tls in ("", "s") for kind in ("", "cluster", "sentinel")
}
# Shards of a new store in a cluster; the cluster records the number when the store is first opened.
DEFAULT_SHARDS = 8
MAX_SHARDS = 64
# Hash slots of every Redis cluster.
SLOTS = 16384
_PREFIX = re.compile(r"[A-Za-z0-9_:.-]{1,64}")
_HOST = re.compile(r"[\w.%-]+|[0-9A-Fa-f:.]+(%\w+)?", re.ASCII)
_DB = re.compile(r"[0-9]{1,6}")
# Up to the last @, across slashes: a password that should have been percent-encoded must not be shown either.
_PASSWORD = re.compile(r"(//[^:@]*):.*@")
_LATE_AT = re.compile(r"//[^/?]*[/?].*@")

Address = tuple[str, int]


class ConnectTarget(NamedTuple):
    """What it takes to open one connection: an address or socket, credentials, database and TLS."""

    address: Address
    socket: str
    user: str
    password: str | None
    db: int
    tls: SSLContext | None


def slot(key: str) -> int:
    """The hash slot of a key with a hash tag in braces."""
    return crc_hqx(key[key.index("{") + 1 : key.index("}")].encode(), 0) % SLOTS


class RedisUrl:
    """A parsed URL. Every key of the store begins with one of `bases`, a hash tag that keeps a shard in one slot."""

    def __init__(self, url: str, shown: str, *, prefix: str = "") -> None:
        """`prefix` is the setting redis_key_prefix, empty if it is not set."""
        self.shown = re.sub(r"([?&]sentinel_password=)[^&]*", r"\1***", _PASSWORD.sub(r"\1:***@", shown))
        scheme = url.partition("://")[0]
        self.kind: Literal["server", "cluster", "sentinel", "socket"] = SCHEMES.get(scheme, "socket")  # type: ignore[assignment]
        self._form = FORMS[self.kind]
        parts = self._parts(url)
        self._tls = parts.scheme.startswith("rediss")
        self._parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.prefix = self._prefix(self._parameters.pop("prefix", None), prefix)
        self.bases = self._bases()
        self.base = self.bases[0]
        user = parts.user or ""
        self._user, _, password = map(unquote, user.partition(":"))
        self._password = password if ":" in user else None
        self.service, self.db, self.addresses, self.socket = "", 0, list[Address](), ""
        if self.kind == "socket":
            self._parse_socket(parts)
        else:
            self._parse_servers(parts)
        self._files = {name: self._parameters.pop(name) for name in FILES if self._tls and name in self._parameters}
        if "key" in self._files and "cert" not in self._files:
            raise BadSetting(f"key= without cert= in store URL {self.shown!r}: name its certificate with cert=")
        self._sentinel_password = self._parameters.pop("sentinel_password", None) if self.kind == "sentinel" else None
        if self._parameters:
            raise BadSetting(
                f"unknown {', '.join(sorted(self._parameters))} in store URL {self.shown!r}: {self._accepted()}"
            )

    def _prefix(self, in_url: str | None, setting: str) -> str:
        """The key prefix of the URL or of the setting. Raises BadSetting if the two differ."""
        name = (setting or "mainspring") if in_url is None else in_url
        source = f"redis_key_prefix={name!r}" if in_url is None else f"prefix={name!r} in store URL {self.shown!r}"
        if not _PREFIX.fullmatch(name):
            raise BadSetting(f"{source}: use letters, digits and _ - : . only, 64 at most")
        if setting and setting != name:
            raise BadSetting(
                f"{source}, but the setting redis_key_prefix is {setting!r}: give one of them, or the same to both"
            )
        return name

    def server(self, address: Address | None = None) -> ConnectTarget:
        """The server at that address, by default the first of the URL."""
        return ConnectTarget(
            address or (self.addresses or [("", 0)])[0],
            self.socket,
            self._user,
            self._password,
            self.db,
            self._context,
        )

    def sentinel(self, address: Address) -> ConnectTarget:
        return ConnectTarget(address, "", "", self._sentinel_password, 0, self._context)

    @cached_property
    def _context(self) -> SSLContext | None:
        """Cached: reading the system's authorities is slow, and connections to sentinels are frequent."""
        return context(self._files, self.shown) if self._tls else None

    def _parts(self, url: str) -> urls.Url:
        if not url.isprintable() or " " in url or "#" in url or _LATE_AT.search(url):
            raise BadSetting(
                f"store URL {self.shown!r} has a character that must be percent-encoded: "
                "in a password / is %2F, ? is %3F, # is %23, @ is %40"
            )
        try:
            return urls.split_url(url, many=True)
        except ValueError as bad:
            raise BadSetting(f"store URL {self.shown!r} has {bad}: use {self._form}") from None

    def _bases(self) -> list[str]:
        if self.kind != "cluster":
            return [f"{{{self.prefix}}}"]
        number = self._parameters.pop("homes", str(DEFAULT_SHARDS))
        if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= MAX_SHARDS:
            raise BadSetting(f"homes={number} in store URL {self.shown!r}: use a number from 1 to {MAX_SHARDS}")
        return list(_spread(self.prefix, int(number)))

    def _parse_servers(self, parts: urls.Url) -> None:
        for host in parts.hosts:
            if not host.name:
                raise BadSetting(f"store URL {self.shown!r} names no host: use {self._form}")
            if not _HOST.fullmatch(host.name):
                raise BadSetting(f"store URL {self.shown!r} has a bad host or port: use {self._form}")
            self.addresses.append((host.name, host.port or (26379 if self.kind == "sentinel" else 6379)))
        if self.kind == "server" and len(self.addresses) > 1:
            raise BadSetting(
                f"store URL {self.shown!r} names more than one host: use {self._form}, redis+cluster or redis+sentinel"
            )
        path = parts.path.removeprefix("/")
        if self.kind == "sentinel":
            self.service, _, path = path.partition("/")
            if not self.service:
                raise BadSetting(f"store URL {self.shown!r} names no service that sentinels watch: use {self._form}")
        self.db = self._number(path or "0")
        if self.kind == "cluster" and self.db:
            raise BadSetting(f"database {self.db} in store URL {self.shown!r}: a cluster has 0 only")

    def _parse_socket(self, parts: urls.Url) -> None:
        if parts.authority or len(parts.path) < 2 or parts.path.endswith("/"):
            raise BadSetting(f"store URL {self.shown!r} names no socket: use {self._form}")
        self.socket, self.db = parts.path, self._number(self._parameters.pop("db", "0"))

    def _number(self, db: str) -> int:
        if not _DB.fullmatch(db):
            raise BadSetting(f"{db!r} in store URL {self.shown!r} is not a database number: use 0, as in {self._form}")
        return int(db)

    def _accepted(self) -> str:
        """The parameters that a URL of this kind accepts, for an error message."""
        files = [*FILES] if self._tls else []
        own = {"cluster": ["homes"], "sentinel": ["sentinel_password"], "socket": ["db"]}.get(self.kind, [])
        return f"it takes {', '.join(['prefix', *own, *files])}" + (" only" if not own and not files else "")


def _spread(prefix: str, shards: int) -> list[str]:
    """Bases whose slots are evenly spaced, so that every master has about as many shards."""
    found = []
    for n in range(shards):
        tail = 0
        while slot(base := f"{{{prefix}:{n}{f'.{tail}' if tail else ''}}}") * shards // SLOTS != n:
            tail += 1
        found.append(base)
    return found
