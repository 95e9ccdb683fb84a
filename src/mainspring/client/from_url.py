"""The store of an API's URL."""

from __future__ import annotations

from typing import Any

from ..clock import Clock
from ..config import Durability
from ..errors import BadSetting
from ..store import Store
from .url import ApiUrl


def from_url(
    url: str, *, shown: str, clock: Clock | None, durability: Durability, api_key: str = "", **settings: Any
) -> Store:
    place = ApiUrl(url, shown)
    try:
        from .client import ApiClient
    except ModuleNotFoundError as error:
        raise BadSetting(f"store URL {shown!r} needs {error.name}: pip install 'mainspring[http]'") from None
    return ApiClient(place, api_key)
