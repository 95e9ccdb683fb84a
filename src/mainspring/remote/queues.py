"""app.queues over an API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from ..control.queues import Queues
from ..depth import Sample, checked_window
from ..span import Span
from .line import line_of


class _Answer(Struct):
    items: list[Sample]


class RemoteQueues(Queues):
    async def history(self, window: Span = timedelta(hours=1), *, queue: str | None = None) -> Sequence[Sample]:
        window = checked_window(window)
        query = {"window": f"{window.total_seconds():g}s", "queue": queue}
        return (await (await line_of(self._ground)).ask(_Answer, "GET", "depth", query=query)).items
