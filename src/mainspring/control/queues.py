"""app.queues: what waits where, and whether it may go on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from ..depth import Sample, checked_window, history
from ..events import QueuePaused, QueueResumed
from ..job import Queue
from ..span import Span
from ..task import check_name
from .deed import audited, note, noting
from .ground import Ground


class Queues:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def list(self) -> Sequence[Queue]:
        return await (await self._ground.opened()).queues(now=self._ground.clock.now())

    async def history(self, window: Span = timedelta(hours=1), *, queue: str | None = None) -> Sequence[Sample]:
        """How deep the queues were within the window, first to last: by the minute for three hours, every ten minutes
        for four days. With a queue, the total is its own. Where no worker lived there is no sample."""
        store = await self._ground.opened()
        return await history(store, checked_window(window), queue, now=self._ground.clock.now())

    @audited("queues.pause")
    async def pause(self, name: str) -> None:
        """Nothing new is claimed from it; running jobs go on, enqueueing goes on."""
        await self._set(name, True)
        self._ground.events.emit(QueuePaused(at=self._ground.clock.now(), queue=name))

    @audited("queues.resume")
    async def resume(self, name: str) -> None:
        await self._set(name, False)
        self._ground.events.emit(QueueResumed(at=self._ground.clock.now(), queue=name))

    async def _set(self, name: str, paused: bool) -> None:
        check_name(name, "queue name")
        was = noting() and name in {queue.name for queue in await self.list() if queue.paused}
        await (await self._ground.opened()).pause_queue(name, paused)
        note(before={"paused": was}, after={"paused": paused})
