"""The PostgreSQL store of a URL."""

from __future__ import annotations

from typing import Any

from ...clock import Clock
from ...config import Durability
from ...errors import BadSetting
from ...store import Store


def from_url(
    url: str,
    *,
    shown: str,
    clock: Clock | None,
    durability: Durability,
    postgres_schema: str = "",
    postgres_table_prefix: str = "",
    **settings: Any,
) -> Store:
    try:
        from .store import PostgresStore
    except ModuleNotFoundError as error:
        raise BadSetting(f"store URL {shown!r} needs {error.name}: pip install 'mainspring[postgres]'") from None
    from .url import PostgresUrl

    place = PostgresUrl(url, shown, schema=postgres_schema, prefix=postgres_table_prefix)
    return PostgresStore(place, clock=clock, durability=durability)
