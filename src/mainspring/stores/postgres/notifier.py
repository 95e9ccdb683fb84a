"""Word to other processes that share a PostgreSQL store: something came, something ended."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Literal

from ...clock import Clock
from ...errors import ShuttingDown, StoreError
from ...survived_errors import SurvivedErrors
from ..broadcast import Broadcast
from .pool import Pool, Verb
from .url import PostgresUrl

_unsent = SurvivedErrors("notify", "workers elsewhere find the change at their next poll")
Word = Literal["new", "final"]

# A notification takes a lock of the whole database when it is committed: one for all that happens in this time.
GAP = 0.01
# Longer than anybody goes without looking.
LATER = timedelta(minutes=5)


def soon(at: datetime | None, now: datetime) -> bool:
    """Whether others have to be told. What is due later they see when they next look, all of them before that."""
    return at is None or at - now < LATER


def notice(channel: str, text: str) -> Verb[None]:
    """Inside the transaction of what it tells."""
    return lambda db: db.run("SELECT pg_notify($1, $2)", channel, text)


def aside(channel: str, text: str) -> Verb[None]:
    """By itself: nothing in it has to reach the disk."""
    sql = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"
    return lambda db: db.run(sql, channel, text)


class ProcessWakeups:
    """What the handles of one process on one store share: who is told here, and what is known of those elsewhere."""

    def __init__(self, place: PostgresUrl, clock: Clock) -> None:
        self.place = place
        self._new, self._final = Broadcast(clock), Broadcast(clock)
        self._token = os.urandom(4).hex()
        self.ears: set[object] = set()
        """Those through which word from elsewhere reaches this process."""
        self.crowd = 1
        """Workers alive, as the last beat saw them."""

    @property
    def hears(self) -> bool:
        return bool(self.ears)

    @property
    def name(self) -> str:
        """A fork is somebody else."""
        return f"{self._token}{os.getpid():x}"

    def bell(self, word: Word) -> Broadcast:
        return self._new if word == "new" else self._final

    def ring(self, *words: Word) -> None:
        for word in words:
            self.bell(word).ring()


class Notifier:
    """Sends after the fact. Whoever is not told only waits longer."""

    def __init__(self, pool: Pool, kin: ProcessWakeups) -> None:
        self._pool, self._kin = pool, kin
        self._words: set[Word] = set()
        self._closing = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    def tell(self, *words: Word) -> None:
        self._words.update(words)
        if self._words and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def ride(self) -> str | None:
        """What to say of something new in its own transaction, which saves a way; None: too soon after the last."""
        if self._sending is not None and not self._sending.done():
            return None
        self._sending = asyncio.get_running_loop().create_task(self._send(GAP))
        return f"{self._kin.name} new"

    async def _send(self, wait: float = 0.0) -> None:
        if wait:
            await self._pause(wait)
        while self._words:
            text, self._words = " ".join([self._kin.name, *sorted(self._words)]), set()
            with _unsent.survive(StoreError), suppress(ShuttingDown):
                await self._pool.call(aside(self._pool.place.channel, text))
            await self._pause(GAP)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    async def close(self) -> None:
        """What has happened is told; then there is silence."""
        self._closing.set()
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=2)
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
