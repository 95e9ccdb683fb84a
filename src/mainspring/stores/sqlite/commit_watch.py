"""Wakes the waiters of a process when another process has committed to the SQLite file."""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import time
from contextlib import suppress

from ...clock import Clock
from ...survived_errors import SurvivedErrors
from ..broadcast import Broadcast
from .inotify import WriteWatch
from .writer_thread import GuardedConnection

_watch_errors = SurvivedErrors("listener", "changes by other processes are found by polling")
# How often a waiting process checks for commits of other processes, where there is no inotify. Waiters are woken this
# often on average: a busy file must not keep an idle worker busy.
POLL_SECONDS = 0.01
# Wakes that may follow each other at once. A job that is enqueued right after a commit of its worker, such as a beat,
# does not wait for it.
MAX_WAKES_AT_ONCE = 4
# After a write to the log: the pauses between checks whether its commit is visible, which double, and their number.
MIN_COMMIT_POLL_SECONDS = 0.0002
MAX_COMMIT_POLL_SECONDS = 0.001
MAX_COMMIT_POLLS = 1000


class CommitWatcher(GuardedConnection):
    """Detects commits by other connections: by inotify, or by polling while a caller waits where there is none.

    In virtual time it does neither: only this process wakes the waiters.
    """

    def __init__(self, connection: sqlite3.Connection, log: str, waiters: Broadcast, clock: Clock) -> None:
        """`log` is the path of the write-ahead log."""
        super().__init__(connection)
        self._waiters = waiters
        self._clock = clock
        self._pid = os.getpid()
        self._rested_at = -math.inf
        self._polled_version = self._notified_version = self._version()
        self._watch = self._start_watch(log) if clock.real else None
        self._polls = clock.real and self._watch is None

    def _version(self) -> int:
        """A number that changes with every commit of another connection, in this or another process."""
        with self.busy:
            version: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
            return version

    def stop(self) -> None:
        """Returns at once. Callers that poll are woken."""
        self._pid = 0
        if self._watch is not None:
            self._watch.close()

    def close(self) -> None:
        with self.busy:
            self.connection.close()

    async def wait(self, timeout: float, seen: int | None) -> int:
        """Waits for a change by this process or a commit of another one, as Broadcast.wait() does."""
        if not self._polls:
            return await self._waiters.wait(timeout, seen)
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def poll() -> None:
            nonlocal timer
            if self._pid != os.getpid():
                self._waiters.wake_all()
            elif not self._count_commits():
                timer = loop.call_later(POLL_SECONDS, poll)

        self._count_commits()
        timer = loop.call_later(POLL_SECONDS, poll)
        try:
            return await self._waiters.wait(timeout, seen)
        finally:
            timer.cancel()

    def _count_commits(self) -> bool:
        """Wakes waiters if there was a commit since the last call. Returns whether there was one."""
        version = self._version()
        changed, self._polled_version = version != self._polled_version, version
        if changed:
            self._waiters.wake_all()
        return changed

    def _start_watch(self, log: str) -> WriteWatch | None:
        """Starts to wake waiters at commits of other processes. None where there is no inotify."""
        try:
            return WriteWatch(log, self._on_write)
        except OSError as error:
            _watch_errors(error)
            return None

    def _on_write(self) -> None:
        # The log is written before the commit is visible, so poll until it is.
        pause = MIN_COMMIT_POLL_SECONDS
        with suppress(sqlite3.ProgrammingError):  # the store was closed meanwhile
            for _ in range(MAX_COMMIT_POLLS):
                if (now := self._version()) != self._notified_version:
                    self._notified_version = now
                    self._waiters.wake_all()
                    self._rest()
                    return
                time.sleep(pause)
                pause = min(2 * pause, MAX_COMMIT_POLL_SECONDS)

    def _rest(self) -> None:
        """Waits after a wake, so that MAX_WAKES_AT_ONCE are followed by one every POLL_SECONDS."""
        now = self._clock.monotonic()
        self._rested_at = max(self._rested_at, now - MAX_WAKES_AT_ONCE * POLL_SECONDS) + POLL_SECONDS
        time.sleep(max(0.0, self._rested_at - now))
