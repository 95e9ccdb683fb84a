"""Detects statements whose answer was lost: the client waits, but the server does not work on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

# A statement that takes longer is checked, and again each time this has passed.
STALLED_AFTER_SECONDS = 1.0
# The processes that work, and our own: if that is missing, a proxy hands out process ids of its own. A process that
# waits in ClientRead has sent an answer that we did not receive.
_WORKING = """SELECT pid FROM pg_stat_activity WHERE pid = pg_backend_pid()
    OR (pid = ANY($1) AND state NOT LIKE 'idle%' AND wait_event IS DISTINCT FROM 'ClientRead')"""
# Ends the stalled server processes, which would keep their locks.
_END = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid = ANY($1) AND application_name = current_setting('application_name')"""


class StallDetector:
    """Checks slow statements through a new connection, and closes the connections that the server does not work on.

    Waiting alone cannot distinguish a dead network path from a slow statement, and the time limit of the slowest
    statement is far too long to detect one.
    """

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._calls: dict[Any, float] = {}
        self._missed: dict[Any, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._investigation: asyncio.Task[None] | None = None

    def begin(self, connection: Any) -> None:
        """Records that a statement begins on this connection."""
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
        except Exception:  # the server cannot be asked, so nothing is known
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
        # Closed only if idle twice in a row: an answer may be on its way.
        twice = {call for call, begun in idle.items() if self._missed.get(call) == begun == self._calls.get(call)}
        self._missed = idle
        for call in twice:
            call.terminate()
        if twice:
            await connection.execute(_END, [pids[call] for call in twice], timeout=STALLED_AFTER_SECONDS)
