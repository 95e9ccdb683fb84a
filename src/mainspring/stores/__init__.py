"""Opens the store that a URL names; only this file knows the schemes and classes of the stores."""

from __future__ import annotations

import logging
import re

from ..clock import Clock
from ..config import Durability
from ..errors import BadSetting
from ..store import Store

_logger = logging.getLogger("mainspring")
_FORMS = (
    "memory://, sqlite:///file.db (relative), sqlite:////var/lib/file.db (absolute), "
    "postgresql://user@host/database, redis://host/0 or https://host of an API"
)


def open_store(
    url: str,
    *,
    clock: Clock | None = None,
    durability: Durability = "full",
    api_key: str = "",
    postgres_schema: str = "",
    postgres_table_prefix: str = "",
    redis_key_prefix: str = "",
) -> Store:
    """Returns the store of that URL, not yet opened. Raises BadSetting for a wrong URL or a driver that is missing.

    `api_key` is for an https:// URL; a schema or prefix is for the store in its name, and ignored with a warning
    elsewhere.
    """
    shown = re.sub(r"(//[^/:@]*):[^/@]*@", r"\1:***@", url)  # a password must not reach a log
    shown = re.sub(r"([?&]password=)[^&]*", r"\1***", shown)
    shown = re.sub(r"([?&]listen=)(?!off(?:&|$))[^&]*", r"\1***", shown)
    scheme, found, rest = url.partition("://")
    for name, value, begin in (
        ("postgres_schema", postgres_schema, "postgres"),
        ("postgres_table_prefix", postgres_table_prefix, "postgres"),
        ("redis_key_prefix", redis_key_prefix, "redis"),
    ):
        if value and not scheme.startswith(begin):
            _logger.warning("the setting %s=%r does not apply to the store %s, and is ignored", name, value, shown)
    match scheme if found else "":
        case "memory":
            from .memory.store import MemoryStore

            if rest:
                raise BadSetting(f"store URL {shown!r} has more than memory://, which takes nothing else")
            return MemoryStore(clock)
        case "sqlite":
            from .sqlite.store import SqliteStore

            if not rest.startswith("/"):
                raise BadSetting(
                    f"store URL {shown!r} needs three slashes before a relative path, four before an absolute one: "
                    f"sqlite:///{rest or 'jobs.db'}"
                )
            if len(rest) < 2 or rest.endswith("/"):
                raise BadSetting(f"store URL {shown!r} names no file: use {_FORMS}")
            if rest[1:] == ":memory:":
                raise BadSetting(f"store URL {shown!r} would lose its jobs with each connection: use memory://")
            if not rest.isprintable():
                raise BadSetting(f"store URL {shown!r} has characters that are not printable")
            if "?" in rest or "#" in rest:
                raise BadSetting(f"store URL {shown!r} takes no query or fragment: use {_FORMS}")
            return SqliteStore(rest[1:], clock=clock, durability=durability)
        case "postgresql" | "postgres":
            try:
                from .postgres.store import PostgresStore
            except ModuleNotFoundError as error:
                raise BadSetting(
                    f"store URL {shown!r} needs {error.name}: pip install 'mainspring[postgres]'"
                ) from None
            from .postgres.url import PostgresUrl

            postgres = PostgresUrl(url, shown, schema=postgres_schema, prefix=postgres_table_prefix)
            return PostgresStore(postgres, clock=clock, durability=durability)
        case _ if re.fullmatch(r"rediss?(\+(cluster|sentinel))?|redis\+unix", scheme):
            from .redis.url import RedisUrl

            redis = RedisUrl(url, shown, prefix=redis_key_prefix.removesuffix(":"))
            try:
                from .redis.store import RedisStore
            except ModuleNotFoundError as error:
                raise BadSetting(
                    f"store URL {redis.shown!r} needs {error.name}: pip install 'mainspring[redis]'"
                ) from None
            return RedisStore(redis, clock=clock, durability=durability)
        case "http" | "https":
            from ..client.url import ApiUrl

            api = ApiUrl(url, shown)
            try:
                from ..client.client import ApiClient
            except ModuleNotFoundError as error:
                raise BadSetting(f"store URL {shown!r} needs {error.name}: pip install 'mainspring[http]'") from None
            return ApiClient(api, api_key)
        case unknown:
            what = f"unknown store {unknown!r}" if unknown else "no store named"
            raise BadSetting(f"{what} in URL {shown!r}: use {_FORMS}")
