"""An event that wakes every waiter in this process, in any event loop."""

from __future__ import annotations

import asyncio
import threading

from ..clock import Alarm, Clock


class Broadcast:
    """Wakes all that wait at that moment; a later waiter waits for the next call."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, Alarm]] = set()

    def wake_all(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        if not waiting:
            return
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        for loop, alarm in waiting:
            if loop is here:
                alarm.ring()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(alarm.ring)

    async def wait(self, timeout: float) -> None:
        entry = (asyncio.get_running_loop(), Alarm(self._clock))
        with self._lock:
            self._waiting.add(entry)
        try:
            await entry[1].wait(timeout)
        finally:
            with self._lock:
                self._waiting.discard(entry)
