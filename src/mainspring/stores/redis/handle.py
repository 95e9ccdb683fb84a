"""What every verb of the Redis store uses: its shards, its clock, and the wake-ups of waiters."""

from __future__ import annotations

import asyncio

from ...clock import Clock, SystemClock
from ...config import Durability
from ...errors import ShuttingDown, StoreError
from ...store import Capabilities
from .listener import RedisListener, RedisWakeups
from .shard import Shards
from .url import RedisUrl


class RedisHandle:
    """The base class of the classes that have the verbs. It is used in the event loop that opened it."""

    capabilities = Capabilities(
        store="the Redis store",
        flows=True,
        limits=True,
        no_scripts="the Redis store has no tables, and no statements that would change them",
    )

    def __init__(
        self,
        url: RedisUrl,
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
        wakeups: RedisWakeups | None = None,
    ) -> None:
        self.url = url
        self._clock = clock or SystemClock()
        self._durability: Durability = durability
        self._wakeups = wakeups or RedisWakeups(self._clock)
        self._shards: Shards | None = None
        self._listener: RedisListener | None = None

    def _open(self) -> Shards:
        """The shards. Raises ShuttingDown if the store is closed, StoreError in another event loop."""
        if self._shards is None:
            raise ShuttingDown(f"the store {self.url.shown} is closed")
        if self._shards.connector.loop is not asyncio.get_running_loop():
            raise StoreError("this handle was opened in another event loop: take store.clone() there")
        return self._shards
