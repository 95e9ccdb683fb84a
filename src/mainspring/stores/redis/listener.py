"""The listener: wakes this process when another process adds or ends jobs in the same store."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any, Literal

from ...clock import Clock
from ...errors import StoreError
from ...survived_errors import SurvivedErrors
from ..broadcast import Broadcast
from .data_loss import DataLossDetector
from .shard import Shards

_listen_errors = SurvivedErrors("listener", "changes that others make are found by polling meanwhile")
News = Literal["new", "final"]

# Delay before a lost connection is reopened; it doubles with each failure.
MIN_RECONNECT_SECONDS = 0.1
MAX_RECONNECT_SECONDS = 10.0
# Silence after which a PING is sent.
PING_AFTER_SECONDS = 30.0
# Timeout of its reply.
PONG_TIMEOUT_SECONDS = 5.0


class RedisWakeups:
    """Wake-ups, listeners and data loss of one store, shared by all its handles in this process."""

    def __init__(self, clock: Clock) -> None:
        self._broadcasts: dict[str, Broadcast] = {"new": Broadcast(clock), "final": Broadcast(clock)}
        self.listeners: set[object] = set()
        self.data_loss = DataLossDetector()

    def broadcast(self, topic: News) -> Broadcast:
        return self._broadcasts[topic]

    def notify(self, *topics: str) -> None:
        """Wakes the waiters of these topics in this process."""
        for topic in topics:
            self._broadcasts[topic].wake_all()


class RedisListener:
    """Subscribes to the store's channels, and reconnects when the connection is lost."""

    def __init__(self, shards: Shards, wakeups: RedisWakeups) -> None:
        self._shards, self._wakeups = shards, wakeups
        self._listening: asyncio.Task[None] | None = None
        self._known = asyncio.Event()
        self._received = 0
        self.error_text = ""

    def listen(self) -> None:
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def wait_until_known(self, timeout: float) -> bool:
        """Whether it is subscribed, as soon as that is known; False after `timeout` seconds."""
        self.listen()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._known.wait()
        return self in self._wakeups.listeners

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        self.forget()

    def forget(self) -> None:
        """Marks it as not listening, without closing the connection."""
        self._set_listening(False)

    async def _listen(self) -> None:
        wait = MIN_RECONNECT_SECONDS
        while True:
            try:
                await self._subscribe()
            except Exception as error:
                _listen_errors(error)
                self._shards.connector.invalidate()
                wait = (
                    MIN_RECONNECT_SECONDS if self in self._wakeups.listeners else min(2 * wait, MAX_RECONNECT_SECONDS)
                )
                self._set_listening(False, str(error) or type(error).__name__)
            await asyncio.sleep(random.uniform(wait / 2, wait))

    async def _subscribe(self) -> None:
        """Receives messages until the connection fails, then raises StoreError."""
        connection = await self._shards.first.listen(self._receive)
        try:
            connection.write("SUBSCRIBE", *(shard.base for shard in self._shards.all))
            while True:
                before = self._received
                await asyncio.wait([connection.lost], timeout=PING_AFTER_SECONDS)
                if self._received == before and not connection.lost.done():
                    connection.write("PING")
                    await asyncio.wait([connection.lost], timeout=PONG_TIMEOUT_SECONDS)
                if connection.lost.done() or self._received == before:
                    raise StoreError(connection.lost.result() if connection.lost.done() else "no reply to PING")
        finally:
            connection.close()

    def _receive(self, message: Any) -> None:
        self._received += 1
        if not isinstance(message, list):
            self._set_listening(False, str(message))
        elif message[0] == b"message":
            self._wakeups.notify(*message[2].decode().split())
        elif message[0] == b"subscribe" and self not in self._wakeups.listeners:
            self._set_listening(True)

    def _set_listening(self, listening: bool, error_text: str = "") -> None:
        """Records the status and wakes all waiters: messages may have been missed, or will be from now on."""
        self.error_text = error_text
        self._known.set()
        if listening or self in self._wakeups.listeners:
            (self._wakeups.listeners.add if listening else self._wakeups.listeners.discard)(self)
            self._wakeups.notify("new", "final")
