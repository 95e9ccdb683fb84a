"""Word from other processes that share a PostgreSQL store, heard at a connection of its own; and whether it is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ...survived_errors import SurvivedErrors
from .notifier import ProcessWakeups, aside
from .pool import Pool

_deaf = SurvivedErrors("listener", "changes that others make are found by polling meanwhile")
# Seconds between two proofs that a word is heard, and how long one may take.
PROBE, ECHO = 60.0, 5.0
# Seconds until a lost connection is made anew, the first time and at most.
SOONEST, LATEST = 0.1, 10.0
# Seconds until it is tried again after nothing was heard, the first time and at most: a busy server may have taken too
# long, but a pooler that is there stays for a while.
DEAF_SOONEST_SECONDS, DEAF_LATEST_SECONDS = 1.0, 60.0
# Of many who hear of one job, most look in vain: each waits for up to so long per other worker, in seconds.
EACH, MOST = 0.0005, 0.02


class Deaf(Exception):
    """A word was sent, and not heard."""


class PostgresListener:
    """Listens as well as it can. A connection counts as hearing once a word sent through another one came back."""

    def __init__(self, pool: Pool, kin: ProcessWakeups) -> None:
        self._pool, self._kin = pool, kin
        self._own = f"{pool.place.channel}_{kin.name}"
        self._echo = asyncio.Event()
        self._settled = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why it does not hear; empty while it does, or has not found out."""

    @property
    def hears(self) -> bool:
        return self in self._kin.ears

    def listen(self) -> None:
        """From now on."""
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def settled(self, timeout: float) -> bool:
        """Whether it hears, as soon as that is known."""
        self.listen()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._settled.wait()
        return self.hears

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            self.forget()
            await asyncio.sleep(0)  # the sockets are closed in the loop's next turn

    def forget(self) -> None:
        self._turn(False)

    async def _listen(self) -> None:
        wait, unheard = SOONEST, 0.0
        while True:
            try:
                await self._attend()
            except Deaf as deaf:
                known = 0.0 if self.hears else 4 * unheard
                wait = unheard = min(max(known, DEAF_SOONEST_SECONDS), DEAF_LATEST_SECONDS)
                self._turn(False, str(deaf))
                _deaf(deaf)
            except Exception as error:
                _deaf(error)
                wait = SOONEST if self.hears else min(2 * wait, LATEST)
                self._turn(False, str(error))
            await asyncio.sleep(random.uniform(wait / 2, wait))

    def _turn(self, hears: bool, trouble: str = "") -> None:
        """Whoever waits learns of either: what was said meanwhile was not heard, and from now on looks by itself."""
        self.trouble = trouble
        self._settled.set()
        if hears or self.hears:
            (self._kin.ears.add if hears else self._kin.ears.discard)(self)
            self._kin.ring("new", "final")

    async def _attend(self) -> None:
        """Until the connection is lost."""
        connection = await self._pool.listener()
        try:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            async with asyncio.timeout(ECHO):
                await connection.add_listener(self._pool.place.channel, self._hear)
                await connection.add_listener(self._own, lambda *_: self._echo.set())
            # Through another connection: a pooler hands on what comes while our own statement is under way.
            await self._prove(lambda: self._pool.call(aside(self._own, "")))
            self._turn(True)
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PROBE):
                        await lost.wait()
                    raise ConnectionError("the listening connection was lost")
                await self._prove(lambda: connection.execute(f'NOTIFY "{self._own}"', timeout=ECHO))
        finally:
            connection.terminate()

    async def _prove(self, send: Callable[[], Awaitable[object]]) -> None:
        self._echo.clear()
        await send()
        try:
            async with asyncio.timeout(ECHO):
                await self._echo.wait()
        except TimeoutError:
            raise Deaf("notifications do not come through, as behind a pooler in transaction mode") from None

    def _hear(self, _connection: Any, _pid: int, _channel: str, text: str) -> None:
        sender, *words = text.split()
        if sender == self._kin.name:
            return
        if "final" in words:
            self._kin.ring("final")
        if "new" in words:
            wait = min(EACH * (self._kin.crowd - 1), MOST)
            asyncio.get_running_loop().call_later(random.uniform(0, wait), self._kin.ring, "new")
