"""Receives notifications from other processes by LISTEN, on its own connection, and proves that they arrive."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ...survived_errors import SurvivedErrors
from .notifier import ProcessWakeups, notify_alone
from .pool import Pool

_listen_errors = SurvivedErrors("listener", "changes by other processes are found by polling")
# Time between two probes: a notification to ourselves proves that notifications arrive.
PROBE_EVERY_SECONDS = 60.0
# The time that a probe may take.
ECHO_TIMEOUT_SECONDS = 5.0
# First pause before a lost connection is opened again; it doubles with each failure.
MIN_RECONNECT_SECONDS = 0.1
MAX_RECONNECT_SECONDS = 10.0
# First pause after a failed probe: the server may be busy. It grows, since a pooler usually stays.
MIN_UNHEARD_RETRY_SECONDS = 1.0
MAX_UNHEARD_RETRY_SECONDS = 60.0
# A process delays a wake-up by a random time up to this per other worker, because most claims for one job find nothing.
SPREAD_SECONDS_PER_WORKER = 0.0005
MAX_SPREAD_SECONDS = 0.02


class NotificationsLost(Exception):
    """A notification was sent and did not arrive."""


class PostgresListener:
    """Listens, and reconnects for ever. It counts as listening once a notification from another connection arrives."""

    def __init__(self, pool: Pool, wakeups: ProcessWakeups) -> None:
        self._pool, self._wakeups = pool, wakeups
        self._own_channel = f"{pool.url.channel}_{wakeups.name}"
        self._echo = asyncio.Event()
        self._known = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why it does not listen; empty while it does, or while that is not known yet."""

    @property
    def listening(self) -> bool:
        return self in self._wakeups.listeners

    def listen(self) -> None:
        """Starts to listen, unless it has started."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen())

    async def is_listening(self, timeout: float) -> bool:
        """Whether it listens, as soon as that is known."""
        self.listen()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._known.wait()
        return self.listening

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self.abandon()
            await asyncio.sleep(0)  # the sockets are closed in the loop's next turn

    def abandon(self) -> None:
        self._set_listening(False)

    async def _listen(self) -> None:
        wait, unheard = MIN_RECONNECT_SECONDS, 0.0
        while True:
            try:
                await self._listen_until_lost()
            except NotificationsLost as error:
                longer = 0.0 if self.listening else 4 * unheard
                wait = unheard = min(max(longer, MIN_UNHEARD_RETRY_SECONDS), MAX_UNHEARD_RETRY_SECONDS)
                self._set_listening(False, str(error))
                _listen_errors(error)
            except Exception as error:
                _listen_errors(error)
                wait = MIN_RECONNECT_SECONDS if self.listening else min(2 * wait, MAX_RECONNECT_SECONDS)
                self._set_listening(False, str(error))
            await asyncio.sleep(random.uniform(wait / 2, wait))

    def _set_listening(self, listening: bool, trouble: str = "") -> None:
        """Records the status and wakes all waiters: notifications were lost meanwhile, or waiters have to poll now."""
        self.trouble = trouble
        self._known.set()
        if listening or self.listening:
            (self._wakeups.listeners.add if listening else self._wakeups.listeners.discard)(self)
            self._wakeups.wake("new", "final")

    async def _listen_until_lost(self) -> None:
        """Listens until the connection is lost, then raises. Raises NotificationsLost if a probe fails."""
        connection = await self._pool.listener_connection()
        try:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            async with asyncio.timeout(ECHO_TIMEOUT_SECONDS):
                await connection.add_listener(self._pool.url.channel, self._on_notification)
                await connection.add_listener(self._own_channel, lambda *_: self._echo.set())
            # Sent through another connection: a pooler delivers what arrives during a statement of our own.
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
            raise NotificationsLost("notifications do not arrive, as behind a pooler in transaction mode") from None

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, text: str) -> None:
        sender, *topics = text.split()
        if sender == self._wakeups.name:
            return
        if "final" in topics:
            self._wakeups.wake("final")
        if "new" in topics:
            wait = min(SPREAD_SECONDS_PER_WORKER * (self._wakeups.live_workers - 1), MAX_SPREAD_SECONDS)
            asyncio.get_running_loop().call_later(random.uniform(0, wait), self._wakeups.wake, "new")
