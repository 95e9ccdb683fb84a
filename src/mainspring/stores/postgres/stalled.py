"""Statements to PostgreSQL that take long: whether the server is still at work on them, or their answer was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

# One is doubted when it has taken so many seconds, and every so many seconds from then on.
STALLED_AFTER_SECONDS = 1.0
# Ours is among them, unless somebody between us and the server hands out numbers of his own. A server that waits for
# the rest of what we say has said something that we did not hear.
_WORKING = """SELECT pid FROM pg_stat_activity WHERE pid = pg_backend_pid()
    OR (pid = ANY($1) AND state NOT LIKE 'idle%' AND wait_event IS DISTINCT FROM 'ClientRead')"""
# What is left of them at the server would keep its locks.
_END = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid = ANY($1) AND application_name = current_setting('application_name')"""


class StallDetector:
    """Asks about late ones at a new connection, and ends the connections of those that nobody works on.

    A way that was cut without a word, or that stands still, is not told from a long statement by waiting; and a bound
    for the longest statement is no bound for finding out.
    """

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._calls: dict[Any, float] = {}
        self._missed: dict[Any, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._investigation: asyncio.Task[None] | None = None

    def begin(self, connection: Any) -> None:
        """A statement at this connection is under way."""
        self._calls[connection] = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(STALLED_AFTER_SECONDS, self._check)

    def end(self, connection: Any) -> None:
        del self._calls[connection]

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._investigation is not None:
            self._investigation.cancel()

    def _check(self) -> None:
        loop, self._timer = self._loop, None
        late = {call: begun for call, begun in self._calls.items() if loop.time() - begun >= STALLED_AFTER_SECONDS}
        if late and (self._investigation is None or self._investigation.done()):
            self._investigation = loop.create_task(self._investigate(late))
        if self._calls:
            self._timer = loop.call_later(STALLED_AFTER_SECONDS, self._check)

    async def _investigate(self, late: dict[Any, float]) -> None:
        try:
            async with asyncio.timeout(STALLED_AFTER_SECONDS):
                connection = await self._connect()
        except Exception:  # nobody can be asked, so nobody knows
            self._missed = {}
            return
        try:
            await self._ask(connection, late)
        except Exception:
            self._missed = {}
        finally:
            connection.terminate()

    async def _ask(self, connection: Any, late: dict[Any, float]) -> None:
        pids = {call: call.get_server_pid() for call in late}
        found = {pid for (pid,) in await connection.fetch(_WORKING, [*pids.values()], timeout=STALLED_AFTER_SECONDS)}
        known = connection.get_server_pid() in found
        idle = {call: begun for call, begun in late.items() if known and pids[call] not in found}
        # Twice in a row: an answer may just be on its way.
        twice = {call for call, begun in idle.items() if self._missed.get(call) == begun == self._calls.get(call)}
        self._missed = idle
        for call in twice:
            call.terminate()
        if twice:
            await connection.execute(_END, [pids[call] for call in twice], timeout=STALLED_AFTER_SECONDS)
