"""The SQLite store's paused queues."""

from __future__ import annotations

from .handle import SqliteHandle

PAUSED_QUEUES = "SELECT name FROM mainspring_queues WHERE paused"
_PAUSE = "INSERT INTO mainspring_queues VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused"


class SqliteQueues(SqliteHandle):
    """The verb pause_queue."""

    async def pause_queue(self, name: str, paused: bool) -> None:
        self._idle = False
        await self._write(lambda db: db.execute(_PAUSE, (name, paused)).rowcount)
        self._waiters.wake_all()
