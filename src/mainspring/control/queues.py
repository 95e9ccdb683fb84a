"""app.queues: queues and their depth, paused and resumed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..actor import current_actor
from ..events import QueuePaused, QueueResumed
from ..insight.queue_depth import DepthSample, check_window, history
from ..records.queue import Queue
from ..span import Span
from ..store import Store
from ..task.options import check_name
from .audit_log import annotate as annotate
from .audit_log import audited, is_recording
from .queue_pauses import Pause, begin_pause, checked_note, end_pause, open_pause, pauses_of

if TYPE_CHECKING:
    from ..engine import Engine


class Queues:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self) -> Sequence[Queue]:
        """Every queue that has unfinished jobs or is paused, by name; of a paused one also who paused it, and why."""
        store, now = await self._engine.connect(), self._engine.clock.now()
        return await with_pauses(store, (await store.overview(now=now, finished=False)).queues, now)

    async def pauses(self, name: str) -> Sequence[Pause]:
        """The last twenty pauses of the queue, newest first."""
        check_name(name, "queue name")
        store, now = await self._engine.connect(), self._engine.clock.now()
        return (await pauses_of(store, [name], now)).get(name, ())[::-1]

    async def history(self, window: Span = timedelta(hours=1), *, queue: str | None = None) -> Sequence[DepthSample]:
        """The depth of the queues within the window, first to last: per minute for three hours, per ten minutes for
        four days. With `queue` only that one counts. While no worker was alive there are no samples."""
        store = await self._engine.connect()
        return await history(store, check_window(window), queue, now=self._engine.clock.now())

    @audited("queues.pause")
    async def pause(self, name: str, note: str = "") -> None:
        """Pauses the queue: nothing is claimed from it, but running jobs and enqueueing go on.

        The note says why; it is kept with who paused the queue and when. Pausing a paused queue with a note changes
        the note.
        """
        check_name(name, "queue name")
        text = checked_note(note)
        store, now = await self._engine.connect(), self._engine.clock.now()
        was_paused = name in _paused((await store.overview(now=now, finished=False)).queues)
        # The record comes first: a paused queue always has one. An open record of a queue that runs means nothing.
        await begin_pause(store, name, current_actor(), text, paused=was_paused, now=now)
        await store.pause_queue(name, True)
        annotate(before={"paused": was_paused}, after={"paused": True})
        self._engine.events.emit(QueuePaused(at=self._engine.clock.now(), queue=name))

    @audited("queues.resume")
    async def resume(self, name: str) -> None:
        check_name(name, "queue name")
        store, now = await self._engine.connect(), self._engine.clock.now()
        was_paused = is_recording() and name in _paused((await store.overview(now=now, finished=False)).queues)
        await store.pause_queue(name, False)
        await end_pause(store, name, now)
        annotate(before={"paused": was_paused}, after={"paused": False})
        self._engine.events.emit(QueueResumed(at=self._engine.clock.now(), queue=name))


async def with_pauses(store: Store, queues: Sequence[Queue], now: datetime) -> list[Queue]:
    """The queues; paused ones with who paused them, when and why."""
    paused = _paused(queues)
    records = await pauses_of(store, paused, now) if paused else {}
    return [_with_pause(queue, open_pause(records.get(queue.name, ()))) for queue in queues]


def _paused(queues: Iterable[Queue]) -> list[str]:
    return [queue.name for queue in queues if queue.paused]


def _with_pause(queue: Queue, pause: Pause | None) -> Queue:
    if pause is None or not queue.paused:
        return queue
    return replace(queue, paused_at=pause.at, paused_by=pause.who, note=pause.note)
