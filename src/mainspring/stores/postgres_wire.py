"""Word between processes that share a PostgreSQL store: something came, something ended."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from ..errors import ShuttingDown, StoreError
from .postgres_place import Place
from .postgres_pool import CONNECT_SECONDS, Pool, Verb

Word = Literal["new", "final"]

# A notification takes a lock of the whole database when it is committed: one for all that happens in this time.
GAP = 0.01
# A connection that is dead without a word is found out in this time; a lost one is made anew within these.
PROBE = 30.0
SOONEST, LATEST = 0.1, 10.0


def notice(place: Place, text: str) -> Verb[None]:
    return lambda db: db.run("SELECT pg_notify($1, $2)", place.channel, text)


class Wire:
    """Sends after the fact and hears at its own connection. Whoever waits without it only waits longer."""

    def __init__(self, pool: Pool, heard: Callable[[Word], None]) -> None:
        self._pool, self._heard = pool, heard
        self._name = os.urandom(4).hex()
        self._words: set[Word] = set()
        self._closing = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None

    # sending

    def tell(self, *words: Word) -> None:
        self._words.update(words)
        if self._words and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._words:
            text, self._words = " ".join([self._name, *sorted(self._words)]), set()
            with suppress(StoreError, ShuttingDown):  # who was not told finds it when it next looks
                await self._pool.call(notice(self._pool.place, text))
            await self._pause(GAP)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    # hearing

    def listen(self) -> None:
        """From now on, as well as it can."""
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        wait = SOONEST
        while True:
            try:
                connection = await self._pool.connect()
            except StoreError:
                await self._pause(random.uniform(wait / 2, wait))
                wait = min(2 * wait, LATEST)
                continue
            wait = SOONEST
            try:
                await self._attend(connection)
            except Exception:
                await self._pause(random.uniform(0, SOONEST))
            finally:
                connection.terminate()

    async def _attend(self, connection: Any) -> None:
        """Until the connection is lost."""
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        async with asyncio.timeout(CONNECT_SECONDS):
            await connection.add_listener(self._pool.place.channel, self._hear)
        self._heard("new")  # of what was said while nobody listened
        self._heard("final")
        while not lost.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(lost.wait(), PROBE)
            await connection.execute("SELECT 1", timeout=CONNECT_SECONDS)

    def _hear(self, _connection: Any, _pid: int, _channel: str, text: str) -> None:
        sender, *words = text.split()
        for word in words if sender != self._name else ():
            self._heard("final" if word == "final" else "new")

    async def close(self) -> None:
        """What has happened is told; then there is silence."""
        self._closing.set()
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=2)
        tasks = [task for task in (self._sending, self._listening) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the sockets are closed in the loop's next turn
