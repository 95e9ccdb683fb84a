"""The Redis store of a URL."""

from __future__ import annotations

from typing import Any

from ...clock import Clock
from ...config import Durability
from ...errors import BadSetting
from ...store import Store
from .url import RedisUrl


def from_url(
    url: str, *, shown: str, clock: Clock | None, durability: Durability, redis_key_prefix: str = "", **settings: Any
) -> Store:
    place = RedisUrl(url, shown, prefix=redis_key_prefix.removesuffix(":"))
    try:
        from .store import RedisStore
    except ModuleNotFoundError as error:
        raise BadSetting(f"store URL {place.shown!r} needs {error.name}: pip install 'mainspring[redis]'") from None
    return RedisStore(place, clock=clock, durability=durability)
