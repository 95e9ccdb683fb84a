"""The memory store of a URL."""

from __future__ import annotations

from typing import Any

from ...clock import Clock
from ...config import Durability
from ...errors import BadSetting
from ...store import Store
from .store import MemoryStore


def from_url(url: str, *, shown: str, clock: Clock | None, durability: Durability, **settings: Any) -> Store:
    if url.partition("://")[2]:
        raise BadSetting(f"store URL {shown!r} has more than memory://, which takes nothing else")
    return MemoryStore(clock)
