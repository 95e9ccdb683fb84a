"""The URL of a PostgreSQL store: its DSN, schema and table prefix, and the names that follow from them."""

from __future__ import annotations

import re
import zlib
from typing import cast, get_args
from urllib.parse import parse_qsl, unquote, urlencode

from ... import url as urls
from ...errors import BadSetting
from .connector import Pooler

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")
# Our table names in a statement. A new name and the name of a new index take no schema, which is that of the table.
_TABLE_NAME = re.compile(r"\b(CREATE INDEX |CREATE UNIQUE INDEX |RENAME TO )?mainspring_(\w+)")


def checked_name(option: str, in_url: str | None, setting: str, value: str, shown: str) -> str:
    """The name that the URL or the setting gives; empty if neither does. Raises BadSetting if they differ."""
    source = f"{option}={in_url!r} in store URL {shown!r}" if in_url is not None else f"{setting}={value!r}"
    name = value if in_url is None else in_url
    if (name or in_url is not None) and not _NAME.fullmatch(name):
        raise BadSetting(f"{source}: use lower-case letters, digits and _, 41 at most")
    if in_url is not None and value and value != in_url:
        raise BadSetting(f"{source}, but the setting {setting} is {value!r}: give one of them, or the same to both")
    return name


class PostgresUrl:
    """A parsed URL. Statements are written for tables named mainspring_…; `sql` replaces these by the real names."""

    def __init__(self, url: str, shown: str, *, schema: str = "", prefix: str = "") -> None:
        """`schema` and `prefix` come from settings; empty if they are not set."""
        parts = _split(url, f"store URL {shown!r}")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.schema = checked_name("schema", options.pop("schema", None), "postgres_schema", schema, shown) or "public"
        self.prefix = (
            checked_name("prefix", options.pop("prefix", None), "postgres_table_prefix", prefix, shown) or "mainspring_"
        )
        pooler, listen = options.pop("pooler", "auto"), options.pop("listen", None)
        if pooler not in get_args(Pooler):
            raise BadSetting(f"pooler={pooler!r} in store URL {shown!r}: use one of {', '.join(get_args(Pooler))}")
        if listen not in (None, "off") and not listen.startswith(("postgresql://", "postgres://")):
            raise BadSetting(f"listen= in store URL {shown!r} takes postgresql://user@host/database, or off")
        self.pooler: Pooler = cast(Pooler, pooler)
        self.listens = listen != "off"
        self.listen = (
            _driver_dsn(_split(listen, f"listen= in store URL {shown!r}")) if listen and self.listens else None
        )
        """The DSN for LISTEN; None if it is the same."""
        if len(parts.path) < 2:
            raise BadSetting(f"store URL {shown!r} names no database: use postgresql://user@host/database")
        self.dsn = _driver_dsn(parts._replace(query=urlencode(options)))
        self.shown = shown
        whole = f"{self.schema}.{self.prefix}"
        # The first key of our advisory locks: two apps in one database do not wait for each other.
        self.lock = zlib.crc32(whole.encode()) - 2**31
        self.channel = f"mainspring_{self.lock + 2**31:08x}"
        self._known: dict[str, str] = {}

    def sql(self, text: str) -> str:
        """The statement with the real names of our tables, with their schema; cached."""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = _TABLE_NAME.sub(self._named, text)
        return known

    def names(self, table: str) -> tuple[str, str]:
        """The schema and the name of a table."""
        return self.schema, self.prefix + table.removeprefix("mainspring_")

    def bare(self, text: str) -> str:
        """The statement with the real names without schema: for migrations, which set the search path."""
        return _TABLE_NAME.sub(lambda found: f'{found[1] or ""}"{self.prefix}{found[2]}"', text)

    def _named(self, found: re.Match[str]) -> str:
        name = f'"{self.prefix}{found[2]}"'
        return f"{found[1]}{name}" if found[1] else f'"{self.schema}".{name}'


def _split(url: str, what: str) -> urls.Url:
    try:
        return urls.split_url(url, many=True)
    except ValueError as bad:
        raise BadSetting(f"{what} has {bad}: use postgresql://user@host:5432/database") from None


def _driver_dsn(parts: urls.Url) -> str:
    """The DSN for the driver, whose parser (urllib) allows no brackets in a password or a list of hosts."""
    authority, query = parts.authority, parts.query
    if "[" in authority and len(parts.hosts) > 1:
        more = [(key, value) for key, value in parse_qsl(query, keep_blank_values=True) if key not in ("host", "port")]
        authority, query = "", urlencode([*more, ("host", unquote(authority))])
    user = "" if parts.user is None else parts.user.replace("[", "%5B").replace("]", "%5D") + "@"
    return f"{parts.scheme}://{user}{authority}{parts.path}{query and '?'}{query}"
