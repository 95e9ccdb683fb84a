"""app.stats over an API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ..control.ground import Opened
from ..insight.stats import Stats


async def stats(opened: Opened, window: timedelta | None, queue: str | None, task: str | None) -> Stats:
    store: Any = await opened()
    asked = "ever" if window is None else f"{window.total_seconds():g}s"
    query = {"window": asked, "queue": queue, "task": task}
    found: Stats = await store.line.ask(Stats, "GET", "stats", query=query)
    return found
