"""Interrupts runs that take longer than their timeout, with one timer for all of them."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from ..clock import Clock, Timer
from ..context import Context
from ..errors import JobTimeout
from . import Next

# A run that swallows its interruption is interrupted again this often.
AGAIN = 1.0


class _Watch:
    __slots__ = ("at", "ctx", "fired", "task")

    def __init__(self, at: float, task: asyncio.Task[Any], ctx: Context) -> None:
        self.at = at
        self.task = task
        self.ctx = ctx
        self.fired = False


class Timeout:
    """A timer per run would leave millions behind in a fast worker; looking at what runs now does not."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watches: dict[_Watch, None] = {}  # in order, so that a simulation repeats itself
        self._earliest = math.inf
        self._timer: Timer | None = None

    async def __call__(self, ctx: Context, call_next: Next) -> Any:
        task = asyncio.current_task()
        if ctx.timeout is None or task is None:
            return await call_next(ctx)
        watch = _Watch(self._clock.monotonic() + ctx.timeout, task, ctx)
        self._watches[watch] = None
        if watch.at < self._earliest:
            self._arm(watch.at)
        try:
            return await call_next(ctx)
        except asyncio.CancelledError:
            # Cancelled by us alone: a timeout. By somebody else as well: theirs counts.
            if watch.fired and task.uncancel() == 0:
                raise JobTimeout(f"took longer than its timeout of {ctx.timeout:g} s") from None
            raise
        finally:
            del self._watches[watch]

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._earliest = at
        self._timer = self._clock.call_later(at - self._clock.monotonic(), self._look)

    def _look(self) -> None:
        now = self._clock.monotonic()
        for watch in self._watches:
            if watch.at <= now + 1e-6:  # a timer may be early by a rounding
                if watch.fired:
                    watch.task.uncancel()
                watch.fired = watch.ctx.cancelled = True
                watch.at = now + AGAIN
                watch.task.cancel()
        self._timer, self._earliest = None, math.inf
        if self._watches:
            self._arm(min(watch.at for watch in self._watches))
