"""Lists of the API, read page by page."""

from __future__ import annotations

from typing import Any, TypeVar

from .connection import ApiConnection
from .responses import PageResponse

T = TypeVar("T")
# Items that the client asks for in one request.
PAGE_ITEMS = 200


async def read_pages(
    connection: ApiConnection, type: type[T], *path: str, limit: int | None = None, **query: Any
) -> list[T]:
    """The items of a list, up to `limit`. A query with `before` is continued by `before`, any other by `after`."""
    items: list[T] = []
    cursor = "before" if "before" in query else "after"
    while limit is None or len(items) < limit:
        query["limit"] = PAGE_ITEMS if limit is None else min(PAGE_ITEMS, limit - len(items))
        page = await connection.call(PageResponse[type], "GET", *path, query=query)  # type: ignore[valid-type]
        items += page.items
        if page.next is None:
            break
        query[cursor] = page.next
    return items
