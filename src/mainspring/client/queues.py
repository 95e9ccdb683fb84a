"""RemoteQueues: app.queues over an API."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from ..control.queue_pauses import Pause, checked_note
from ..control.queues import Queues
from ..events import QueuePaused, QueueResumed
from ..insight.queue_depth import DepthSample, check_window
from ..records.queue import Queue
from ..span import Span
from ..task.options import check_name
from .client import connection_of
from .responses import PageResponse

_logger = logging.getLogger("mainspring")


class _DepthResponse(Struct):
    items: list[DepthSample]


class RemoteQueues(Queues):
    async def list(self) -> Sequence[Queue]:
        return (await (await connection_of(self._engine)).call(PageResponse[Queue], "GET", "queues")).items

    async def pauses(self, name: str) -> Sequence[Pause]:
        check_name(name, "queue name")
        return await (await connection_of(self._engine)).call(tuple[Pause, ...], "GET", "queues", name, "pauses")

    async def pause(self, name: str, note: str = "") -> None:
        check_name(name, "queue name")
        note = checked_note(note)
        connection = await connection_of(self._engine)
        queue = await connection.call(Queue, "POST", "queues", name, "pause", body={"note": note})
        if note and not queue.note:
            _logger.warning(
                "queue %r is paused, but the server runs an earlier release and does not store the note", name
            )
        self._engine.events.emit(QueuePaused(at=self._engine.clock.now(), queue=name))

    async def resume(self, name: str) -> None:
        check_name(name, "queue name")
        await (await connection_of(self._engine)).send("POST", "queues", name, "resume")
        self._engine.events.emit(QueueResumed(at=self._engine.clock.now(), queue=name))

    async def history(self, window: Span = timedelta(hours=1), *, queue: str | None = None) -> Sequence[DepthSample]:
        window = check_window(window)
        query = {"window": f"{window.total_seconds():g}s", "queue": queue}
        return (await (await connection_of(self._engine)).call(_DepthResponse, "GET", "depth", query=query)).items
