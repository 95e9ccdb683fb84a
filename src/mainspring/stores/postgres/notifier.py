"""Sends notifications to other processes by NOTIFY: something new is claimable, or something is final."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Literal

from ...clock import Clock
from ...errors import ShuttingDown, StoreError
from ...records.job import NewJob
from ...survived_errors import SurvivedErrors
from ..broadcast import Broadcast
from .pool import Pool, Verb
from .url import PostgresUrl

_send_errors = SurvivedErrors("notify", "workers elsewhere find the change at their next poll")
News = Literal["new", "final"]

# The commit of a notification takes a database-wide lock, so all changes within this time share one.
NOTIFY_GAP_SECONDS = 0.01
# Longer than the longest poll interval.
NOTIFY_HORIZON = timedelta(minutes=5)


def is_due_soon(at: datetime | None, now: datetime) -> bool:
    """Whether other processes need a notification. They find jobs that are due later by polling before that."""
    return at is None or at - now < NOTIFY_HORIZON


def may_be_due_soon(job: NewJob, now: datetime) -> bool:
    """Whether other processes need a notification of this enqueue. It may fill a job that collects items."""
    return job.collect is not None or is_due_soon(job.run_at, now)


def notify_in_transaction(channel: str, text: str) -> Verb[None]:
    """A notification that is sent when the transaction of the change commits."""
    return lambda db: db.run("SELECT pg_notify($1, $2)", channel, text)


def notify_alone(channel: str, text: str) -> Verb[None]:
    """A notification in a transaction of its own, which need not wait for the disk."""
    sql = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"
    return lambda db: db.run(sql, channel, text)


class ProcessWakeups:
    """Wakes the waiters of all handles of one process on one store; knows whether it receives notifications."""

    def __init__(self, url: PostgresUrl, clock: Clock) -> None:
        self.url = url
        self._new, self._final = Broadcast(clock), Broadcast(clock)
        self._token = os.urandom(4).hex()
        self.listeners: set[object] = set()
        """The listeners that receive notifications for this process."""
        self.live_workers = 1
        """Number of live workers, as of the last beat."""

    @property
    def listening(self) -> bool:
        return bool(self.listeners)

    @property
    def name(self) -> str:
        """Identifies this process in notifications; a forked child has another name."""
        return f"{self._token}{os.getpid():x}"

    def count_workers(self, live: int) -> None:
        """Records the number of live workers."""
        self.live_workers = live

    def broadcast(self, topic: News) -> Broadcast:
        return self._new if topic == "new" else self._final

    def wake(self, *topics: News) -> None:
        for topic in topics:
            self.broadcast(topic).wake_all()


class Notifier:
    """Sends notifications after a change is committed. If one is lost, other processes find the change by polling."""

    def __init__(self, pool: Pool, wakeups: ProcessWakeups) -> None:
        self._pool, self._wakeups = pool, wakeups
        self._topics: set[News] = set()
        self._closing = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    def notify(self, *topics: News) -> None:
        """Sends the topics soon, together with others."""
        self._topics.update(topics)
        if self._topics and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def piggyback(self) -> str | None:
        """The text of a "new" notification to send in the job's own transaction, which saves a round trip. None if the
        last one was sent less than NOTIFY_GAP_SECONDS ago."""
        if self._sending is not None and not self._sending.done():
            return None
        self._sending = asyncio.get_running_loop().create_task(self._send(NOTIFY_GAP_SECONDS))
        return f"{self._wakeups.name} new"

    async def _send(self, wait: float = 0.0) -> None:
        if wait:
            await self._pause(wait)
        while self._topics:
            text, self._topics = " ".join([self._wakeups.name, *sorted(self._topics)]), set()
            with _send_errors.survive(StoreError), suppress(ShuttingDown):
                await self._pool.call(notify_alone(self._pool.url.channel, text))
            await self._pause(NOTIFY_GAP_SECONDS)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    async def close(self) -> None:
        """Sends what is left to send, for 2 s at most, and stops."""
        self._closing.set()
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=2)
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
