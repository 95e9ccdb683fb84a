"""RemoteStatistics: app.stats() over an API."""

from __future__ import annotations

from datetime import timedelta

from ..control.statistics import Statistics
from ..insight.stats import Stats
from .client import connection_of


class RemoteStatistics(Statistics):
    async def _read(self, window: timedelta | None, queue: str | None, task: str | None) -> Stats:
        connection = await connection_of(self._engine)
        query = {"window": "ever" if window is None else f"{window.total_seconds():g}s", "queue": queue, "task": task}
        return await connection.call(Stats, "GET", "stats", query=query)
