"""Where in a PostgreSQL database the store is: schema and prefix, and what bears their names."""

from __future__ import annotations

import re
import zlib
from typing import cast, get_args
from urllib.parse import parse_qsl, unquote, urlencode

from ... import url as urls
from ...errors import BadSetting
from .connector import Pooler

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")
# What lies where it lay, or where its table does, takes no schema: a new name, and that of a new index.
_OURS = re.compile(r"\b(CREATE INDEX |CREATE UNIQUE INDEX |RENAME TO )?mainspring_(\w+)")


def named(option: str, in_url: str | None, setting: str, value: str, shown: str) -> str:
    """What URL and setting name, which must not be two things; empty: neither names anything."""
    source = f"{option}={in_url!r} in store URL {shown!r}" if in_url is not None else f"{setting}={value!r}"
    name = value if in_url is None else in_url
    if (name or in_url is not None) and not _NAME.fullmatch(name):
        raise BadSetting(f"{source}: use lower-case letters, digits and _, 41 at most")
    if in_url is not None and value and value != in_url:
        raise BadSetting(f"{source}, but the setting {setting} is {value!r}: give one of them, or the same to both")
    return name


class PostgresUrl:
    """Statements are written for tables named mainspring_…; `sql` puts them where they are."""

    def __init__(self, url: str, shown: str, *, schema: str = "", prefix: str = "") -> None:
        """`schema` and `prefix` are what settings say; empty: nothing."""
        parts = _split(url, f"store URL {shown!r}")
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.schema = named("schema", asked.pop("schema", None), "postgres_schema", schema, shown) or "public"
        self.prefix = (
            named("prefix", asked.pop("prefix", None), "postgres_table_prefix", prefix, shown) or "mainspring_"
        )
        pooler, listen = asked.pop("pooler", "auto"), asked.pop("listen", None)
        if pooler not in get_args(Pooler):
            raise BadSetting(f"pooler={pooler!r} in store URL {shown!r}: use one of {', '.join(get_args(Pooler))}")
        if listen not in (None, "off") and not listen.startswith(("postgresql://", "postgres://")):
            raise BadSetting(f"listen= in store URL {shown!r} takes postgresql://user@host/database, or off")
        self.pooler: Pooler = cast(Pooler, pooler)
        self.listens = listen != "off"
        self.listen = (
            _driver_dsn(_split(listen, f"listen= in store URL {shown!r}")) if listen and self.listens else None
        )
        """The DSN to listen at; None: that of all else."""
        if len(parts.path) < 2:
            raise BadSetting(f"store URL {shown!r} names no database: use postgresql://user@host/database")
        self.dsn = _driver_dsn(parts._replace(query=urlencode(asked)))
        self.shown = shown
        whole = f"{self.schema}.{self.prefix}"
        # The first half of our advisory locks: two apps in one database do not wait for each other.
        self.lock = zlib.crc32(whole.encode()) - 2**31
        self.channel = f"mainspring_{self.lock + 2**31:08x}"
        self._known: dict[str, str] = {}

    def sql(self, text: str) -> str:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = _OURS.sub(self._named, text)
        return known

    def names(self, table: str) -> tuple[str, str]:
        """The schema and the name of a table."""
        return self.schema, self.prefix + table.removeprefix("mainspring_")

    def bare(self, text: str) -> str:
        """For statements that change tables, which run with our schema as their search path."""
        return _OURS.sub(lambda found: f'{found[1] or ""}"{self.prefix}{found[2]}"', text)

    def _named(self, found: re.Match[str]) -> str:
        name = f'"{self.prefix}{found[2]}"'
        return f"{found[1]}{name}" if found[1] else f'"{self.schema}".{name}'


def _split(url: str, what: str) -> urls.Url:
    try:
        return urls.split_url(url, many=True)
    except ValueError as bad:
        raise BadSetting(f"{what} has {bad}: use postgresql://user@host:5432/database") from None


def _driver_dsn(parts: urls.Url) -> str:
    """The driver reads a DSN by urllib, which takes no brackets in a password, and none in a list of hosts."""
    authority, query = parts.authority, parts.query
    if "[" in authority and len(parts.hosts) > 1:
        more = [(key, value) for key, value in parse_qsl(query, keep_blank_values=True) if key not in ("host", "port")]
        authority, query = "", urlencode([*more, ("host", unquote(authority))])
    user = "" if parts.user is None else parts.user.replace("[", "%5B").replace("]", "%5D") + "@"
    return f"{parts.scheme}://{user}{authority}{parts.path}{query and '?'}{query}"
