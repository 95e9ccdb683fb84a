"""The SQLite store of a URL."""

from __future__ import annotations

from typing import Any

from ...clock import Clock
from ...config import Durability
from ...errors import BadSetting
from ...store import Store
from .store import SqliteStore

_FORMS = "sqlite:///file.db (relative) or sqlite:////var/lib/file.db (absolute)"


def from_url(url: str, *, shown: str, clock: Clock | None, durability: Durability, **settings: Any) -> Store:
    return SqliteStore(_path(url.partition("://")[2], shown), clock=clock, durability=durability)


def _path(rest: str, shown: str) -> str:
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
    return rest[1:]
