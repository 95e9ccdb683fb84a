"""Opens the store a URL names; no other file knows their names."""

from __future__ import annotations

from urllib.parse import urlsplit

from ..clock import Clock
from ..config import Durability
from ..errors import BadSetting
from ..store import Store

_FORMS = "memory://, sqlite:///file.db (relative) or sqlite:////var/lib/file.db (absolute)"


def open_store(url: str, *, clock: Clock | None = None, durability: Durability = "full") -> Store:
    """The store of that URL, not yet opened."""
    try:
        parts = urlsplit(url)
    except ValueError as bad:
        raise BadSetting(f"store URL {url!r} cannot be read: {bad}") from None
    match parts.scheme:
        case "memory":
            from .memory import MemoryStore

            return MemoryStore(clock)
        case "sqlite":
            from .sqlite import SqliteStore

            if parts.netloc:
                raise BadSetting(f"store URL {url!r} needs three slashes before a relative path, four before "
                                 f"an absolute one: sqlite:///{parts.netloc}{parts.path}")  # fmt: skip
            if len(parts.path) < 2 or parts.path.endswith("/"):
                raise BadSetting(f"store URL {url!r} names no file: use {_FORMS}")
            if parts.query or parts.fragment:
                raise BadSetting(f"store URL {url!r} takes no query or fragment: use {_FORMS}")
            return SqliteStore(parts.path[1:], clock=clock, durability=durability)
        case scheme:
            what = f"unknown store {scheme!r}" if scheme else "no store named"
            raise BadSetting(f"{what} in URL {url!r}: use {_FORMS}")
