"""An event that wakes every waiter in this process, in any event loop."""

from __future__ import annotations

import asyncio
import threading

from ..clock import Alarm, Clock


class Broadcast:
    """Wakes all that wait at that moment, and numbers its changes, so that a later waiter knows what it has missed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._change = 0
        self._waiting: set[tuple[asyncio.AbstractEventLoop, Alarm]] = set()

    def wake_all(self) -> None:
        with self._lock:
            self._change += 1
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

    async def wait(self, timeout: float, seen: int | None = None) -> int:
        """Waits for a change, at most `timeout` seconds; not at all if `seen` is not the number of the last change.

        Returns the number of the last change.
        """
        entry = (asyncio.get_running_loop(), Alarm(self._clock))
        with self._lock:
            missed = seen is not None and seen != self._change
            waits = not missed and timeout > 0
            if waits:
                self._waiting.add(entry)
        try:
            if waits:
                await entry[1].wait(timeout)
            elif missed:
                await asyncio.sleep(0)  # a caller in a loop must not hold up the event loop
        finally:
            with self._lock:
                self._waiting.discard(entry)
        return self._change
