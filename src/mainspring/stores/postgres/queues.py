"""The PostgreSQL store's queues: which of them are paused."""

from __future__ import annotations

from .handle import PostgresHandle
from .pool import Session

_PAUSE = "INSERT INTO mainspring_queues VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused"


class PostgresQueues(PostgresHandle):
    """The verb `pause_queue`."""

    async def pause_queue(self, name: str, paused: bool) -> None:
        self._idle = False
        await self._call(lambda db: db.run(_PAUSE, name, paused))
        self._announce("new")


async def paused_queues(db: Session) -> set[str]:
    return {name for (name,) in await db.rows("SELECT name FROM mainspring_queues WHERE paused")}
