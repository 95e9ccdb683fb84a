"""A recorder of the events of an app."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..events import E, Event
from ..ids import JobId

if TYPE_CHECKING:
    from ..app import Mainspring


class Recorder:
    """Records every event of an app from its creation on."""

    def __init__(self, app: Mainspring) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Event()
        app.events.subscribe(Event, self._record)

    def _record(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    def of(self, kind: type[E], job: JobId | None = None) -> list[E]:
        """The events of a kind in order; with `job`, only those of that job."""
        return [event for event in self.events if isinstance(event, kind) and job in (None, _job(event))]

    async def wait(self, kind: type[E], n: int = 1, *, job: JobId | None = None, timeout: float = 10.0) -> list[E]:
        """Waits until there are `n` such events and returns them. Raises TimeoutError after `timeout` real seconds."""
        async with asyncio.timeout(timeout):
            while len(found := self.of(kind, job)) < n:
                self._changed.clear()
                await self._changed.wait()
        return found

    def clear(self) -> None:
        self.events.clear()


def _job(event: Event) -> JobId | None:
    job = getattr(event, "job", None)
    return getattr(event, "id", None) if job is None else job.id
