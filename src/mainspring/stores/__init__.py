"""Opens the store that a URL names; only this file knows the schemes of the stores."""

from __future__ import annotations

import logging
import re
from importlib import import_module
from typing import Any, Protocol, cast

from ..clock import Clock
from ..config import Durability
from ..errors import BadSetting
from ..store import Store

_logger = logging.getLogger("mainspring")
FORMS = (
    "memory://, sqlite:///file.db (relative), sqlite:////var/lib/file.db (absolute), "
    "postgresql://user@host/database, redis://host/0 or https://host of an API"
)
# The group of entry points by which packages register stores: a scheme, and a StoreOpener.
ENTRY_POINTS = "mainspring.stores"
# pyproject.toml has the same. Here they are found without the metadata of a package, and without looking for it.
BUILT_IN = {
    "memory": "mainspring.stores.memory.from_url:from_url",
    "sqlite": "mainspring.stores.sqlite.from_url:from_url",
    "postgresql": "mainspring.stores.postgres.from_url:from_url",
    "postgres": "mainspring.stores.postgres.from_url:from_url",
    "redis": "mainspring.stores.redis.from_url:from_url",
    "rediss": "mainspring.stores.redis.from_url:from_url",
    "redis+unix": "mainspring.stores.redis.from_url:from_url",
    "redis+cluster": "mainspring.stores.redis.from_url:from_url",
    "rediss+cluster": "mainspring.stores.redis.from_url:from_url",
    "redis+sentinel": "mainspring.stores.redis.from_url:from_url",
    "rediss+sentinel": "mainspring.stores.redis.from_url:from_url",
    "http": "mainspring.client.from_url:from_url",
    "https": "mainspring.client.from_url:from_url",
}


class StoreOpener(Protocol):
    """What an entry point of a scheme refers to."""

    def __call__(self, url: str, *, shown: str, clock: Clock | None, durability: Durability, **settings: Any) -> Store:
        """The store of that URL, not yet opened. Raises BadSetting for a wrong URL or a driver that is missing.

        `shown` is the URL without secrets, for messages. `settings` are those of open_store() that are not empty.
        """
        ...


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
    scheme, found, _ = url.partition("://")
    if not found or not scheme:
        raise BadSetting(f"no store named in URL {shown!r}: use {FORMS}")
    given = {
        "api_key": api_key,
        "postgres_schema": postgres_schema,
        "postgres_table_prefix": postgres_table_prefix,
        "redis_key_prefix": redis_key_prefix,
    }
    for name, value in given.items():
        if value and name != "api_key" and not scheme.startswith(name.partition("_")[0]):
            _logger.warning("the setting %s=%r does not apply to the store %s, and is ignored", name, value, shown)
    settings = {name: value for name, value in given.items() if value}
    return _opener(scheme, shown)(url, shown=shown, clock=clock, durability=durability, **settings)


def _opener(scheme: str, shown: str) -> StoreOpener:
    if scheme in BUILT_IN:
        module, _, name = BUILT_IN[scheme].partition(":")
        return cast(StoreOpener, getattr(import_module(module), name))
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    registered = {one.name: one for one in entry_points(group=ENTRY_POINTS)}
    if scheme in registered:
        return cast(StoreOpener, registered[scheme].load())
    more = sorted(registered.keys() - BUILT_IN.keys())
    others = f"; registered here: {', '.join(f'{name}://' for name in more)}" if more else ""
    raise BadSetting(f"unknown store {scheme!r} in URL {shown!r}: use {FORMS}{others}")
