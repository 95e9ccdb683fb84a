"""Word from other processes that share a PostgreSQL store, heard at a connection of its own; and whether it is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ...survived_errors import SurvivedErrors
from .notifier import ProcessWakeups, notify_alone
from .pool import Pool

_listen_errors = SurvivedErrors("listener", "changes that others make are found by polling meanwhile")
# Seconds between two proofs that a word is heard, and how long one may take.
PROBE_EVERY_SECONDS, ECHO_TIMEOUT_SECONDS = 60.0, 5.0
# Seconds until a lost connection is made anew, the first time and at most.
MIN_RECONNECT_SECONDS, MAX_RECONNECT_SECONDS = 0.1, 10.0
# Seconds until it is tried again after nothing was heard, the first time and at most: a busy server may have taken too
# long, but a pooler that is there stays for a while.
MIN_UNHEARD_RETRY_SECONDS, MAX_UNHEARD_RETRY_SECONDS = 1.0, 60.0
# Of many who hear of one job, most look in vain: each waits for up to so long per other worker, in seconds.
SPREAD_SECONDS_PER_WORKER, MAX_SPREAD_SECONDS = 0.0005, 0.02


class NotificationsLost(Exception):
    """A word was sent, and not heard."""


class PostgresListener:
    """Listens as well as it can. A connection counts as hearing once a word sent through another one came back."""

    def __init__(self, pool: Pool, wakeups: ProcessWakeups) -> None:
        self._pool, self._wakeups = pool, wakeups
        self._own_channel = f"{pool.url.channel}_{wakeups.name}"
        self._echo = asyncio.Event()
        self._known = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why it does not hear; empty while it does, or has not found out."""

    @property
    def listening(self) -> bool:
        return self in self._wakeups.listeners

    def listen(self) -> None:
        """From now on."""
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def is_listening(self, timeout: float) -> bool:
        """Whether it listening, as soon as that is known."""
        self.listen()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._known.wait()
        return self.listening

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            self.abandon()
            await asyncio.sleep(0)  # the sockets are closed in the loop's next turn

    def abandon(self) -> None:
        self._set_listening(False)

    async def _listen(self) -> None:
        wait, unheard = MIN_RECONNECT_SECONDS, 0.0
        while True:
            try:
                await self._listen_until_lost()
            except NotificationsLost as deaf:
                known = 0.0 if self.listening else 4 * unheard
                wait = unheard = min(max(known, MIN_UNHEARD_RETRY_SECONDS), MAX_UNHEARD_RETRY_SECONDS)
                self._set_listening(False, str(deaf))
                _listen_errors(deaf)
            except Exception as error:
                _listen_errors(error)
                wait = MIN_RECONNECT_SECONDS if self.listening else min(2 * wait, MAX_RECONNECT_SECONDS)
                self._set_listening(False, str(error))
            await asyncio.sleep(random.uniform(wait / 2, wait))

    def _set_listening(self, listening: bool, trouble: str = "") -> None:
        """Whoever waits learns of either: what was said meanwhile was not heard, and from now on looks by itself."""
        self.trouble = trouble
        self._known.set()
        if listening or self.listening:
            (self._wakeups.listeners.add if listening else self._wakeups.listeners.discard)(self)
            self._wakeups.wake("new", "final")

    async def _listen_until_lost(self) -> None:
        """Until the connection is lost."""
        connection = await self._pool.listener_connection()
        try:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            async with asyncio.timeout(ECHO_TIMEOUT_SECONDS):
                await connection.add_listener(self._pool.url.channel, self._on_notification)
                await connection.add_listener(self._own_channel, lambda *_: self._echo.set())
            # Through another connection: a pooler hands on what comes while our own statement is under way.
            await self._prove(lambda: self._pool.call(notify_alone(self._own_channel, "")))
            self._set_listening(True)
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_EVERY_SECONDS):
                        await lost.wait()
                    raise ConnectionError("the listening connection was lost")
                await self._prove(
                    lambda: connection.execute(f'NOTIFY "{self._own_channel}"', timeout=ECHO_TIMEOUT_SECONDS)
                )
        finally:
            connection.terminate()

    async def _prove(self, send: Callable[[], Awaitable[object]]) -> None:
        self._echo.clear()
        await send()
        try:
            async with asyncio.timeout(ECHO_TIMEOUT_SECONDS):
                await self._echo.wait()
        except TimeoutError:
            raise NotificationsLost(
                "notifications do not come through, as behind a pooler in transaction mode"
            ) from None

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, text: str) -> None:
        sender, *words = text.split()
        if sender == self._wakeups.name:
            return
        if "final" in words:
            self._wakeups.wake("final")
        if "new" in words:
            wait = min(SPREAD_SECONDS_PER_WORKER * (self._wakeups.live_workers - 1), MAX_SPREAD_SECONDS)
            asyncio.get_running_loop().call_later(random.uniform(0, wait), self._wakeups.wake, "new")
