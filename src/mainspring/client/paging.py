"""Lists of the API, read page by page."""

from __future__ import annotations

from typing import Any, TypeVar

from ..control.job_page import Page
from .connection import ApiConnection
from .responses import JobItemResponse, PageResponse

T = TypeVar("T")
Item = TypeVar("Item", bound=JobItemResponse)
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


async def read_jobs(
    connection: ApiConnection, type: type[Item], *path: str, limit: int, after: str | None, **query: Any
) -> tuple[Page, list[Item]]:
    """A page of whole jobs, and the items of the list that it was made from."""
    page, items = Page(), list[Item]()
    while len(items) < limit:
        query |= {"limit": min(limit - len(items), PAGE_ITEMS), "after": after, "full": "true"}
        response = await connection.call(PageResponse[type], "GET", *path, query=query)  # type: ignore[valid-type]
        items += response.items
        page.next = after = response.next
        if after is None:
            break
    page += [item.job.to_record() for item in items]
    return page, items
