"""A coroutine function as a subscriber of events: one call at a time, in order, on the loop that emits."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from .errors import MainspringError
from .survived_errors import SurvivedErrors, count, is_own_cancellation

_logger = logging.getLogger("mainspring")
# Events that wait for one subscriber on one loop; what comes beyond is dropped, logged and counted.
MAX_WAITING = 10_000
# Events after which other tasks of the loop have their turn.
TURN_EVENTS = 100


class EventsDropped(MainspringError):
    """A coroutine subscriber got more events than it could take."""


class _Line:
    """The events that wait on one loop, and the task that delivers them while there are any."""

    def __init__(self) -> None:
        self.waiting: deque[Any] = deque()
        self.task: asyncio.Task[None] | None = None


class AsyncSubscriber:
    """Calls `act` with each event, after the code that emitted it has gone on."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        self.act = act
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()
        self._dropped = SurvivedErrors("subscriber", "events beyond the limit are dropped")

    def __call__(self, event: object) -> None:
        loop = asyncio.get_running_loop()
        line = self._lines.setdefault(loop, _Line())
        if len(line.waiting) >= MAX_WAITING:
            self._dropped(EventsDropped(f"{MAX_WAITING:,} events wait for subscriber {self.act!r}"))
            return
        line.waiting.append(event)
        if line.task is None:
            # Without the context of the run that emitted it: what the subscriber logs is not the run's.
            line.task = loop.create_task(self._deliver(line), context=Context())

    async def _deliver(self, line: _Line) -> None:
        try:
            while line.waiting:
                for _ in range(min(TURN_EVENTS, len(line.waiting))):
                    await self._call(line.waiting.popleft())
                await asyncio.sleep(0)  # a subscriber that never waits gives other tasks no turn
        finally:
            line.task = None

    async def _call(self, event: object) -> None:
        try:
            await self.act(event)
        except BaseException as error:  # of any kind: a task that ends by SystemExit ends the event loop
            if is_own_cancellation(error):
                raise
            _logger.exception("subscriber %r raised on %s", self.act, type(event).__name__)
            count("subscriber", error)

    async def flush(self, timeout: float) -> None:
        """Waits until the events of this loop are delivered; after `timeout` seconds those left are dropped."""
        line = self._lines.get(asyncio.get_running_loop())
        if line is None or line.task is None or line.task is asyncio.current_task():
            return
        await asyncio.wait([line.task], timeout=timeout)
        if line.task is not None:
            left = len(line.waiting)
            line.waiting.clear()
            line.task.cancel()
            text = f"subscriber {self.act!r} was still at work after {timeout:g} s"
            self._dropped(EventsDropped(f"{text}: its call is cancelled, {left:,} more events are dropped"))
