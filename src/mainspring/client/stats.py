"""app.stats() over an API."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from ..control.ground import Opened
from ..insight.stats import Stats
from .client import ApiClient


async def stats(opened: Opened, window: timedelta | None, queue: str | None, task: str | None) -> Stats:
    connection = cast(ApiClient, await opened()).connection
    query = {"window": "ever" if window is None else f"{window.total_seconds():g}s", "queue": queue, "task": task}
    return await connection.call(Stats, "GET", "stats", query=query)
