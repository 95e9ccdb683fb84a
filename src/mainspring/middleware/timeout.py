"""Interrupts runs that take longer than their timeout, with one timer for all of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextvars import Context as ContextVars
from typing import Any

from ..clock import Clock, Timer
from ..errors import JobTimeout
from ..task.context import Context
from ..task.interruption import Interrupted
from . import Next

# A run that swallows its interruption is interrupted again this often.
INTERRUPT_EVERY_SECONDS = 1.0


class _Watch:
    __slots__ = ("at", "cancelled", "ctx", "fired", "hard", "soft", "task")

    def __init__(self, began: float, soft: float | None, task: asyncio.Task[Any], ctx: Context) -> None:
        self.hard = math.inf if ctx.timeout is None else began + ctx.timeout
        self.at = self.hard if soft is None else min(self.hard, began + soft)
        self.soft = soft
        """The soft timeout, until the hard one is over."""
        self.task = task
        self.ctx = ctx
        self.fired = False
        self.cancelled = False
        """One of the task's cancellations is ours."""

    @property
    def over(self) -> bool:
        """The run was interrupted for good: nothing it says counts any more."""
        return self.fired and not self.soft


class Timeout:
    """A timer per run would leave millions behind in a fast worker; looking at what runs now does not."""

    def __init__(self, clock: Clock, soft: Mapping[str, float] = {}) -> None:
        """`soft` has the soft timeout of tasks that have one: what a run answers to it counts."""
        self._clock = clock
        self._soft = soft
        self._watches: dict[_Watch, None] = {}  # in order, so that a simulation repeats itself
        self._loop: asyncio.AbstractEventLoop | None = None
        self._earliest = math.inf
        self._timer: Timer | None = None

    async def __call__(self, ctx: Context, call_next: Next) -> Any:
        self._loop = self._loop or asyncio.get_running_loop()
        task, soft = asyncio.current_task(self._loop), self._soft.get(ctx.job.task)
        if (ctx.timeout is None and soft is None) or task is None:
            return await call_next(ctx)
        watch = _Watch(self._clock.monotonic(), soft, task, ctx)
        self._watches[watch] = None
        if watch.at < self._earliest:
            self._arm(watch.at)
        try:
            return await self._judged(watch, call_next)
        finally:
            del self._watches[watch]

    async def _judged(self, watch: _Watch, call_next: Next) -> Any:
        """What the run returns or raises, unless its time was over."""
        try:
            value = await call_next(watch.ctx)
        except asyncio.CancelledError:
            # Cancelled by us alone: a timeout. By somebody else as well: theirs counts.
            if watch.cancelled and watch.task.uncancel() == 0:
                raise _late(watch) from None
            raise
        except BaseException as error:
            self._forgive(watch)
            if watch.over or (watch.fired and isinstance(error, Interrupted)):
                raise _late(watch) from (None if isinstance(error, Interrupted) else error)
            raise
        self._forgive(watch)
        if watch.over:
            raise _late(watch)
        return value

    def _forgive(self, watch: _Watch) -> None:
        """The run has swallowed our cancellation: it must not pass for somebody else's further out."""
        if watch.cancelled:
            watch.task.uncancel()

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._earliest, self._timer = at, None
        if at < math.inf:
            # It is the timer of all runs, so it belongs to none: a test's clock knows by the context which run waits.
            self._timer = ContextVars().run(self._clock.call_later, at - self._clock.monotonic(), self._look)

    def _look(self) -> None:
        now = self._clock.monotonic()
        for watch in self._watches:
            if watch.at <= now + 1e-6:  # a timer may be early by a rounding
                if watch.at < watch.hard:
                    self._ask(watch)
                else:
                    self._insist(watch, now)
        self._timer, self._earliest = None, math.inf
        earliest = min((watch.at for watch in self._watches), default=math.inf)
        if earliest < math.inf:
            self._arm(earliest)

    def _ask(self, watch: _Watch) -> None:
        """The soft interruption: the task may still end in its own way."""
        watch.at, watch.fired = watch.hard, True
        watch.ctx.cancelled = True
        if watch.ctx.interrupt is not None:
            watch.ctx.interrupt()
        else:
            self._cancel(watch)

    def _insist(self, watch: _Watch, now: float) -> None:
        watch.soft, watch.fired, watch.at = None, True, now + INTERRUPT_EVERY_SECONDS
        watch.ctx.stop()
        self._cancel(watch)

    def _cancel(self, watch: _Watch) -> None:
        if watch.cancelled:
            watch.task.uncancel()
        watch.cancelled = True
        watch.task.cancel()


def _late(watch: _Watch) -> JobTimeout:
    if watch.soft is not None:
        return JobTimeout(f"took longer than its soft_timeout of {watch.soft:g} s")
    return JobTimeout(f"took longer than its timeout of {watch.ctx.timeout:g} s")
