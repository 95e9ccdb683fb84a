"""How the PostgreSQL store waits for changes, and whether it learns of those that other processes make."""

from __future__ import annotations

from ...store import Listening, Topic
from .handle import PostgresHandle


class PostgresWait(PostgresHandle):
    """The verb `wait`."""

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        self._open()
        if self._listener is not None:
            self._listener.listen()
        change = await self._wakeups.broadcast("new" if topic == "claimable" else topic).wait(timeout, seen)
        if topic == "claimable":
            self._idle = False  # the next claim takes at once, without reading the view first
        return change

    @property
    def listening(self) -> Listening:
        if self._wakeups.listening:
            return "ok"
        return "failed" if self._listener is not None and self._listener.trouble else "off"
